"""Readers: every type in every size and order, and every way in which its bytes can be wrong."""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.wire import DecodeError, Layout, Protocol
from wirelake.wire.types import (
    F32,
    F32LE,
    F64,
    F64LE,
    I8,
    I16,
    I16LE,
    I32,
    I32LE,
    I64,
    I64LE,
    U8,
    U16,
    U16LE,
    U24,
    U32,
    U32LE,
    U64,
    U64LE,
    Bits1,
    Bits3,
    Bits4,
    BitWidth,
    Blob,
    Boolean,
    Bytes4Fixed,
    Bytes8,
    Bytes32,
    Counted,
    Flag,
    Int,
    LengthMark,
    List8,
    List16,
    LooseBoolean,
    LooseString16,
    Magic,
    Names,
    Present,
    Rest,
    RestString,
    Sizes,
    String8,
    String16,
    String32,
    ToEnd,
    TwosVar32,
    TwosVar64,
    VarI16,
    VarI32,
    VarI64,
    Varint,
    VarU16,
    VarU32,
    VarU64,
    When,
)


class Shell(Layout):
    """A frame, so that there is a protocol."""

    n: U8


class Big(Layout):
    a: U8
    b: I8
    c: U16
    d: I16
    e: U24
    f: Annotated[int, Int(3, signed=True)]
    g: U32
    h: I32
    i: U64
    j: I64


class Little(Layout):
    c: U16LE
    d: I16LE
    e: Annotated[int, Int(3, order="little")]
    f: Annotated[int, Int(3, signed=True, order="little")]
    g: U32LE
    h: I32LE
    i: U64LE
    j: I64LE


class Mixed(Layout):
    """Both orders next to each other, and a byte between."""

    a: U16
    b: U16LE
    c: U8
    d: U32LE
    e: U32


class Floats(Layout):
    a: F32
    b: F64
    c: F32LE
    d: F64LE


class Bools(Layout):
    a: Boolean
    b: LooseBoolean


class Raw(Layout):
    a: Bytes4Fixed
    b: Annotated[bytes, Int(1), Blob(Int(1))]


class Varints(Layout):
    a: VarU16
    b: VarU32
    c: VarU64
    d: VarI16
    e: VarI32
    f: VarI64
    g: TwosVar32
    h: TwosVar64
    i: Annotated[int, Varint(32, "twos", loose=True)]
    j: Annotated[int, Varint(64, "twos", loose=True)]


class Bits(Layout):
    a: Bits1
    on: Flag
    b: Bits3
    c: Bits3
    d: Bits4
    e: Annotated[int, BitWidth(12)]
    f: Flag
    g: Annotated[int, BitWidth(31)]


class Texts(Layout):
    a: String8
    b: String16
    c: String32
    d: LooseString16
    e: Annotated[str, Blob(Varint(32), "strict")]
    f: Annotated[str, Blob(Varint(32, "zigzag"), "strict")]
    g: Annotated[str, Blob(Int(3), "strict")]
    h: Annotated[str, Blob(Int(2, signed=True), "strict")]
    i: RestString


class Blobs(Layout):
    a: Bytes8
    b: Annotated[bytes, Blob(Int(2, order="little"))]
    c: Bytes32
    d: Annotated[bytes, Blob(Varint(32, "twos"))]
    e: Annotated[bytes, Blob(Int(3))]
    f: Rest


class Point(Layout):
    x: U8
    y: U16


class Lists(Layout):
    a: List8[U16]
    b: List16[String8]
    c: Annotated[tuple[Point, ...], Counted(Varint(32))]
    d: Annotated[tuple[VarI32, ...], Counted(Varint(32, "zigzag"))]
    e: List8[F32]
    f: List8[Boolean]
    g: Annotated[tuple[U8, ...], Counted(Int(3))]
    h: List8[Bytes4Fixed]


class Squares(Layout):
    rows: List8[List8[U8]]
    texts: List8[List8[String8]]


class Tail(Layout):
    n: U8
    items: Annotated[tuple[Point, ...], ToEnd()]


class Options(Layout):
    has_a: ClassVar[Present]
    has_b: ClassVar[Present]
    spare: Annotated[int, BitWidth(6)]
    a: Annotated[U16 | None, When("has_a")] = None
    b: Annotated[String8 | None, When("has_b")] = None
    after: U8 = 0


class Inner(Layout):
    length: ClassVar[Annotated[int, LengthMark(Int(1), minimum=2)]]
    x: U8
    rest: Rest


class Outer(Layout):
    head: U8
    inner: Inner
    after: U8


class Consts(Layout):
    one: ClassVar[Annotated[bytes, Magic(b"\x07", code="bad_version")]]
    n: U8
    two: ClassVar[Annotated[bytes, Magic(b"end")]]


class Colour(IntEnum):
    RED = 0
    GREEN = 1
    BLUE = 2


class Sparse(IntEnum):
    A = 1
    B = 5


class Closed(Layout):
    high: Annotated[int, BitWidth(4), Names(Sparse, closed=True)]
    low: Annotated[int, BitWidth(4), Names(Colour, closed=True)]
    a: Annotated[U8, Names(Colour, closed=True)]
    b: Annotated[I8, Names(Colour, closed=True)]
    c: Annotated[VarU32, Names(Sparse, closed=True)]
    d: Annotated[VarI32, Names(Colour, closed=True)]
    e: Annotated[U8, Names(Colour)]


class Sized(Layout):
    a: Annotated[bytes, Blob(Int(1)), Sizes(0, 4)]
    b: Annotated[str, Blob(Varint(32), "strict"), Sizes(2, 3)]
    c: Annotated[bytes, Blob(None), Sizes(1)]


class Empty(Layout):
    """Nothing at all."""


class Awkward(Layout):
    """Names that generated code might want for itself."""

    buf: String8
    pos: U8
    end: String8
    start: U8
    item: List8[String8]
    items: List8[U8]
    parts: List8[U8]
    value: VarU32
    n_value: VarU32
    n_buf: U8
    v_value: U8
    piece_0: Bytes8
    error: String8
    rt: U8
    struct: U8
    len: U8
    bits: U8
    key: U8
    class_: U8
    type: U8
    type_: U8
    value_high: U24
    value_: Annotated[int, Int(3)]
    buf_items: List8[U8]
    read: U8
    size: U8


PROTOCOL = Protocol(
    name="throwaway-reader",
    title="Layouts to read",
    frame=Shell,
    more=(
        Big,
        Little,
        Mixed,
        Floats,
        Bools,
        Raw,
        Varints,
        Bits,
        Texts,
        Blobs,
        Lists,
        Squares,
        Tail,
        Options,
        Outer,
        Consts,
        Closed,
        Sized,
        Empty,
        Awkward,
    ),
)
CODEC: Any = PROTOCOL.codec()
BEFORE, AFTER = b"\xee\xff\xee", b"\xff\xfe\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"
"""What stands around a slice must not matter."""


def read(cls: type[Layout], data: bytes) -> Any:
    """The value of a slice in the middle of a buffer; all of it is used."""
    start, stop = len(BEFORE), len(BEFORE) + len(data)
    function = getattr(CODEC, f"read_{cls.__name__.lower()}")
    value, pos = function(BEFORE + data + AFTER, start, stop)
    assert pos == stop
    assert function(data, 0, len(data))[1] == len(data)
    return value


def refused(cls: type[Layout], data: bytes) -> tuple[str, str, int]:
    """Code, field and offset, which are the same wherever the slice stands."""
    function = getattr(CODEC, f"read_{cls.__name__.lower()}")
    start = len(BEFORE)
    with pytest.raises(DecodeError) as inside:
        function(BEFORE + data + AFTER, start, start + len(data))
    with pytest.raises(DecodeError) as alone:
        function(data, 0, len(data))
    assert inside.value.offset is not None
    assert inside.value.offset - start == alone.value.offset
    assert (inside.value.code, inside.value.field) == (alone.value.code, alone.value.field)
    return inside.value.code, inside.value.field, alone.value.offset


# -- numbers ---------------------------------------------------------------------------------


def test_big_endian_integers() -> None:
    data = (
        bytes.fromhex("80 80 8001 8001 800001 800001 80000001 80000001") + b"\x80\0\0\0\0\0\0\1" * 2
    )
    assert read(Big, data) == Big(
        a=0x80,
        b=-0x80,
        c=0x8001,
        d=-0x7FFF,
        e=0x800001,
        f=-0x7FFFFF,
        g=0x80000001,
        h=-0x7FFFFFFF,
        i=(1 << 63) + 1,
        j=-(1 << 63) + 1,
    )


def test_little_endian_integers() -> None:
    data = bytes.fromhex("0180 0180 010080 010080 01000080 01000080") + b"\1\0\0\0\0\0\0\x80" * 2
    assert read(Little, data) == Little(
        c=0x8001,
        d=-0x7FFF,
        e=0x800001,
        f=-0x7FFFFF,
        g=0x80000001,
        h=-0x7FFFFFFF,
        i=(1 << 63) + 1,
        j=-(1 << 63) + 1,
    )


@pytest.mark.parametrize(
    ("data", "value"),
    [("000000", 0), ("7fffff", 0x7FFFFF), ("800000", -0x800000), ("ffffff", -1), ("fffffe", -2)],
)
def test_signed_integers_of_24_bits(data: str, value: int) -> None:
    head = bytes(9)
    assert read(Big, head + bytes.fromhex(data) + bytes(24)).f == value
    back = bytes.fromhex(data)[::-1]
    assert read(Little, bytes(7) + back + bytes(24)).f == value


def test_both_orders_side_by_side() -> None:
    data = bytes.fromhex("0102 0201 ff 04030201 01020304")
    assert read(Mixed, data) == Mixed(a=0x0102, b=0x0102, c=0xFF, d=0x01020304, e=0x01020304)


@pytest.mark.parametrize(
    ("cls", "sizes"),
    [
        (Big, (("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3), ("f", 3), ("g", 4), ("h", 4))),
        (Little, (("c", 2), ("d", 2), ("e", 3), ("f", 3), ("g", 4), ("h", 4), ("i", 8))),
        (Mixed, (("a", 2), ("b", 2), ("c", 1), ("d", 4), ("e", 4))),
        (Floats, (("a", 4), ("b", 8), ("c", 4), ("d", 8))),
    ],
)
def test_a_short_slice_names_the_first_field_without_room(
    cls: type[Layout], sizes: tuple[tuple[str, int], ...]
) -> None:
    start = 0
    for name, size in sizes:
        for stop in range(start, start + size):
            assert refused(cls, bytes(stop)) == ("short", f"{cls.__name__.lower()}.{name}", start)
        start += size


def test_floats_of_both_sizes_and_orders() -> None:
    data = struct.pack(">fd", 1.5, -2.25) + struct.pack("<fd", 1e-45, math.inf)
    assert read(Floats, data) == Floats(a=1.5, b=-2.25, c=math.ldexp(1, -149), d=math.inf)


@pytest.mark.parametrize("bits", [0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0x7FC00000])
def test_a_nan_keeps_its_bits(bits: int) -> None:
    wide = bits >> 31 << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    data = bits.to_bytes(4, "big") + wide.to_bytes(8, "big")
    data += bits.to_bytes(4, "little") + wide.to_bytes(8, "little")
    value = read(Floats, data)
    for each in (value.a, value.b, value.c, value.d):
        assert struct.unpack(">Q", struct.pack(">d", each)) == (wide,)


def test_booleans() -> None:
    assert read(Bools, b"\0\0") == Bools(a=False, b=False)
    assert read(Bools, b"\1\1") == Bools(a=True, b=True)
    value = read(Bools, b"\1\xff")
    assert value.a is True
    assert value.b is True


def test_a_strict_boolean_is_0_or_1() -> None:
    assert refused(Bools, b"\2\0") == ("bad_bool", "bools.a", 0)
    assert refused(Bools, b"\1") == ("short", "bools.b", 1)


def test_varints_of_one_byte_and_of_the_most() -> None:
    small = bytes.fromhex("7f 7f 7f 7f 7e 7f 7f 7f 7f 7f")
    assert read(Varints, small) == Varints(
        a=127, b=127, c=127, d=-64, e=63, f=-64, g=127, h=127, i=127, j=127
    )
    u16, u32, u64 = "ffff03", "ffffffff0f", "ffffffffffffffffff01"
    large = bytes.fromhex(u16 + u32 + u64 + u16 + u32 + u64 + u32 + u64 + u32 + u64)
    assert read(Varints, large) == Varints(
        a=(1 << 16) - 1,
        b=(1 << 32) - 1,
        c=(1 << 64) - 1,
        d=-(1 << 15),
        e=-(1 << 31),
        f=-(1 << 63),
        g=-1,
        h=-1,
        i=-1,
        j=-1,
    )


@pytest.mark.parametrize(
    ("index", "data", "code"),
    [
        (0, "808004", "int_range"),
        (1, "8080808010", "int_range"),
        (2, "ffffffffffffffffff02", "varint_overflow"),
        (3, "808004", "int_range"),
        (4, "8080808010", "int_range"),
        (5, "ffffffffffffffffff02", "varint_overflow"),
        (6, "8080808010", "int_range"),
        (7, "ffffffffffffffffff02", "varint_overflow"),
        (8, "80808080808080808080", "varint_overflow"),
        (9, "80808080808080808080", "varint_overflow"),
        *((n, "80", "varint_truncated") for n in range(10)),
        *((n, "", "varint_truncated") for n in range(10)),
    ],
)
def test_varints_that_are_wrong(index: int, data: str, code: str) -> None:
    bad = bytes(index) + bytes.fromhex(data)
    assert refused(Varints, bad) == (code, f"varints.{'abcdefghij'[index]}", index)


def test_loose_varints_drop_surplus_bits() -> None:
    assert read(Varints, bytes(8) + bytes.fromhex("ffffffff7f ffffffffffffffffff7f")).i == -1


# -- bits, constants, names ------------------------------------------------------------------


def test_bits_of_one_two_and_four_bytes() -> None:
    data = bytes([0b1_1_010_101]) + (0xA123).to_bytes(2, "big") + (0x80000007).to_bytes(4, "big")
    assert read(Bits, data) == Bits(a=1, on=True, b=2, c=5, d=0xA, e=0x123, f=True, g=7)
    assert read(Bits, bytes(7)) == Bits(a=0, on=False, b=0, c=0, d=0, e=0, f=False, g=0)
    assert read(Bits, b"\xff" * 7).g == (1 << 31) - 1


@pytest.mark.parametrize(("size", "field", "offset"), [(0, "a", 0), (2, "d", 1), (6, "f", 3)])
def test_bits_that_are_cut(size: int, field: str, offset: int) -> None:
    assert refused(Bits, bytes(size)) == ("short", f"bits.{field}", offset)


def test_constants_are_checked_and_not_stored() -> None:
    assert read(Consts, b"\x07\x09end") == Consts(n=9)
    assert refused(Consts, b"\x08\x09end") == ("bad_version", "consts.one", 0)
    assert refused(Consts, b"\x07\x09eno") == ("bad_magic", "consts.two", 2)
    assert refused(Consts, b"\x07\x09en") == ("short", "consts.two", 2)


GOOD = bytes([0x12, 1, 2, 5, 2, 77])


def test_closed_names_accept_their_numbers() -> None:
    assert read(Closed, GOOD) == Closed(high=1, low=2, a=1, b=2, c=5, d=1, e=77)


@pytest.mark.parametrize(
    ("index", "byte", "field"),
    [
        (0, 0x22, "high"),
        (0, 0x13, "low"),
        (1, 3, "a"),
        (2, 3, "b"),
        (2, 0xFF, "b"),
        (3, 2, "c"),
        (4, 1, "d"),
        (4, 6, "d"),
    ],
)
def test_closed_names_refuse_other_numbers(index: int, byte: int, field: str) -> None:
    data = GOOD[:index] + bytes([byte]) + GOOD[index + 1 :]
    assert refused(Closed, data) == ("reserved_value", f"closed.{field}", index)


# -- text and bytes --------------------------------------------------------------------------

TEXTS = [b"\1a", b"\0\2\xc3\xa9", b"\0\0\0\1c", b"\0\2d\xff", b"\1e", b"\2f", b"\0\0\1g", b"\0\1h"]


def test_texts_behind_every_length() -> None:
    value = read(Texts, b"".join(TEXTS) + b"rest")
    assert value == Texts(a="a", b="é", c="c", d="d\udcff", e="e", f="f", g="g", h="h", i="rest")
    empty = read(Texts, bytes(1 + 2 + 4 + 2 + 1 + 1 + 3 + 2))
    assert empty == Texts(a="", b="", c="", d="", e="", f="", g="", h="", i="")


def test_blobs_behind_every_length() -> None:
    data = b"\1a" + b"\2\0bb" + b"\0\0\0\1c" + b"\1d" + b"\0\0\1e" + b"rest"
    assert read(Blobs, data) == Blobs(a=b"a", b=b"bb", c=b"c", d=b"d", e=b"e", f=b"rest")
    long = bytes(300)
    data = b"\xff" + bytes(255) + b"\x2c\x01" + long + b"\0\0\x01\x2c" + long
    data += b"\xac\x02" + long + b"\0\x01\x2c" + long
    assert read(Blobs, data) == Blobs(a=bytes(255), b=long, c=long, d=long, e=long, f=b"")


@pytest.mark.parametrize("index", range(8))
def test_a_text_longer_than_its_slice_overruns(index: int) -> None:
    good = b"".join(TEXTS[:index])
    cut = TEXTS[index][:-1]
    head = len(TEXTS[index].rstrip(b"abcdefgh\xc3\xa9\xff"))
    code = refused(Texts, good + cut)
    assert code == ("length_overrun", f"texts.{'abcdefgh'[index]}", len(good) + head)


@pytest.mark.parametrize(
    ("index", "code"),
    [(0, "short"), (1, "short"), (2, "short"), (4, "varint_truncated"), (6, "short")],
)
def test_a_length_that_is_cut(index: int, code: str) -> None:
    good = b"".join(TEXTS[:index])
    cut = b"" if index in (0, 4) else TEXTS[index][:1]
    assert refused(Texts, good + cut) == (code, f"texts.{'abcdefgh'[index]}", len(good))


def test_a_negative_length_is_refused() -> None:
    good = b"".join(TEXTS[:5])
    assert refused(Texts, good + b"\1") == ("negative_length", "texts.f", len(good) + 1)
    good = b"".join(TEXTS[:7])
    assert refused(Texts, good + b"\xff\xff") == ("negative_length", "texts.h", len(good) + 2)
    good = b"\0" + b"\0\0" + b"\0\0\0\0"
    assert refused(Blobs, good + b"\xff\xff\xff\xff\x0f") == ("negative_length", "blobs.d", 12)


@pytest.mark.parametrize(
    ("bad", "offset"),
    [
        (b"\xff", 0),
        (b"a\xc3", 1),
        (b"ab\xed\xa0\x80", 2),
        (b"\xc0\x80", 0),
        (b"\xf5\x80\x80\x80", 0),
    ],
)
def test_a_text_that_is_not_utf8(bad: bytes, offset: int) -> None:
    assert refused(Texts, bytes([len(bad)]) + bad) == ("invalid_utf8", "texts.a", 1 + offset)
    head = b"".join(TEXTS)
    assert refused(Texts, head + bad) == ("invalid_utf8", "texts.i", len(head) + offset)


def test_sizes_that_a_blob_may_have() -> None:
    assert read(Sized, b"\0" + b"\2ab" + b"c") == Sized(a=b"", b="ab", c=b"c")
    assert read(Sized, b"\4abcd" + b"\3\xe2\x82\xac" + b"c").b == "€"
    assert refused(Sized, b"\3abc\2abc") == ("bad_length", "sized.a", 1)
    assert refused(Sized, b"\0\1a") == ("bad_length", "sized.b", 2)
    assert refused(Sized, b"\0\6\xe2\x82\xac\xe2\x82\xac") == ("bad_length", "sized.b", 2)
    assert refused(Sized, b"\0\2ab") == ("bad_length", "sized.c", 4)


# -- lists, presence, lengths ----------------------------------------------------------------

LISTS = [
    b"\2\0\1\0\2",
    b"\0\2\1a\0",
    b"\1\7\0\x09",
    b"\4\1\2",
    b"\1\x7f\x80\0\1",
    b"\2\0\1",
    b"\0\0\2\5\6",
    b"\1abcd",
]


def test_lists_of_everything() -> None:
    value = read(Lists, b"".join(LISTS))
    assert value.a == (1, 2)
    assert value.b == ("a", "")
    assert value.c == (Point(x=7, y=9),)
    assert value.d == (-1, 1)
    assert [math.isnan(each) for each in value.e] == [True]
    assert value.f == (False, True)
    assert value.g == (5, 6)
    assert value.h == (b"abcd",)


@pytest.mark.parametrize(
    ("index", "cut", "code", "at"),
    [
        (0, b"\2\0\1\0", "length_overrun", 1),
        (1, b"\0\3\0\0", "length_overrun", 2),
        (1, b"\0\2\1a", "short", 4),
        (1, b"\0\1\2a", "length_overrun", 3),
        (2, b"\xff\xff\xff\xff\x0f", "length_overrun", 5),
        (2, b"\1\7\0", "length_overrun", 1),
        (3, b"\1", "negative_length", 1),
        (3, b"\4\1\x80", "varint_truncated", 2),
        (4, b"\1\0\0\0", "length_overrun", 1),
        (5, b"\1\2", "bad_bool", 1),
        (6, b"\0\0", "short", 0),
        (6, b"\0\0\1", "length_overrun", 3),
        (7, b"\1abc", "length_overrun", 1),
    ],
)
def test_lists_that_are_wrong(index: int, cut: bytes, code: str, at: int) -> None:
    good = b"".join(LISTS[:index])
    assert refused(Lists, good + cut) == (code, f"lists.{'abcdefgh'[index]}", len(good) + at)


def test_lists_of_lists() -> None:
    data = b"\2" + b"\1\7" + b"\2\x08\x09" + b"\2" + b"\0" + b"\2\1a\1b"
    assert read(Squares, data) == Squares(rows=((7,), (8, 9)), texts=((), ("a", "b")))


def test_a_list_to_the_end() -> None:
    assert read(Tail, b"\1\2\0\3\4\0\5") == Tail(n=1, items=(Point(x=2, y=3), Point(x=4, y=5)))
    assert read(Tail, b"\1") == Tail(n=1, items=())
    assert refused(Tail, b"\1\2\0") == ("short", "point.y", 2)


def test_optional_parts() -> None:
    assert read(Options, b"\x3f\x09") == Options(spare=0x3F, after=9)
    assert read(Options, b"\x80\1\2\x09") == Options(spare=0, a=0x0102, after=9)
    assert read(Options, b"\x40\1b\x09") == Options(spare=0, b="b", after=9)
    assert read(Options, b"\xc0\0\0\0\x09") == Options(spare=0, a=0, b="", after=9)
    assert refused(Options, b"\x80\1") == ("short", "options.a", 1)
    assert refused(Options, b"\x40\2b") == ("length_overrun", "options.b", 2)
    assert refused(Options, b"\x00") == ("short", "options.after", 1)


def test_a_length_inside_a_slice_bounds_what_follows_it() -> None:
    assert read(Outer, b"\1\3\2ab\x09") == Outer(head=1, inner=Inner(x=2, rest=b"ab"), after=9)
    assert refused(Outer, b"\1\5\2ab\x09") == ("length_overrun", "inner.length", 2)
    assert refused(Outer, b"\1\1\2ab\x09") == ("bad_length", "inner.length", 2)
    assert refused(Outer, b"\1\4\2ab\x09") == ("short", "outer.after", 6)


def test_nothing_is_read_from_nothing() -> None:
    assert read(Empty, b"") is read(Empty, b"")


AWKWARD = (
    b"\1a"
    b"\2"
    b"\1c"
    b"\4"
    b"\2\1e\1f"
    b"\1\6"
    b"\1\7"
    b"\x88\1"
    b"\x09"
    b"\x0a"
    b"\x0b"
    b"\2ab"
    b"\1g" + bytes(range(13, 21)) + b"\1\2\3" + b"\4\5\6" + b"\2\7\x08" + b"\x15\x16"
)


def test_field_names_do_not_conflict_with_generated_names() -> None:
    assert read(Awkward, AWKWARD) == Awkward(
        buf="a",
        pos=2,
        end="c",
        start=4,
        item=("e", "f"),
        items=(6,),
        parts=(7,),
        value=136,
        n_value=9,
        n_buf=10,
        v_value=11,
        piece_0=b"ab",
        error="g",
        rt=13,
        struct=14,
        len=15,
        bits=16,
        key=17,
        class_=18,
        type=19,
        type_=20,
        value_high=0x010203,
        value_=0x040506,
        buf_items=(7, 8),
        read=21,
        size=22,
    )
    assert CODEC.write_awkward(read(Awkward, AWKWARD)) == AWKWARD


def test_bytes_left_over_are_left() -> None:
    assert CODEC.read_point(b"\1\0\2\3", 0, 4) == (Point(x=1, y=2), 3)
