"""The reply of sessions is the reply of `message.py`, whatever the message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp.endpoint import reply_to
from wirelake.protocols.esnp.layout import (
    BrokenRow,
    Data,
    Flag,
    Message,
    OpaqueRow,
    Payload,
    SeqNo,
    Var,
)
from wirelake.protocols.esnp.message import reply
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.wire.views.strategy import messages

EXTRA = (
    Flag(value=2),
    SeqNo(current=1, maximum=2),
    Data(name="c", value=Var(type=0)),
    Payload(data=b"x"),
    OpaqueRow(type=0x80),
)


@given(
    message=messages(PROTOCOL),
    rows=st.lists(st.sampled_from(EXTRA), max_size=4),
    error=st.sampled_from([None, "", "sorry"]),
)
def test_the_two_agree(message: Any, rows: list[Any], error: str | None) -> None:
    assert reply_to(message, rows, error) == reply(message, rows=rows, error=error)


def test_a_broken_session_info_is_carried_back() -> None:
    broken = BrokenRow(type=0x10, data=b"\x02x", code="short", field="session_info", offset=2)
    other = BrokenRow(type=0x11, data=b"", code="bad_length", field="message_id", offset=0)
    message = Message(rows=(other, broken))
    assert reply_to(message) == reply(message)
    assert reply_to(message).rows[-1] is broken
