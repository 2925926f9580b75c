"""The raw clients' bytes are those of the vectors."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.hub_raw import raw_comet as comet
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw import raw_magline as magline
from tests.hub_raw import raw_relay as relay
from tests.hub_raw import raw_tny as tny

_FOLDER = Path(__file__).parents[1] / "vectors"


def _vectors(protocol: str) -> dict[str, dict[str, Any]]:
    lines = (_FOLDER / f"{protocol}.jsonl").read_text().splitlines()
    return {vector["name"]: vector for vector in map(json.loads, lines)}


COMET, ESNP, TNY, MAGLINE = (_vectors(name) for name in ("comet", "esnp", "tny", "magline"))


def _bytes(vectors: dict[str, dict[str, Any]], name: str) -> bytes:
    return bytes.fromhex(vectors[name]["hex"])


def test_comet_commands() -> None:
    fields = COMET["auth"]["expect"]["fields"]
    auth = comet.text(fields["client_id"]) + comet.text(fields["token"])
    ids = COMET["message_ack_2"]["expect"]["fields"]
    environ = COMET["report_environ_2"]["expect"]["fields"]
    assert comet.frame(comet.AUTH, auth) == _bytes(COMET, "auth")
    assert comet.frame(3, comet.texts(["@news", "@sport/nba"])) == _bytes(COMET, "subscribe_2")
    assert comet.frame(4, comet.texts(["@news"])) == _bytes(COMET, "unsubscribe_1")
    assert comet.frame(7, comet.texts(next(iter(ids.values())))) == _bytes(COMET, "message_ack_2")
    device = bytes([environ["network_type"], environ["isp"]]) + comet.text(environ["phone_type"])
    made = comet.frame(8, device + comet.texts(environ["extra"]))
    assert made == _bytes(COMET, "report_environ_2")


@pytest.mark.parametrize("name", ["message_list_3", "message_list_255"])
def test_comet_lists(name: str) -> None:
    frame = _bytes(COMET, name)
    notes = comet.notes_of(frame[3:], 1, frame[3])
    wanted = COMET[name]["expect"]["fields"]
    if "messages" in wanted:
        assert [(note.type, note.id, note.content.decode(), note.ts) for note in notes] == [
            (m["msg_type"], m["msg_id"], m["content"], m["ts"]) for m in wanted["messages"]
        ]
    else:
        assert len(notes) == wanted["count"]


def test_comet_key_exchange_and_sealed_content() -> None:
    expect = COMET["exchange_key_x25519"]["expect"]
    own = X25519PrivateKey.from_private_bytes(bytes.fromhex(expect["eph_private_hex"]))
    secret = bytes.fromhex(expect["unwrapped_hex"])
    transcript = _bytes(COMET, "auth") + _bytes(COMET, "auth_success_x25519")
    offered = bytes.fromhex(COMET["auth_success_x25519"]["expect"]["fields"]["encrypt_key"])
    wrapped = comet.wrapped_secret(offered, own, secret, transcript)
    exchange = comet.frame(1, comet.text(wrapped))
    assert exchange == _bytes(COMET, "exchange_key_x25519")

    client = comet.RawComet.__new__(comet.RawComet)
    client._counter = 0
    client.start_sealed(secret, transcript + exchange)
    frame = _bytes(COMET, "message_encrypted")
    (note,) = comet.notes_of(frame[3:], 0, 1)
    assert client._opened(note).content == b"hello"


def test_esnp_request() -> None:
    number = 0x1122334455667788
    rows = [
        esnp.flag(esnp.REQUEST),
        esnp.address(esnp.OP, "add"),
        esnp.address(esnp.SERVICE, "test"),
        esnp.message_id(number),
        esnp.data("a", 1),
        esnp.data("b", 2),
    ]
    assert esnp.encoded(rows) == _bytes(ESNP, "order_request_id_address_data")
    called = esnp.Message(esnp.call_rows(number, "test", "add", {"a": 1, "b": 2}))
    assert called.ordered
    assert called.data == {"a": 1, "b": 2}
    assert called.addresses == {esnp.SERVICE: "test", esnp.OP: "add"}


_ESNP_VALUES = {
    "data_null": None,
    "data_bool_true": True,
    "data_int_-65": -65,
    "data_int_maxint32": 2**31 - 1,
    "data_int_maxint32_plus1": 2**31,
    "data_int64_max": 2**63 - 1,
    "data_float64_pi": 3.141592653589793,
    "data_bytes_64": b"\xaa" * 64,
    "data_string_utf8": "你好",
    "data_map_1__seed": {"a": 1},
    "data_list_3__seed": [1, "x", True],
}


@pytest.mark.parametrize("name", sorted(_ESNP_VALUES))
def test_esnp_values(name: str) -> None:
    row = esnp.data("k", _ESNP_VALUES[name])
    assert esnp.encoded([row]) == _bytes(ESNP, name)
    assert esnp.Message([row]).data == {"k": _ESNP_VALUES[name]}


def test_esnp_rows() -> None:
    assert esnp.encoded([esnp.seq(1, 3)]) == _bytes(ESNP, "seq_1_3")
    assert esnp.encoded([esnp.flag(2147483647)]) == _bytes(ESNP, "flag_2147483647")
    assert esnp.Message([esnp.seq(3, 3)]).seq == (3, 3)


def _tny_message(fields: dict[str, Any]) -> tny.TnyMessage:
    modes = {"request": tny.REQUEST, "response": tny.RESPONSE, "push": tny.PUSH}
    body, header = fields.get("body"), fields.get("forward_header")
    return tny.TnyMessage(
        fields["id"],
        modes[fields["mode"]],
        fields["protocol"],
        fields["code"],
        fields["to_message"],
        fields["time"],
        None if body is None else bytes.fromhex(body),
        fields["line"],
        None if header is None else bytes.fromhex(header),
    )


def _plain_tny() -> list[str]:
    names = []
    for name, vector in TNY.items():
        expect = vector["expect"]
        wanted = vector["dialect"] in ("common", "seed") and not vector.get("config")
        plain = expect.get("packet") == "message" and expect.get("option") == 0
        if wanted and plain and isinstance(expect["message"].get("body", ""), str | None):
            names.append(name)
    return [name for name in names if not name.startswith("tolerate_")]


@pytest.mark.parametrize("name", _plain_tny())
def test_tny_packets(name: str) -> None:
    expect = TNY[name]["expect"]
    if "headers" in expect["message"]:
        pytest.fail("a header list belongs to the other dialect")
    message = tny.message_bytes(_tny_message(expect["message"]))
    made = tny.packet(expect["access_id"], expect["number"], message)
    assert made == _bytes(TNY, name)
    assert tny.read_message(message) == _tny_message(expect["message"])


def test_tny_ticks() -> None:
    assert tny.tick(1, "seed") == _bytes(TNY, "seed_ping")
    assert tny.tick(2, "seed") == _bytes(TNY, "seed_pong")
    assert tny.tick(1, "upstream") == b"tny.\x01"


def test_relay_packets() -> None:
    at = 1651234567890
    link = relay.RawLink.__new__(relay.RawLink)
    link.instance = 11
    assert relay.pack(4, relay.LINK_PING, at) == _bytes(TNY, "relay_link_ping")
    made = relay.pack(8, relay.TUNNEL_DISCONNECT, at, link.ids(22))
    assert made == _bytes(TNY, "relay_tunnel_disconnect")
    made = relay.pack(9, relay.TUNNEL_SWITCH_LINK, at, link.ids(22))
    assert made == _bytes(TNY, "relay_tunnel_switch_link")
    fields = TNY["relay_tunnel_relay_request"]["expect"]["arguments"]["message"]
    message = tny.message_bytes(_tny_message(fields))
    made = relay.pack(10, relay.TUNNEL_RELAY, at, struct.pack("<qq", 11, 22) + message)
    assert made == _bytes(TNY, "relay_tunnel_relay_request")
    connected = _bytes(TNY, "relay_tunnel_connected_seed")
    assert relay.fields(connected[20:]) == {1: 11, 2: 22, 10: 1}
    connect = _bytes(TNY, "relay_tunnel_connect")
    assert relay.fields(connect[20:]) == {1: 11, 2: 22, 10: bytes([127, 0, 0, 1]), 11: 8080}


def _handshake(name: str) -> magline.Handshake:
    expect = MAGLINE["ack"]["expect"]
    other = MAGLINE[name]["expect"]
    return magline.Handshake(
        X25519PrivateKey.from_private_bytes(bytes.fromhex(expect["client_private"])),
        bytes(range(32)),
        pinned=bytes.fromhex(other.get("server_static_public", "")),
        psk=bytes.fromhex(other.get("psk_hex", "")),
    )


@pytest.mark.parametrize(
    ("syn", "ack"), [("syn", "ack"), ("syn_pinned", "ack_pinned"), ("syn_psk", "ack_psk")]
)
def test_magline_handshakes(syn: str, ack: str) -> None:
    shake = _handshake(ack)
    assert shake.syn == _bytes(MAGLINE, syn)
    keys, sid = shake.keys(_bytes(MAGLINE, ack))
    wanted = MAGLINE[ack]["expect"]
    assert sid.hex() == wanted["sid"]
    assert {name: value.hex() for name, value in keys._asdict().items()} == {
        name: wanted["keys"][name] for name in magline.Keys._fields
    }


def _first_keys() -> magline.Keys:
    return _handshake("ack").keys(_bytes(MAGLINE, "ack"))[0]


def test_magline_frames() -> None:
    keys = _first_keys()
    pin = MAGLINE["pin"]["expect"]
    number = struct.pack(">I", pin["fields"]["ping_number"])
    assert magline.tagged(magline.PIN, 2, number, keys.c2s_mac) == _bytes(MAGLINE, "pin")
    fin = struct.pack(">I", MAGLINE["fin"]["expect"]["fields"]["reason_number"])
    assert magline.tagged(magline.FIN, 4, fin, keys.c2s_mac) == _bytes(MAGLINE, "fin")
    made = magline.data_frame(magline.REQ, 3, {}, 0x1001, b"hello", keys)
    assert made == _bytes(MAGLINE, "req")


def test_magline_resumption() -> None:
    expect = MAGLINE["resyn"]["expect"]
    frame = _bytes(MAGLINE, "resyn")
    sid = bytes.fromhex(MAGLINE["ack"]["expect"]["sid"])
    resumed = MAGLINE["ack_resumed"]["expect"]
    private = bytes.fromhex(resumed.get("client_private") or expect["client_private"])
    shake = magline.Handshake(
        X25519PrivateKey.from_private_bytes(private),
        frame[50:82],
        resume=magline.Resume(sid, _first_keys().res),
    )
    assert shake.syn == frame
    keys, sid = shake.keys(_bytes(MAGLINE, "ack_resumed"))
    assert sid.hex() == resumed["sid"]
    assert keys.res.hex() == resumed["keys"]["res"]
