"""The types of a declaration: the base class `Layout`, field types, and markers.

A layout is a class whose annotations, in wire order, declare the bytes:

    class Auth(Layout):
        '''A client signs on.'''

        client_id: String16
        '''The client's id.'''
        token: Secret[String16]
        '''Its token.'''

To a type checker the fields are plain (`str`, `int`, `bytes`, `tuple`). Bytes that follow from the
value (magic values, lengths, tags, presence bits) are declared as `ClassVar` and are not stored. A
string after a field is its documentation. The guide `docs/guides/declare-a-protocol.md` shows how
to write a layout.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, get_args, get_type_hints

import msgspec

from .marks import (
    BitWidth,
    ByDialect,
    Case,
    Choice,
    Counted,
    DynamicMark,
    ItemsOf,
    LengthMark,
    Magic,
    Names,
    Number,
    Only,
    Option,
    OptionBitsMark,
    OptionsLengthMark,
    PairsOf,
    RowsMark,
    SecretMark,
    Sizes,
    Stage,
    TagConstMark,
    TagMark,
    ToEnd,
    UnknownOptions,
    When,
)
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
    "Blob",
    "Bool",
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
    "Fixed",
    "Flag",
    "Float",
    "Int",
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
    "Varint",
    "When",
]

T = TypeVar("T")


# A msgspec Struct is created in 72 ns, a frozen slotted dataclass in 672 ns. gc=False: values of
# layouts cannot form cycles, so the garbage collector need not track them.
@dataclass_transform(frozen_default=True)
class Layout(msgspec.Struct, frozen=True, gc=False):
    """The base of every layout: an immutable value.

    Where a field without a default follows one with a default, declare the class `kw_only=True`.
    """

    wire_name: ClassVar[str] = ""
    """The name in errors and on the command line; by default the class name in snake_case."""
    section: ClassVar[str] = ""
    """The section of the document that defines this layout."""

    def __repr__(self) -> str:
        """Return the usual form, with secrets masked: a value may end up in a log."""
        secret = _secret_fields(type(self))
        shown = (
            f"{name}={'<secret>' if name in secret else repr(getattr(self, name))}"
            for name in self.__struct_fields__
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the fields for rich, with secrets masked."""
        secret = _secret_fields(type(self))
        names = self.__struct_fields__
        return [(name, "<secret>" if name in secret else getattr(self, name)) for name in names]


@functools.cache
def _secret_fields(cls: type) -> frozenset[str]:
    """Return the names of fields whose annotation, at any depth, is marked as secret."""
    try:
        hints = get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):  # unknown: a repr must neither fail nor reveal a secret
        return frozenset(getattr(cls, "__struct_fields__", ()))
    return frozenset(name for name, hint in hints.items() if _is_secret(hint))


def _is_secret(hint: object) -> bool:
    marks = getattr(hint, "__metadata__", ())
    if any(isinstance(mark, SecretMark) for mark in marks):
        return True
    return any(_is_secret(inner) for inner in get_args(hint))


class Protobuf(Layout, kw_only=True):
    """The base of a layout of protobuf fields, each with a `Number`.

    Fields are written in the order of the declaration, and read in any order. Unknown ones are
    kept in `unknown` and written back after the others.
    """

    unparsed: ClassVar[tuple[str, ...]] = ()
    """The dialects that ignore the bytes of a layout without fields: `unknown` keeps them, even
    when they are not protobuf."""

    unknown: bytes = b""


Secret = Annotated[T, SecretMark()]
"""`Secret[String16]`: masked in every table, log and dissector."""

# -- numbers ---------------------------------------------------------------------------------

U8 = Annotated[int, Int(1)]
"""Unsigned byte."""
U16 = Annotated[int, Int(2)]
"""Unsigned, 2 bytes, big-endian."""
U24 = Annotated[int, Int(3)]
"""Unsigned, 3 bytes, big-endian."""
U32 = Annotated[int, Int(4)]
"""Unsigned, 4 bytes, big-endian."""
U64 = Annotated[int, Int(8)]
"""Unsigned, 8 bytes, big-endian."""
I8 = Annotated[int, Int(1, signed=True)]
"""Signed byte."""
I16 = Annotated[int, Int(2, signed=True)]
"""Signed, 2 bytes, big-endian."""
I32 = Annotated[int, Int(4, signed=True)]
"""Signed, 4 bytes, big-endian."""
I64 = Annotated[int, Int(8, signed=True)]
"""Signed, 8 bytes, big-endian."""
U16LE = Annotated[int, Int(2, order="little")]
"""Unsigned, 2 bytes, little-endian."""
U32LE = Annotated[int, Int(4, order="little")]
"""Unsigned, 4 bytes, little-endian."""
U64LE = Annotated[int, Int(8, order="little")]
"""Unsigned, 8 bytes, little-endian."""
I16LE = Annotated[int, Int(2, signed=True, order="little")]
"""Signed, 2 bytes, little-endian."""
I32LE = Annotated[int, Int(4, signed=True, order="little")]
"""Signed, 4 bytes, little-endian."""
I64LE = Annotated[int, Int(8, signed=True, order="little")]
"""Signed, 8 bytes, little-endian."""
F32 = Annotated[float, Float(4)]
"""IEEE 754, 4 bytes, big-endian."""
F64 = Annotated[float, Float(8)]
"""IEEE 754, 8 bytes, big-endian."""
F32LE = Annotated[float, Float(4, "little")]
"""IEEE 754, 4 bytes, little-endian."""
F64LE = Annotated[float, Float(8, "little")]
"""IEEE 754, 8 bytes, little-endian."""
Boolean = Annotated[bool, Bool()]
"""One byte, 0 or 1."""
LooseBoolean = Annotated[bool, Bool(strict=False)]
"""One byte; anything but 0 is true."""

VarU16 = Annotated[int, Varint(16)]
"""Unsigned LEB128 of 16 bits."""
VarU32 = Annotated[int, Varint(32)]
"""Unsigned LEB128 of 32 bits."""
VarU64 = Annotated[int, Varint(64)]
"""Unsigned LEB128 of 64 bits."""
VarI16 = Annotated[int, Varint(16, "zigzag")]
"""Zigzag LEB128 of 16 bits."""
VarI32 = Annotated[int, Varint(32, "zigzag")]
"""Zigzag LEB128 of 32 bits."""
VarI64 = Annotated[int, Varint(64, "zigzag")]
"""Zigzag LEB128 of 64 bits."""
TwosVar32 = Annotated[int, Varint(32, "twos")]
"""LEB128 of the two's complement: -1 takes five bytes."""
TwosVar64 = Annotated[int, Varint(64, "twos")]
"""LEB128 of the two's complement: -1 takes ten bytes."""

# -- bits ------------------------------------------------------------------------------------

Flag = Annotated[bool, BitWidth(1)]
"""One bit, as a bool."""
Bits1 = Annotated[int, BitWidth(1)]
"""1 bit, as a number."""
Bits2 = Annotated[int, BitWidth(2)]
"""2 bits, as a number."""
Bits3 = Annotated[int, BitWidth(3)]
"""3 bits, as a number."""
Bits4 = Annotated[int, BitWidth(4)]
"""4 bits, as a number."""
Bits5 = Annotated[int, BitWidth(5)]
"""5 bits, as a number."""
Bits6 = Annotated[int, BitWidth(6)]
"""6 bits, as a number."""
Bits7 = Annotated[int, BitWidth(7)]
"""7 bits, as a number."""
Present = Annotated[bool, BitWidth(1, "present")]
"""A `ClassVar` bit: whether the field that names it in `When` is present."""
TagBits1 = Annotated[int, BitWidth(1, "tag")]
"""1 bit of the tag; use inside ClassVar."""
TagBits2 = Annotated[int, BitWidth(2, "tag")]
"""2 bits of the tag; use inside ClassVar."""
TagBits4 = Annotated[int, BitWidth(4, "tag")]
"""4 bits of the tag; use inside ClassVar."""

# -- text and bytes --------------------------------------------------------------------------

String8 = Annotated[str, Blob(Int(1), "strict")]
"""UTF-8 after a length of 1 byte."""
String16 = Annotated[str, Blob(Int(2), "strict")]
"""UTF-8 after a length of 2 bytes."""
String32 = Annotated[str, Blob(Int(4), "strict")]
"""UTF-8 after a length of 4 bytes."""
LooseString16 = Annotated[str, Blob(Int(2), "loose")]
"""UTF-8 whose invalid bytes are kept (as surrogate escapes), for the session to check."""
Bytes8 = Annotated[bytes, Blob(Int(1))]
"""Bytes after a length of 1 byte."""
Bytes16 = Annotated[bytes, Blob(Int(2))]
"""Bytes after a length of 2 bytes."""
Bytes32 = Annotated[bytes, Blob(Int(4))]
"""Bytes after a length of 4 bytes."""
Rest = Annotated[bytes, Blob(None)]
"""All remaining bytes."""
RestString = Annotated[str, Blob(None, "strict")]
"""All remaining bytes, as UTF-8."""
Bytes4Fixed = Annotated[bytes, Fixed(4)]
"""Exactly 4 bytes."""
Bytes16Fixed = Annotated[bytes, Fixed(16)]
"""Exactly 16 bytes."""
Bytes32Fixed = Annotated[bytes, Fixed(32)]
"""Exactly 32 bytes."""

# -- lists -----------------------------------------------------------------------------------

List8 = Annotated[tuple[T, ...], Counted(Int(1))]
"""`List8[String16]`: a one-byte count, then the items."""
List16 = Annotated[tuple[T, ...], Counted(Int(2))]
"""A count of 2 bytes, then the items."""

# -- protobuf --------------------------------------------------------------------------------

PbInt32 = Annotated[int, Varint(32, "twos")]
"""protobuf int32."""
PbInt64 = Annotated[int, Varint(64, "twos")]
"""protobuf int64."""
PbBool = Annotated[bool, Bool(strict=False)]
"""protobuf bool."""
PbFixed64 = Annotated[int, Int(8, signed=True, order="little")]
"""protobuf sfixed64."""
PbString = Annotated[str, Blob(Varint(32), "strict")]
"""protobuf string."""
PbBytes = Annotated[bytes, Blob(Varint(32))]
"""protobuf bytes."""

# -- parts that are not stored: use inside ClassVar ------------------------------------------

Length16 = Annotated[int, LengthMark(Int(2))]
"""Bytes that follow, as 2 bytes big-endian; use inside ClassVar."""
Length32 = Annotated[int, LengthMark(Int(4))]
"""Bytes that follow, as 4 bytes big-endian; use inside ClassVar."""
Tag8 = Annotated[int, TagMark(Int(1))]
"""A tag of 1 byte; use inside ClassVar."""
Tag16 = Annotated[int, TagMark(Int(2))]
"""A tag of 2 bytes; use inside ClassVar."""
