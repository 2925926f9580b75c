"""Lua source as text: strings, tables, names that Wireshark accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum

__all__ = [
    "abbreviation",
    "bytes_literal",
    "comment",
    "first_lines",
    "meanings",
    "number_set",
    "quote",
]

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """A Lua string; what does not print is escaped, other Unicode stays readable."""
    return '"' + "".join(_character(c) for c in text) + '"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    return "".join(f"\\{byte:03d}" for byte in char.encode("utf-8", "surrogatepass"))


def bytes_literal(data: bytes) -> str:
    """A Lua string of these bytes."""
    return '"' + "".join(_byte(byte) for byte in data) + '"'


def _byte(byte: int) -> str:
    char = chr(byte)
    return char if 0x20 <= byte < 0x7F and char not in '"\\' else f"\\{byte:03d}"


def comment(text: str, indent: str = "  ") -> list[str]:
    """Lines of a Lua comment."""
    return [f"{indent}-- {line}".rstrip() for line in text.splitlines()]


def first_lines(doc: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(doc.strip().split("\n\n")[0].split())


def abbreviation(name: str) -> str:
    """A part of a display filter name: ASCII letters, digits, `_` and `-`.

    Any other character of a Python name becomes its code point.
    """
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"u{ord(found[0]):04x}", name)


def meanings(pairs: Mapping[int, str]) -> str:
    """A Lua table from numbers to names."""
    return "{ " + ", ".join(f"[{number}] = {quote(name)}" for number, name in pairs.items()) + " }"


def number_set(numbers: Iterable[int] | type[IntEnum]) -> str:
    """A Lua table that is true for these numbers."""
    values = sorted({int(number) for number in numbers})
    return "{ " + ", ".join(f"[{number}] = true" for number in values) + " }"
