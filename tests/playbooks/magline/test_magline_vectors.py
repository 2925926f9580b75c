"""Every magline vector through real sessions: transcripts, records, faults, byte for byte.

Sessions get the private keys, Randoms and session ids of the vectors as their entropy, so they must
send exactly what the vectors hold. All of those are throw-away test values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.playbooks.playbook import rule

from wirelake.protocols.magline.handshake import Mode
from wirelake.protocols.magline.limits import ServerOptions
from wirelake.protocols.magline.session import (
    ClientKey,
    ClientSession,
    Established,
    Finished,
    MemoryStore,
    Pinged,
    Ponged,
    Push,
    Pushed,
    Refused,
    Replied,
    Reply,
    Request,
    Requested,
    ResumptionState,
    ServerKeys,
    ServerSession,
    Ticket,
    session_id_of,
)
from wirelake.protocols.sansio import Closed, Event, Failed, Session, Side

VECTORS = Path(__file__).parents[2] / "vectors" / "magline.jsonl"
V: dict[str, dict[str, Any]] = {
    vector["name"]: vector
    for vector in map(json.loads, VECTORS.read_text(encoding="utf-8").splitlines())
}
OURS = {"magic_cmd_mismatch": "magic_mismatch", "unknown_cmd": "unknown_type"}
"""Codes that have another name here."""
TRANSCRIPTS = {"ack": "syn", "ack_pinned": "syn_pinned", "ack_psk": "syn_psk"}
FAULTS = [name for name, v in V.items() if v["expect"].get("fatal") and name[:5] != "sess_"]
SESSION_FAULTS = [name for name in V if name.startswith("sess_")]
INCOMPLETE = [name for name, v in V.items() if v["expect"].get("error") == "incomplete"]


def raw(name: str) -> bytes:
    return bytes.fromhex(V[name]["hex"])


def value(name: str, key: str) -> bytes:
    return bytes.fromhex(V[name]["expect"][key])


def given(*values: bytes) -> Callable[[int], bytes]:
    """An entropy that gives these, in this order, and nothing more."""
    left = list(values)

    def draw(size: int) -> bytes:
        assert len(left[0]) == size
        return left.pop(0)

    return draw


def field(name: str, key: str) -> bytes:
    return bytes.fromhex(V[name]["expect"]["fields"][key])


def ephemeral(ack: str, side: str) -> bytes:
    """The pinned and psk lines reuse the ephemeral keys of the anonymous one."""
    expect = V[ack]["expect"]
    return bytes.fromhex(expect.get(f"{side}_private") or V["ack"]["expect"][f"{side}_private"])


def client_key(ack: str) -> ClientKey:
    expect = V[ack]["expect"]
    if "server_static_public" in expect:
        return ClientKey(pinned=value(ack, "server_static_public"))
    return ClientKey(psk=value(ack, "psk_hex")) if "psk_hex" in expect else ANONYMOUS


ANONYMOUS = ClientKey(allow_anonymous=True)
KEYS = ServerKeys(
    static=[value("ack_pinned", "server_static_private")],
    psks=[value("ack_psk", "psk_hex")],
    allow_anonymous=True,
)


def a_client(ack: str = "ack", syn: str = "syn", ticket: Ticket | None = None) -> ClientSession:
    entropy = given(ephemeral(ack, "client"), field(syn, "random"))
    return ClientSession(key=client_key(ack), entropy=entropy, ticket=ticket)


def a_server(
    ack: str = "ack", store: MemoryStore | None = None, options: ServerOptions | None = None
) -> ServerSession:
    entropy = given(ephemeral(ack, "server"), field(ack, "random"), value(ack, "sid"))
    return ServerSession(options, keys=KEYS, entropy=entropy, store=store)


def open_client(ack: str = "ack") -> ClientSession:
    client = a_client(ack, TRANSCRIPTS[ack])
    client.connect()
    client.to_send()
    client.receive(raw(ack), 0.0)
    client.events()
    return client


def open_server(options: ServerOptions | None = None) -> ServerSession:
    server = a_server(options=options)
    server.receive(raw("syn"), 0.0)
    assert server.to_send() == raw("ack")
    server.events()
    return server


def hears(session: Session, name: str) -> list[Event]:
    session.receive(raw(name), 0.0)
    return session.events()


# -- transcripts -----------------------------------------------------------------------------


@rule("magline.vectors")
@pytest.mark.parametrize("ack", TRANSCRIPTS)
def test_transcript(ack: str) -> None:
    syn = TRANSCRIPTS[ack]
    client, server = a_client(ack, syn), a_server(ack)
    client.connect()
    assert client.to_send() == raw(syn)
    mode, session = Mode(V[ack]["expect"]["mode"]), session_id_of(value(ack, "sid"))
    assert hears(server, syn) == [Established(mode, session)]
    assert server.to_send() == raw(ack)
    assert hears(client, ack) == [Established(mode, session)]
    for end in (client, server):
        assert end.exporter.hex() == V[ack]["expect"]["keys"]["exporter"]
        logged = json.loads(end.key_log())
        for name in ("c2s_enc", "c2s_iv", "s2c_enc", "s2c_iv"):
            assert logged[name] == V[ack]["expect"]["keys"][name]
    assert client.ticket is not None
    assert client.ticket.res.hex() == V[ack]["expect"]["keys"]["res"]


def resumable() -> tuple[MemoryStore, Ticket]:
    """The session of vector `ack`, as each side remembers it."""
    store, sid = MemoryStore(), value("ack", "sid")
    res = value("resyn", "resumption_secret")
    assert res.hex() == V["ack"]["expect"]["keys"]["res"]
    store.save(session_id_of(sid), ResumptionState(res, Mode.ANONYMOUS, 0.0), 0.0)
    return store, Ticket(sid, res, Mode.ANONYMOUS, None, 0.0)


@rule("magline.vectors")
def test_transcript_of_a_resumption() -> None:
    store, ticket = resumable()
    client = a_client("ack_resumed", "resyn", ticket)
    server = a_server("ack_resumed", store)
    client.connect()
    assert client.to_send() == raw("resyn")
    new = session_id_of(value("ack_resumed", "sid"))
    assert hears(server, "resyn") == [Established(Mode.RESUME, new, resumed=True)]
    assert server.to_send() == raw("ack_resumed")
    assert hears(client, "ack_resumed") == [Established(Mode.RESUME, new, resumed=True)]
    assert server.exporter == client.exporter == key_of("ack_resumed", "exporter")
    server.receive(client.to_send(), 0.0)
    client.receive(server.to_send(), 0.0)
    assert (client.state, server.state) == ("open", "open")
    assert client.ticket is not None
    assert client.ticket.sid == value("ack_resumed", "sid")


def key_of(ack: str, name: str) -> bytes:
    return bytes.fromhex(V[ack]["expect"]["keys"][name])


@rule("magline.vectors")
def test_records_of_the_client() -> None:
    client, server = open_client(), open_server()
    assert client.ping() == 1
    assert client.to_send() == raw("pin")
    assert hears(server, "pin") == [Pinged(1)]
    assert server.to_send() == raw("pon")
    assert hears(client, "pon") == [Ponged(1, 0.0)]
    assert client.send(Request(0x1001, b"hello")) == 3
    assert client.to_send() == raw("req")
    assert hears(server, "req") == [Requested(3, 0x1001, b"hello")]
    server.send(Reply(3, b"world"))
    assert server.to_send() == raw("rep")
    assert hears(client, "rep") == [Replied(3, 0x1001, b"world")]
    client.close()
    assert client.to_send() == raw("fin")
    assert hears(server, "fin") == [Finished(0), Closed("normal", Side.REMOTE)]


@rule("magline.vectors")
def test_records_of_the_server() -> None:
    """A reply without REPLY_TO, as a peer that knows the document alone sends it, and a push."""
    client, server = open_client(), open_server()
    client.ping()
    for _ in range(2):
        client.send(Request(0x1001))
    for name in ("pon", "rep"):
        hears(client, name)
    assert hears(client, "rep_no_option") == [Replied(4, 0x1001, b"")]
    data = value("psh", "data_hex")
    assert hears(client, "psh") == [Pushed(0xFFFF_FFFF, data)]
    server.to_send()
    server._seq_out.last = 4
    server.send(Push(0xFFFF_FFFF, data))
    assert server.to_send() == raw("psh")


@rule("magline.vectors")
def test_bare_frames() -> None:
    assert hears(open_server(), "pin_bare") == [Pinged(7, trusted=False)]
    assert hears(open_server(), "pin_unknown_ignorable_option") == [Pinged(5, trusted=False)]
    assert hears(open_server(), "two_frames") == [Pinged(n, trusted=False) for n in (1, 2)]
    client = open_client()
    assert hears(client, "pon_bare") == []
    assert client.unknown_pons == 1


@rule("magline.vectors")
def test_refusals_before_there_are_keys() -> None:
    client = a_client()
    client.connect()
    assert hears(client, "err_handshake") == [Refused(7, trusted=False)]
    assert hears(client, "fin_handshake") == [
        Finished(2, trusted=False),
        Closed("refused", Side.REMOTE, clean=False),
    ]
    _, ticket = resumable()
    client = a_client("ack_resumed", "resyn", ticket)
    client.connect()
    assert hears(client, "err_session_unknown") == [Refused(8, trusted=False)]
    server = a_server()
    hears(server, "sess_zero_public_key")
    assert server.to_send() == raw("err_handshake") + raw("fin_handshake")
    server = a_server()
    hears(server, "resyn")
    assert server.to_send()[:24] == raw("err_session_unknown")


# -- faults ----------------------------------------------------------------------------------


def fault(session: Session, name: str) -> None:
    """The session answers ERR with that number, then FIN, and closes."""
    expect = V[name]["expect"]
    session.to_send()
    events = hears(session, name)
    failed = next(event for event in events if isinstance(event, Failed))
    assert failed.code == OURS.get(expect["error"], expect["error"])
    assert (failed.side, failed.fatal) == (Side.REMOTE, True)
    assert isinstance(events[-1], Closed)
    said = session.to_send()
    length = int.from_bytes(said[12:16], "big")
    assert said[:4] == bytes.fromhex("7f660003")
    assert int.from_bytes(said[16 + length - 4 : 16 + length], "big") == expect["err_no"]
    assert said[16 + length :][:4] == bytes.fromhex("7f660009")


@rule("magline.vectors")
@pytest.mark.parametrize("name", FAULTS)
def test_codec_fault(name: str) -> None:
    """Before and after the handshake."""
    if V[name]["direction"] == "c2s":
        fault(a_server(), name)
        fault(open_server(), name)
    else:
        client = a_client()
        client.connect()
        fault(client, name)
        fault(open_client(), name)


@rule("magline.vectors")
@pytest.mark.parametrize("name", SESSION_FAULTS)
def test_session_fault(name: str) -> None:
    vector = V[name]
    expect = vector["expect"]
    if "expected_seq" not in expect:
        fault(a_server("ack", resumable()[0]), name)
        return
    options = ServerOptions(control_auth="require") if "policy" in expect else None
    session: Session = open_server(options) if vector["direction"] == "c2s" else open_client()
    before = {2: [], 3: ["pin"], 4: ["pin", "req"]}[expect["expected_seq"]]
    for each in before:
        hears(session, each if vector["direction"] == "c2s" else "pon")
    fault(session, name)


@rule("magline.vectors")
@pytest.mark.parametrize("name", INCOMPLETE)
def test_incomplete(name: str) -> None:
    """Waits; at the end of the stream it is reported."""
    session: Session = a_server() if V[name]["direction"] == "c2s" else open_client()
    assert hears(session, name) == []
    assert session.buffered == len(raw(name))
    session.receive_eof()
    wanted = [Failed] if raw(name) else []
    assert [type(event) for event in session.events()] == [*wanted, Closed]


def test_every_vector_is_run() -> None:
    run = {*TRANSCRIPTS, *TRANSCRIPTS.values(), *FAULTS, *SESSION_FAULTS, *INCOMPLETE}
    run |= {"resyn", "ack_resumed", "pin", "pon", "req", "rep", "rep_no_option", "psh", "fin"}
    run |= {"pin_bare", "pon_bare", "pin_unknown_ignorable_option", "two_frames"}
    run |= {"err_handshake", "fin_handshake", "err_session_unknown"}
    assert set(V) - run == {"x25519_public_from_private"}  # no frame: see test_handshake.py
    assert len(SESSION_FAULTS) == 10
