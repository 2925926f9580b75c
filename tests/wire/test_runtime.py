"""What generated codecs call: varints to the last bit, floats to the last bit, and errors."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, EncodeError

Read = Callable[[bytes, int, int, str], tuple[int, int]]
Put = Callable[[int, str], bytes]

PAIRS: dict[str, tuple[Read, Put, int, int]] = {
    "u16": (rt.uvarint16, rt.put_unsigned16, 0, 0xFFFF),
    "u32": (rt.uvarint32, rt.put_unsigned32, 0, 0xFFFFFFFF),
    "u64": (rt.uvarint, rt.put_unsigned64, 0, (1 << 64) - 1),
    "z16": (rt.zigzag16, rt.put_zigzag16, -(1 << 15), (1 << 15) - 1),
    "z32": (rt.zigzag32, rt.put_zigzag32, -(1 << 31), (1 << 31) - 1),
    "z64": (rt.zigzag64, rt.put_zigzag64, -(1 << 63), (1 << 63) - 1),
    "t32": (rt.twos32, rt.put_twos32, -(1 << 31), (1 << 31) - 1),
    "t64": (rt.twos64, rt.put_twos64, -(1 << 63), (1 << 63) - 1),
    "l32": (rt.loose_twos32, rt.put_twos32, -(1 << 31), (1 << 31) - 1),
    "l64": (rt.loose_twos64, rt.put_twos64, -(1 << 63), (1 << 63) - 1),
}
"""Reader, writer, least and largest value of each varint."""

STRICT = [name for name in PAIRS if not name.startswith("l")]


def leb(value: int) -> bytes:
    """LEB128, the slow and obvious way."""
    out = []
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def edges(least: int, most: int) -> list[int]:
    """The numbers around every place where a varint grows by a byte."""
    near = {0, 1, -1, least, least + 1, most - 1, most}
    for shift in range(6, 64):
        for number in (1 << shift, -(1 << shift)):
            near |= {number - 1, number, number + 1}
    return sorted(number for number in near if least <= number <= most)


def refused(what: Callable[..., Any], *args: Any) -> tuple[str, str, int | None]:
    with pytest.raises((DecodeError, EncodeError)) as caught:
        what(*args)
    return caught.value.code, caught.value.field, caught.value.offset


# -- varints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRS)
def test_a_varint_is_read_back_at_every_edge(name: str) -> None:
    read, put, least, most = PAIRS[name]
    for value in edges(least, most):
        data = put(value, "f")
        assert read(data, 0, len(data), "f") == (value, len(data))
        assert read(b"\xff" + data + b"\xff", 1, 1 + len(data), "f") == (value, 1 + len(data))


@pytest.mark.parametrize("name", PAIRS)
def test_a_varint_without_its_last_byte_is_truncated(name: str) -> None:
    read, put, least, most = PAIRS[name]
    for value in edges(least, most):
        data = put(value, "f")
        for stop in range(len(data)):
            assert refused(read, data[:stop], 0, stop, "f") == ("varint_truncated", "f", 0)
            # the buffer goes on behind the slice: its bytes are not looked at
            assert refused(read, data, 0, stop, "f") == ("varint_truncated", "f", 0)


@given(st.sampled_from(sorted(PAIRS)), st.data())
def test_a_varint_is_read_back(name: str, data: st.DataObject) -> None:
    read, put, least, most = PAIRS[name]
    value = data.draw(st.integers(least, most))
    written = put(value, "f")
    assert read(written, 0, len(written), "f") == (value, len(written))


@pytest.mark.parametrize("name", PAIRS)
def test_a_number_that_does_not_fit_is_not_written(name: str) -> None:
    _, put, least, most = PAIRS[name]
    for value in (least - 1, most + 1, -(1 << 70), 1 << 70):
        assert refused(put, value, "a.b") == ("int_range", "a.b", None)


@pytest.mark.parametrize("name", STRICT)
def test_a_number_of_more_bits_is_not_read(name: str) -> None:
    read = PAIRS[name][0]
    if name.endswith("64"):
        assert refused(read, b"\xff" * 9 + b"\x02", 0, 10, "f") == ("varint_overflow", "f", 0)
        return
    bits = int(name[1:])
    assert read(leb((1 << bits) - 1), 0, 10, "f")[1] == len(leb((1 << bits) - 1))
    for folded in (1 << bits, (1 << 35) + 1, (1 << 64) - 1):
        assert refused(read, b"\0" + leb(folded), 1, 11, "f") == ("int_range", "f", 1)


@pytest.mark.parametrize("name", PAIRS)
def test_ten_bytes_are_the_most(name: str) -> None:
    read = PAIRS[name][0]
    for length in (10, 11, 30):
        data = b"\x80" * length + b"\x00"
        assert refused(read, data, 0, len(data), "f") == ("varint_overflow", "f", 0)
    assert refused(read, b"\x80" * 9, 0, 9, "f") == ("varint_truncated", "f", 0)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("length", range(1, 11))
def test_a_varint_may_be_longer_than_it_must(name: str, length: int) -> None:
    data = b"\x82" + b"\x80" * (length - 2) + b"\x00" if length > 1 else b"\x02"
    want = 1 if name.startswith("z") else 2
    assert PAIRS[name][0](data, 0, length, "f") == (want, length)


def test_loose_varints_drop_what_is_too_much() -> None:
    assert rt.loose_twos32(leb(1 << 32 | 7), 0, 10, "f")[0] == 7
    assert rt.loose_twos32(leb((1 << 64) - 1), 0, 10, "f") == (-1, 10)
    assert rt.loose_twos64(b"\xff" * 9 + b"\x7f", 0, 10, "f") == (-1, 10)


@given(st.integers(0, (1 << 64) - 1))
@example(0x7F)
@example(0x80)
@example(0x3FFF)
@example(0x4000)
@example((1 << 28) - 1)
@example(1 << 28)
def test_the_written_form_is_the_shortest(value: int) -> None:
    assert rt.write_uvarint(value) == leb(value)


@pytest.mark.parametrize("shift", range(64))
def test_the_written_form_is_the_shortest_at_every_bit(shift: int) -> None:
    for value in ((1 << shift) - 1, 1 << shift, (1 << shift) + 1):
        assert rt.write_uvarint(value) == leb(value)


def test_tables_of_single_bytes() -> None:
    assert [rt.BYTE[n] for n in (0, 127, 255)] == [b"\0", b"\x7f", b"\xff"]
    for value in range(-64, 64):
        assert rt.ZIGZAG[value] == rt.put_zigzag64(value, "f")


@given(st.binary(max_size=12), st.integers(0, 12), st.sampled_from(sorted(PAIRS)))
def test_readers_look_no_further_than_their_slice(data: bytes, end: int, name: str) -> None:
    end = min(end, len(data))
    read = PAIRS[name][0]

    def outcome(buf: bytes) -> tuple[Any, ...]:
        try:
            return read(buf, 0, end, "f")
        except DecodeError as error:
            return error.code, error.offset

    assert outcome(data) == outcome(data[:end])


# -- integers and floats ---------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("signed", [False, True])
def test_integers_of_a_size(size: int, signed: bool) -> None:
    most = (1 << 8 * size - signed) - 1
    least = -most - 1 if signed else 0
    for value in (least, 0, most):
        assert rt.put_int_of(value, size, signed, "f") == value.to_bytes(size, "big", signed=signed)
    for value in (least - 1, most + 1):
        assert refused(rt.put_int_of, value, size, signed, "a.b") == ("int_range", "a.b", None)


def test_integers_of_either_order() -> None:
    assert rt.put_int_of(0x0102, 4, False, "f") == b"\0\0\1\2"
    assert rt.put_int_of(0x0102, 4, False, "f", "little") == b"\2\1\0\0"


def test_sizes_that_a_type_can_encode() -> None:
    assert rt.put_size_of(0xFFFFFF, 3, "f", "big") == b"\xff\xff\xff"
    assert rt.put_size_of(1, 3, "f", "little") == b"\1\0\0"
    assert refused(rt.put_size_of, 1 << 24, 3, "a.b", "big") == ("too_large", "a.b", None)
    assert rt.fitting(5, 5, "f") == 5
    assert refused(rt.fitting, 6, 5, "a.b") == ("too_large", "a.b", None)


NANS = [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0x7FA00000, 0xFFBFFFFF]
"""Quiet and signalling, positive and negative, with payloads."""


@pytest.mark.parametrize("bits", NANS)
@pytest.mark.parametrize("order", ["big", "little"])
def test_the_bits_of_a_nan_survive(bits: int, order: Any) -> None:
    data = bits.to_bytes(4, order)
    value = rt.nan32(b"\0" + data, 1, order)
    assert value != value  # noqa: PLR0124
    assert rt.put_f32(value, order, "f") == data


def test_a_nan_whose_payload_does_not_fit_stays_a_nan() -> None:
    (value,) = struct.unpack(">d", 0x7FF0000000000001.to_bytes(8, "big"))
    assert rt.put_f32(value, "big", "f") == b"\x7f\xc0\0\0"


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, float("inf"), float("-inf"), 2, 1e-45])
def test_floats_are_written_as_struct_does(order: str, value: float) -> None:
    assert rt.put_f32(value, order, "f") == struct.pack(
        f"{'<' if order == 'little' else '>'}f", value
    )


@pytest.mark.parametrize("value", [1e39, -1e39, 3.5e38, 10**400])
def test_a_float_that_has_no_short_form_is_refused(value: float) -> None:
    assert refused(rt.put_f32, value, "big", "a.b") == ("int_range", "a.b", None)


# -- protobuf --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "data", "stop"),
    [
        (0x08, "ac02", 2),
        (0x09, "0102030405060708", 8),
        (0x0A, "03616263", 4),
        (0x0A, "00", 1),
        (0x0D, "01020304", 4),
        (0x0B, "08010c", 3),
        (0x0B, "0c", 1),
        (0x0B, "1308011a0161140c", 8),
        (0xFFFFFFFF << 3, "00", 1),
    ],
)
def test_an_unknown_field_is_stepped_over(key: int, data: str, stop: int) -> None:
    buf = bytes.fromhex(data)
    assert rt.skip_field(b"\xff" + buf, key, 1, 1 + len(buf), "f") == 1 + stop
    for end in range(1, 1 + stop):
        code, field, offset = refused(rt.skip_field, b"\xff" + buf, key, 1, end, "f")
        assert code in {"short", "length_overrun", "varint_truncated"}
        assert field == "f"
        assert offset is not None
        assert 1 <= offset <= end


@pytest.mark.parametrize(
    ("key", "data", "code"),
    [
        (0x00, "01", "reserved_value"),
        (0x02, "00", "reserved_value"),
        (0x0C, "", "reserved_value"),
        (0x0E, "", "reserved_value"),
        (0x0F, "", "reserved_value"),
        (0x0B, "14", "reserved_value"),
        (0x0B, "0001", "reserved_value"),
        (0x0A, "05616263", "length_overrun"),
        (0x0A, "ffffffffffffffffff01", "length_overrun"),
        (0x0A, "ffffffffffffffffff02", "varint_overflow"),
        (0x08, "", "varint_truncated"),
    ],
)
def test_a_field_that_cannot_be_stepped_over(key: int, data: str, code: str) -> None:
    buf = bytes.fromhex(data)
    assert refused(rt.skip_field, buf, key, 0, len(buf), "f")[:2] == (code, "f")


def test_groups_nest_to_a_limit() -> None:
    def nested(depth: int) -> bytes:
        return b"\x0b" * (depth - 1) + b"\x0c" * depth

    assert rt.skip_field(nested(32), 0x0B, 0, 63, "f") == 63
    assert refused(rt.skip_field, nested(33), 0x0B, 0, 65, "f")[:2] == ("too_deep", "f")
    assert refused(rt.skip_field, b"\x0b" * 100_000, 0x0B, 0, 100_000, "f")[0] == "too_deep"


@pytest.mark.parametrize("bits", [32, 64])
def test_negative_protobuf_numbers_take_ten_bytes(bits: int) -> None:
    of = rt.int32_of if bits == 32 else rt.int64_of
    for value in (-1, -(1 << (bits - 1))):
        data = rt.put_int(value, bits, "f")
        assert len(data) == 10
        assert of(rt.uvarint(data, 0, 10, "f")[0]) == value
    for value in (0, 1, (1 << (bits - 1)) - 1):
        data = rt.put_int(value, bits, "f")
        assert data == leb(value)
        assert of(value) == value
    for value in (-(1 << (bits - 1)) - 1, 1 << (bits - 1)):
        assert refused(rt.put_int, value, bits, "a.b") == ("int_range", "a.b", None)


def test_int32_is_the_low_half() -> None:
    assert rt.int32_of(0x1_0000_0005) == 5
    assert rt.int32_of(0xFFFFFFFF) == -1
    assert rt.int64_of(0xFFFFFFFF) == 0xFFFFFFFF


# -- text ------------------------------------------------------------------------------------


def test_text_is_utf8() -> None:
    assert rt.put_text("é€😀", "f") == "é€😀".encode()
    assert refused(rt.put_text, "a\ud800", "a.b") == ("invalid_utf8", "a.b", None)
    assert refused(rt.put_text, "\udcff", "a.b") == ("invalid_utf8", "a.b", None)


def test_loose_text_has_its_bytes_back() -> None:
    assert rt.put_loose("a\udcff", "f") == b"a\xff"
    assert refused(rt.put_loose, "a\ud800", "a.b") == ("invalid_utf8", "a.b", None)


# -- what errors say -------------------------------------------------------------------------


def test_short_finds_the_first_field_without_room() -> None:
    error = rt.short("auth", 10, 13, ("a", 2), ("b", 4))
    assert (error.code, error.field, error.offset) == ("short", "auth.b", 12)
    assert error.detail == "expected 4 bytes, found 1"
    assert rt.short("auth", 10, 11, ("a", 2), ("b", 4)).offset == 10
    assert rt.short("auth", 0, 9, ("a", 2)).field == "auth"


def test_overrun_distinguishes_negative_from_too_large() -> None:
    error = rt.overrun("f", 4, -1, 9)
    assert (error.code, error.offset, error.detail) == ("negative_length", 4, "-1")
    error = rt.overrun("f", 4, 6, 9)
    assert (error.code, error.offset, error.detail) == (
        "length_overrun",
        4,
        "6 declared, 5 bytes left",
    )


def test_rows_that_do_not_fit() -> None:
    error = rt.wrong_row_size("version", 4, 7, 4)
    assert (error.code, error.field, error.offset) == ("bad_length", "version", 4)
    error = rt.trailing_row("flag", 0x1E, 5, 9)
    assert (error.code, error.field, error.offset) == ("trailing_bytes", "flag", 5)
    assert error.detail == "4 left in a row of type 0x1e"


def test_utf8_errors_point_at_the_byte() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"ab\xffc".decode()
    error = rt.not_utf8("f", 10, caught.value)
    assert (error.code, error.field, error.offset) == ("invalid_utf8", "f", 12)


@pytest.mark.parametrize(
    ("values", "code", "field"),
    [
        ([("a", ">B", 1), ("b", ">B", 256)], "int_range", "x.b"),
        ([("a", ">B", -1), ("b", ">B", 256)], "int_range", "x.a"),
        ([("#a", ">B", 300)], "too_large", "x.a"),
        ([("a", ">B", "1")], "bad_value", "x.a"),
        ([("a", ">B", None)], "bad_value", "x.a"),
        ([("a", ">d", 10**400)], "int_range", "x.a"),
        ([("a", ">B", 1)], "bad_value", "x"),
    ],
)
def test_unfit_finds_what_does_not_pack(values: list[Any], code: str, field: str) -> None:
    error = rt.unfit("x", *values)
    assert (error.code, error.field, error.offset) == (code, field, None)


def test_the_other_errors_of_writers() -> None:
    assert rt.wrong_size("a.b", "16", 3).code == "bad_length"
    assert rt.wrong_size("a.b", "16", 3).detail == "expected 16 bytes, found 3"
    assert rt.no_layout("a.b", object()).detail == "unexpected object"
    assert rt.no_layout("a.b", object()).code == "bad_value"
    assert rt.misplaced("a.b", 3).code == "bad_option"
    assert rt.out_of_range("a.b", "x", "a number").detail == "'x' is not a number"


# -- options ---------------------------------------------------------------------------------


def test_a_known_option_has_its_size() -> None:
    assert rt.option(b"..\0\2ab", 2, 6, 2, "f") == (4, 6)
    assert refused(rt.option, b"\0", 0, 1, 2, "f") == ("bad_header", "f", 0)
    assert refused(rt.option, b"\0\2a", 0, 3, 2, "f") == ("bad_header", "f", 0)
    assert refused(rt.option, b"\0\2ab", 0, 3, 2, "f") == ("bad_header", "f", 0)
    assert refused(rt.option, b"\0\1a", 0, 3, 2, "f") == ("bad_option", "f", 0)


def test_unknown_options_are_kept_in_order() -> None:
    data = b"\0\1a\0\0\0\2bc"
    assert rt.unknown_options(data, 0, 9, 0x8005, "f") == (
        ((0x0001, b"a"), (0x0004, b""), (0x8000, b"bc")),
        9,
    )
    assert rt.unknown_options(data, 0, 9, 0, "f") == ((), 0)
    assert refused(rt.unknown_options, data, 0, 9, 0x8007, "f") == ("bad_header", "f", 9)
    assert refused(rt.unknown_options, data, 0, 8, 0x8005, "f") == ("bad_header", "f", 5)


def test_options_are_written_by_ascending_bit() -> None:
    found: dict[int, bytes] = {0x0004: b"x"}
    rt.add_unknown_options(found, ((0x0010, b"bc"), (0x0001, b"")), 0x00FB)
    assert rt.option_area(found) == (b"\0\0\0\1x\0\2bc", 0x0015)
    assert rt.option_area({}) == (b"", 0)


@pytest.mark.parametrize("bit", [0, 0x0003, 0x0004, 0x0100, 0x10000, -1])
def test_unknown_options_must_be_free_bits(bit: int) -> None:
    found = {0x0004: b"x"}
    code = refused(rt.add_unknown_options, found, ((bit, b""),), 0x00FF)
    assert code == ("bad_option", "unknown_options", None)


def test_the_same_unknown_option_twice_is_refused() -> None:
    twice = ((0x0001, b""), (0x0001, b""))
    code = refused(rt.add_unknown_options, {}, twice, 0x00FF)
    assert code == ("bad_option", "unknown_options", None)


def test_an_option_too_long_for_its_length_is_refused() -> None:
    assert refused(rt.option_area, {1: bytes(65536)}) == ("too_large", "options", None)
    assert len(rt.option_area({1: bytes(65535)})[0]) == 65537
