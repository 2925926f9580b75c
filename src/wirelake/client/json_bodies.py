"""JSON bodies of calls, refusals and pushed notifications (`wirelake.protocols.hub_calls`)."""

from __future__ import annotations

from typing import Any

import msgspec

from wirelake.protocols.hub_calls import content_fields, content_of

from .errors import BadCall
from .values import Notification

__all__ = [
    "body_of",
    "json_arguments",
    "notification_of",
    "pushed",
    "refusal_text",
]


def json_arguments(arguments: dict[str, Any]) -> bytes:
    """The JSON body of a call of the hub."""
    content = arguments.get("content")
    if isinstance(content, bytes):
        others = {key: value for key, value in arguments.items() if key != "content"}
        arguments = {**others, **content_fields(content)}
    return msgspec.json.encode(arguments)


def body_of(arguments: Any) -> bytes:
    """The body of a call: bytes unchanged, anything else as JSON."""
    if arguments is None:
        return b""
    if isinstance(arguments, bytes | bytearray | memoryview):
        return bytes(arguments)
    try:
        return msgspec.json.encode(arguments)
    except (TypeError, ValueError) as error:
        raise BadCall(f"cannot be encoded as JSON: {error}") from error


def refusal_text(body: bytes) -> str:
    """The text of a refusal: `text` of the hub's JSON, or the body of other servers."""
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        data = None
    if isinstance(data, dict) and isinstance(data.get("text"), str):
        return str(data["text"])
    return body.decode("utf-8", "replace")


def pushed(body: bytes) -> Notification | None:
    """The notification in the JSON body of a push; None when it is invalid."""
    try:
        data = msgspec.json.decode(body)
        return notification_of(data) if isinstance(data, dict) else None
    except (msgspec.DecodeError, ValueError):
        return None


def notification_of(data: dict[str, Any]) -> Notification:
    """The notification of decoded fields."""
    return Notification(
        id=str(data.get("id", "")),
        content=content_of(data),
        ts_ms=int(data.get("ts", 0)),
        topic=data.get("topic"),
        type=int(data.get("type", 0)),
    )
