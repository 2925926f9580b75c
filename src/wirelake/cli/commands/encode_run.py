"""What `wirelake encode` does: reads JSON, builds messages, writes their bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirelake.wire.errors import EncodeError
from wirelake.wire.views.json import from_json

from ..errors import CommandError
from ..output.common import (
    check_dialect,
    find_protocol,
    read_input,
)

if TYPE_CHECKING:
    from wirelake.wire.model import Layout
    from wirelake.wire.protocol import Protocol

__all__ = ["encode"]


def encode(
    protocol: str,
    file: str | None,
    *,
    dialect: str | None = None,
    as_hex: bool = False,
    output: str | None = None,
) -> None:
    """Encode all there is, or nothing."""
    found = find_protocol(protocol)
    name = check_dialect(found, dialect)
    layout = found.model(name)
    write = _writer(found, name)
    encoded: list[bytes] = []
    for number, data in enumerate(_objects(read_input(file)), 1):
        try:
            message = from_json(layout, _without_notes(data), write=write)
            encoded.append(found.encode(message, dialect=name))
        except EncodeError as error:
            raise CommandError(f"message {number}: {error}") from error
    as_hex = as_hex or (output is None and sys.stdout.isatty())
    _write(encoded, as_hex, output)


def _writer(protocol: Protocol, dialect: str) -> Callable[[Layout, Any], bytes]:
    """Writes a layout that stands inside a field, such as the Message of a tny packet."""

    def write(layout: Layout, value: Any) -> bytes:
        put = getattr(protocol.codec(dialect), f"write_{layout.name}")
        try:
            return bytes(put(value))
        except (AttributeError, TypeError, ValueError) as error:
            raise EncodeError("bad_value", layout.name, None, str(error)) from error

    return write


def _write(encoded: list[bytes], as_hex: bool, output: str | None) -> None:
    text = "".join(f"{message.hex()}\n" for message in encoded)
    data = text.encode() if as_hex else b"".join(encoded)
    if output is not None and output != "-":
        Path(output).write_bytes(data)
    else:
        click.echo(data, nl=False)


def _without_notes(data: Any) -> Any:
    """What decode adds to a message begins with @."""
    if not isinstance(data, dict):
        return data
    return {key: value for key, value in data.items() if not key.startswith("@")}


def _objects(raw: bytes) -> Iterator[Any]:
    """The JSON values of a text, one after the other."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"not JSON: {error.reason} at byte {error.start}") from error
    decoder = json.JSONDecoder()
    number, position = 0, _next(text, 0)
    while position < len(text):
        number += 1
        try:
            value, stop = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise CommandError(f"message {number}: not JSON: {error}") from error
        yield value
        position = _next(text, stop)
    if not number:
        raise CommandError("there is no JSON to encode")


def _next(text: str, position: int) -> int:
    """Where the next value begins."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position
