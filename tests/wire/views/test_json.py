"""JSON says everything about a message, and nothing about its secrets unless asked."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from view_cases import CASES, Case, name_of

from wirelake.protocols.comet.layout import Auth, Heartbeat, Subscribe
from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.esnp.layout import Data, Message, OpaqueRow, Var, VarType
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.magline.layout import Frame, Pin
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE
from wirelake.protocols.tny.layout import LinkOpen, Packet, RelayPacket
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire import EncodeError
from wirelake.wire.declare import build
from wirelake.wire.views.json import MaskedError, from_json, to_json
from wirelake.wire.views.strategy import messages


@pytest.mark.parametrize("case", CASES, ids=name_of)
@given(data=st.data())
def test_there_and_back(case: Case, data: st.DataObject) -> None:
    message = data.draw(messages(*case))
    layout = case.protocol.model(case.dialect)
    text = json.dumps(to_json(layout, message, reveal=True), allow_nan=False)
    again = from_json(layout, json.loads(text))
    assert case.encode(again) == case.encode(message)


# -- the shape -------------------------------------------------------------------------------


def test_a_transparent_frame_is_its_body() -> None:
    assert to_json(COMET.model(), Heartbeat()) == {"type": "heartbeat"}


def test_bytes_are_hexadecimal_and_none_is_left_out() -> None:
    frame = Frame(seq=1, auth=b"\xff" * 16, unknown_options=((16, b"ab"),), body=Pin(ping_number=7))
    assert to_json(MAGLINE.model(), frame) == {
        "type": "frame",
        "seq": 1,
        "auth": "ff" * 16,
        "unknown_options": [[16, "6162"]],
        "body": {"type": "pin", "ping_number": 7},
    }


def test_a_field_called_type_steps_aside() -> None:
    message = Message(rows=(OpaqueRow(type=0x80, data=b"\1"),))
    data = to_json(ESNP.model(), message)
    assert data["rows"] == [{"type": "opaque_row", "type_": 128, "data": "01"}]
    assert from_json(ESNP.model(), data) == message


def test_var_values() -> None:
    inner = Var(type=VarType.INT32, value=-5)
    value = Var(type=VarType.MAP, value=(("k", inner), ("k", Var(type=VarType.NULL))))
    data = to_json(ESNP.model(), Message(rows=(Data(name="n", value=value),)))
    assert data["rows"][0]["value"] == {
        "type": "map",
        "value": [["k", {"type": "int32", "value": -5}], ["k", {"type": "null"}]],
    }


def test_text_that_is_not_utf8() -> None:
    topic = b"@\xff".decode("utf-8", "surrogateescape")
    data = to_json(COMET.model(), Subscribe(topics=(topic,)))
    assert data["topics"] == [{"hex": "40ff"}]


@pytest.mark.parametrize(
    ("bits", "name"),
    [
        ("7ff8000000000000", "nan"),
        ("fff0000020000000", "nan"),
        ("7ff0000000000000", "inf"),
        ("fff0000000000000", "-inf"),
        ("8000000000000000", "-0.0"),
    ],
)
def test_floats_that_json_lacks(bits: str, name: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    row = Data(name="n", value=Var(type=VarType.FLOAT64, value=number))
    data = to_json(ESNP.model(), Message(rows=(row,)))
    assert data["rows"][0]["value"]["value"] == {"float": name, "bits": bits}
    again = from_json(ESNP.model(), data)
    assert struct.pack(">d", again.rows[0].value.value).hex() == bits


def test_large_numbers_are_exact() -> None:
    row = Data(name="n", value=Var(type=VarType.UINT64, value=(1 << 64) - 1))
    data = json.loads(json.dumps(to_json(ESNP.model(), Message(rows=(row,)))))
    assert data["rows"][0]["value"]["value"] == 18446744073709551615


# -- secrets ---------------------------------------------------------------------------------


def test_secrets_are_masked_unless_revealed() -> None:
    auth = Auth(client_id="c", token="secret")
    masked = to_json(COMET.model(), auth)
    assert masked["token"] == {"masked": 6}
    assert "secret" not in json.dumps(masked)
    assert to_json(COMET.model(), auth, reveal=True)["token"] == "secret"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "auth", "client_id": "c", "token": {"masked": 6}},
        {"type": "exchange_key", "secret_key": {"masked": 80}},
    ],
)
def test_masked_secrets_cannot_be_encoded(message: dict[str, Any]) -> None:
    with pytest.raises(MaskedError, match="--reveal"):
        from_json(COMET.model(), message)


# -- reading ---------------------------------------------------------------------------------


def test_defaults_may_be_left_out() -> None:
    given_ = {"type": "relay_packet", "arguments": {"type": "link_open", "service": "game"}}
    assert from_json(RELAY.model(), given_) == RelayPacket(arguments=LinkOpen(service="game"))


def test_numbers_may_be_given_by_name() -> None:
    message = {"type": "report_environ", "network_type": "g4", "isp": "UNICOM", "phone_type": "x"}
    found = from_json(COMET.model(), message)
    assert (found.network_type, found.isp) == (3, 2)


def test_a_stage_may_be_given_as_its_layout() -> None:
    content = {"type": "message", "id": 1, "body": "00"}
    packet = {"type": "packet", "body": {"type": "envelope", "access_id": 1, "number": 1}}
    packet["body"]["content"] = content  # type: ignore[index]

    def write(layout: Any, value: Any) -> bytes:
        assert layout.name == "message"
        assert value.body == b"\0"
        return b"bytes"

    found = from_json(TNY.model(), packet, write=write)
    assert isinstance(found, Packet)
    assert found.body.content == b"bytes"  # type: ignore[union-attr]
    with pytest.raises(EncodeError, match="hexadecimal"):
        from_json(TNY.model(), packet)


BAD = [
    ("comet", [], "expected an object, got a list"),
    ("comet", {}, "unknown type None; expected one of auth"),
    ("comet", {"type": "nope"}, "unknown type 'nope'; expected one of auth"),
    ("comet", {"type": "auth", "client_id": "c"}, "token"),
    ("comet", {"type": "heartbeat", "more": 1}, "has no field 'more'"),
    ("comet", {"type": "auth", "client_id": 5, "token": ""}, "auth.client_id.*expected text"),
    ("comet", {"type": "auth", "client_id": {"hex": "0"}, "token": ""}, "not hexadecimal"),
    ("comet", {"type": "subscribe", "topics": "x"}, "expected a list, got text"),
    ("comet", {"type": "subscribe", "topics": ["a", 1]}, r"topics\[1\]"),
    ("comet", {"type": "error", "error_code": "NOPE"}, "expected an integer, got text"),
    ("comet", {"type": "error", "error_code": True}, "expected an integer, got a boolean"),
    ("comet", {"type": "error", "error_code": 1.5}, "expected an integer, got a number"),
    ("comet", {"type": "auth_success", "encrypt_key": 5}, "expected bytes as a hexadecimal string"),
    ("tny", {"type": "pocket"}, "expected type 'packet'"),
    ("tny", {"type": "packet", "waste": 1, "body": {"type": "ping"}}, "expected true or false"),
    ("magline", {"type": "frame", "seq": 1, "unknown_options": [[1]]}, "list of pairs"),
    ("esnp", {"type": "message", "rows": [{"type": "nope"}]}, "expected one of session_info"),
    (
        "esnp",
        {"type": "message", "rows": [{"type": "opaque_row", "type_": "x"}]},
        "expected an integer",
    ),
    ("esnp", {"type": "message", "rows": [{"type": "opaque_row", "x": 1}]}, "has no field 'x'"),
]
VARS = [
    ({"type": "nope"}, "expected one of null, bool"),
    ({"type": "null", "value": 1}, "a null has no value"),
    ({"type": "int32", "value": 1, "more": 2}, "has no field 'more'"),
    ({"type": "float64", "value": "x"}, "expected a number"),
    ({"type": "float64", "value": {"bits": "00"}}, "expected a number"),
    ({"type": "float64", "value": 10**400}, "too large for a float"),
    ({"type": "map", "value": [["k"]]}, "list of pairs"),
    ({"type": "list", "value": None}, "expected a list, got null"),
]


@pytest.mark.parametrize(("protocol", "data", "words"), BAD)
def test_what_does_not_fit_is_named(protocol: str, data: Any, words: str) -> None:
    layout = {p.name: p for p in (COMET, ESNP, MAGLINE, TNY)}[protocol].model()
    with pytest.raises(EncodeError, match=words) as caught:
        from_json(layout, data)
    assert caught.value.code == "bad_value"


@pytest.mark.parametrize(("value", "words"), VARS)
def test_vars_that_do_not_fit_are_named(value: Any, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        from_json(build(Data), {"type": "data", "name": "n", "value": value})


def test_bottomless_nesting_is_refused() -> None:
    value: dict[str, Any] = {"type": "null"}
    for _ in range(100_000):
        value = {"type": "list", "value": [value]}
    with pytest.raises(EncodeError) as caught:
        from_json(build(Data), {"type": "data", "name": "n", "value": value})
    assert caught.value.code == "too_deep"
