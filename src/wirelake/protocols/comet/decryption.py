"""Opens sealed comet content for readers of captures: `Opener(keys, direction, dialect)`.

Keys are hexadecimal texts: `content_key` (32 bytes), or in dialect hipush `des_key` (8 bytes).
"""

from __future__ import annotations

import json
from typing import Any

from wirelake.wire.errors import WireError
from wirelake.wire.model import Direction

from .layout import MessageList, Notification

__all__ = ["Opener", "key_line"]

_NAMES = {"seed": "content_key", "hipush": "des_key"}


def key_line(name: str, key: bytes) -> str:
    """Return a line of a key log with one key: `content_key` or `des_key`."""
    return json.dumps({"protocol": "comet", name: key.hex()})


class Opener:
    """Opens the content of notifications, in any order: a capture may have gaps."""

    def __init__(self, keys: dict[str, Any], direction: Direction | None, dialect: str):  # noqa: ARG002
        self._content: Any = None
        self._des: Any = None
        if not keys:
            return
        name = _NAMES.get(dialect, "content_key")
        if not isinstance(keys.get(name), str):
            raise ValueError(f"wanted {name}, as hexadecimal text")
        try:
            key = bytes.fromhex(keys[name])
        except ValueError as error:
            raise ValueError(f"{name}: not hexadecimal") from error
        # cryptography, needed for keys alone
        from .sealing import ContentOpener, HipushContent

        if name == "des_key":
            self._des = HipushContent(key, legacy_hipush=True)
        else:
            self._content = ContentOpener(key)

    def open(self, message: Any, raw: bytes) -> dict[str, object]:  # noqa: ARG002
        """`content` of a notification, `contents` of a list of them."""
        if self._content is None and self._des is None:
            return {}
        if isinstance(message, Notification):
            return {"content": self._one(message)}
        if isinstance(message, MessageList):
            return {"contents": [self._item(each) for each in message.messages]}
        return {}

    def _item(self, notification: Notification) -> object:
        """One of a list: its content, or why it does not open."""
        try:
            return self._one(notification)
        except WireError as error:
            return {"error": error.code}

    def _one(self, notification: Notification) -> str | bytes:
        if self._des is not None:
            plain: bytes = self._des.open(notification.content)
        else:
            _, plain = self._content.peek(
                notification.content,
                msg_type=notification.msg_type,
                msg_id=notification.msg_id.encode("utf-8", "surrogateescape"),
                ts=notification.ts,
            )
        try:
            return plain.decode()
        except UnicodeDecodeError:
            return plain
