"""The interactions of seed 003 §3, S1 to S9, each as server, as client, and back to back.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

import pytest
from tests.playbooks.magline.peer import (
    ALL_KEYS,
    ANONYMOUS,
    PEER_SID,
    PINNED,
    SHARED,
    Bare,
    To,
    an_ack,
    dice,
    err,
    fin,
    new_client,
    new_server,
    open_client,
    open_server,
    psh,
    rep,
    req,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, Pair, rule

from wirelake.protocols.magline.handshake import Mode
from wirelake.protocols.magline.layout import ErrorNumber, Pin, Pon, Reason
from wirelake.protocols.magline.session import (
    ClientKey,
    ClientSession,
    Established,
    Failure,
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
    RequestFailed,
    Resumed,
    ServerKeys,
    ServerSession,
    session_id_of,
)
from wirelake.protocols.sansio import Closed, Failed, Side

KEYS = [ANONYMOUS, PINNED, SHARED]
MODES = ["anonymous", "pinned", "psk"]


def pair(
    key: ClientKey = ANONYMOUS, *, keys: ServerKeys = ALL_KEYS, store: MemoryStore | None = None
) -> Pair:
    """A client and a server, back to back; the client has said SYN."""
    client = ClientSession(key=key, entropy=dice("client"))
    server = ServerSession(keys=keys, entropy=dice("server"), store=store)
    client.connect()
    return Pair(client, server)


def opened(key: ClientKey = ANONYMOUS, store: MemoryStore | None = None) -> Pair:
    """The same after the ACK."""
    both = pair(key, store=store).run()
    both.take()
    return both


# -- S1 and S2-1: SYN, ACK -------------------------------------------------------------------


@rule("magline.S1", "magline.S2-1")
@pytest.mark.parametrize("key", KEYS, ids=MODES)
def test_s1_s2_1_server(key: ClientKey) -> None:
    peer, book = new_server(key=key)
    book >> peer.syn() << an_ack << EmitsKind.of(Established, mode=key.mode, resumed=False)
    session = book.done()
    assert isinstance(session, ServerSession)
    assert session.session_id == session_id_of(peer.sid)


@rule("magline.S1", "magline.S2-1")
@pytest.mark.parametrize("key", KEYS, ids=MODES)
def test_s1_s2_1_client(key: ClientKey) -> None:
    peer, book = new_client(key=key)
    book >> peer.ack() << Emits(Established(key.mode, session_id_of(PEER_SID)))
    assert book.done().state == "open"


@rule("magline.S1", "magline.S2-1")
@pytest.mark.parametrize("key", KEYS, ids=MODES)
def test_s1_s2_1_back_to_back(key: ClientKey) -> None:
    both = pair(key).run()
    assert both.client_events == both.server_events
    assert [type(event) for event in both.client_events] == [Established]


# -- S2-2: ERR, FIN, close -------------------------------------------------------------------


@rule("magline.S2-2")
def test_s2_2_server() -> None:
    peer, book = new_server(keys=ServerKeys(static=[bytes([9]) * 32]), key=PINNED)
    book >> peer.syn() << Bare(err(ErrorNumber.HANDSHAKE)) << Bare(fin(Reason.HANDSHAKE))
    book << EmitsKind.of(Failed, code="handshake_failed", side=Side.REMOTE)
    book << Emits(Closed("handshake_failed", Side.LOCAL, clean=False))
    book.done()


@rule("magline.S2-2")
def test_s2_2_server_is_too_busy() -> None:
    _, book = new_server()
    book >> (lambda s: s.abort(ErrorNumber.BUSY, Reason.BUSY))
    book << Bare(err(ErrorNumber.BUSY)) << Bare(fin(Reason.BUSY))
    book << Emits(Closed("busy", Side.LOCAL, clean=False))
    book.done()


@rule("magline.S2-2")
def test_s2_2_client() -> None:
    _, book = new_client()
    book >> err(ErrorNumber.HANDSHAKE) << Emits(Refused(ErrorNumber.HANDSHAKE, trusted=False))
    book >> fin(Reason.HANDSHAKE) << Emits(Finished(Reason.HANDSHAKE, trusted=False))
    book << Emits(Closed("refused", Side.REMOTE, clean=False))
    book.done()


@rule("magline.S2-2")
def test_s2_2_back_to_back() -> None:
    both = pair(ClientKey(pinned=bytes([7]) * 32)).run()
    assert both.client_events == [
        Refused(ErrorNumber.HANDSHAKE, trusted=False),
        Finished(Reason.HANDSHAKE, trusted=False),
        Closed("refused", Side.REMOTE, clean=False),
    ]
    assert both.server.closed


# -- S3: PIN, PON ----------------------------------------------------------------------------


@rule("magline.S3")
def test_s3_server() -> None:
    _, book = open_server()
    book >> Pin(ping_number=77) << Pon(ping_number=77) << Emits(Pinged(77))
    book >> Bare(Pin(ping_number=7)) << Pon(ping_number=7) << Emits(Pinged(7, trusted=False))
    book.done()


@rule("magline.S3")
def test_s3_client() -> None:
    _, book = open_client()
    book >> At(30) << Pin(ping_number=1)
    book >> At(31) >> Pon(ping_number=1) << Emits(Ponged(1, 1.0))
    book >> At(60) << Pin(ping_number=2)
    book >> At(60.5) >> Bare(Pon(ping_number=2)) << Emits(Ponged(2, 0.5))
    book.done()


@rule("magline.S3")
def test_s3_back_to_back() -> None:
    both = opened().at(100)
    client, server = both.take()
    assert client == [Ponged(n, 0.0) for n in (1, 2, 3)]
    assert server == [Pinged(n) for n in (1, 2, 3)]


# -- S4 and S5: REQ, REP ---------------------------------------------------------------------


@rule("magline.S4", "magline.S5")
def test_s4_s5_server() -> None:
    _, book = open_server()
    book >> req(0x1001, b"hello") << Emits(Requested(2, 0x1001, b"hello"))
    book >> (lambda s: s.send(Reply(2, b"world"))) << To(2, rep(0x1001, b"world"))
    book.done()


@rule("magline.S4", "magline.S5")
def test_s5_server_sends_the_error_of_a_request() -> None:
    _, book = open_server()
    book >> req(0x1001) << Emits(Requested(2, 0x1001, b""))
    book >> (lambda s: s.send(Failure(2, 0x10001))) << To(2, err(0x10001, 0x1001))
    book >> Pin(ping_number=1) << Pon(ping_number=1) << Emits(Pinged(1))
    book.done()


@rule("magline.S4", "magline.S5")
def test_s4_s5_client() -> None:
    _, book = open_client()
    book >> (lambda s: s.send(Request(0x1001, b"hello"))) << req(0x1001, b"hello")
    book >> To(2, rep(0x1001, b"world")) << Emits(Replied(2, 0x1001, b"world"))
    book >> (lambda s: s.send(Request(0x1001))) << req(0x1001)
    book >> To(3, err(ErrorNumber.NO_ROUTE, 0x1001))
    book << Emits(RequestFailed(3, 0x1001, ErrorNumber.NO_ROUTE))
    book.done()


@rule("magline.S4", "magline.S5")
def test_s4_s5_back_to_back() -> None:
    both = opened(PINNED)
    assert isinstance(both.client, ClientSession)
    assert isinstance(both.server, ServerSession)
    first = both.client.send(Request(5, b"a"))
    second = both.client.send(Request(6, b"b" * 100_000))
    assert both.run().take()[1] == [
        Requested(first, 5, b"a"),
        Requested(second, 6, b"b" * 100_000),
    ]
    both.server.send(Reply(second, b"B"))
    both.server.send(Failure(first, ErrorNumber.BUSINESS))
    assert both.run().take()[0] == [
        Replied(second, 6, b"B"),
        RequestFailed(first, 5, ErrorNumber.BUSINESS),
    ]


# -- S6: PSH ---------------------------------------------------------------------------------


@rule("magline.S6")
def test_s6_server() -> None:
    _, book = open_server()
    book >> (lambda s: s.send(Push(0xFFFF_FFFF, b"news"))) << psh(0xFFFF_FFFF, b"news")
    book >> (lambda s: s.send(Push(0))) << psh(0)
    book.done()


@rule("magline.S6")
def test_s6_client() -> None:
    _, book = open_client()
    book >> psh(9, b"news") << Emits(Pushed(9, b"news"))
    book >> psh(9) << Emits(Pushed(9, b""))
    book.done()


@rule("magline.S6")
def test_s6_back_to_back() -> None:
    both = opened(SHARED)
    assert isinstance(both.server, ServerSession)
    for number in range(5):
        both.server.send(Push(number, bytes([number])))
    assert both.run().take()[0] == [Pushed(n, bytes([n])) for n in range(5)]


# -- S7 and S8: reSYN, ACK -------------------------------------------------------------------


@rule("magline.S7", "magline.S8")
@pytest.mark.parametrize("key", KEYS, ids=MODES)
def test_s7_s8_server(key: ClientKey) -> None:
    store = MemoryStore()
    first, old = open_server(key=key, store=store)
    second, book = new_server(key=key, store=store, seed="second", private=bytes([8]) * 32)
    book >> second.syn(first.ticket) << an_ack
    book << EmitsKind.of(Established, mode=key.mode | Mode.RESUME, resumed=True)
    new, replaced = session_id_of(second.sid), session_id_of(first.sid)
    book >> Pin(ping_number=1) << Pon(ping_number=1)
    book << Emits(Resumed(new, replaced)) << Emits(Pinged(1))
    assert book.done().state == "open"
    # The application closes the connection that was replaced.
    assert old.session.session_id == replaced  # type: ignore[attr-defined]
    old >> (lambda s: s.close(Reason.REPLACED)) << fin(Reason.REPLACED)
    old << Emits(Closed("replaced", Side.LOCAL))
    old.done()


@rule("magline.S7", "magline.S8")
@pytest.mark.parametrize("key", KEYS, ids=MODES)
def test_s7_s8_client(key: ClientKey) -> None:
    peer, old = open_client(key=key)
    assert isinstance(old.session, ClientSession)
    ticket = old.session.ticket
    assert ticket is not None
    second, book = new_client(key=key, seed="second", ticket=ticket)
    book >> second.ack(ticket.res, bytes([6]) * 16) << Pin(ping_number=1)
    new = session_id_of(bytes([6]) * 16)
    book << Emits(Established(key.mode | Mode.RESUME, new, resumed=True))
    book >> Pon(ping_number=1)
    book << Emits(Resumed(new, session_id_of(PEER_SID))) << Emits(Ponged(1, 0.0))
    assert book.done().state == "open"
    assert peer.keys != second.keys


@rule("magline.S7", "magline.S8")
@pytest.mark.parametrize("key", KEYS, ids=MODES)
def test_s7_s8_back_to_back(key: ClientKey) -> None:
    store = MemoryStore()
    first = opened(key, store)
    assert isinstance(first.client, ClientSession)
    client = first.client.again(now=5.0)
    server = ServerSession(keys=ALL_KEYS, entropy=dice("second"), store=store, now=5.0)
    client.connect()
    both = Pair(client, server, now=5.0).run()
    assert EmitsKind.of(Resumed).kind in {type(event) for event in both.client_events}
    resumed = next(event for event in both.server_events if isinstance(event, Resumed))
    assert isinstance(first.server, ServerSession)
    assert resumed.replaced == first.server.session_id
    first.server.close(Reason.REPLACED)
    assert first.run().client_events[-1] == Closed("replaced", Side.REMOTE)
    client.send(Request(1, b"still here"))
    assert both.run().server_events[-1] == Requested(3, 1, b"still here")


# -- S9: FIN ---------------------------------------------------------------------------------


@rule("magline.S9")
def test_s9_server() -> None:
    _, book = open_server()
    book >> (lambda s: s.close()) << fin() << Emits(Closed("normal", Side.LOCAL))
    book >> Pin(ping_number=1)  # too late: nothing happens
    book.done()
    _, book = open_server()
    book >> fin() << Emits(Finished(0)) << Emits(Closed("normal", Side.REMOTE))
    book.done()


@rule("magline.S9")
def test_s9_client() -> None:
    _, book = open_client()
    book >> (lambda s: s.close(0x10007)) << fin(0x10007)
    book << Emits(Closed("reason 65543", Side.LOCAL))
    book.done()
    _, book = open_client()
    book >> fin(Reason.SHUTDOWN) << Emits(Finished(Reason.SHUTDOWN))
    book << Emits(Closed("shutdown", Side.REMOTE))
    book.done()


@rule("magline.S9")
def test_s9_back_to_back() -> None:
    both = opened()
    assert isinstance(both.client, ClientSession)
    both.client.close()
    client, server = both.run().take()
    assert client == [Closed("normal", Side.LOCAL)]
    assert server == [Finished(0), Closed("normal", Side.REMOTE)]


@rule("magline.S1")
def test_bytes_may_come_in_any_pieces() -> None:
    peer, book = new_client()
    ack = peer.ack()
    for at in range(len(ack) - 1):
        book >> ack[at : at + 1]
    book >> ack[-1:] << EmitsKind.of(Established)
    book >> (lambda s: s.send(Request(1, b"x"))) << req(1, b"x")
    both = peer.encode(To(2, rep(1, b"y"))) + peer.encode(psh(2, b"z"))
    book >> both[:50] << Emits(Replied(2, 1, b"y"))
    book >> both[50:] << Emits(Pushed(2, b"z"))
    book.done()
