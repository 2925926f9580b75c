"""The router over any message: what goes out comes home, byte for byte.

What the rules say of it is in `tests/playbooks/esnp/test_esnp_routing.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp import codec_seed
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.routing import Router
from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.views.strategy import messages as messages_of

messages = messages_of(PROTOCOL)
names = st.text(min_size=1, max_size=12)
END = bytes(4)


@given(message=messages, names=st.lists(names, min_size=1, max_size=4, unique=True), data=st.data())
def test_any_message_through_any_chain_of_routers(
    message: Any, names: list[str], data: st.DataObject
) -> None:
    raw = codec_seed.encode_message(message)
    for name in names:  # what a message brings along under these names is not theirs
        _, raw = Router(name).forward_response(raw)
    channels = [data.draw(st.integers(0, 2**32 - 1)) for _ in names]
    passed = raw
    for name, channel in zip(names, channels, strict=True):
        passed = Router(name).forward_request(passed, channel)
    decoded, stop = codec_seed.decode_message(passed, 0, len(passed))
    assert stop == len(passed)
    before, _ = codec_seed.decode_message(raw, 0, len(raw))
    assert len(decoded.rows) == len(before.rows) + len(names)
    back = passed
    for name, channel in reversed(list(zip(names, channels, strict=True))):
        found, back = Router(name).forward_response(back)
        assert found == channel
    assert back == raw


@given(junk=st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(junk: bytes) -> None:
    router = Router("r")
    try:
        _, inner = router.forward_response(junk)
    except DecodeError:
        return
    assert len(inner) <= len(junk)
    assert inner.endswith(END)


@pytest.mark.parametrize("junk", [b"", b"\0", bytes(8), bytes.fromhex("16000005ff00000000")])
def test_what_is_not_one_whole_message(junk: bytes) -> None:
    with pytest.raises(DecodeError):
        Router("r").forward_request(junk, 1)


@pytest.mark.parametrize("channel", [-1, 2**32])
def test_a_channel_that_has_no_number(channel: int) -> None:
    with pytest.raises(EncodeError):
        Router("r").forward_request(END, channel)
