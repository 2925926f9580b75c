"""A protocol as a user would declare it, with every type that the built-in ones do not use."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Annotated, ClassVar

from wirelake.wire import Protocol
from wirelake.wire.types import (
    F32,
    F32LE,
    F64,
    F64LE,
    I8,
    I64LE,
    U8,
    U16,
    U16LE,
    U24,
    U32,
    U64,
    Bits7,
    BitWidth,
    Boolean,
    Bytes8,
    Bytes32Fixed,
    Choice,
    Flag,
    Int,
    Layout,
    Length32,
    List8,
    List16,
    LooseBoolean,
    Magic,
    Names,
    Number,
    PbBool,
    PbBytes,
    PbInt32,
    PbInt64,
    PbString,
    Protobuf,
    Rest,
    Secret,
    Stage,
    String8,
    String32,
    Tag16,
    ToEnd,
    TwosVar32,
    TwosVar64,
    VarI16,
    VarI64,
    Varint,
    VarU16,
    VarU64,
)


class Sensor(IntEnum):
    """Where a sensor is; below zero is below ground."""

    CELLAR = -2
    GROUND = 0
    ROOF = 7


class Unit(IntEnum):
    """What is measured; nothing else may be."""

    KELVIN = 0
    PASCAL = 3


class Place(Layout):
    """A place on a map."""

    name: String8
    """What people call it."""
    height: Annotated[int, Int(3, signed=True)]
    """Above the sea, in centimetres."""


class Reading(Layout):
    """One reading, with "quotes", a \\ and ünïcode in its words.

    This paragraph is not part of the description.
    """

    section: ClassVar[str] = "2.1 Lesung"

    sensor: Annotated[I8, Names(Sensor)]
    """Which sensor."""
    unit: Annotated[U16, Names(Unit, closed=True)]
    """What it measures."""
    value: F32
    """The value."""
    value_le: F32LE
    """The value, the other way round."""
    exact: F64
    """The value, exactly."""
    exact_le: F64LE
    """The value, exactly, the other way round."""
    good: Boolean
    """Whether it can be trusted."""
    loud: LooseBoolean
    """Whether to tell everybody."""
    odd: U24
    """Three bytes."""
    odd_le: Annotated[int, Int(3, order="little")]
    """Three bytes, the other way round."""
    odd_signed_le: Annotated[int, Int(3, signed=True, order="little")]
    """Three bytes with a sign, the other way round."""
    large: U64
    """Eight bytes."""
    large_le: I64LE
    """Eight bytes with a sign, the other way round."""
    samples: List16[U16LE]
    """Samples before it."""
    places: List8[Place]
    """Where it holds."""
    folded: VarI64
    """Sign in bit 0."""
    small_folded: VarI16
    """Sign in bit 0, 16 bits."""
    plain: VarU64
    """No sign."""
    small: VarU16
    """No sign, 16 bits."""
    wrapped: TwosVar32
    """Two's complement, 32 bits."""
    long_wrapped: TwosVar64
    """Two's complement, 64 bits."""
    digest: Bytes32Fixed
    """32 bytes."""
    note: String32
    """Words."""
    rest: Annotated[tuple[Bytes8, ...], ToEnd()] = ()
    """Whatever else, in pieces."""


class Wide(Layout):
    """Bits that take four bytes, and eight."""

    low: Annotated[int, BitWidth(5)]
    """Five bits."""
    sign: Flag
    """One bit."""
    high: Annotated[int, BitWidth(26)]
    """Twenty-six bits."""
    between: VarU16
    """A number between the two groups."""
    head: Annotated[int, BitWidth(3)]
    """Three bits."""
    middle: Annotated[int, BitWidth(40)]
    """Forty bits."""
    lamp: Flag
    """One bit."""
    tail: Annotated[int, BitWidth(20)]
    """Twenty bits."""


class Login(Layout):
    """Secret fields."""

    user: String8
    """Who."""
    pin: Secret[U32]
    """A number."""
    words: Secret[List8[String8]]
    """A list."""
    home: Secret[Place]
    """A layout."""
    key: Secret[Bytes32Fixed]
    """Bytes."""


class Parcel(Layout):
    """A login behind a transform."""

    size: U8
    """A number before it."""
    content: Annotated[Rest, Stage(Login)]
    """The login, wrapped when the frame says so."""


class Leaf(Protobuf, kw_only=True):
    """A leaf."""

    colour: Annotated[PbString, Number(1)] = ""
    """Its colour."""
    weight: Annotated[F32LE, Number(2)] = 0.0
    """Its weight."""


class Tree(Protobuf, kw_only=True):
    """A tree with leaves."""

    leaves: Annotated[tuple[Leaf, ...], ToEnd(), Number(1)] = ()
    """Its leaves."""
    age: Annotated[PbInt32, Number(2)] = 0
    """Years."""
    rings: Annotated[tuple[PbInt64, ...], ToEnd(), Number(3)] = ()
    """Widths."""
    balance: Annotated[int, Varint(32, "zigzag"), Number(16)] = 0
    """Folded."""
    alive: Annotated[PbBool, Number(17)] = False
    """Whether."""
    bark: Annotated[PbBytes, Number(18)] = b""
    """Bytes."""
    mass: Annotated[F64LE | None, Number(19)] = None
    """Kilograms."""
    owner: Annotated[Secret[PbString], Number(20)] = ""
    """Whose."""
    crown: Annotated[Leaf | None, Number(21)] = None
    """The highest leaf."""


class Frame(Layout, kw_only=True):
    """The frame of all messages."""

    magic: ClassVar[Annotated[bytes, Magic(b'T"\\')]]
    """Three bytes that a string must escape."""
    spare: Bits7 = 0
    """Not used."""
    packed: Flag = False
    """Whether the content of a parcel is wrapped."""
    kind: ClassVar[Tag16]
    """What it is."""
    length: ClassVar[Length32]
    """Bytes that follow."""
    body: Annotated[
        Reading | Wide | Login | Parcel | Tree,
        Choice({1: Reading, 2: Wide, 3: Login, 0x400: Parcel, 5: Tree}),
    ]
    """What it says."""


THERMO = Protocol(name="thermo", title="Thermo: a user's own", frame=Frame, port=9700)


class Tick(Layout):
    """A message of fixed size."""

    number: U16
    """Which tick."""
    mood: Annotated[F32, Names(Unit)]
    """How it felt."""


TICKS = Protocol(name="ticks", title="Ticks: a protocol without a port", frame=Tick)


def login() -> Login:
    """A login full of secrets."""
    return Login(
        user="eve",
        pin=0x5EC2E700,
        words=("hidden-word", "other"),
        home=Place(name="hidden-home", height=-77),
        key=b"\xd5" * 32,
    )


def messages() -> list[Frame]:
    """Frames with everything in them, and extremes."""
    reading = Reading(
        sensor=-2,
        unit=Unit.PASCAL,
        value=1.5,
        value_le=-0.0,
        exact=math.pi,
        exact_le=-math.inf,
        good=True,
        loud=False,
        odd=0xFFFFFF,
        odd_le=0x010203,
        odd_signed_le=-2,
        large=2**64 - 1,
        large_le=-(2**63),
        samples=(0, 1, 0xFFFF),
        places=(Place(name="höhe", height=-5), Place(name="", height=0x7FFFFF)),
        folded=-(2**63),
        small_folded=-(2**15),
        plain=2**64 - 1,
        small=0xFFFF,
        wrapped=-1,
        long_wrapped=-(2**63),
        digest=bytes(range(32)),
        note='quotes " and \\ and 日本',
        rest=(b"", b"\0\xff", b"x" * 200),
    )
    tree = Tree(
        leaves=(Leaf(colour="red", weight=0.5), Leaf()),
        age=-7,
        rings=(1, -1, 2**40),
        balance=-3,
        alive=True,
        bark=b"\1\2",
        mass=2.25,
        owner="nobody's",
        crown=Leaf(colour="green", unknown=b"\x78\x05"),
        unknown=b"\xa2\x1f\x03abc\xa8\x1f\x01",
    )
    wide = Wide(
        low=21,
        sign=True,
        high=2**26 - 2,
        between=300,
        head=5,
        middle=2**40 - 3,
        lamp=True,
        tail=0xABCDE,
    )
    content: bytes = THERMO.codec().write_login(login())
    return [
        Frame(body=reading),
        Frame(body=wide),
        Frame(spare=127, body=login()),
        Frame(body=Parcel(size=1, content=content)),
        Frame(packed=True, body=Parcel(size=1, content=content)),
        Frame(body=Parcel(size=1, content=content + b"!")),
        Frame(body=tree),
        Frame(body=Tree()),
    ]
