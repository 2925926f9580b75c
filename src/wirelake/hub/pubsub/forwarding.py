"""Publishes that are not stored, on their way to the clients of other hubs.

They go to every hub that shares the store, as messages of at most 8,000 bytes; a large content is
divided. Each hub pushes to those of its clients that are online. Nobody waits for it, and a message
that is lost with a connection is not sent again: what is not stored may be lost.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from .notifications import Notification

__all__ = ["FORWARDED", "Forwarded", "Parts", "parts_of"]

FORWARDED: Final = "live"
"""The first word of these messages."""
_PART: Final = 7_500
"""Characters of one part: a notification of PostgreSQL has less than 8,000 bytes."""
_MAX_PARTS: Final = 16_384
_INCOMPLETE: Final = 1_000
"""Contents whose other parts are awaited, at most."""


class Forwarded(msgspec.Struct, frozen=True, array_like=True):
    """A notification that is not stored, and the client it is for."""

    number: int
    id: str
    topic: str | None
    client: str
    """The id of a client; empty for subscribers of the topic."""
    content: bytes
    type: int
    ts_ms: int

    @property
    def notification(self) -> Notification:
        """The notification as its hub has it."""
        return Notification(
            self.number, self.id, self.topic, self.content, self.type, self.ts_ms, 0
        )


def parts_of(notification: Notification, client: str) -> Iterator[str]:
    """Yield the messages that carry a notification: its id, which part, of how many, the part."""
    message = Forwarded(
        notification.number,
        notification.id,
        notification.topic,
        client,
        notification.content,
        notification.type,
        notification.ts_ms,
    )
    text = base64.b64encode(msgspec.msgpack.encode(message)).decode()
    count = -(-len(text) // _PART)
    for at in range(count):
        part = text[at * _PART : (at + 1) * _PART]
        yield f"{FORWARDED} {notification.id} {at} {count} {part}"


class Parts:
    """Parts of notifications, until they are complete."""

    def __init__(self) -> None:
        self._incomplete: OrderedDict[str, list[str]] = OrderedDict()

    def add(self, words: Sequence[str]) -> Forwarded | None:
        """Add a part; return the notification when it is complete."""
        try:
            id_, at, count, part = words
            place, total = int(at), int(count)
        except ValueError:
            return None
        if not 0 <= place < total <= _MAX_PARTS:
            return None
        if total > 1:
            parts = self._incomplete.setdefault(id_, [""] * total)
            if len(parts) != total:
                return None
            parts[place] = part
            if not all(parts):
                if len(self._incomplete) > _INCOMPLETE:
                    self._incomplete.popitem(last=False)
                return None
            part = "".join(self._incomplete.pop(id_))
        try:
            return msgspec.msgpack.decode(base64.b64decode(part), type=Forwarded)
        except (ValueError, msgspec.MsgspecError):
            return None
