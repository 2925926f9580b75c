"""What goes with a magline session from connection to connection: order and queue (rules 20, 21).

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

import pytest
from tests.playbooks.magline.peer import (
    ALL_KEYS,
    PINNED,
    To,
    dice,
    fin,
    new_server,
    psh,
    refused_bare,
    rep,
    req,
)
from tests.playbooks.magline.resuming import UNKNOWN, confirm, first, resuming
from tests.playbooks.playbook import Emits, EmitsKind, Pair, rule

from wirelake.protocols.magline.layout import Pin, Pon, Reason
from wirelake.protocols.magline.limits import ServerOptions
from wirelake.protocols.magline.session import (
    Authenticated,
    ClientSession,
    MemoryStore,
    Pinged,
    Push,
    Pushed,
    Reply,
    Requested,
    Resumed,
    ServerSession,
    session_id_of,
)
from wirelake.protocols.sansio import Closed, Failed, SessionError, Side


def test_the_client_is_identified_only_after_resumption_is_confirmed() -> None:
    store = MemoryStore()
    one, _ = first(store)
    _, book = resuming(store, one.ticket)
    with pytest.raises(SessionError, match="confirming"):
        book.session.identify("ann")  # type: ignore[attr-defined]


@rule("magline.21")
def test_a_queue_outlives_connections_that_never_finish_their_order() -> None:
    """Two resumptions in a row, the first of which the server has not seen end."""
    store, options = MemoryStore(), ServerOptions(order_cmds=(1,))
    one, _ = first(store, options=options)
    store.queue(session_id_of(one.sid), Push(5), 0.0)
    two, stale = resuming(store, one.ticket, options=options)
    confirm(two, stale, one)
    three, book = resuming(store, two.ticket, number=3, options=options)
    confirm(three, book, two)
    stale >> (lambda s: s.close(Reason.REPLACED)) << fin(Reason.REPLACED)
    stale << Emits(Closed("replaced", Side.LOCAL))
    book >> req(1) << EmitsKind.of(Requested, step=0)
    book >> (lambda s: s.send(Reply(3))) << To(3, rep(1)) << psh(5) << Emits(Authenticated(""))
    book.done()


@rule("magline.21")
def test_a_queued_push_that_cannot_be_sent_is_a_fault_of_ours() -> None:
    store = MemoryStore()
    one, _ = first(store)
    _, book = resuming(store, one.ticket)
    for push in (Push(1), Push(1 << 32), Push(2)):
        store.queue(session_id_of(one.sid), push, 0.0)
    book >> Pin(ping_number=1) << Pon(ping_number=1) << psh(1) << psh(2)
    book << EmitsKind.of(Resumed) << Emits(Pinged(1))
    book << EmitsKind.of(Failed, code="int_range", side=Side.LOCAL, fatal=False)
    book.done()


@rule("magline.20")
def test_a_session_that_is_half_ordered_needs_a_server_with_that_order() -> None:
    store = MemoryStore()
    one, book = first(store, options=ServerOptions(order_cmds=(1, 2)))
    book >> req(1) << EmitsKind.of(Requested, step=0)
    book >> (lambda s: s.send(Reply(2))) << To(2, rep(1))
    for order in ((), (1,)):
        peer, other = new_server(ServerOptions(order_cmds=order), store=store)
        refused_bare(other, peer.syn(one.ticket), *UNKNOWN)


def test_a_chain_of_resumptions_back_to_back() -> None:
    """Each connection is cut; what was pushed in between arrives, in order, once."""
    store = MemoryStore()
    client = ClientSession(key=PINNED, entropy=dice("client"))
    seen: list[Push] = []
    for number in range(6):
        server = ServerSession(
            keys=ALL_KEYS, entropy=dice(f"server {number}"), store=store, now=float(number)
        )
        client.connect()
        both = Pair(client, server, now=float(number)).run()
        assert (client.state, server.state) == ("open", "open")
        server.send(Push(number, b"live"))
        both.run()
        client.receive_eof()
        server.receive_eof()
        assert store.queue(server.session_id, Push(number, b"queued"), float(number))
        both.run()
        seen += [Push(e.business_cmd, e.data) for e in both.client_events if type(e) is Pushed]
        client = client.again(now=number + 1.0)
    said = [Push(n, text) for n in range(6) for text in (b"live", b"queued")]
    assert seen == said[:-1]
    assert len(store) == 1
