"""Headers of dialect upstream: known types, unknown ones, and bytes that are neither."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.tny.layout import (
    AccessPoint,
    Attribute,
    Contact,
    ForwardHeader,
    OriginalMessageIdHeader,
    Point,
    TracingHeader,
)
from wirelake.protocols.tny.message import (
    KEYS,
    Header,
    OpaqueHeader,
    decode_header,
    encode_header,
    type_of,
)
from wirelake.wire.errors import DecodeError, EncodeError

VECTORS = Path(__file__).parents[2] / "vectors" / "tny.jsonl"


def wire_headers() -> list[str]:
    found = []
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        found += json.loads(line)["expect"].get("message", {}).get("headers", [])
    return found


@pytest.mark.parametrize("text", wire_headers())
def test_headers_of_the_original_are_written_as_it_wrote_them(text: str) -> None:
    header = decode_header(bytes.fromhex(text))
    assert not isinstance(header, OpaqueHeader)
    assert encode_header(header).hex() == text


CASES: list[tuple[Header, int, str]] = [
    (
        ForwardHeader(
            from_=Point(service_type_id=7, access_id=AccessPoint(id=99)),
            receiver=Contact(contact_id=5, contact_type_id=1),
            to_forwarder=Point(service_type_id=8),
        ),
        100,
        "6400000012060807120208632a04080510013a020808",
    ),
    (OriginalMessageIdHeader(message_id=-1), 101, "6500000008ffffffffffffffffff01"),
    (
        TracingHeader(attributes=(Attribute(key="k", value="v"), Attribute(key="k", value="w"))),
        102,
        "660000000a060a016b1201760a060a016b120177",
    ),
    (OpaqueHeader(type_id=-2, data=b"\xff"), -2, "feffffffff"),
    (OpaqueHeader(type_id=7), 7, "07000000"),
]


@pytest.mark.parametrize(("header", "number", "data"), CASES)
def test_both_ways(header: Header, number: int, data: str) -> None:
    assert type_of(header) == number
    assert encode_header(header).hex() == data
    assert decode_header(bytes.fromhex(data)) == header


def test_defaults_may_be_left_out() -> None:
    assert decode_header(bytes.fromhex("65000000")) == OriginalMessageIdHeader()


def test_unknown_fields_are_kept() -> None:
    data = bytes.fromhex("65000000084d7801")
    header = decode_header(data)
    assert header == OriginalMessageIdHeader(message_id=77, unknown=b"\x78\x01")
    assert encode_header(header) == data


@pytest.mark.parametrize("data", ["", "640000", "640000001206", "6600000008", "66000000 0a020a05"])
def test_bad_bytes(data: str) -> None:
    with pytest.raises(DecodeError):
        decode_header(bytes.fromhex(data))


@given(st.sampled_from(sorted(KEYS)), st.binary(max_size=40))
def test_any_bytes_are_a_header_or_a_typed_error(number: int, data: bytes) -> None:
    try:
        header = decode_header(number.to_bytes(4, "little") + data)
    except DecodeError:
        return
    assert decode_header(encode_header(header)) == header


def test_what_does_not_fit() -> None:
    with pytest.raises(EncodeError, match="int_range"):
        encode_header(OpaqueHeader(type_id=1 << 31))
    with pytest.raises(EncodeError, match="int_range"):
        encode_header(OriginalMessageIdHeader(message_id=1 << 63))
    with pytest.raises(EncodeError, match="bad_value"):
        encode_header("no header")  # type: ignore[arg-type]
