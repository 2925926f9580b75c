"""Settings, arguments and checks that most commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from wirelake.wire.model import Direction
    from wirelake.wire.protocol import Protocol

__all__ = [
    "CONTEXT",
    "check_dialect",
    "check_direction",
    "find_protocol",
    "hex_bytes",
    "name_value_pairs",
    "protocol_dialects",
    "read_input",
]

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""click settings of every command."""


def find_protocol(name: str) -> Protocol:
    """Return a protocol by name."""
    from wirelake.protocols.registry import find

    return find(name)


def check_dialect(protocol: Protocol, dialect: str | None) -> str:
    """Return the dialect, or the protocol's default one; fail if the protocol does not have it."""
    try:
        return protocol.dialect(dialect)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def check_direction(protocol: Protocol, direction: str | None) -> Direction | None:
    """Return the direction; fail if the protocol needs one and there is none."""
    if protocol.directed and direction is None:
        raise click.UsageError(
            f"missing --direction c2s or s2c: {protocol.name} numbers its messages by direction"
        )
    return "c2s" if direction == "c2s" else "s2c" if direction == "s2c" else None


def name_value_pairs(option: str, given: Iterable[str], form: str = "NAME=VALUE") -> dict[str, str]:
    """Parse repeated options of the form NAME=VALUE."""
    values: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.UsageError(f"invalid {option} {text!r}; expected {form}")
        values[name] = value
    return values


def protocol_dialects(given: tuple[str, ...]) -> dict[str, str]:
    """Parse repeated `--dialect PROTOCOL=NAME` options."""
    pairs = name_value_pairs("--dialect", given, "PROTOCOL=NAME")
    return {name: check_dialect(find_protocol(name), dialect) for name, dialect in pairs.items()}


def hex_bytes(text: str) -> bytes:
    """Parse hexadecimal text; spaces, colons and dashes between bytes are ignored."""
    plain = text.removeprefix("0x").translate(str.maketrans("", "", ":-"))
    try:
        return bytes.fromhex(plain)
    except ValueError as error:
        raise click.UsageError(
            "invalid --hex text; expected an even number of hexadecimal digits"
        ) from error


def read_input(file: str | None) -> bytes:
    """Read a file, or standard input if it is `-` or not given."""
    if file is not None and file != "-":
        return Path(file).read_bytes()
    if file is None and sys.stdin.isatty():
        raise click.UsageError("missing input: give a FILE, or - for standard input")
    data: bytes = sys.stdin.buffer.read()
    return data
