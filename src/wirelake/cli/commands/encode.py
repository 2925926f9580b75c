"""`wirelake encode`: JSON to bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import CommandError
from ..main import COMMANDS
from ..options import CONTEXT, check_dialect, find_protocol, read_input

if TYPE_CHECKING:
    from wirelake.wire.model import Layout
    from wirelake.wire.protocol import Protocol

__all__ = ["command", "encode"]

_HELP = f"""{COMMANDS["encode"]}

FILE contains JSON objects, one after another; - or no FILE is standard input. An object has the
type of its message and its fields. Bytes are hexadecimal, fields with a default are optional, and
bytes that contain another message may be that message as an object. `wirelake protocols show` lists
the fields.

\b
Examples:
  echo '{{"type": "heartbeat"}}' | wirelake encode comet --hex
  wirelake decode esnp capture.bin --json --reveal | wirelake encode esnp > same.bin
  wirelake encode tny message.json -o packet.bin
"""


@click.command(name="encode", help=_HELP, context_settings=CONTEXT)
@click.argument("protocol")
@click.argument("file", required=False)
@click.option("--dialect", metavar="NAME", help="Dialect of the protocol.  [default: the first]")
@click.option("--hex", "as_hex", is_flag=True, help="Hexadecimal output, one message per line.")
@click.option("-o", "--output", metavar="FILE", help="Output file.  [default: standard output]")
def command(
    protocol: str, file: str | None, dialect: str | None, as_hex: bool, output: str | None
) -> None:
    """Encode messages."""
    encode(protocol, file, dialect=dialect, as_hex=as_hex, output=output)


def encode(
    protocol: str,
    file: str | None,
    *,
    dialect: str | None = None,
    as_hex: bool = False,
    output: str | None = None,
) -> None:
    """Encode every message of the input; write nothing if one of them is invalid."""
    from wirelake.wire.errors import EncodeError
    from wirelake.wire.views.json import from_json

    chosen = find_protocol(protocol)
    name = check_dialect(chosen, dialect)
    layout = chosen.model(name)
    write = _writer(chosen, name)
    # All of them before the first byte is written: half an output would look like a whole one.
    encoded: list[bytes] = []
    for number, data in enumerate(_objects(read_input(file)), 1):
        try:
            message = from_json(layout, _without_annotations(data), write=write)
            encoded.append(chosen.encode(message, dialect=name))
        except EncodeError as error:
            raise CommandError(f"message {number}: {error}") from error
    as_hex = as_hex or (output is None and sys.stdout.isatty())
    _write(encoded, as_hex, output)


def _writer(protocol: Protocol, dialect: str) -> Callable[[Layout, Any], bytes]:
    """Return a function that encodes a nested layout, such as the Message of a tny packet."""
    from wirelake.wire.errors import EncodeError

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


def _without_annotations(data: Any) -> Any:
    """Return a message without the keys that `decode` adds; they start with @."""
    if not isinstance(data, dict):
        return data
    return {key: value for key, value in data.items() if not key.startswith("@")}


def _objects(raw: bytes) -> Iterator[Any]:
    """Yield the JSON values of a text."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"invalid JSON: {error.reason} at byte {error.start}") from error
    decoder = json.JSONDecoder()
    number, position = 0, _next(text, 0)
    while position < len(text):
        number += 1
        try:
            value, stop = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise CommandError(f"message {number}: invalid JSON: {error}") from error
        yield value
        position = _next(text, stop)
    if not number:
        raise CommandError("empty input: no JSON to encode")


def _next(text: str, position: int) -> int:
    """Return the position of the next character that is not white space."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position
