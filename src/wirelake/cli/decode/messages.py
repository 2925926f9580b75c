"""The messages of a buffer, valid and invalid, and their sealed parts.

An invalid message does not hide the next one as long as its frame length is known. Otherwise the
rest of the buffer is lost, and the error says how many bytes that is. `MessageOpener` decrypts the
sealed parts of messages with the keys of `decode --keys`.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from wirelake.wire import model as m
from wirelake.wire.declare import build
from wirelake.wire.errors import DecodeError, NeedMore, WireError
from wirelake.wire.types import Layout
from wirelake.wire.views.json import to_json

from ..output.text import counted

if TYPE_CHECKING:
    from wirelake.wire.model import Direction
    from wirelake.wire.protocol import Protocol

__all__ = [
    "DecodedMessage",
    "MessageOpener",
    "find_opener",
    "messages_in",
    "opened_json",
]


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """A message, or the error that it failed with, and where its bytes are."""

    number: int
    """Counts from 1."""
    start: int
    stop: int
    message: Any = None
    error: DecodeError | NeedMore | None = None
    lost: int = 0
    """Bytes up to the end of the buffer that this error made unreadable."""
    broken: tuple[str, ...] = ()
    """The invalid rows of a valid message, each with its error."""

    def problems(self) -> list[str]:
        """Return its errors, one line each."""
        where = f"message {self.number} at byte {self.start}"
        if self.error is None:
            return [f"{where}: {text}" for text in self.broken]
        if isinstance(self.error, NeedMore):
            return [f"{where}: incomplete, {counted(self.lost, 'byte')} present, {self.error}"]
        lost = f"; skipped the last {counted(self.lost, 'byte')}" if self.lost else ""
        return [f"{where}: {self.error}{lost}"]


def _broken_rows(layout: m.Layout, message: Any) -> Iterator[str]:
    if layout.transparent:
        return
    for part in layout.parts:
        if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
            rows: tuple[Any, ...] = getattr(message, part.name)
            for index, row in enumerate(rows):
                if isinstance(row, part.type.broken):
                    why = DecodeError(row.code, row.field, row.offset)  # type: ignore[attr-defined]
                    yield f"row {index}: {why}"


def messages_in(
    protocol: Protocol,
    data: bytes,
    *,
    direction: Direction | None = None,
    dialect: str | None = None,
) -> Iterator[DecodedMessage]:
    """Yield every message of a buffer, in order."""
    layout = protocol.model(dialect)
    start, number = 0, 0
    while start < len(data):
        number += 1
        try:
            message, stop = protocol.decode(data, start, direction=direction, dialect=dialect)
            broken = tuple(_broken_rows(layout, message))
            yield DecodedMessage(number, start, stop, message, broken=broken)
        except NeedMore as error:
            yield DecodedMessage(number, start, len(data), error=error, lost=len(data) - start)
            return
        except DecodeError as error:
            # `scan` only delimits a frame. Unlike a reader of captures it does not search for the
            # next magic: who decodes a few bytes wants to see where they are wrong.
            try:
                stop = protocol.scan(data, start, dialect=dialect)
            except (DecodeError, NeedMore):
                yield DecodedMessage(number, start, len(data), error=error, lost=len(data) - start)
                return
            yield DecodedMessage(number, start, stop, error=error)
        start = stop


# -- sealed parts ------------------------------------------------------------------------------


class _Opener(typing.Protocol):
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
    protocol: Protocol, keys_file: str | None, direction: Direction | None, dialect: str
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


def opened_json(
    opened: dict[str, Any], dialect: str, *, reveal: bool, content: bool = True
) -> dict[str, Any]:
    """Return decrypted parts as JSON values, bytes and texts only if `content`."""
    return {name: _part_json(part, dialect, reveal, content) for name, part in opened.items()}


def _part_json(part: Any, dialect: str, reveal: bool, content: bool) -> Any:
    match part:
        case bytes() | str() if not content:
            return {"masked": len(part)}
        case bytes():
            return part.hex()
        case list() | tuple():
            return [_part_json(item, dialect, reveal, content) for item in part]
        case Layout():
            return to_json(build(type(part), dialect), part, reveal=reveal, content=content)
        case _:
            return msgspec.to_builtins(part)
