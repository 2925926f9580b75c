"""How the hub's own calls look in JSON (tny, magline) and what a pushed notification says.

Content that is no UTF-8 travels as `content_base64`; ESNP has bytes of its own.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

from .errors import BadCall
from .values import Notification

__all__ = [
    "NOTIFY",
    "NUMBERS",
    "body_of",
    "json_arguments",
    "notification_of",
    "pushed",
    "refusal_text",
]

NUMBERS: Final = {"auth": 10, "subscribe": 11, "unsubscribe": 12, "publish": 13, "ack": 14}
"""tny protocols and magline business commands of the hub's own calls."""
NOTIFY: Final = 20
"""The number of a pushed notification."""


def json_arguments(arguments: dict[str, Any]) -> bytes:
    """The JSON body of a call of the hub."""
    content = arguments.get("content")
    if isinstance(content, bytes):
        arguments = {key: value for key, value in arguments.items() if key != "content"}
        try:
            arguments["content"] = content.decode()
        except UnicodeDecodeError:
            arguments["content_base64"] = base64.b64encode(content).decode()
    return msgspec.json.encode(arguments)


def body_of(arguments: Any) -> bytes:
    """The body of a call: bytes as they are, anything else as JSON."""
    if arguments is None:
        return b""
    if isinstance(arguments, bytes | bytearray | memoryview):
        return bytes(arguments)
    try:
        return msgspec.json.encode(arguments)
    except (TypeError, ValueError) as error:
        raise BadCall(f"this cannot be written as JSON: {error}") from error


def refusal_text(body: bytes) -> str:
    """What the body of a refusal says: the hub's JSON has a `text`, others say it as it is."""
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        data = None
    if isinstance(data, dict) and isinstance(data.get("text"), str):
        return str(data["text"])
    return body.decode("utf-8", "replace")


def pushed(body: bytes) -> Notification | None:
    """The notification in the JSON body of a push; None when it is none."""
    try:
        data = msgspec.json.decode(body)
        return notification_of(data) if isinstance(data, dict) else None
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None


def notification_of(data: dict[str, Any]) -> Notification:
    """The notification that names and values say."""
    content = data.get("content", b"")
    if "content_base64" in data:
        content = base64.b64decode(data["content_base64"], validate=True)
    return Notification(
        id=str(data.get("id", "")),
        content=content.encode() if isinstance(content, str) else bytes(content),
        ts_ms=int(data.get("ts", 0)),
        topic=data.get("topic"),
        type=int(data.get("type", 0)),
    )
