"""What several commands share: finding a protocol, reading input, options and their checks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import BAD_USAGE, CommandError

if TYPE_CHECKING:
    from wirelake.wire.model import Direction
    from wirelake.wire.protocol import Protocol

__all__ = [
    "CONTEXT",
    "check_dialect",
    "check_direction",
    "find_protocol",
    "hex_bytes",
    "json_line",
    "read_input",
    "write_files",
]

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Settings of every command."""


def find_protocol(name: str) -> Protocol:
    """A protocol by name."""
    from wirelake.protocols.registry import find

    return find(name)


def check_dialect(protocol: Protocol, dialect: str | None) -> str:
    """A dialect that the protocol has."""
    try:
        return protocol.dialect(dialect)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def check_direction(protocol: Protocol, direction: str | None) -> Direction | None:
    """A direction; a protocol whose directions differ needs one."""
    if protocol.directed and direction is None:
        raise click.UsageError(
            f"{protocol.name} numbers its messages by direction: add --direction c2s or s2c"
        )
    return "c2s" if direction == "c2s" else "s2c" if direction == "s2c" else None


def json_line(data: Any) -> str:
    """JSON on one line, whatever a reader takes for a line end, and harmless to a terminal."""
    text = json.dumps(data, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def hex_bytes(text: str) -> bytes:
    """Bytes from hexadecimal text; blanks, colons and dashes between them do not matter."""
    plain = text.removeprefix("0x").translate(str.maketrans("", "", ":-"))
    try:
        return bytes.fromhex(plain)
    except ValueError as error:
        raise click.UsageError("--hex: wanted an even number of hexadecimal digits") from error


def read_input(file: str | None) -> bytes:
    """The bytes of a file, or of standard input when it is `-` or not given."""
    if file is not None and file != "-":
        return Path(file).read_bytes()
    if file is None and sys.stdin.isatty():
        raise click.UsageError("nothing to read: name a file, or - for standard input")
    data: bytes = sys.stdin.buffer.read()
    return data


def write_files(folder: str, files: dict[str, str]) -> None:
    """Write texts into a folder, made if need be; says what was written."""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise CommandError(f"{folder}: not a folder", BAD_USAGE)
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
        click.echo(str(root / name))
