"""Resumption on live sessions: sections 4.10 and 6 of the magline decisions.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

import pytest
from tests.playbooks.magline.peer import (
    ANONYMOUS,
    PEER_SID,
    PINNED,
    PSK,
    SHARED,
    STATIC,
    Bare,
    To,
    err,
    fin,
    new_client,
    new_server,
    open_client,
    psh,
    refused,
    refused_bare,
    rep,
    req,
)
from tests.playbooks.magline.resuming import UNKNOWN, confirm, first, resuming
from tests.playbooks.playbook import At, Emits, EmitsKind, Eof, Playbook, rule

from wirelake.protocols.magline.handshake import Mode
from wirelake.protocols.magline.layout import ErrorNumber, Pin, Pon, Reason
from wirelake.protocols.magline.limits import ClientOptions, ServerOptions
from wirelake.protocols.magline.session import (
    Authenticated,
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
    Reply,
    Requested,
    Resumed,
    ServerKeys,
    ServerSession,
    Ticket,
    session_id_of,
)
from wirelake.protocols.sansio import Closed, Failed, Side

HOUR = 3600.0


# -- 4.10 ------------------------------------------------------------------------------------


@rule("magline.4.10")
def test_4_10_until_the_client_is_sure_the_server_pushes_nothing_and_keeps_the_old_id() -> None:
    store = MemoryStore()
    one, _ = first(store)
    two, book = resuming(store, one.ticket)
    old, new = session_id_of(one.sid), session_id_of(two.sid)
    book >> (lambda s: s.send(Push(5, b"wait")))
    book >> Bare(Pin(ping_number=9)) << Pon(ping_number=9) << Emits(Pinged(9, trusted=False))
    assert store.find(old, 0.0) is not None  # a bare frame proves nothing
    assert store.find(new, 0.0) is None
    book >> Pin(ping_number=1) << Pon(ping_number=1) << psh(5, b"wait")
    book << Emits(Resumed(new, old)) << Emits(Pinged(1))
    assert store.find(old, 0.0) is None
    assert store.find(new, 0.0) is not None
    book.done()


@rule("magline.4.10")
def test_4_10_any_frame_that_verifies_confirms() -> None:
    store = MemoryStore()
    one, _ = first(store)
    two, book = resuming(store, one.ticket)
    book >> req(7, b"at once") << Emits(Resumed(session_id_of(two.sid), session_id_of(one.sid)))
    book << Emits(Requested(2, 7, b"at once"))
    book >> (lambda s: s.send(Reply(2))) << To(2, rep(7))
    book.done()


@rule("magline.4.10")
def test_4_10_a_replayed_resyn_achieves_nothing() -> None:
    """Whoever recorded it cannot confirm; the owner's connection and session go on."""
    store = MemoryStore()
    one, old = first(store)
    two, book = resuming(store, one.ticket)
    confirm(two, book, one)
    thief, stolen = new_server(store=store, seed="thief")
    refused_bare(stolen, two.hello, *UNKNOWN)
    assert thief.sealer is None
    book >> Pin(ping_number=2) << Pon(ping_number=2) << Emits(Pinged(2))
    book.done()
    assert not old.session.closed  # its application closes it, with FIN 6


@rule("magline.4.10")
def test_4_10_a_lost_ack_does_not_end_the_session() -> None:
    store = MemoryStore()
    one, _ = first(store)
    _, lost = resuming(store, one.ticket, number=2)
    lost >> Eof() << Emits(Closed("eof", Side.REMOTE, clean=False))
    lost.done()
    three, book = resuming(store, one.ticket, number=3)
    confirm(three, book, one)
    book.done()


@rule("magline.4.10")
def test_4_10_no_confirmation_for_10_seconds() -> None:
    store = MemoryStore()
    one, _ = first(store)
    _, book = resuming(store, one.ticket)
    book >> At(10) << err(ErrorNumber.TIMEOUT) << fin(Reason.HANDSHAKE)
    book << EmitsKind.of(Failed, code="timeout")
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    book.done()
    assert store.find(session_id_of(one.sid), 10.0) is not None


@rule("magline.4.10")
def test_4_10_an_unknown_id_and_a_bad_binder_get_the_same_answer() -> None:
    store = MemoryStore()
    one, _ = first(store)
    wrong = Ticket(one.sid, bytes(32), Mode.ANONYMOUS, None, 0.0)
    absent = Ticket(bytes(16), one.ticket.res, Mode.ANONYMOUS, None, 0.0)
    said = []
    for ticket in (wrong, absent):
        peer, book = new_server(store=store)
        refused_bare(book, peer.syn(ticket), *UNKNOWN, detail="", field="")
        said.append(peer.frames)
    assert said[0] == said[1]
    peer, book = new_server()  # a server without a store resumes nothing
    refused_bare(book, peer.syn(one.ticket), *UNKNOWN)


@rule("magline.4.10")
def test_4_10_the_state_lives_600_s_after_a_disconnect() -> None:
    for away_s, lives in ((599.0, True), (600.0, False)):
        store = MemoryStore()
        one, book = first(store)
        book >> At(50) >> Eof() << Emits(Closed("eof", Side.REMOTE, clean=False))
        now = 50 + away_s
        if lives:
            two, book = resuming(store, one.ticket, now=now)
            confirm(two, book, one)
        else:
            peer, book = new_server(store=store, now=now)
            refused_bare(book, peer.syn(one.ticket), *UNKNOWN)


@rule("magline.4.10")
def test_4_10_principal_order_and_queue_go_with_the_session() -> None:
    store, options = MemoryStore(), ServerOptions(order_cmds=(1, 2))
    one, book = first(store, options=options)
    book >> req(1) << EmitsKind.of(Requested, step=0)
    book >> (lambda s: s.identify("ann")) >> (lambda s: s.send(Reply(2))) << To(2, rep(1))
    two, book = resuming(store, one.ticket, options=options)
    confirm(two, book, one, "ann")
    assert store.queue(session_id_of(two.sid), Push(3), 0.0)
    book >> req(2) << EmitsKind.of(Requested, step=1)  # it goes on where it was
    book >> (lambda s: s.send(Reply(3))) << To(3, rep(2)) << Emits(Authenticated("ann"))
    book << psh(3)
    three, book = resuming(store, two.ticket, number=3, options=options)
    confirm(three, book, two, "ann")
    book >> req(99) << Emits(Requested(3, 99, b""))
    assert three.sid != two.sid != one.sid
    book.done()


@rule("magline.4.10")
@pytest.mark.parametrize("key", [PINNED, SHARED], ids=["pinned", "psk"])
def test_4_10_the_mode_of_the_first_connection_is_kept(key: ClientKey) -> None:
    store = MemoryStore()
    one, _ = first(store, key=key)
    two, book = resuming(store, one.ticket, key=key)
    confirm(two, book, one)
    assert isinstance(book.session, ServerSession)
    assert book.session.mode == key.mode | Mode.RESUME
    # The same session with another key, or none, is not known.
    for other in {ANONYMOUS, PINNED, SHARED} - {key}:
        store = MemoryStore()
        one, _ = first(store, key=key)
        peer, book = new_server(store=store, key=other)
        refused_bare(book, peer.syn(one.ticket), *UNKNOWN)


# -- 6.1 -------------------------------------------------------------------------------------


@rule("magline.6.1")
def test_6_1_the_24_hours_run_from_the_first_authentication() -> None:
    options = ServerOptions(idle_limit_s=48 * HOUR, order_cmds=(1,))
    store = MemoryStore()
    one, book = first(store, options=options)
    book >> At(20) >> req(1) << EmitsKind.of(Requested)
    book >> (lambda s: s.send(Reply(2))) << To(2, rep(1)) << EmitsKind.of(Authenticated)
    two, book = resuming(store, one.ticket, options=options, now=23 * HOUR)
    confirm(two, book, one)
    book >> At(24 * HOUR + 19)
    book >> At(24 * HOUR + 20) << fin(Reason.REKEY) << Emits(Closed("rekey", Side.LOCAL))
    book.done()
    peer, book = new_server(store=store, now=24 * HOUR + 21)
    refused_bare(book, peer.syn(two.ticket), *UNKNOWN)


@rule("magline.6.1")
def test_6_1_the_client_counts_the_same_24_hours() -> None:
    _, old = open_client()
    assert isinstance(old.session, ClientSession)
    ticket = old.session.ticket
    assert ticket is not None
    options = ClientOptions(heartbeat_s=48 * HOUR)
    peer, book = new_client(options, ticket=ticket, now=20 * HOUR, seed="again")
    book >> peer.ack(ticket.res) << Pin(ping_number=1) << EmitsKind.of(Established)
    book >> Pon(ping_number=1) << EmitsKind.of(Resumed) << EmitsKind.of(Ponged)
    book >> At(24 * HOUR) << fin(Reason.REKEY) << Emits(Closed("rekey", Side.LOCAL))
    session = book.done()
    assert isinstance(session, ClientSession)
    late = session.again(now=24 * HOUR)
    late.connect()
    assert len(late.to_send()) == 80  # a plain SYN
    assert late.ticket is None


@rule("magline.6.1")
def test_6_1_a_changed_credential_ends_its_sessions_at_once() -> None:
    store = MemoryStore()
    one, book = first(store)
    book >> (lambda s: s.identify("ann"))
    _, pending = resuming(store, one.ticket)
    assert store.revoke("ann") == 1
    refused(pending, Pin(ping_number=1), *UNKNOWN)  # even one that was about to resume
    peer, book = new_server(store=store)
    refused_bare(book, peer.syn(one.ticket), *UNKNOWN)


@rule("magline.6.1")
@pytest.mark.parametrize("key", [PINNED, SHARED], ids=["pinned", "psk"])
def test_6_1_so_does_removing_the_key_from_the_server(key: ClientKey) -> None:
    store = MemoryStore()
    one, _ = first(store, key=key)
    rotated = ServerKeys(static=[bytes([1]) * 32], psks=[bytes([2]) * 32], allow_anonymous=True)
    peer, book = new_server(store=store, key=key, keys=rotated)
    refused_bare(book, peer.syn(one.ticket), *UNKNOWN)
    still = ServerKeys(static=[bytes([1]) * 32, STATIC], psks=[bytes([2]) * 32, PSK])
    _, book = resuming(store, one.ticket, key=key, keys=still)
    book.done()


# -- 6.2 -------------------------------------------------------------------------------------


def ticket_of(book: Playbook) -> Ticket | None:
    assert isinstance(book.session, ClientSession)
    return book.session.ticket


@rule("magline.6.2")
def test_6_2_the_client_keeps_the_old_id_until_the_server_has_shown_the_new_keys() -> None:
    old = ticket_of(open_client()[1])
    assert old is not None
    peer, book = new_client(ticket=old, seed="again")
    assert ticket_of(book) == old
    book >> peer.ack(old.res, bytes([6]) * 16) << Pin(ping_number=1) << EmitsKind.of(Established)
    book >> Bare(Pon(ping_number=1)) << Emits(Ponged(1, 0.0))
    assert ticket_of(book) == old  # a bare frame shows nothing
    book >> psh(1)
    book << Emits(Resumed(session_id_of(bytes([6]) * 16), session_id_of(PEER_SID)))
    book << Emits(Pushed(1, b""))
    book.done()
    new = ticket_of(book)
    assert new is not None
    assert new.sid == bytes([6]) * 16
    assert new.since == old.since


@rule("magline.6.2")
@pytest.mark.parametrize("reason", [Reason.SHUTDOWN, Reason.HANDSHAKE])
def test_6_2_a_server_that_ends_at_once_has_not_retired_the_old_id(reason: Reason) -> None:
    old = ticket_of(open_client()[1])
    assert old is not None
    peer, book = new_client(ticket=old, seed="again")
    book >> peer.ack(old.res) << Pin(ping_number=1) << EmitsKind.of(Established)
    book >> fin(reason) << Emits(Finished(reason))
    book << Emits(Closed(reason.name.lower(), Side.REMOTE))
    book.done()
    assert ticket_of(book) == old


@rule("magline.6.2")
@pytest.mark.parametrize("bare", [False, True])
def test_6_2_err_8_while_confirming_counts_only_with_a_tag(bare: bool) -> None:
    old = ticket_of(open_client()[1])
    assert old is not None
    peer, book = new_client(ticket=old, seed="again")
    book >> peer.ack(old.res) << Pin(ping_number=1) << EmitsKind.of(Established)
    if bare:
        book >> Bare(err(8)) << fin(Reason.PROTOCOL) << Emits(Refused(8, trusted=False))
        book << Emits(Closed("refused", Side.LOCAL, clean=False))
        assert ticket_of(book) == old
    else:
        book >> err(8) << Emits(Refused(8)) >> fin(Reason.RESUME)
        book << Emits(Finished(Reason.RESUME))
        book << Emits(Closed("resume", Side.REMOTE, clean=False))
        assert ticket_of(book) is None
    book.done()


@rule("magline.6.2")
def test_6_2_the_newest_pending_resumption_wins() -> None:
    store = MemoryStore()
    one, _ = first(store)
    _, older = resuming(store, one.ticket, number=2)
    newer_peer, newer = resuming(store, one.ticket, number=3)
    refused(older, Pin(ping_number=1), *UNKNOWN)
    confirm(newer_peer, newer, one)
    newer.done()


@rule("magline.6.2")
def test_6_2_a_copy_of_a_resyn_does_not_keep_the_owner_out() -> None:
    """It comes between the owner's reSYN and the PIN that confirms."""
    store = MemoryStore()
    one, _ = first(store)
    two, book = resuming(store, one.ticket)
    _, copied = new_server(store=store, seed="thief")
    refused_bare(copied, two.hello, *UNKNOWN)
    confirm(two, book, one)
    book.done()


@rule("magline.6.2")
def test_6_2_a_session_is_retired_once() -> None:
    """Two servers that share a store: compare and swap."""
    store = MemoryStore()
    one, _ = first(store)
    two, book = resuming(store, one.ticket)
    confirm(two, book, one)
    peer, late = new_server(store=store, private=bytes([9]) * 32)
    refused_bare(late, peer.syn(one.ticket), *UNKNOWN)


@rule("magline.6.2")
def test_6_2_the_store_knows_no_session_ids() -> None:
    store = MemoryStore()
    one, _ = first(store)
    assert store.find(one.sid, 0.0) is None
    assert store.find(session_id_of(one.sid), 0.0) is not None
