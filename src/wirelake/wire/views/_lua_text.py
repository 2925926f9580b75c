"""Lua source as text: strings, tables, and names that Wireshark accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum

from .. import model as m
from ..declare import snake_case

__all__ = [
    "Names",
    "abbreviation",
    "bytes_literal",
    "class_name",
    "comment",
    "first_lines",
    "meanings",
    "number_set",
    "quote",
]

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """Return a Lua string; what does not print is escaped, other Unicode stays readable."""
    return '"' + "".join(_character(c) for c in text) + '"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    return "".join(f"\\{byte:03d}" for byte in char.encode("utf-8", "surrogatepass"))


def bytes_literal(data: bytes) -> str:
    """Return a Lua string of these bytes."""
    return '"' + "".join(_byte(byte) for byte in data) + '"'


def _byte(byte: int) -> str:
    char = chr(byte)
    return char if 0x20 <= byte < 0x7F and char not in '"\\' else f"\\{byte:03d}"


def comment(text: str, indent: str = "  ") -> list[str]:
    """Lines of a Lua comment."""
    return [f"{indent}-- {line}".rstrip() for line in text.splitlines()]


def first_lines(doc: str) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join(doc.strip().split("\n\n")[0].split())


def abbreviation(name: str) -> str:
    """Return a part of a display filter name: ASCII letters, digits, `_` and `-`.

    Any other character of a Python name becomes its code point.
    """
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"u{ord(found[0]):04x}", name)


def meanings(pairs: Mapping[int, str]) -> str:
    """Return a Lua table from numbers to names."""
    return "{ " + ", ".join(f"[{number}] = {quote(name)}" for number, name in pairs.items()) + " }"


def number_set(numbers: Iterable[int] | type[IntEnum]) -> str:
    """Return a Lua table that is true for these numbers."""
    values = sorted({int(number) for number in numbers})
    return "{ " + ", ".join(f"[{number}] = true" for number in values) + " }"


def class_name(cls: type) -> str:
    """What a class that has no model (an opaque row) is called."""
    return abbreviation(getattr(cls, "wire_name", "") or snake_case(cls.__name__))


class Names:
    """Gives each name once; two things of the same name are an error.

    `malformed`, `incomplete` and `unshown` belong to what the dissector itself reports.
    """

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.owners: dict[str, object] = dict.fromkeys(("malformed", "incomplete", "unshown"), self)

    def claim(self, name: str, owner: object) -> str:
        """Return the name, unless another owner has it."""
        if self.owners.setdefault(name, owner) is not owner:
            raise ValueError(
                f"{self.protocol}: two things would be called wirelake.{self.protocol}.{name};"
                " set wire_name on one of the layouts"
            )
        return name

    def layout(self, layout: m.Layout) -> str:
        """Return the name of a layout."""
        return self.claim(abbreviation(layout.name), layout.cls)

    def dynamic(self, kind: m.Dynamic) -> str:
        """Return the name of a dynamic type."""
        return self.claim(abbreviation(kind.name), kind.cls)
