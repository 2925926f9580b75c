"""A test protocol with the field types that the built-in protocols do not use."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar

from wirelake.wire import Protocol
from wirelake.wire.types import (
    F32LE,
    F64,
    I8,
    I16LE,
    U8,
    U24,
    U64LE,
    Bits4,
    Boolean,
    Bytes16,
    Case,
    Choice,
    Counted,
    Flag,
    Int,
    Layout,
    Length16,
    List8,
    List16,
    LooseBoolean,
    LooseString16,
    Names,
    Number,
    PbBool,
    PbBytes,
    PbFixed64,
    PbInt32,
    PbInt64,
    PbString,
    Present,
    Protobuf,
    Rest,
    Sizes,
    String8,
    TagConstMark,
    TagMark,
    ToEnd,
    VarI64,
    Varint,
    VarU16,
    When,
)


class Shade(IntEnum):
    """Names that are reserved words in target languages."""

    NONE = 0
    ASYNC = 1
    CLASS = 2


class Numbers(Layout):
    """Numbers: of all kinds # not a comment, and "quotes"."""

    tiny: I8
    """- not a list: a number."""
    three: U24
    """Three bytes."""
    three_back: Annotated[int, Int(3, order="little")]
    """Three bytes, the other way round."""
    three_signed: Annotated[int, Int(3, signed=True)]
    """Three bytes with a sign."""
    back: I16LE
    large: U64LE
    shade: Annotated[VarU16, Names(Shade)]
    """A varint with names."""
    single: F32LE
    double: F64
    ever: Annotated[U8, Names(Shade, closed=True)]
    strict: Boolean
    loose: LooseBoolean


class Lists(Layout, kw_only=True):
    """Lists of everything."""

    bits: Bits4
    on: Flag
    has_names: ClassVar[Present]
    has_words: ClassVar[Present]
    no: Flag
    names: Annotated[List8[String8] | None, When("has_names")] = None
    words: Annotated[LooseString16 | None, When("has_words")] = None
    flags: List8[Boolean]
    shades: Annotated[List8[U8], Names(Shade)]
    signed: List8[Annotated[int, Int(3, signed=True)]]
    varints: Annotated[tuple[VarI64, ...], Counted(Varint(32))]
    floats: List8[F32LE]
    key: Annotated[Bytes16, Sizes(0, 16, 32)]
    grid: List16[Numbers]
    tail: Annotated[tuple[String8, ...], ToEnd()]


class Inner(Protobuf):
    """Inside."""

    id: Annotated[PbInt32, Number(1)] = 0
    name: Annotated[PbString, Number(15)] = ""


class Message(Protobuf):
    """Outside."""

    big: Annotated[PbInt64, Number(1)] = 0
    here: Annotated[PbBool, Number(2)] = False
    raw: Annotated[PbBytes, Number(16)] = b""
    fixed: Annotated[PbFixed64, Number(4)] = 0
    one: Annotated[Inner | None, Number(5)] = None
    many: Annotated[tuple[Inner, ...], ToEnd(), Number(2000)] = ()
    texts: Annotated[tuple[PbString, ...], ToEnd(), Number(7)] = ()
    maybe: Annotated[PbInt32 | None, Number(8)] = None


class Raw(Layout):
    """The rest."""

    data: Rest


class Cage(Layout):
    """A tag, then a length, then a constant that depends on the tag."""

    kind: ClassVar[Annotated[int, TagMark(Int(1))]]
    length: ClassVar[Length16]
    mark: ClassVar[Annotated[int, TagConstMark(Int(2, order="little"))]]
    seq: U8
    body: Annotated[
        Numbers | Lists | Message | Raw,
        Choice(
            {
                1: Case(Numbers, const=0x0102),
                2: Case(Lists, const=0x0102),
                3: Case(Message, const=0x0304),
                200: Case(Raw, const=0x0304),
            }
        ),
    ]


ZOO = Protocol(name="zoo", title='zoo: "all" kinds # of field', frame=Cage)
"""The protocol."""
