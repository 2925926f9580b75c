"""Writers: what they write is what readers read, and what does not fit is refused by name."""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.wire import EncodeError, Layout, Protocol
from wirelake.wire.declare import DeclarationError, build
from wirelake.wire.types import (
    F32,
    F32LE,
    F64,
    F64LE,
    I8,
    I16,
    I32,
    I64LE,
    U8,
    U16,
    U16LE,
    U24,
    U32LE,
    U64,
    Bits1,
    Bits3,
    Bits4,
    BitWidth,
    Blob,
    Boolean,
    Bytes4Fixed,
    Bytes8,
    Bytes16Fixed,
    Counted,
    Flag,
    Int,
    LengthMark,
    List8,
    LooseString16,
    Magic,
    Names,
    Only,
    Present,
    Rest,
    RestString,
    Sizes,
    String8,
    String16,
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
from wirelake.wire.views.strategy import values


class Shell(Layout):
    """A frame, so that there is a protocol."""

    n: U8


class Colour(IntEnum):
    RED = 0
    GREEN = 1


class Ints(Layout):
    a: U8
    b: I8
    c: U16LE
    d: I16
    e: U24
    f: Annotated[int, Int(3, signed=True)]
    g: Annotated[int, Int(3, signed=True, order="little")]
    h: U32LE
    i: I32
    j: U64
    k: I64LE


class Floats(Layout):
    a: F32
    b: F64
    c: F32LE
    d: F64LE


class Varints(Layout):
    a: VarU16
    b: VarU32
    c: VarU64
    d: VarI16
    e: VarI32
    f: VarI64
    g: TwosVar32
    h: TwosVar64
    i: Annotated[int, Varint(64, "twos", loose=True)]


class Bits(Layout):
    a: Bits1
    on: Flag
    b: Bits3
    c: Annotated[int, BitWidth(3), Names(Colour, closed=True)]
    d: Bits4
    e: Annotated[int, BitWidth(12)]
    f: Flag
    g: Annotated[int, BitWidth(31)]


class Texts(Layout):
    a: String8
    b: String16
    c: LooseString16
    d: Annotated[str, Blob(Varint(32, "zigzag"), "strict")]
    e: Annotated[str, Blob(Int(3), "strict")]
    f: RestString


class Blobs(Layout):
    a: Bytes8
    b: Annotated[bytes, Blob(Int(2, order="little"))]
    c: Annotated[bytes, Blob(Int(3))]
    d: Annotated[bytes, Blob(Varint(16))]
    e: Bytes4Fixed
    f: Rest


class Keys(Layout):
    """Fixed bytes alone: one struct call, and nothing in it is a number."""

    a: Bytes16Fixed
    b: Bytes16Fixed


class Point(Layout):
    x: U8
    y: U16


class Lists(Layout):
    a: List8[U16]
    b: List8[String8]
    c: Annotated[tuple[Point, ...], Counted(Varint(32))]
    d: Annotated[tuple[VarI32, ...], Counted(Varint(16, "zigzag"))]
    e: List8[F32]
    f: List8[Boolean]
    g: Annotated[tuple[U24, ...], Counted(Int(3))]
    h: List8[Bytes4Fixed]
    i: List8[Annotated[bytes, Blob(Int(3))]]
    j: Annotated[tuple[U16, ...], ToEnd()]


class Squares(Layout):
    rows: List8[List8[U8]]
    texts: List8[List8[String8]]
    cubes: List8[List8[Annotated[tuple[VarU32, ...], Counted(Varint(32))]]]


class Options(Layout):
    has_a: ClassVar[Present]
    has_b: ClassVar[Present]
    has_c: ClassVar[Present]
    has_d: ClassVar[Present]
    spare: Bits4
    a: Annotated[U16 | None, When("has_a")] = None
    b: Annotated[String8 | None, When("has_b")] = None
    c: Annotated[U8 | None, When("has_c"), Names(Colour, closed=True)] = None
    d: Annotated[List8[U24] | None, When("has_d")] = None
    after: U8 = 0


class Least(Layout):
    length: ClassVar[Annotated[int, LengthMark(Int(1), minimum=2)]]
    x: U8
    rest: Rest


class Inner(Layout):
    length: ClassVar[Annotated[int, LengthMark(Int(2), minimum=1)]]
    x: U8
    rest: Rest


class Wide(Layout):
    length: ClassVar[Annotated[int, LengthMark(Int(3, order="little"))]]
    text: String8
    number: VarU32
    rest: Rest


class Outer(Layout):
    head: U8
    inner: Inner
    wide: Wide
    after: U8


class Consts(Layout):
    one: ClassVar[Annotated[bytes, Magic(b"\x07", code="bad_version")]]
    n: U8
    two: ClassVar[Annotated[bytes, Magic(b"end")]]
    flag: Boolean


class Closed(Layout):
    a: Annotated[U8, Names(Colour, closed=True)]
    b: Annotated[VarI32, Names(Colour, closed=True)]
    c: Annotated[U8, Names(Colour)]


class Sized(Layout):
    a: Annotated[bytes, Blob(Int(1)), Sizes(0, 4)]
    b: Annotated[str, Blob(Varint(32), "strict"), Sizes(2, 3)]


class Lacking(Layout):
    """What only another dialect has must hold its default."""

    n: U8
    number: Annotated[U8, Only("other")] = Colour.GREEN
    flag: Annotated[Boolean, Only("other")] = True
    text: Annotated[String8, Only("other")] = "a'b"
    data: Annotated[Bytes8, Only("other")] = b""
    many: Annotated[List8[U8], Only("other")] = ()


class LackingPoint(Layout):
    point: Annotated[Point, Only("other")] = Point(x=0, y=0)


class Empty(Layout):
    """Nothing at all."""


ALL: tuple[type[Layout], ...] = (
    Ints,
    Floats,
    Varints,
    Bits,
    Texts,
    Blobs,
    Keys,
    Point,
    Lists,
    Squares,
    Options,
    Outer,
    Consts,
    Closed,
    Sized,
    Lacking,
    Empty,
)
PROTOCOL = Protocol(
    name="throwaway-writer", title="Layouts to write", frame=Shell, more=(*ALL, Least)
)
CODEC: Any = PROTOCOL.codec()


def write(value: Layout) -> bytes:
    written = getattr(CODEC, f"write_{type(value).__name__.lower()}")(value)
    assert isinstance(written, bytes)
    return written


def read(cls: type[Layout], data: bytes) -> Any:
    value, stop = getattr(CODEC, f"read_{cls.__name__.lower()}")(data, 0, len(data))
    assert stop == len(data)
    return value


def refused(value: Layout) -> tuple[str, str]:
    with pytest.raises(EncodeError) as caught:
        write(value)
    assert caught.value.offset is None
    return caught.value.code, caught.value.field


def good(cls: type[Layout], **changes: Any) -> Any:
    """A value that can be written, with some fields changed."""
    fields: dict[str, Any] = dict.fromkeys(cls.__struct_fields__, 0)
    for kind, empty in ((Texts, ""), (Blobs, b""), (Lists, ()), (Squares, ())):
        if cls is kind:
            fields = dict.fromkeys(fields, empty)
    if cls is Blobs:
        fields["e"] = b"abcd"
    if cls is Options:
        fields |= {"a": None, "b": None, "c": None, "d": None}
    return cls(**fields | changes)


# -- there and back --------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ALL)
@given(data=st.data())
def test_what_is_written_is_read_back(cls: type[Layout], data: st.DataObject) -> None:
    value = data.draw(values(build(cls)))
    written = write(value)
    again = read(cls, written)
    assert repr(again) == repr(value)
    assert write(again) == written


def test_integers_of_both_orders() -> None:
    value = Ints(a=1, b=-2, c=3, d=-4, e=5, f=-6, g=-7, h=8, i=-9, j=10, k=-11)
    assert write(value) == bytes.fromhex(
        "01 fe 0300 fffc 000005 fffffa f9ffff 08000000 fffffff7 000000000000000a f5ffffffffffffff"
    )


def test_bits_take_their_places() -> None:
    value = Bits(a=1, on=True, b=2, c=1, d=0xA, e=0x123, f=True, g=7)
    assert write(value) == bytes([0b11_010_001, 0xA1, 0x23, 0x80, 0, 0, 7])


def test_constants_lengths_and_counts_follow_from_the_value() -> None:
    assert write(Consts(n=9, flag=True)) == b"\x07\x09end\x01"
    inner = Inner(x=1, rest=b"ab")
    wide = Wide(text="t", number=300, rest=b"r" * 300)
    assert write(Outer(head=1, inner=inner, wide=wide, after=2)) == (
        b"\1\0\3\1ab" + b"\x30\x01\x00" + b"\1t" + b"\xac\x02" + b"r" * 300 + b"\2"
    )
    assert write(good(Lists, g=(1, 2), d=(-1,))) == bytes(3) + b"\2\1" + bytes(2) + (
        b"\0\0\2\0\0\1\0\0\2" + bytes(2)
    )


def test_presence_bits_follow_from_the_value() -> None:
    assert write(Options(spare=1)) == b"\x01\0"
    assert write(Options(spare=0, a=0, b="", c=1, d=(7,))) == b"\xf0\0\0\0\1\1\0\0\7\0"


@pytest.mark.parametrize("bits", [0x7F800001, 0xFFC12345, 0x7FFFFFFF])
def test_a_nan_keeps_its_bits(bits: int) -> None:
    wide = bits >> 31 << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    (nan,) = struct.unpack(">d", wide.to_bytes(8, "big"))
    assert write(Floats(a=nan, b=nan, c=nan, d=nan)) == (
        bits.to_bytes(4, "big")
        + wide.to_bytes(8, "big")
        + bits.to_bytes(4, "little")
        + wide.to_bytes(8, "little")
    )


def test_bytes_of_any_kind_are_taken() -> None:
    assert write(good(Blobs, a=bytearray(b"x"), f=bytearray(b"y"))) == write(
        good(Blobs, a=b"x", f=b"y")
    )


def test_nothing_is_nothing() -> None:
    assert write(Empty()) == b""


# -- what does not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("a", (-1, 256)),
        ("b", (-129, 128)),
        ("c", (-1, 65536)),
        ("d", (-32769, 32768)),
        ("e", (-1, 1 << 24)),
        ("f", (-(1 << 23) - 1, 1 << 23)),
        ("g", (-(1 << 23) - 1, 1 << 23)),
        ("h", (-1, 1 << 32)),
        ("i", (-(1 << 31) - 1, 1 << 31)),
        ("j", (-1, 1 << 64)),
        ("k", (-(1 << 63) - 1, 1 << 63)),
    ],
)
def test_integers_that_do_not_fit(field: str, values: tuple[int, int]) -> None:
    for value in values:
        assert refused(good(Ints, **{field: value})) == ("int_range", f"ints.{field}")


@pytest.mark.parametrize("field", "abcdfghi")
def test_varints_that_do_not_fit(field: str) -> None:
    for value in (-(1 << 70), 1 << 70):
        assert refused(good(Varints, **{field: value})) == ("int_range", f"varints.{field}")


@pytest.mark.parametrize(
    ("field", "value"),
    [("a", -1), ("a", 1 << 16), ("d", 1 << 15), ("g", 1 << 31), ("h", 1 << 63), ("b", 1 << 32)],
)
def test_varints_know_their_width(field: str, value: int) -> None:
    assert refused(good(Varints, **{field: value})) == ("int_range", f"varints.{field}")


@pytest.mark.parametrize(
    ("field", "value"),
    [("a", 2), ("a", -1), ("b", 8), ("c", 2), ("c", -1), ("d", 16), ("e", 4096), ("g", 1 << 31)],
)
def test_bits_that_do_not_fit(field: str, value: int) -> None:
    assert refused(good(Bits, **{field: value})) == ("int_range", f"bits.{field}")


@pytest.mark.parametrize("value", [1e39, -1e39, 10**400])
@pytest.mark.parametrize("field", ["a", "c"])
def test_floats_that_do_not_fit(field: str, value: float) -> None:
    assert refused(good(Floats, **{field: value})) == ("int_range", f"floats.{field}")


@pytest.mark.parametrize("field", ["b", "d"])
def test_numbers_that_no_float_can_be(field: str) -> None:
    assert refused(good(Floats, **{field: 10**400})) == ("int_range", f"floats.{field}")
    again = read(Floats, write(good(Floats, **{field: math.inf})))
    assert math.isinf(getattr(again, field))


@pytest.mark.parametrize(
    ("field", "size"), [("a", 1 << 8), ("b", 1 << 16), ("c", 1 << 16), ("e", 1 << 24)]
)
def test_texts_that_are_too_long(field: str, size: int) -> None:
    assert refused(good(Texts, **{field: "x" * size})) == ("too_large", f"texts.{field}")
    assert len(write(good(Texts, **{field: "x" * (size - 1)}))) >= size


@pytest.mark.parametrize("field", "abcdef")
def test_texts_without_utf8(field: str) -> None:
    assert refused(good(Texts, **{field: "a\ud800"})) == ("invalid_utf8", f"texts.{field}")


def test_loose_texts_have_their_bytes_back() -> None:
    assert write(good(Texts, c="a\udcff")) == b"\0\0\0\0\2a\xff\0\0\0\0"


@pytest.mark.parametrize(("field", "size"), [("a", 256), ("b", 65536), ("c", 1 << 24)])
def test_blobs_that_are_too_long(field: str, size: int) -> None:
    assert refused(good(Blobs, **{field: bytes(size)})) == ("too_large", f"blobs.{field}")


def test_a_blob_too_long_for_a_varint_length() -> None:
    assert refused(good(Blobs, d=bytes(65536))) == ("too_large", "blobs.d")


@pytest.mark.parametrize("value", [b"", b"abc", b"abcde"])
def test_fixed_bytes_have_their_size(value: bytes) -> None:
    assert refused(good(Blobs, e=value)) == ("bad_length", "blobs.e")


@pytest.mark.parametrize(("field", "value"), [("a", b"abc"), ("b", "a"), ("b", "€€")])
def test_sizes_that_a_blob_may_not_have(field: str, value: Any) -> None:
    fields = {"a": b"", "b": "ab"} | {field: value}
    assert refused(Sized(**fields)) == ("bad_length", f"sized.{field}")


def test_sizes_count_bytes() -> None:
    assert write(Sized(a=b"", b="€")) == b"\0\3\xe2\x82\xac"


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("a", (0,) * 256, "too_large"),
        ("a", (65536,), "int_range"),
        ("b", ("x" * 256,), "too_large"),
        ("b", ("\ud800",), "invalid_utf8"),
        ("d", (1 << 31,), "int_range"),
        ("d", (0,) * (1 << 15), "too_large"),
        ("e", (1e39,), "int_range"),
        ("g", (1 << 24,), "int_range"),
        ("h", (b"abc",), "bad_length"),
        ("i", (bytes(1 << 24),), "too_large"),
        ("j", (-1,), "int_range"),
    ],
)
def test_lists_that_do_not_fit(field: str, value: Any, code: str) -> None:
    assert refused(good(Lists, **{field: value})) == (code, f"lists.{field}")


def test_an_item_is_refused_by_its_own_name() -> None:
    assert refused(good(Lists, c=(Point(x=0, y=0), Point(x=256, y=0)))) == ("int_range", "point.x")


def test_closed_names_refuse_other_numbers() -> None:
    assert refused(Closed(a=2, b=0, c=0)) == ("int_range", "closed.a")
    assert refused(Closed(a=0, b=-1, c=0)) == ("int_range", "closed.b")
    assert write(Closed(a=1, b=1, c=99)) == b"\1\2\x63"
    assert refused(Options(spare=0, c=2)) == ("int_range", "options.c")


def test_a_size_beyond_the_length_field() -> None:
    inner = Inner(x=0, rest=bytes(65535))
    wide = Wide(text="", number=0, rest=b"")
    assert refused_outer(inner, wide) == ("too_large", "inner.length")
    wide = Wide(text="", number=0, rest=bytes((1 << 24) - 2))
    assert refused_outer(Inner(x=0, rest=b"x"), wide) == ("too_large", "wide.length")


def test_a_length_below_its_minimum_is_not_written() -> None:
    assert refused(Least(x=0, rest=b"")) == ("bad_length", "least.length")
    assert write(Least(x=0, rest=b"a")) == b"\2\0a"


def refused_outer(inner: Inner, wide: Wide) -> tuple[str, str]:
    return refused(Outer(head=0, inner=inner, wide=wide, after=0))


# -- what is of the wrong type ---------------------------------------------------------------


@pytest.mark.parametrize("value", [1.5, "1", None, b"1"])
@pytest.mark.parametrize("field", "abcdhijk")
def test_a_number_of_another_type_is_named(field: str, value: Any) -> None:
    assert refused(good(Ints, **{field: value})) == ("bad_value", f"ints.{field}")


def test_bytes_of_another_type_are_refused() -> None:
    assert refused(Keys(a="x" * 16, b=b"y" * 16))[0] == "bad_value"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [("number", 0), ("flag", False), ("text", ""), ("data", b"x"), ("many", (1,))],
)
def test_a_field_that_this_dialect_lacks_is_not_lost(field: str, value: Any) -> None:
    assert write(Lacking(n=5)) == b"\5"
    assert refused(Lacking(**{"n": 5, field: value})) == ("bad_value", f"lacking.{field}")


def test_a_default_that_cannot_be_compared_is_refused() -> None:
    found = Protocol(name="throwaway-lacking", title="", frame=Shell, more=(LackingPoint,))
    with pytest.raises(DeclarationError, match=r"LackingPoint\.point: a field that some dialects"):
        found.codec()
