"""The optional body codec, against what the original software wrote."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.tny.body_codec import BodyType, BodyValue, Complex, decode_body, encode_body
from wirelake.wire.errors import DecodeError, EncodeError

RECORDS = Path(__file__).parents[2] / "vectors" / "records" / "tny.jsonl"
LINES = [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]


def plain(body: Any) -> Any:
    """A decoded body as the records write it."""
    if isinstance(body, tuple):
        return [plain(item) for item in body]
    value = body.value
    if isinstance(value, Complex):
        return {"type_id": value.type_id, "protobuf": value.protobuf.hex()}
    return value


@pytest.mark.parametrize("record", LINES, ids=lambda record: record["name"])
def test_what_the_original_wrote(record: dict[str, Any]) -> None:
    assert record["expect"]["packet"] == "body"
    data = bytes.fromhex(record["hex"])
    body = decode_body(data)
    wanted = record["expect"]["value"]
    assert plain(body) == wanted
    assert type(plain(body)) is type(wanted)
    assert encode_body(body) == data


def values() -> st.SearchStrategy[BodyValue]:
    def of(kind: BodyType, value: st.SearchStrategy[Any]) -> st.SearchStrategy[BodyValue]:
        return value.map(lambda v: BodyValue(type=kind, value=v))

    def ints(bits: int) -> st.SearchStrategy[int]:
        return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    complexes = st.builds(Complex, type_id=ints(32), protobuf=st.binary(max_size=200))
    return st.one_of(
        of(BodyType.NULL, st.none()),
        of(BodyType.BYTE, ints(8)),
        of(BodyType.SHORT, ints(16)),
        of(BodyType.INT, ints(32)),
        of(BodyType.LONG, ints(64)),
        of(BodyType.FLOAT, st.floats(width=32, allow_nan=False)),
        of(BodyType.DOUBLE, st.floats(allow_nan=False)),
        of(BodyType.BOOL, st.booleans()),
        of(BodyType.STRING, st.text()),
        of(BodyType.COMPLEX, complexes),
    )


@given(values())
def test_one_value(value: BodyValue) -> None:
    assert decode_body(encode_body(value)) == value


@given(st.lists(values(), max_size=5))
def test_parameters(listed: list[BodyValue]) -> None:
    data = encode_body(tuple(listed))
    assert decode_body(data) == tuple(listed)
    assert encode_body(decode_body(data)) == data


@given(st.binary(max_size=30))
def test_any_bytes_are_a_body_or_a_typed_error(data: bytes) -> None:
    try:
        body = decode_body(data)
    except DecodeError:
        return
    again = encode_body(body)
    assert encode_body(decode_body(again)) == again


@given(st.integers(1, (1 << 23) - 1))
def test_the_bits_of_a_nan_survive(payload: int) -> None:
    for kind, form, bits in (
        (BodyType.FLOAT, "<I", 0xFF << 23 | payload),
        (BodyType.DOUBLE, "<Q", 0x7FF << 52 | payload),
    ):
        number = struct.unpack(form, struct.pack(form, bits))[0]
        data = bytes([kind]) + leb128(number)
        body = decode_body(data)
        assert isinstance(body, BodyValue)
        assert isinstance(body.value, float)
        assert math.isnan(body.value)
        assert encode_body(body) == data


def leb128(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("01", "short"),
        ("02", "varint_truncated"),
        ("02ffff03", "int_range"),
        ("03ffffffffffffffffffff01", "varint_overflow"),
        ("0805", "length_overrun"),
        ("08ffffffff0f", "negative_length"),
        ("0801ff", "invalid_utf8"),
        ("0903010203", "short"),
        ("0a", "unknown_type"),
        ("1f", "unknown_type"),
        ("2300", "reserved_value"),
        ("0000", "trailing_bytes"),
        ("830103", "bad_value"),
    ],
)
def test_bad_bytes(data: str, code: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_body(bytes.fromhex(data))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        (BodyType.BYTE, 128, "int_range"),
        (BodyType.SHORT, 32768, "int_range"),
        (BodyType.INT, 1 << 31, "int_range"),
        (BodyType.LONG, 1 << 63, "int_range"),
        (BodyType.FLOAT, 1e300, "int_range"),
        (BodyType.COMPLEX, Complex(type_id=1 << 31), "int_range"),
        (BodyType.STRING, "\ud800", "invalid_utf8"),
        (BodyType.INT, True, "bad_value"),
        (BodyType.BOOL, 1, "bad_value"),
        (BodyType.NULL, 0, "bad_value"),
        (BodyType.STRING, b"x", "bad_value"),
        (10, None, "bad_value"),
    ],
)
def test_what_does_not_fit(kind: int, value: Any, code: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_body(BodyValue(type=kind, value=value))
    assert caught.value.code == code
