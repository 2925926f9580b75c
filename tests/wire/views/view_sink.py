"""Protocols of these tests' own, with what the built-in ones do not use."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar

from wirelake.wire import Protocol
from wirelake.wire.types import (
    F32,
    F32LE,
    F64LE,
    I8,
    I16,
    I16LE,
    U8,
    U16,
    U24,
    U32,
    U32LE,
    Bits3,
    Boolean,
    Choice,
    Flag,
    Int,
    Layout,
    Length16,
    Length32,
    LengthMark,
    List8,
    List16,
    LooseBoolean,
    LooseString16,
    Magic,
    Names,
    Number,
    PbInt32,
    PbInt64,
    PbString,
    Present,
    Protobuf,
    Rest,
    RestString,
    Secret,
    String8,
    String16,
    Tag8,
    ToEnd,
    TwosVar32,
    VarI64,
    VarU32,
    When,
)


class Kind(IntEnum):
    """Numbers from 0 without a gap."""

    A = 0
    B = 1
    C = 2


class Odd(IntEnum):
    """Numbers with a gap."""

    X = 3
    Y = 6


class Point(Layout):
    """Two byte orders in one."""

    x: I16LE
    y: I16


class Sized(Layout):
    """A length inside a slice."""

    length: ClassVar[Length16]
    a: U8
    b: Rest


class Runs(Layout):
    """Many values of fixed size in a row, some with rules."""

    flag: Boolean
    big: U32
    little: U32LE
    kind: Annotated[U8, Names(Kind, closed=True)]
    signed: Annotated[I8, Names(Kind, closed=True)]
    three: U24
    single: F32
    double: F64LE
    text: String8
    loose: LooseString16


class Lists(Layout):
    """Varints, and lists of each kind."""

    odd: Annotated[VarU32, Names(Odd, closed=True)]
    zigzag: VarI64
    twos: TwosVar32
    points: List16[Point]
    names: List8[String8]
    inner: Sized
    tail: Annotated[tuple[U16, ...], ToEnd()]


class Bits(Layout):
    """Bits, a part that may be absent, a secret, a length in the middle."""

    magic: ClassVar[Annotated[bytes, Magic(b"GM")]]
    top: Bits3
    has_a: ClassVar[Present]
    flag: Flag
    odd: Annotated[Bits3, Names(Odd, closed=True)]
    a: Annotated[String16 | None, When("has_a")] = None
    ok: LooseBoolean = False
    more: ClassVar[Length16]
    secret: Secret[String8] = ""
    rest: RestString = ""


class Fields(Protobuf):
    """Protobuf fields of every kind."""

    number: Annotated[PbInt32, Number(1)] = 0
    text: Annotated[PbString, Number(2)] = ""
    many: Annotated[tuple[PbInt64, ...], ToEnd(), Number(3)] = ()
    single: Annotated[F32LE, Number(4)] = 0.0
    double: Annotated[F64LE, Number(5)] = 0.0


class Frame(Layout):
    """A head with rules of its own, and a tag behind the length."""

    head: ClassVar[Annotated[bytes, Magic(b"SK")]]
    mode: Annotated[U8, Names(Kind, closed=True)]
    yes: Boolean
    size: ClassVar[Annotated[int, LengthMark(Int(2, order="little"), minimum=3, limit=4096)]]
    id: U16
    tag: ClassVar[Tag8]
    body: Annotated[Runs | Lists | Bits | Fields, Choice({1: Runs, 2: Lists, 3: Bits, 4: Fields})]


class FixedFrame(Layout):
    """A frame that needs no length."""

    head: ClassVar[Annotated[bytes, Magic(b"FX")]]
    little: U32LE
    yes: Boolean
    kind: Annotated[U8, Names(Kind, closed=True)]


class PlainFrame(Layout):
    """A length, then fields."""

    length: ClassVar[Length32]
    yes: Boolean
    name: String16
    kind: Annotated[U8, Names(Kind, closed=True)]
    points: Annotated[tuple[Point, ...], ToEnd()]


SINK = Protocol(name="sink", title="sink", frame=Frame)
FIXED = Protocol(name="fixed", title="fixed", frame=FixedFrame)
PLAIN = Protocol(name="plain", title="plain", frame=PlainFrame)
