"""Basic types one at a time: round trips, and what is refused. Examples are in test_document."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp.values import ALIASES, BASIC, Basic
from wirelake.wire.errors import DecodeError, EncodeError


def values(basic: Basic) -> st.SearchStrategy[object]:
    name, bits = basic.name, basic.bits
    if name == "Bool":
        return st.booleans()
    if "Float" in name:
        return st.floats(width=32 if bits == 32 else 64)
    if "Bytes" in name:
        return st.binary()
    if "String" in name:
        return st.text()
    if "UInt" in name:
        return st.integers(0, (1 << bits) - 1)
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


PLAIN = [basic for name, basic in BASIC.items() if name not in ALIASES and name != "Var"]


@pytest.mark.parametrize("basic", PLAIN, ids=lambda basic: basic.name)
@given(data=st.data())
def test_round_trip(basic: Basic, data: st.DataObject) -> None:
    value = data.draw(values(basic))
    encoded = basic.encode(value)
    again, stop = basic.decode(b"##" + encoded, 2)
    assert stop == 2 + len(encoded)
    assert again == value or (isinstance(value, float) and math.isnan(value))
    assert basic.encode(again) == encoded


@pytest.mark.parametrize("basic", [*PLAIN, BASIC["Var"]], ids=lambda basic: basic.name)
@given(data=st.binary(max_size=24))
def test_any_bytes_are_a_value_or_a_typed_error(basic: Basic, data: bytes) -> None:
    try:
        _, stop = basic.decode(data)
    except DecodeError:
        return
    assert 0 <= stop <= len(data)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("Int16", 32768, "int_range"),
        ("Int32", -(1 << 31) - 1, "int_range"),
        ("Int64", 1 << 63, "int_range"),
        ("UInt16", -1, "int_range"),
        ("UInt32", 1 << 32, "int_range"),
        ("UInt64", 1 << 64, "int_range"),
        ("Int8", 128, "int_range"),
        ("UInt8", -1, "int_range"),
        ("FixInt16", 1 << 15, "int_range"),
        ("FixUInt64", -1, "int_range"),
        ("Float32", 1e300, "int_range"),
        ("String", "\ud800", "invalid_utf8"),
        ("LenString", "\ud800", "invalid_utf8"),
        ("Bool", 1, "bad_value"),
        ("Int32", "1", "bad_value"),
        ("Bytes", "text", "bad_value"),
        ("Bytes", 3, "bad_value"),
        ("Float64", "x", "bad_value"),
        ("Var", None, "bad_value"),
    ],
)
def test_what_does_not_fit(name: str, value: object, code: str) -> None:
    with pytest.raises(EncodeError) as caught:
        BASIC[name].encode(value)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("Bool", "", "short"),
        ("FixUInt32", "010203", "short"),
        ("Float64", "01", "short"),
        ("LenBytes", "01", "negative_length"),
        ("LenString", "0461", "length_overrun"),
        ("LenString", "02ff", "invalid_utf8"),
        ("Int16", "808008", "int_range"),
        ("UInt32", "8080808010", "int_range"),
        ("Var", "0c", "unknown_var_type"),
    ],
)
def test_bad_bytes(name: str, data: str, code: str) -> None:
    with pytest.raises(DecodeError) as caught:
        BASIC[name].decode(bytes.fromhex(data))
    assert caught.value.code == code


@given(st.integers(1, (1 << 23) - 1), st.booleans())
def test_the_bits_of_a_nan_survive(payload: int, negative: bool) -> None:
    data = struct.pack(">I", negative << 31 | 0xFF << 23 | payload)
    value, _ = BASIC["Float32"].decode(data)
    assert math.isnan(value)
    assert BASIC["Float32"].encode(value) == data
