"""A tny Message without its packet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.tny.layout import Message
from wirelake.protocols.tny.message import decode_message, encode_message
from wirelake.protocols.tny.transform import Dialect
from wirelake.wire.errors import DecodeError, EncodeError

DIALECTS: tuple[Dialect, ...] = ("seed", "upstream")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_both_ways(dialect: Dialect) -> None:
    message = Message(id=-1, mode=2, line=5, protocol=3, body=b"")
    data = encode_message(message, dialect)
    assert decode_message(data, dialect) == message


def test_the_header_bit_means_one_header_or_a_list() -> None:
    one = Message(id=1, code=0, forward_header=b"ab")
    many = Message(id=1, code=0, headers=(b"ab", b""))
    assert encode_message(one).hex() == "014000000000026162"
    assert encode_message(many, "upstream").hex() == "0140000000000202616200"
    assert decode_message(encode_message(one)) == one
    assert decode_message(encode_message(many, "upstream"), "upstream") == many


@pytest.mark.parametrize("dialect", DIALECTS)
def test_bytes_left_over(dialect: Dialect) -> None:
    data = encode_message(Message(id=1), dialect)
    with pytest.raises(DecodeError, match="trailing_bytes in message at byte 6"):
        decode_message(data + b"\x00", dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.binary(max_size=40))
def test_any_bytes_are_a_message_or_a_typed_error(dialect: Dialect, data: bytes) -> None:
    try:
        message = decode_message(data, dialect)
    except DecodeError:
        return
    assert decode_message(encode_message(message, dialect), dialect) == message


def test_what_does_not_fit() -> None:
    with pytest.raises(EncodeError):
        encode_message(Message(id=1 << 63))
    with pytest.raises(EncodeError, match="bad_value"):
        encode_message("no message")  # type: ignore[arg-type]
