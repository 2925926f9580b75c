"""Notifications as ESNP events, written once for all who subscribe by ESNP.

An EVENT to the address hub/notify, with DATA rows: id, topic (absent when it is for one client
alone), content (a text, or bytes when it is no UTF-8), ts (milliseconds), and type unless it is 0.
The bytes are the same in both dialects: no Map and no List is in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wirehouse.hub.calls import NOTIFY
from wirehouse.hub.services import HUB_SERVICE
from wirehouse.protocols.esnp.codec_seed import encode_message
from wirehouse.protocols.esnp.layout import Address, AddressKind, Flag, FlagType, Message
from wirehouse.protocols.esnp.values import data_rows

if TYPE_CHECKING:
    from wirehouse.hub.notification import Notification

__all__ = ["ESNP_FORM", "EsnpForm"]

_END: Final = encode_message(Message())
_HEAD: Final = encode_message(
    Message(
        rows=(
            Flag(value=FlagType.EVENT),
            Address(kind=AddressKind.SERVICE, value=HUB_SERVICE),
            Address(kind=AddressKind.OP, value=NOTIFY),
        )
    )
).removesuffix(_END)


class EsnpForm:
    """How a notification is written."""

    name = "esnp"

    def encode(self, notification: Notification) -> bytes:
        """The event."""
        values: dict[str, object] = {"id": notification.id}
        if notification.topic is not None:
            values["topic"] = notification.topic
        values["content"] = _content(notification.content)
        values["ts"] = notification.ts_ms
        if notification.type:
            values["type"] = notification.type
        return _HEAD + encode_message(Message(rows=data_rows(values)))


def _content(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


ESNP_FORM: Final = EsnpForm()
"""The only one there is."""
