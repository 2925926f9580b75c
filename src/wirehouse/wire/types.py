"""The words of a declaration: field types, markers, and the base class `Layout`.

A layout is a class whose annotations, in wire order, say what is on the wire:

    class Auth(Layout):
        '''A client signs on.'''

        client_id: String16
        '''Who it is.'''
        token: Secret[String16]
        '''What proves it.'''

To a type checker the fields are plain (`str`, `int`, `bytes`, `tuple`). What is on the wire but
follows from the value (magic values, lengths, tags, presence bits) is a `ClassVar` and is not
stored. A string after a field is its documentation. How to write one: see the guide
`docs/guides/declare-a-protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform

import msgspec

from .model import Blob, Bool, Fixed, Float, Int, Varint

__all__ = [
    "F32",
    "F32LE",
    "F64",
    "F64LE",
    "I8",
    "I16",
    "I16LE",
    "I32",
    "I32LE",
    "I64",
    "I64LE",
    "U8",
    "U16",
    "U16LE",
    "U24",
    "U32",
    "U32LE",
    "U64",
    "U64LE",
    "BitWidth",
    "Bits1",
    "Bits2",
    "Bits3",
    "Bits4",
    "Bits5",
    "Bits6",
    "Bits7",
    "Boolean",
    "ByDialect",
    "Bytes4Fixed",
    "Bytes8",
    "Bytes16",
    "Bytes16Fixed",
    "Bytes32",
    "Bytes32Fixed",
    "Case",
    "Choice",
    "Counted",
    "DynamicMark",
    "Flag",
    "ItemsOf",
    "Layout",
    "Length16",
    "Length32",
    "LengthMark",
    "List8",
    "List16",
    "LooseBoolean",
    "LooseString16",
    "Magic",
    "Marker",
    "Names",
    "Number",
    "Only",
    "Option",
    "OptionBitsMark",
    "OptionsLengthMark",
    "PairsOf",
    "PbBool",
    "PbBytes",
    "PbFixed64",
    "PbInt32",
    "PbInt64",
    "PbString",
    "Present",
    "Protobuf",
    "Rest",
    "RestString",
    "RowsMark",
    "Secret",
    "SecretMark",
    "Sizes",
    "Stage",
    "String8",
    "String16",
    "String32",
    "Tag8",
    "Tag16",
    "TagBits1",
    "TagBits2",
    "TagBits4",
    "TagConstMark",
    "TagMark",
    "ToEnd",
    "TwosVar32",
    "TwosVar64",
    "UnknownOptions",
    "VarI16",
    "VarI32",
    "VarI64",
    "VarU16",
    "VarU32",
    "VarU64",
    "When",
]

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _LayoutMeta(msgspec.StructMeta):
    """Makes every layout frozen, keyword-only and cheap to build, without saying so each time."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        return super().__new__(mcs, name, bases, namespace, frozen=True, gc=False, kw_only=True)


class Layout(msgspec.Struct, metaclass=_LayoutMeta):
    """The base of every layout: an immutable value, built with keyword arguments."""

    wire_name: ClassVar[str] = ""
    """The name in errors and on the command line; by default the class name in snake_case."""
    section: ClassVar[str] = ""
    """Where the document speaks of this layout."""


class Protobuf(Layout):
    """The base of a layout whose fields are protobuf fields: give each a `Number`.

    Fields are written in the order of the declaration, and read in any order. Unknown ones are
    kept in `unknown` and written back after the others.
    """

    unknown: bytes = b""


# -- markers ---------------------------------------------------------------------------------


class Marker:
    """The base of what may stand in an `Annotated` beside a type."""


@dataclass(frozen=True, slots=True)
class SecretMark(Marker):
    """The value must not be shown."""


Secret = Annotated[T, SecretMark()]
"""`Secret[String16]`: masked in every table, log, dissector and console."""


@dataclass(frozen=True, slots=True)
class Names(Marker):
    """What the numbers of a field mean. `closed`: others are refused."""

    enum: type[IntEnum]
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Only(Marker):
    """The field exists in these dialects alone; elsewhere it has its default."""

    dialects: frozenset[str]

    def __init__(self, *dialects: str):
        object.__setattr__(self, "dialects", frozenset(dialects))


@dataclass(frozen=True, slots=True, eq=False)
class ByDialect(Marker):
    """A type that differs between dialects."""

    default: Any
    others: Mapping[str, Any]

    def resolve(self, dialect: str) -> Any:
        """The type in this dialect."""
        return self.others.get(dialect, self.default)


@dataclass(frozen=True, slots=True, eq=False)
class Counted(Marker):
    """A list behind a count of this type."""

    count: Any


@dataclass(frozen=True, slots=True)
class ToEnd(Marker):
    """A list that goes on to the end of its slice."""


@dataclass(frozen=True, slots=True)
class When(Marker):
    """The field is there when the presence bit of this name is set."""

    bit: str


@dataclass(frozen=True, slots=True)
class BitWidth(Marker):
    """Some bits; neighbours share bytes, the first declared is most significant."""

    width: int
    role: str = "stored"


@dataclass(frozen=True, slots=True)
class Number(Marker):
    """The number of a protobuf field; other dialects may number it otherwise."""

    number: int
    others: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Sizes(Marker):
    """The lengths that a blob may have, here or in the named dialect."""

    sizes: tuple[int, ...]
    dialect: str = ""

    def __init__(self, *sizes: int, dialect: str = ""):
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "dialect", dialect)


@dataclass(frozen=True, slots=True)
class Stage(Marker):
    """What the bytes of this field hold, once any transform is undone."""

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
    """An alternative of a `Choice` with more than its class: a constant, a limit."""

    layout: type
    const: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Marker):
    """The body: which layout a tag stands for, in both directions or in each."""

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


# -- numbers ---------------------------------------------------------------------------------

U8 = Annotated[int, Int(1)]
U16 = Annotated[int, Int(2)]
U24 = Annotated[int, Int(3)]
U32 = Annotated[int, Int(4)]
U64 = Annotated[int, Int(8)]
I8 = Annotated[int, Int(1, signed=True)]
I16 = Annotated[int, Int(2, signed=True)]
I32 = Annotated[int, Int(4, signed=True)]
I64 = Annotated[int, Int(8, signed=True)]
U16LE = Annotated[int, Int(2, order="little")]
U32LE = Annotated[int, Int(4, order="little")]
U64LE = Annotated[int, Int(8, order="little")]
I16LE = Annotated[int, Int(2, signed=True, order="little")]
I32LE = Annotated[int, Int(4, signed=True, order="little")]
I64LE = Annotated[int, Int(8, signed=True, order="little")]
F32 = Annotated[float, Float(4)]
F64 = Annotated[float, Float(8)]
F32LE = Annotated[float, Float(4, "little")]
F64LE = Annotated[float, Float(8, "little")]
Boolean = Annotated[bool, Bool()]
"""One byte, 0 or 1."""
LooseBoolean = Annotated[bool, Bool(strict=False)]
"""One byte; anything but 0 is true."""

VarU16 = Annotated[int, Varint(16)]
VarU32 = Annotated[int, Varint(32)]
VarU64 = Annotated[int, Varint(64)]
VarI16 = Annotated[int, Varint(16, "zigzag")]
VarI32 = Annotated[int, Varint(32, "zigzag")]
VarI64 = Annotated[int, Varint(64, "zigzag")]
TwosVar32 = Annotated[int, Varint(32, "twos")]
"""LEB128 of the two's complement: -1 takes five bytes."""
TwosVar64 = Annotated[int, Varint(64, "twos")]

# -- bits ------------------------------------------------------------------------------------

Flag = Annotated[bool, BitWidth(1)]
Bits1 = Annotated[int, BitWidth(1)]
Bits2 = Annotated[int, BitWidth(2)]
Bits3 = Annotated[int, BitWidth(3)]
Bits4 = Annotated[int, BitWidth(4)]
Bits5 = Annotated[int, BitWidth(5)]
Bits6 = Annotated[int, BitWidth(6)]
Bits7 = Annotated[int, BitWidth(7)]
Present = Annotated[bool, BitWidth(1, "present")]
"""A `ClassVar` bit that says whether the field that names it in `When` is there."""
TagBits1 = Annotated[int, BitWidth(1, "tag")]
TagBits2 = Annotated[int, BitWidth(2, "tag")]
TagBits4 = Annotated[int, BitWidth(4, "tag")]

# -- text and bytes --------------------------------------------------------------------------

String8 = Annotated[str, Blob(Int(1), "strict")]
String16 = Annotated[str, Blob(Int(2), "strict")]
String32 = Annotated[str, Blob(Int(4), "strict")]
LooseString16 = Annotated[str, Blob(Int(2), "loose")]
"""UTF-8 whose invalid bytes are kept (as surrogate escapes), for the rules above to judge."""
Bytes8 = Annotated[bytes, Blob(Int(1))]
Bytes16 = Annotated[bytes, Blob(Int(2))]
Bytes32 = Annotated[bytes, Blob(Int(4))]
Rest = Annotated[bytes, Blob(None)]
RestString = Annotated[str, Blob(None, "strict")]
Bytes4Fixed = Annotated[bytes, Fixed(4)]
Bytes16Fixed = Annotated[bytes, Fixed(16)]
Bytes32Fixed = Annotated[bytes, Fixed(32)]

# -- lists -----------------------------------------------------------------------------------

List8 = Annotated[tuple[T, ...], Counted(Int(1))]
"""`List8[String16]`: a one-byte count, then the items."""
List16 = Annotated[tuple[T, ...], Counted(Int(2))]

# -- protobuf --------------------------------------------------------------------------------

PbInt32 = Annotated[int, Varint(32, "twos")]
PbInt64 = Annotated[int, Varint(64, "twos")]
PbBool = Annotated[bool, Bool(strict=False)]
PbFixed64 = Annotated[int, Int(8, signed=True, order="little")]
PbString = Annotated[str, Blob(Varint(32), "strict")]
PbBytes = Annotated[bytes, Blob(Varint(32))]

# -- parts that are not stored: use inside ClassVar ------------------------------------------

Length16 = Annotated[int, LengthMark(Int(2))]
Length32 = Annotated[int, LengthMark(Int(4))]
Tag8 = Annotated[int, TagMark(Int(1))]
Tag16 = Annotated[int, TagMark(Int(2))]
