"""What a declaration means, as plain data: the one input of the generator and of every view.

`declare.py` turns a layout class into a `Layout` of this module, resolved for one dialect;
`generate/` turns that into Python, `views/` into everything else. Nothing here reads bytes.

A layout is a sequence of parts in wire order. A part is stored in the decoded value (`Field`,
stored `Bit`s, `Options`, `Body`) or derived from it (`Const`, `Length`, `Tag`, ...).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

__all__ = [
    "Alternative",
    "Bit",
    "BitGroup",
    "Blob",
    "Body",
    "Bool",
    "Const",
    "Dynamic",
    "DynamicKind",
    "Field",
    "Fixed",
    "Float",
    "Int",
    "Items",
    "Layout",
    "Length",
    "Many",
    "Nested",
    "OptionBits",
    "OptionField",
    "Options",
    "OptionsLength",
    "Pairs",
    "Part",
    "Rows",
    "Tag",
    "TagConst",
    "Type",
    "Varint",
]

Order: TypeAlias = Literal["big", "little"]
Direction: TypeAlias = Literal["c2s", "s2c"]
EnumClass: TypeAlias = type[IntEnum]


# -- types: how one value is written ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Int:
    """An integer of `size` bytes (1, 2, 3, 4 or 8)."""

    size: int
    signed: bool = False
    order: Order = "big"


@dataclass(frozen=True, slots=True)
class Varint:
    """A LEB128 integer of at most `bits` bits.

    `unsigned` is plain, `zigzag` folds the sign into bit 0, `twos` writes a negative number as
    the unsigned number of the same width. `loose` drops bits beyond the width instead of
    refusing them.
    """

    bits: int
    coding: Literal["unsigned", "zigzag", "twos"] = "unsigned"
    loose: bool = False

    @property
    def signed(self) -> bool:
        """Whether values below zero exist."""
        return self.coding != "unsigned"


@dataclass(frozen=True, slots=True)
class Float:
    """An IEEE 754 number of 4 or 8 bytes; the bits of a NaN survive a round trip."""

    size: int
    order: Order = "big"


@dataclass(frozen=True, slots=True)
class Bool:
    """One byte: 0 or 1. `strict` refuses other values, otherwise they read as true."""

    strict: bool = True


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly `size` raw bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes or text behind a length, or, without one, all that is left of the slice.

    `text` is None for bytes, `strict` for valid UTF-8, `loose` for UTF-8 whose invalid bytes
    are kept as surrogate escapes and written back unchanged.
    """

    length: Int | Varint | None
    text: Literal["strict", "loose"] | None = None


@dataclass(frozen=True, slots=True)
class Nested:
    """Another layout in place."""

    layout: Layout


@dataclass(frozen=True, slots=True)
class Many:
    """Items behind a count or, without one, up to the end of the slice.

    In a protobuf layout it is a repeated field, and `count` is None.
    """

    item: Type
    count: Int | Varint | None


@dataclass(frozen=True, slots=True)
class Pairs:
    """Inside a `Dynamic`: a counted list of (text key, value of the same dynamic type)."""

    key: Blob
    count: Int | Varint


@dataclass(frozen=True, slots=True)
class Items:
    """Inside a `Dynamic`: a counted list of values of the same dynamic type."""

    count: Int | Varint


@dataclass(frozen=True, slots=True)
class DynamicKind:
    """One kind of value that a `Dynamic` can hold; `type` None means no bytes at all."""

    tag: int
    name: str
    type: Int | Varint | Float | Bool | Blob | Pairs | Items | None


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A self-describing value: a tag, then a value of the tag's type; it may contain itself.

    `cls` has the attributes `type` and `value`.
    """

    cls: type
    name: str
    tag: Int
    kinds: tuple[DynamicKind, ...]
    # One Python frame for each level, of the 1,000 that the interpreter allows.
    max_depth: int = 64
    max_nodes: int = 65_536


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of (tag, size, body) up to the end row, whose tag is `end` and whose size is 0.

    A row whose tag is not among the alternatives becomes `opaque(type, data)`. A known row
    whose body breaks a rule becomes `broken(type, data, code, field, offset)`, so that one bad
    row does not hide the others.
    """

    tag: Int
    size: Int
    end: int
    alternatives: tuple[Alternative, ...]
    opaque: type
    broken: type
    max_rows: int = 65_536


Type: TypeAlias = Int | Varint | Float | Bool | Fixed | Blob | Nested | Many | Dynamic | Rows
"""How one value is written."""


# -- parts: what a layout is made of ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A stored value."""

    name: str
    type: Type
    doc: str = ""
    secret: bool = False
    names: EnumClass | None = None
    """Meanings of its numbers, for people."""
    closed: bool = False
    """Whether a number outside `names` is refused."""
    when: str | None = None
    """The presence `Bit` of this field; the value is None when it is not set."""
    number: int | None = None
    """The field number, in a protobuf layout."""
    optional: bool = False
    """In a protobuf layout: None when absent, and then not written."""
    sizes: tuple[int, ...] = ()
    """The lengths that a blob may have, when not any."""
    stage: Layout | None = None
    """What the bytes hold once any transform is undone."""


@dataclass(frozen=True, slots=True)
class Const:
    """Bytes that are always the same; other bytes fail with `code`."""

    name: str
    type: Int | Fixed
    value: bytes
    code: str = "bad_magic"
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Bit:
    """Some bits of a `BitGroup`.

    `stored`: an attribute of the value. `present`: whether the field `target` is present.
    `tag`: chooses the alternative of the body; several tag bits read as one number.
    """

    name: str
    width: int
    shift: int
    role: Literal["stored", "present", "tag"] = "stored"
    target: str = ""
    names: EnumClass | None = None
    closed: bool = False
    flag: bool = False
    """Whether the value is a bool."""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class BitGroup:
    """Consecutive bits, first declared is most significant, in `size` big-endian bytes."""

    size: int
    bits: tuple[Bit, ...]


@dataclass(frozen=True, slots=True)
class Length:
    """How many bytes follow this part, to the end of the layout."""

    name: str
    type: Int
    minimum: int = 0
    limit: int | None = None
    """The default limit of a reader."""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Tag:
    """A number that chooses the alternative of the body."""

    name: str
    type: Int
    names: EnumClass | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class TagConst:
    """A constant that depends on the alternative (its `const`)."""

    name: str
    type: Int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class OptionBits:
    """The bitmap of the options that are there."""

    name: str
    type: Int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class OptionsLength:
    """The size of the option area in bytes; zero if and only if no option bit is set."""

    name: str
    type: Int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class OptionField:
    """One option: stored as None when absent. `on` are the body tags that it may go with."""

    name: str
    bit: int
    type: Int | Fixed | Nested
    on: tuple[int, ...]
    doc: str = ""
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """The option area: for each set bit, ascending, a length and a value.

    Unknown bits outside `critical` are kept in the attribute `unknown` as (bit, bytes).
    """

    fields: tuple[OptionField, ...]
    entry_length: Int
    critical: int
    unknown: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """One thing that a body, or a row, can be."""

    tag: int
    layout: Layout
    direction: Direction | None = None
    const: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """The alternative that the tag (and the direction) chose. `exact`: a body of fixed size
    must have that size, a wrong one fails with `bad_length` before its bytes are waited for."""

    name: str
    alternatives: tuple[Alternative, ...]
    exact: bool = False
    doc: str = ""

    def of(self, direction: Direction | None) -> tuple[Alternative, ...]:
        """Return the alternatives that may come in this direction."""
        return tuple(
            a for a in self.alternatives if direction is None or a.direction in (None, direction)
        )

    @property
    def directed(self) -> bool:
        """Whether the direction matters."""
        return any(a.direction is not None for a in self.alternatives)


Part: TypeAlias = (
    Field | Const | BitGroup | Length | Tag | TagConst | OptionBits | OptionsLength | Options | Body
)
"""What a layout is made of."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A layout class, resolved for one dialect."""

    name: str
    """snake_case, as errors and the command line say it."""
    cls: type
    parts: tuple[Part, ...]
    dialect: str
    doc: str = ""
    section: str = ""
    """The section of the document."""
    protobuf: bool = False
    unknown: str = ""
    """In a protobuf layout: the attribute that keeps unknown fields, as bytes."""
    unparsed: bool = False
    """In a protobuf layout without fields: `unknown` keeps any bytes; they are not parsed."""
    absent: tuple[tuple[str, object], ...] = ()
    """Fields that this dialect does not have, each with the default that it must then hold."""

    def find(self, kind: type) -> Part | None:
        """Return the first part of a kind."""
        return _find(self, kind)

    @property
    def body(self) -> Body | None:
        """The body, if the layout has one."""
        part = self.find(Body)
        return part if isinstance(part, Body) else None

    @property
    def transparent(self) -> bool:
        """Whether the body is all it stores: then the body itself is the decoded value."""
        return _is_transparent(self)

    @property
    def min_size(self) -> int:
        """The fewest bytes that it takes."""
        if self.protobuf:
            return 0
        return sum(part_size(p)[0] for p in self.parts)

    @property
    def fixed_size(self) -> int | None:
        """Its size, when that never varies."""
        if self.protobuf:
            return None
        total = 0
        for part in self.parts:
            low, fixed = part_size(part)
            if not fixed:
                return None
            total += low
        return total


# Cached without bound: layouts are few and live as long as the process, and views ask per message.
@functools.cache
def _find(layout: Layout, kind: type) -> Part | None:
    return next((part for part in layout.parts if isinstance(part, kind)), None)


@functools.cache
def _is_transparent(layout: Layout) -> bool:
    parts = layout.parts
    stored = [part for part in parts if isinstance(part, Field | Options | Body)]
    bits = [
        b for part in parts if isinstance(part, BitGroup) for b in part.bits if b.role == "stored"
    ]
    return not bits and len(stored) == 1 and isinstance(stored[0], Body)


def part_size(part: Part) -> tuple[int, bool]:
    """Return the fewest bytes that a part takes, and whether it is always that many."""
    match part:
        case Field():
            if part.when is not None:
                return 0, False
            return type_size(part.type)
        case Const():
            return len(part.value), True
        case BitGroup():
            return part.size, True
        case Length() | Tag() | TagConst() | OptionBits() | OptionsLength():
            return part.type.size, True
        case Options():
            return 0, False
        case Body():
            return min((a.layout.min_size for a in part.alternatives), default=0), False


def fixed_size(part: Part) -> int | None:
    """Return the size of a part that always has the same; None for others."""
    size, fixed = part_size(part)
    return size if fixed else None


def field_key(field: Field) -> int:
    """Return the key of a protobuf field: its number and its wire type."""
    return (field.number or 0) << 3 | wire_type(field.type)


def wire_type(kind: Type) -> int:
    """Return the protobuf wire type of a field; of a list, that of its items."""
    match kind:
        case Varint() | Bool():
            return 0
        case Int() | Float():
            return 1 if kind.size == 8 else 5
        case Blob() | Nested():
            return 2
        case Many():
            return wire_type(kind.item)
        case _:
            raise TypeError(f"{kind!r} has no protobuf form")


def type_size(kind: Type) -> tuple[int, bool]:
    """Return the fewest bytes that a value takes, and whether it is always that many."""
    match kind:
        case Int() | Float() | Fixed():
            return kind.size, True
        case Bool():
            return 1, True
        case Varint():
            return 1, False
        case Blob():
            return (0 if kind.length is None else type_size(kind.length)[0]), False
        case Many():
            return (0 if kind.count is None else type_size(kind.count)[0]), False
        case Nested():
            size = kind.layout.fixed_size
            return kind.layout.min_size, size is not None
        case Dynamic():
            return kind.tag.size, False
        case Rows():
            return kind.tag.size + kind.size.size, False
