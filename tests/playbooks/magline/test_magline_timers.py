"""Every clock of a magline connection, without sleeping: heartbeat, idle, deadlines, 24 hours.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

import pytest
from tests.playbooks.magline.peer import (
    ALL_KEYS,
    PINNED,
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
    rep,
    req,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, Pair, rule

from wirelake.protocols.magline.layout import ErrorNumber, Pin, Pon, Reason
from wirelake.protocols.magline.limits import MAX_PINGS, ClientOptions, ServerOptions
from wirelake.protocols.magline.session import (
    Authenticated,
    ClientSession,
    Established,
    MemoryStore,
    Pinged,
    Ponged,
    Replied,
    Reply,
    Request,
    Requested,
    RequestLost,
    ServerSession,
)
from wirelake.protocols.sansio import Closed, Failed, SessionError, Side

DAY = 24 * 3600.0


@rule("magline.16")
def test_nothing_is_waited_for_but_what_the_rules_name() -> None:
    _, book = new_server()
    assert book.session.next_timer() == 10
    _, book = open_server()
    assert book.session.next_timer() == 90
    assert book.session.timers.at("rekey") == DAY
    _, book = new_client()
    assert book.session.next_timer() == 10
    _, book = open_client()
    assert book.session.next_timer() == 30
    book >> (lambda s: s.close()) << fin() << Emits(Closed("normal", Side.LOCAL))
    assert book.done().next_timer() is None


@rule("magline.16")
def test_a_default_client_keeps_a_default_server_for_a_day() -> None:
    """Heartbeats alone; then the keys are worn out, and the next connection is a full SYN."""
    store = MemoryStore()
    client = ClientSession(key=PINNED, entropy=dice("client"))
    server = ServerSession(keys=ALL_KEYS, entropy=dice("server"), store=store)
    client.connect()
    both = Pair(client, server).run().at(DAY - 1)
    pings = [event for event in both.server_events if isinstance(event, Pinged)]
    assert len(pings) == DAY / 30 - 1
    both.take()
    both.at(DAY)
    assert Closed("rekey", Side.LOCAL) in both.client_events + both.server_events
    assert client.closed
    assert server.closed


@rule("magline.16")
def test_a_server_that_hangs_is_noticed_while_requests_wait() -> None:
    _, book = open_client()
    book >> At(20) >> (lambda s: s.send(Request(1))) << req(1)
    book >> At(30) << Pin(ping_number=1)
    book >> At(40) << EmitsKind.of(Failed, code="timeout")
    book << Emits(RequestLost(2, 1, "connection_lost"))
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    book.done()


@rule("magline.16")
def test_pings_of_the_application_count_like_any_other() -> None:
    _, book = open_client()
    book >> At(5) >> (lambda s: s.ping()) << Pin(ping_number=1)
    book >> At(6) >> Pon(ping_number=1) << Emits(Ponged(1, 1.0))
    book >> At(30) >> At(35) << Pin(ping_number=2)  # thirty seconds after the last
    book.done()
    _, book = open_client()
    assert isinstance(book.session, ClientSession)
    for _ in range(MAX_PINGS):
        book.session.ping()
    with pytest.raises(SessionError, match="too_busy"):
        book.session.ping()


@rule("magline.12")
def test_a_request_has_its_own_time() -> None:
    _, book = open_client(ClientOptions(heartbeat_s=100))
    book >> (lambda s: s.send(Request(1, timeout_s=50))) << req(1)
    book >> (lambda s: s.send(Request(2, timeout_s=5))) << req(2)
    book >> (lambda s: s.send(Request(3))) << req(3)
    book >> At(4.9) >> At(5) << Emits(RequestLost(3, 2, "timeout"))
    book >> To(2, rep(1)) << Emits(Replied(2, 1, b""))
    book >> At(30) << Emits(RequestLost(4, 3, "timeout"))
    book >> At(60)
    assert book.done().state == "open"


@rule("magline.12")
def test_the_number_of_lost_requests_kept_is_bounded() -> None:
    options = ClientOptions(max_requests=3, heartbeat_s=1000, request_timeout_s=1)
    _, book = open_client(options)
    session = book.session
    assert isinstance(session, ClientSession)
    for second in range(5):
        for _ in range(3):
            session.send(Request(1))
        session.on_timer(second + 1.0)
        assert session.in_flight == 0
        assert len(session._requests) <= 3
    assert len([e for e in session.events() if isinstance(e, RequestLost)]) == 15


@rule("magline.4.9")
def test_a_client_whose_server_never_answers_the_syn() -> None:
    _, book = new_client()
    book >> At(10) << Bare(err(ErrorNumber.TIMEOUT)) << Bare(fin(Reason.HANDSHAKE))
    book << EmitsKind.of(Failed, code="timeout")
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    book.done()


@rule("magline.4.9")
def test_a_syn_that_comes_byte_by_byte_has_the_same_deadline() -> None:
    peer, book = new_server()
    for second, byte in enumerate(peer.syn()[:9]):
        book >> At(second) >> bytes([byte])
    book >> At(10) << Bare(err(ErrorNumber.TIMEOUT)) << Bare(fin(Reason.HANDSHAKE))
    book << EmitsKind.of(Failed, code="timeout")
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    book.done()


@rule("magline.20")
def test_pings_do_not_extend_the_30_seconds_of_ordered_commands() -> None:
    _, book = open_server(ServerOptions(order_cmds=(1,)))
    for second in (10, 20, 29):
        book >> At(second) >> Pin(ping_number=second) << Pon(ping_number=second)
        book << Emits(Pinged(second))
    book >> At(30) << err(ErrorNumber.TIMEOUT) << fin(Reason.AUTH)
    book << EmitsKind.of(Failed, code="timeout")
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    book.done()
    _, book = open_server(ServerOptions(order_cmds=(1,)))
    book >> At(29) >> req(1) << Emits(Requested(2, 1, b"", step=0))
    book >> (lambda s: s.send(Reply(2))) << To(2, rep(1)) << Emits(Authenticated(""))
    book >> At(31)  # nothing
    assert book.done().state == "open"


@rule("magline.4.9")
def test_keys_may_be_changed_more_often_and_then_the_session_is_resumed() -> None:
    store = MemoryStore()
    options = ServerOptions(rekey_after_s=3600)
    client = ClientSession(key=PINNED, entropy=dice("client"))
    now = 0.0
    for hour in range(3):
        server = ServerSession(
            options, keys=ALL_KEYS, entropy=dice(f"server {hour}"), store=store, now=now
        )
        client.connect()
        both = Pair(client, server, now=now).run().at(now + 3600)
        established = [e for e in both.client_events if isinstance(e, Established)]
        assert [event.resumed for event in established] == [hour > 0]
        assert both.client_events[-1] == Closed("rekey", Side.REMOTE)
        now += 3600
        client = client.again(now)


def test_time_does_not_run_backwards() -> None:
    peer, book = new_server(now=100.0)
    book >> peer.syn() << an_ack << EmitsKind.of(Established)
    session = book.session
    session.receive(peer.encode(Pin(ping_number=1)), 50.0)
    assert session.now == 100.0
    assert session.next_timer() == 190.0
