"""Rows of ESNP, and what services take and give; the shared form of notifications."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from wirelake.hub.errors import HubError
from wirelake.hub.listeners.esnp import ESNP_FORM, payload_of, rows_of, target_of
from wirelake.hub.pubsub.notifications import Notification
from wirelake.hub.rpc.services import Reply
from wirelake.protocols.esnp.layout import Address, Data, Flag, FlagType, Payload, VarType, XData
from wirelake.protocols.esnp.message import check
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.values import values_of, var_of


class Point(msgspec.Struct):
    """A result of a class of its own."""

    x: int
    raw: bytes = b"\xff"


ONE = Data(name="a", value=var_of(1))
X = XData(id=1, data=b"y")


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        (None, ()),
        ({"a": 1}, (ONE,)),
        (b"p", (Payload(data=b"p"),)),
        (b"", (Payload(data=b""),)),
        (Point(2), (Data(name="x", value=var_of(2)), Data(name="raw", value=var_of(b"\xff")))),
        (Reply(), ()),
        (Reply(data={"a": 1}, payload=b"p", rows=(X,)), (ONE, Payload(data=b"p"), X)),
        (Reply(rows=(X,)), (X,)),
    ],
)
def test_results(result: Any, rows: Any) -> None:
    assert rows_of(result) == rows


def test_a_list_is_no_result_here() -> None:
    with pytest.raises(HubError):
        rows_of([{"a": 1}])


def test_addresses_and_payloads() -> None:
    first, second = Address(kind=30, value="a"), Address(kind=30, value="b")
    op, group = Address(kind=20, value="o"), Address(kind=50, value="g")
    assert target_of((group, op, first, second)) == ("a", "o")
    assert target_of((op,)) == ("", "o")
    assert payload_of((Payload(data=b"a"), ONE, Payload(data=b"b"))) == b"ab"


@pytest.mark.parametrize("codec", [PROTOCOL.codec(name) for name in PROTOCOL.dialects])
@pytest.mark.parametrize(
    ("fields", "values", "kind"),
    [
        (
            {"topic": "@t", "content": b"caf\xc3\xa9", "type": 0},
            {"id": "m1", "topic": "@t", "content": "café", "ts": 1 << 41},
            VarType.LEN_STRING,
        ),
        (
            {"topic": None, "content": b"\xff", "type": 9},
            {"id": "m1", "content": b"\xff", "ts": 1 << 41, "type": 9},
            VarType.LEN_BYTES,
        ),
    ],
)
def test_notifications(
    codec: Any, fields: dict[str, Any], values: dict[str, Any], kind: VarType
) -> None:
    made = Notification(number=1, id="m1", ts_ms=1 << 41, expires_ms=0, **fields)
    data = ESNP_FORM.encode(made)
    message, stop = codec.decode_message(data, 0, len(data))
    assert stop == len(data)
    assert check(message) == ()
    assert message.rows[0] == Flag(value=FlagType.EVENT)
    assert target_of(message.rows) == ("hub", "notify")
    assert values_of(message.rows) == values
    (content,) = (row for row in message.rows if isinstance(row, Data) and row.name == "content")
    assert content.value.type == kind
