"""Decryption of sealed message parts for `decode --keys`.

The protocol declares the class that decrypts them: `Protocol(opener=...)`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from wirelake.wire.declare import build
from wirelake.wire.errors import WireError
from wirelake.wire.types import Layout
from wirelake.wire.views.json import to_json

from .messages import DecodedMessage

if TYPE_CHECKING:
    from wirelake.wire.model import Direction
    from wirelake.wire.protocol import Protocol as WireProtocol

__all__ = ["MessageOpener", "find_opener", "opened_json"]


class _Opener(Protocol):
    def open(self, message: Any, raw: bytes) -> dict[str, object]: ...


class MessageOpener:
    """Decrypts messages one by one; a failure affects only its message."""

    def __init__(self, opener: _Opener | None):
        self.opener = opener

    def open(self, found: DecodedMessage, data: bytes) -> tuple[dict[str, Any], str | None]:
        """Return the decrypted parts of a message, or the error text."""
        if self.opener is None or found.error is not None:
            return {}, None
        try:
            return self.opener.open(found.message, data[found.start : found.stop]), None
        except WireError as error:
            return {}, f"message {found.number} at byte {found.start} cannot be decrypted: {error}"


def find_opener(
    protocol: WireProtocol, keys_file: str | None, direction: Direction | None, dialect: str
) -> MessageOpener:
    """Return the opener for the messages of a protocol."""
    if protocol.opener is None:
        if keys_file is not None:
            raise click.UsageError(f"--keys: {protocol.name} has no sealed parts")
        return MessageOpener(None)
    keys = {} if keys_file is None else _read_keys(keys_file)
    try:
        return MessageOpener(protocol.opener(keys, direction, dialect))
    except (WireError, ValueError, TypeError) as error:
        raise click.UsageError(f"--keys {keys_file}: {error}") from error


def _read_keys(file: str) -> dict[str, Any]:
    try:
        keys = json.loads(Path(file).read_bytes())
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--keys {file}: invalid JSON: {error}") from error
    if not isinstance(keys, dict):
        raise click.UsageError(f"--keys {file}: expected a JSON object")
    return keys


def opened_json(opened: dict[str, Any], dialect: str, *, reveal: bool) -> dict[str, Any]:
    """Return decrypted parts as JSON values."""
    return {name: _part_json(part, dialect, reveal) for name, part in opened.items()}


def _part_json(part: Any, dialect: str, reveal: bool) -> Any:
    match part:
        case bytes():
            return part.hex()
        case list() | tuple():
            return [_part_json(item, dialect, reveal) for item in part]
        case Layout():
            return to_json(build(type(part), dialect), part, reveal=reveal)
        case _:
            return msgspec.to_builtins(part)
