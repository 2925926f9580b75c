"""Markers: the annotations of a field's type in `Annotated` that declare its encoding.

They carry no logic; `declare.py` interprets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from .model import Int

__all__ = [
    "BitWidth",
    "ByDialect",
    "Case",
    "Choice",
    "Counted",
    "DynamicMark",
    "ItemsOf",
    "LengthMark",
    "Magic",
    "Marker",
    "Names",
    "Number",
    "Only",
    "Option",
    "OptionBitsMark",
    "OptionsLengthMark",
    "PairsOf",
    "RowsMark",
    "SecretMark",
    "Sizes",
    "Stage",
    "TagConstMark",
    "TagMark",
    "ToEnd",
    "UnknownOptions",
    "When",
]


class Marker:
    """The base of all markers."""


@dataclass(frozen=True, slots=True)
class SecretMark(Marker):
    """The value must not be shown."""


@dataclass(frozen=True, slots=True)
class Names(Marker):
    """The names of a field's numbers. `closed`: other numbers are errors."""

    enum: type[IntEnum]
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Only(Marker):
    """The field exists in these dialects only; elsewhere it has its default."""

    dialects: frozenset[str]

    def __init__(self, *dialects: str):
        object.__setattr__(self, "dialects", frozenset(dialects))


@dataclass(frozen=True, slots=True, eq=False)
class ByDialect(Marker):
    """A type that differs between dialects."""

    default: Any
    others: Mapping[str, Any]

    def resolve(self, dialect: str) -> Any:
        """Return the type in this dialect."""
        return self.others.get(dialect, self.default)


@dataclass(frozen=True, slots=True, eq=False)
class Counted(Marker):
    """A list after a count of this type."""

    count: Any


@dataclass(frozen=True, slots=True)
class ToEnd(Marker):
    """A list up to the end of its slice."""


@dataclass(frozen=True, slots=True)
class When(Marker):
    """The field is present when the presence bit of this name is set."""

    bit: str


@dataclass(frozen=True, slots=True)
class BitWidth(Marker):
    """Some bits; neighbours share bytes, the first declared is most significant."""

    width: int
    role: str = "stored"


@dataclass(frozen=True, slots=True)
class Number(Marker):
    """The number of a protobuf field, which may differ between dialects."""

    number: int
    others: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Sizes(Marker):
    """The lengths that a blob may have, in all dialects or in the named one."""

    sizes: tuple[int, ...]
    dialect: str = ""

    def __init__(self, *sizes: int, dialect: str = ""):
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "dialect", dialect)


@dataclass(frozen=True, slots=True)
class Stage(Marker):
    """The layout of this field's bytes after decryption or another transform."""

    layout: type


@dataclass(frozen=True, slots=True)
class Magic(Marker):
    """Constant bytes (or a constant number in its wire form)."""

    value: bytes
    code: str = "bad_magic"


@dataclass(frozen=True, slots=True)
class LengthMark(Marker):
    """The bytes that follow, to the end of the layout."""

    type: Int
    minimum: int = 0
    limit: int | None = None
    limits: tuple[tuple[str, int], ...] = ()
    """Other default limits, by dialect."""


@dataclass(frozen=True, slots=True)
class TagMark(Marker):
    """The number that chooses the body."""

    type: Int


@dataclass(frozen=True, slots=True)
class TagConstMark(Marker):
    """A constant that each alternative of the body sets."""

    type: Int


@dataclass(frozen=True, slots=True)
class OptionBitsMark(Marker):
    """A bitmap of the options present."""

    type: Int


@dataclass(frozen=True, slots=True)
class OptionsLengthMark(Marker):
    """The size of the option area."""

    type: Int


@dataclass(frozen=True, slots=True)
class Option(Marker):
    """A field in the option area, switched by `bit`, legal with the bodies `on`."""

    bit: int
    on: tuple[type, ...]


@dataclass(frozen=True, slots=True)
class UnknownOptions(Marker):
    """Keeps unknown options that are not critical, as (bit, bytes)."""

    entry_length: Int
    critical: int


@dataclass(frozen=True, slots=True)
class Case(Marker):
    """An alternative of a `Choice` with a constant or a limit."""

    layout: type
    const: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Marker):
    """The body: the layout of each tag, in both directions or in each."""

    both: Mapping[int, Any] | None = None
    c2s: Mapping[int, Any] | None = None
    s2c: Mapping[int, Any] | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DynamicMark(Marker):
    """A self-describing value; `kinds` maps a tag to a type, `PairsOf` or `ItemsOf`."""

    tag: Int
    kinds: Mapping[int, Any]
    names: type[IntEnum]
    max_depth: int = 64
    max_nodes: int = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class PairsOf(Marker):
    """A map kind of a dynamic value."""

    key: Any
    count: Any


@dataclass(frozen=True, slots=True, eq=False)
class ItemsOf(Marker):
    """A list kind of a dynamic value."""

    count: Any


@dataclass(frozen=True, slots=True, eq=False)
class RowsMark(Marker):
    """Rows up to an end row."""

    tag: Int
    size: Int
    end: int
    kinds: Mapping[int, type]
    opaque: type
    broken: type
