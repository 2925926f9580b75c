"""Notifications as comet's `message`, in the clear: the same bytes for all phones of a dialect.

What repeats is encoded once: everything but the id, the content and the time is the same for all
notifications of a type and a size. The codec makes the bytes that are kept.
"""

from __future__ import annotations

from typing import Final

from wirelake.hub.notification import Notification
from wirelake.protocols.comet.endpoint import CODECS
from wirelake.protocols.comet.layout import Notification as Message
from wirelake.protocols.comet.limits import Dialect

__all__ = ["CometForm", "message_of"]

_KEPT: Final = 1_024
_TIME_SIZE: Final = 8


def message_of(notification: Notification) -> Message:
    """The message that tells of it."""
    return Message(
        msg_type=notification.type,
        msg_id=notification.id,
        content=notification.content,
        ts=notification.ts_ms,
    )


class CometForm:
    """How a notification is written."""

    __slots__ = ("_encode", "_moulds", "_ts", "name")

    def __init__(self, dialect: Dialect):
        self.name = f"comet {dialect}"
        self._encode = CODECS[dialect].encode_frame
        self._moulds: dict[tuple[int, int, int], tuple[bytes, bytes]] = {}
        self._ts = (0, self._time(0))

    def encode(self, notification: Notification) -> bytes:
        """The frame."""
        id_text, content = notification.id.encode(), notification.content
        like = notification.type, len(id_text), len(content)
        head, middle = self._moulds.get(like) or self._mould(*like)
        ts_ms, time = self._ts
        if ts_ms != notification.ts_ms:  # many are published in one millisecond
            self._ts = ts_ms, time = notification.ts_ms, self._time(notification.ts_ms)
        return b"".join((head, id_text, middle, content, time))

    def _mould(self, kind: int, id_size: int, size: int) -> tuple[bytes, bytes]:
        """What is before the id, and between id and content."""
        before, other = (
            self._encode(Message(msg_type=kind, msg_id=letter * id_size, content=bytes(size)))[
                : -(size + _TIME_SIZE)
            ]
            for letter in "ab"
        )
        differs = (at for at, letter in enumerate(before) if letter != other[at])
        id_at = next(differs, len(before))
        mould = before[:id_at], before[id_at + id_size :]
        if len(self._moulds) >= _KEPT:
            self._moulds.clear()
        self._moulds[kind, id_size, size] = mould
        return mould

    def _time(self, ts_ms: int) -> bytes:
        frame: bytes = self._encode(Message(msg_type=0, msg_id="", content=b"", ts=ts_ms))
        return frame[-_TIME_SIZE:]
