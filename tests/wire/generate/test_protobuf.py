"""Protobuf layouts: any order, unknown fields kept, and what is malformed."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.wire import DecodeError, EncodeError, Layout, Protobuf, Protocol
from wirelake.wire.declare import build
from wirelake.wire.types import (
    F32LE,
    F64LE,
    I32LE,
    U8,
    Choice,
    Length16,
    Names,
    Number,
    PbBool,
    PbBytes,
    PbFixed64,
    PbInt32,
    PbInt64,
    PbString,
    Sizes,
    Tag8,
    ToEnd,
    VarI32,
    VarU32,
    VarU64,
)
from wirelake.wire.views._trace_layouts import trace
from wirelake.wire.views.strategy import values


class Colour(IntEnum):
    RED = 0


class Leaf(Protobuf):
    n: Annotated[PbInt32, Number(1)] = 0


class Box(Protobuf):
    """Names in it are ones that generated code would like to have."""

    int32: Annotated[PbInt32, Number(1)] = 0
    int64: Annotated[PbInt64, Number(2)] = 0
    uint32: Annotated[VarU32, Number(3)] = 0
    uint64: Annotated[VarU64, Number(4)] = 0
    sint32: Annotated[VarI32, Number(5), Names(Colour)] = 0
    flag: Annotated[PbBool, Number(6)] = False
    fixed64: Annotated[PbFixed64, Number(7)] = 0
    fixed32: Annotated[I32LE, Number(8)] = 0
    float32: Annotated[F32LE, Number(9)] = 0.0
    float64: Annotated[F64LE, Number(10)] = 0.0
    text: Annotated[PbString, Number(11)] = ""
    data: Annotated[PbBytes, Number(12)] = b""
    sized: Annotated[PbBytes, Number(13), Sizes(0, 4)] = b""
    word: Annotated[PbString, Number(14), Sizes(0, 3)] = ""
    leaf: Annotated[Leaf | None, Number(15)] = None
    maybe: Annotated[PbInt32 | None, Number(16)] = None
    maybe_text: Annotated[PbString | None, Number(17)] = None
    numbers: Annotated[tuple[PbInt32, ...], ToEnd(), Number(18)] = ()
    texts: Annotated[tuple[PbString, ...], ToEnd(), Number(19)] = ()
    leaves: Annotated[tuple[Leaf, ...], ToEnd(), Number(20)] = ()
    fixeds: Annotated[tuple[PbFixed64, ...], ToEnd(), Number(2047)] = ()
    item: Annotated[PbString, Number(2048)] = ""
    length: Annotated[PbInt32, Number(2049)] = 0
    number: Annotated[PbInt32, Number(2050)] = 0
    parts: Annotated[tuple[PbBytes, ...], ToEnd(), Number((1 << 29) - 1)] = ()


class Empty(Protobuf):
    """No field at all, and yet it keeps what it does not know."""


class Shell(Layout):
    n: U8


PROTOCOL = Protocol(name="throwaway-protobuf", title="Protobuf", frame=Shell, more=(Box, Empty))
CODEC: Any = PROTOCOL.codec()


def leb(value: int) -> bytes:
    out = []
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def key(number: int, wire: int) -> bytes:
    return leb(number << 3 | wire)


def read(data: bytes) -> Any:
    value, stop = CODEC.read_box(data, 0, len(data))
    assert stop == len(data)
    inside, stop = CODEC.read_box(b"??" + data + b"\xff" * 12, 2, 2 + len(data))
    assert stop == 2 + len(data)
    assert repr(inside) == repr(value)
    return value


def refused(data: bytes) -> tuple[str, str, int | None]:
    with pytest.raises(DecodeError) as caught:
        CODEC.read_box(data, 0, len(data))
    with pytest.raises(DecodeError) as inside:
        CODEC.read_box(b"??" + data + b"\x01" * 12, 2, 2 + len(data))
    assert inside.value.offset == (caught.value.offset or 0) + 2
    return caught.value.code, caught.value.field, caught.value.offset


def write(value: Layout) -> bytes:
    written = getattr(CODEC, f"write_{type(value).__name__.lower()}")(value)
    assert isinstance(written, bytes)
    return written


def unwritable(value: Layout) -> tuple[str, str]:
    with pytest.raises(EncodeError) as caught:
        write(value)
    return caught.value.code, caught.value.field


FIELDS: list[tuple[bytes, dict[str, Any]]] = [
    (key(1, 0) + b"\xff" * 9 + b"\1", {"int32": -1}),
    (key(2, 0) + b"\x80" * 9 + b"\1", {"int64": -(1 << 63)}),
    (key(3, 0) + b"\xff\xff\xff\xff\x0f", {"uint32": (1 << 32) - 1}),
    (key(4, 0) + b"\xff" * 9 + b"\1", {"uint64": (1 << 64) - 1}),
    (key(5, 0) + b"\1", {"sint32": -1}),
    (key(6, 0) + b"\1", {"flag": True}),
    (key(7, 1) + b"\xfe" + b"\xff" * 7, {"fixed64": -2}),
    (key(8, 5) + b"\xfe\xff\xff\xff", {"fixed32": -2}),
    (key(9, 5) + b"\0\0\xc0\x3f", {"float32": 1.5}),
    (key(10, 1) + b"\0\0\0\0\0\0\xf8\x3f", {"float64": 1.5}),
    (key(11, 2) + b"\2\xc3\xa9", {"text": "é"}),
    (key(12, 2) + b"\1\xff", {"data": b"\xff"}),
    (key(13, 2) + b"\4abcd", {"sized": b"abcd"}),
    (key(14, 2) + b"\3\xe2\x82\xac", {"word": "€"}),
    (key(15, 2) + b"\2\x08\5", {"leaf": Leaf(n=5)}),
    (key(15, 2) + b"\2\x08\0", {"leaf": Leaf()}),
    (key(16, 0) + b"\0", {"maybe": 0}),
    (key(17, 2) + b"\0", {"maybe_text": ""}),
    (key(18, 0) + b"\1" + key(18, 0) + b"\2", {"numbers": (1, 2)}),
    (key(19, 2) + b"\1a" + key(19, 2) + b"\0", {"texts": ("a", "")}),
    (key(20, 2) + b"\2\x08\0" + key(20, 2) + b"\2\x08\1", {"leaves": (Leaf(), Leaf(n=1))}),
    (key(2047, 1) + b"\1" + bytes(7), {"fixeds": (1,)}),
    (key(2048, 2) + b"\1i", {"item": "i"}),
    (key(2049, 0) + b"\7" + key(2050, 0) + b"\x08", {"length": 7, "number": 8}),
    (key((1 << 29) - 1, 2) + b"\1p", {"parts": (b"p",)}),
]


@pytest.mark.parametrize(("data", "fields"), FIELDS)
def test_a_field_alone(data: bytes, fields: dict[str, Any]) -> None:
    value = Box(**fields)
    assert read(data) == value
    assert read(write(value)) == value
    assert data in write(value)


def test_fields_come_in_any_order_and_the_last_one_counts() -> None:
    whole = b"".join(data for data, _ in reversed(FIELDS) if data[:1] != key(15, 2))
    fields = {name: each for _, found in FIELDS for name, each in found.items() if name != "leaf"}
    assert read(whole) == Box(**fields)
    assert read(key(1, 0) + b"\1" + key(1, 0) + b"\2").int32 == 2
    assert read(key(15, 2) + b"\2\x08\5" + key(15, 2) + b"\0").leaf == Leaf()


def test_a_layout_of_nothing_but_defaults() -> None:
    assert read(b"") == Box()
    assert CODEC.read_leaf(b"", 0, 0) == (Leaf(), 0)


def test_written_in_the_order_of_the_declaration() -> None:
    assert write(Leaf(n=5, unknown=b"\x10\1")) == b"\x08\5\x10\1"
    assert write(Leaf()) == b"\x08\0"


@given(values(build(Box)))
def test_there_and_back(value: Any) -> None:
    data = write(value)
    again = read(data)
    assert repr(again) == repr(value)
    assert write(again) == data


UNKNOWN = [
    key(99, 0) + b"\xac\2",
    key(99, 1) + b"12345678",
    key(99, 2) + b"\3abc",
    key(99, 5) + b"1234",
    key(99, 3) + key(1, 0) + b"\1" + key(2, 3) + key(2, 4) + key(99, 4),
    key(1, 2) + b"\3abc",
    key(11, 0) + b"\1",
    b"\x98\x86\x80\x00\x05",
]


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_what_is_unknown_is_kept(unknown: bytes) -> None:
    value = read(key(1, 0) + b"\5" + unknown + key(3, 0) + b"\6")
    assert value == Box(int32=5, uint32=6, unknown=unknown)
    assert write(value).endswith(unknown)
    assert read(write(value)) == value


def test_what_is_unknown_keeps_its_order() -> None:
    assert read(b"".join(UNKNOWN)).unknown == b"".join(UNKNOWN)
    joined = b"".join(UNKNOWN)
    assert CODEC.read_empty(joined, 0, len(joined)) == (Empty(unknown=joined), len(joined))
    assert write(Empty(unknown=joined)) == joined


def test_long_keys_are_understood() -> None:
    assert read(b"\x88\x80\x00\x05").int32 == 5


@pytest.mark.parametrize(
    ("data", "code", "field", "offset"),
    [
        (b"\x80", "varint_truncated", "box", 0),
        (b"\xff" * 11, "varint_overflow", "box", 0),
        (b"\x00\x01", "reserved_value", "box", 1),
        (key(99, 4), "reserved_value", "box", 2),
        (key(99, 6), "reserved_value", "box", 2),
        (key(99, 7), "reserved_value", "box", 2),
        (key(99, 3) + key(98, 4), "reserved_value", "box", 4),
        (key(99, 3), "varint_truncated", "box", 2),
        (key(99, 2) + b"\3ab", "length_overrun", "box", 3),
        (key(99, 1) + b"1234567", "short", "box", 2),
        (key(1, 0), "varint_truncated", "box.int32", 1),
        (key(1, 0) + b"\xff" * 9 + b"\2", "varint_overflow", "box.int32", 1),
        (key(6, 0), "varint_truncated", "box.flag", 1),
        (key(7, 1) + b"1234567", "short", "box.fixed64", 1),
        (key(8, 5) + b"123", "short", "box.fixed32", 1),
        (key(9, 5) + b"123", "short", "box.float32", 1),
        (key(11, 2), "varint_truncated", "box.text", 1),
        (key(11, 2) + b"\2a", "length_overrun", "box.text", 2),
        (key(11, 2) + b"\1\xff", "invalid_utf8", "box.text", 2),
        (key(12, 2) + b"\xff" * 9 + b"\1", "length_overrun", "box.data", 11),
        (key(13, 2) + b"\3abc", "bad_length", "box.sized", 2),
        (key(14, 2) + b"\1a", "bad_length", "box.word", 2),
        (key(15, 2) + b"\3\x08\5", "length_overrun", "box.leaf", 2),
        (key(15, 2) + b"\1\x08", "varint_truncated", "leaf.n", 3),
        (key(19, 2) + b"\1\xff", "invalid_utf8", "box.texts", 4 - 1),
    ],
)
def test_what_is_malformed(data: bytes, code: str, field: str, offset: int) -> None:
    assert refused(data) == (code, field, offset)


def test_groups_nest_to_a_limit() -> None:
    assert refused(key(9, 3) * 5000)[0] == "too_deep"


def test_numbers_are_cut_as_protobuf_cuts_them() -> None:
    assert read(key(1, 0) + leb((1 << 40) + 7)).int32 == 7
    assert read(key(3, 0) + leb((1 << 40) + 7)).uint32 == 7
    assert read(key(6, 0) + leb(1 << 40)).flag is True


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"int32": 1 << 31}, "int_range", "box.int32"),
        ({"int64": 1 << 63}, "int_range", "box.int64"),
        ({"uint32": -1}, "int_range", "box.uint32"),
        ({"uint64": 1 << 64}, "int_range", "box.uint64"),
        ({"sint32": 1 << 31}, "int_range", "box.sint32"),
        ({"fixed64": 1 << 63}, "int_range", "box.fixed64"),
        ({"fixed32": "x"}, "bad_value", "box.fixed32"),
        ({"float32": 1e39}, "int_range", "box.float32"),
        ({"text": "\ud800"}, "invalid_utf8", "box.text"),
        ({"sized": b"a"}, "bad_length", "box.sized"),
        ({"word": "€€"}, "bad_length", "box.word"),
        ({"maybe": -(1 << 31) - 1}, "int_range", "box.maybe"),
        ({"numbers": (0, 1 << 31)}, "int_range", "box.numbers"),
        ({"leaf": Leaf(n=1 << 31)}, "int_range", "leaf.n"),
    ],
)
def test_what_cannot_be_written(fields: dict[str, Any], code: str, field: str) -> None:
    assert unwritable(Box(**fields)) == (code, field)


def test_a_nan_keeps_its_bits() -> None:
    data = key(9, 5) + b"\1\0\x80\x7f"
    assert math.isnan(read(data).float32)
    assert data in write(read(data))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_documented_error(data: bytes) -> None:
    try:
        value, stop = CODEC.read_box(data, 0, len(data))
    except DecodeError:
        return
    assert stop == len(data)
    assert repr(read(write(value))) == repr(value)


class Void(Protobuf):
    unparsed: ClassVar[tuple[str, ...]] = ("loose",)


class Mail(Layout):
    length: ClassVar[Length16]
    tag: ClassVar[Tag8]
    body: Annotated[Void | Box, Choice({1: Void, 2: Box})]


@given(st.binary(max_size=40))
def test_a_dialect_may_ignore_the_bytes_of_a_void_layout(extra: bytes) -> None:
    protocol = Protocol(name="mail", title="", frame=Mail, dialects=("seed", "loose"))
    data = (len(extra) + 1).to_bytes(2, "big") + b"\x01" + extra
    assert protocol.decode(data, dialect="loose") == (Void(unknown=extra), len(data))
    assert protocol.encode(Void(unknown=extra), dialect="loose") == data
    span = trace(protocol.model("loose"), data)
    assert span.error is None
    assert span.value == Void(unknown=extra)


def test_other_dialects_parse_a_void_layout() -> None:
    protocol = Protocol(name="mail", title="", frame=Mail, dialects=("seed", "loose"))
    data = b"\x00\x03\x01\xff\xff"
    with pytest.raises(DecodeError) as caught:
        protocol.decode(data)
    assert caught.value.code == "varint_truncated"
    assert protocol.decode(b"\x00\x03\x01\x08\x07") == (Void(unknown=b"\x08\x07"), 5)
