"""Notifications as ESNP events, written once for all who subscribe by ESNP.

An EVENT to the address hub/notify, with DATA rows: id, topic (absent when it is for one client
alone), content (a text, or bytes when it is no UTF-8), ts (milliseconds), and type unless it is 0.
The bytes are the same in both dialects: no Map and no List is in them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from wirelake.hub.calls import NOTIFY
from wirelake.hub.services import HUB_SERVICE
from wirelake.protocols.esnp.layout import Address, AddressKind, Flag, FlagType, VarType
from wirelake.protocols.esnp.moulds import END, Mould, bytes_of_rows
from wirelake.protocols.esnp.values import data_rows

if TYPE_CHECKING:
    from wirelake.hub.notification import Notification
    from wirelake.hub.publication import Published

__all__ = ["ESNP_FORM", "EsnpForm", "published_body"]

_HEAD: Final = bytes_of_rows(
    Flag(value=FlagType.EVENT),
    Address(kind=AddressKind.SERVICE, value=HUB_SERVICE),
    Address(kind=AddressKind.OP, value=NOTIFY),
)
_ID: Final = Mould("id", VarType.LEN_STRING)
_TOPIC: Final = Mould("topic", VarType.LEN_STRING)
_TEXT: Final = Mould("content", VarType.LEN_STRING)
_BYTES: Final = Mould("content", VarType.LEN_BYTES)
_KEPT_MIDDLES: Final = 1_024


class EsnpForm:
    """How a notification is written."""

    name = "esnp"

    def __init__(self) -> None:
        self._ts: tuple[int, bytes] = (0, _tail(0, 0))
        self._middles: dict[tuple[str | None, int, bool], bytes] = {}

    def encode(self, notification: Notification) -> bytes:
        """The event."""
        content, id_text = notification.content, notification.id.encode()
        like = notification.topic, len(content), _is_text(content)
        middle = self._middles.get(like) or self._middle(*like)
        rest = self._rest(notification)
        return b"".join((_HEAD, _ID.beginning(len(id_text)), id_text, middle, content, rest))

    def _middle(self, topic: str | None, size: int, is_text: bool) -> bytes:
        """What is between the id and the content: the same for all of a topic and a size."""
        name = b"" if topic is None else _TOPIC.row(topic.encode())
        middle = name + (_TEXT if is_text else _BYTES).beginning(size)
        if len(self._middles) >= _KEPT_MIDDLES:
            self._middles.clear()
        self._middles[topic, size, is_text] = middle
        return middle

    def _rest(self, notification: Notification) -> bytes:
        if notification.type:
            return _tail(notification.ts_ms, notification.type)
        if self._ts[0] != notification.ts_ms:  # many are published in one millisecond
            self._ts = notification.ts_ms, _tail(notification.ts_ms, 0)
        return self._ts[1]


def _tail(ts_ms: int, kind: int) -> bytes:
    values = {"ts": ts_ms, "type": kind} if kind else {"ts": ts_ms}
    return bytes_of_rows(*data_rows(values)) + END


def _is_text(content: bytes) -> bool:
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


@functools.lru_cache(1_024)
def _audience(number: int) -> bytes:
    return bytes_of_rows(*data_rows({"audience": number})) + END


def published_body(published: Published) -> bytes:
    """The body of the answer to a publish."""
    return _ID.row(published.id.encode()) + _audience(published.audience)


ESNP_FORM: Final = EsnpForm()
"""The only one there is."""
