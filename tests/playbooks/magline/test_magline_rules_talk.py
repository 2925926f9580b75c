"""Rules 13 to 18, 20 and 21 of the magline decisions, on live sessions: who says what when.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.magline.peer import (
    PINNED,
    Bare,
    To,
    an_ack,
    err,
    fin,
    new_client,
    new_server,
    open_client,
    open_server,
    psh,
    refused,
    refused_bare,
    rep,
    req,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, Eof, Playbook, rule

from wirelake.protocols.magline.codec_seed import decode_frame, encode_frame
from wirelake.protocols.magline.layout import Ack, ErrorNumber, Frame, Pin, Pon, Reason, Syn
from wirelake.protocols.magline.limits import ClientOptions, ResumptionOptions, ServerOptions
from wirelake.protocols.magline.session import (
    Authenticated,
    ClientSession,
    Established,
    Failure,
    Finished,
    MemoryStore,
    Pinged,
    Ponged,
    Push,
    Refused,
    Reply,
    Request,
    Requested,
    RequestLost,
    Resumed,
    ServerSession,
    session_id_of,
)
from wirelake.protocols.sansio import Closed, Failed, SessionError, Side

ORDER = ServerOptions(order_cmds=(0x10, 0x20))
SECOND = bytes([8]) * 32
"""Another ephemeral key of the playbook's client: a throw-away test value."""


# -- 13, 14, 15: reSYN -----------------------------------------------------------------------


@rule("magline.13")
def test_13_a_resyn_is_a_syn_with_an_option() -> None:
    _, old = open_client()
    assert isinstance(old.session, ClientSession)
    ticket = old.session.ticket
    peer, _ = new_client(ticket=ticket, seed="again")
    message = decode_frame(peer.frames[0], 0, len(peer.frames[0]))[0]
    assert isinstance(message.body, Syn)
    assert message.resume is not None
    assert ticket is not None
    assert message.resume.sid == ticket.sid
    assert len(peer.frames[0]) == 16 + 2 + 32 + 64


@rule("magline.14")
@pytest.mark.parametrize("resume", [False, True])
def test_14_no_second_syn_on_a_live_connection(resume: bool) -> None:
    peer, book = open_server(store=MemoryStore())
    again = peer.syn(peer.ticket if resume else None)
    refused(book, again, "bad_state", ErrorNumber.BAD_STATE, offset=80 + 2)


@rule("magline.15")
def test_15_server_an_unknown_session_is_refused() -> None:
    stranger, _ = open_server()
    peer, book = new_server(store=MemoryStore())
    resyn = peer.syn(stranger.ticket)
    refused_bare(book, resyn, "session_unknown", ErrorNumber.SESSION_UNKNOWN, Reason.RESUME)


@rule("magline.15")
def test_15_client_then_sends_a_plain_syn() -> None:
    _, old = open_client(key=PINNED)
    assert isinstance(old.session, ClientSession)
    _, book = new_client(key=PINNED, ticket=old.session.ticket, seed="again")
    book >> err(ErrorNumber.SESSION_UNKNOWN)
    book << Emits(Refused(ErrorNumber.SESSION_UNKNOWN, trusted=False))
    book >> fin(Reason.RESUME) << Emits(Finished(Reason.RESUME, trusted=False))
    book << Emits(Closed("refused", Side.REMOTE, clean=False))
    session = book.done()
    assert isinstance(session, ClientSession)
    after = session.again(now=1.0)
    after.connect()
    syn = decode_frame(data := after.to_send(), 0, len(data))[0]
    assert (syn.resume, syn.key_id) == (None, PINNED.key_id)


# -- 16: heartbeat ---------------------------------------------------------------------------


@rule("magline.16")
def test_16_client_pings_every_30_s_and_closes_10_s_after_a_missing_pon() -> None:
    _, book = open_client()
    book >> At(29.9)
    book >> At(30) << Pin(ping_number=1)
    book >> At(39.9)
    book >> At(40) << EmitsKind.of(Failed, code="timeout")
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    session = book.done()
    assert isinstance(session, ClientSession)
    assert session.ticket is not None  # it resumes


@rule("magline.16")
def test_16_client_the_frequency_is_its_own() -> None:
    _, book = open_client(ClientOptions(heartbeat_s=2, pon_timeout_s=5))
    book >> At(2) << Pin(ping_number=1)
    book >> At(4) << Pin(ping_number=2)
    book >> At(5) >> Pon(ping_number=1) << Emits(Ponged(1, 3.0))
    book >> At(6) << Pin(ping_number=3)
    book >> At(8) << Pin(ping_number=4)
    book >> At(9) << EmitsKind.of(Failed, code="timeout")
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    book.done()


@rule("magline.16")
def test_16_client_counts_late_and_unknown_pons() -> None:
    _, book = open_client()
    book >> Pon(ping_number=99) >> At(30) << Pin(ping_number=1)
    book >> Pon(ping_number=1) << Emits(Ponged(1, 0.0))
    book >> Pon(ping_number=1)
    session = book.done()
    assert isinstance(session, ClientSession)
    assert session.unknown_pons == 2


@rule("magline.16")
def test_16_server_ends_what_is_silent_for_90_s() -> None:
    _, book = open_server()
    book >> At(89) >> req(1) << Emits(Requested(2, 1, b""))  # any frame counts
    book >> At(178.9) >> At(179) << fin(Reason.IDLE) << EmitsKind.of(Failed, code="idle")
    book << Emits(Closed("idle", Side.LOCAL, clean=False))
    book.done()


# -- 17: directions --------------------------------------------------------------------------


@rule("magline.17")
@pytest.mark.parametrize("body", [psh(1), rep(1), Pon(ping_number=1)], ids=["PSH", "REP", "PON"])
def test_17_server_refuses_messages_that_only_servers_send(body: Any) -> None:
    peer, book = open_server()
    refused(book, peer.encode(body), "bad_state", ErrorNumber.BAD_STATE)


@rule("magline.17")
@pytest.mark.parametrize("body", [Pin(ping_number=1), req(1)], ids=["PIN", "REQ"])
def test_17_client_refuses_messages_that_only_clients_send(body: Any) -> None:
    peer, book = open_client()
    refused(book, peer.encode(body), "bad_state", ErrorNumber.BAD_STATE)


@rule("magline.17")
def test_17_syn_and_ack_have_a_direction_too() -> None:
    ack = Ack(random=bytes(32), public_key=bytes(32), sealed_sid=bytes(32))
    for number, (peer, book) in enumerate((new_server(), new_client())):
        body = ack if not number else Syn(random=bytes(32), public_key=bytes(32))
        refused_bare(book, peer.encode(body), "bad_state", ErrorNumber.BAD_STATE)


# -- 18: control frames without a tag --------------------------------------------------------


@rule("magline.18")
def test_18_our_own_control_frames_always_carry_a_tag() -> None:
    """The peer of a playbook shows frames without a tag as `Bare`."""
    _, book = open_server()
    book >> Bare(Pin(ping_number=1)) << Pon(ping_number=1) << Emits(Pinged(1, trusted=False))
    book >> (lambda s: s.close()) << fin() << Emits(Closed("normal", Side.LOCAL))
    book.done()


@rule("magline.18")
def test_18_a_bare_fin_closes_but_its_reason_is_hearsay() -> None:
    for _, book in (open_server(), open_client()):
        book >> Bare(fin(Reason.SHUTDOWN)) << Emits(Finished(Reason.SHUTDOWN, trusted=False))
        book << Emits(Closed("untrusted_fin", Side.REMOTE, clean=False))
        book.done()


@rule("magline.18")
@pytest.mark.parametrize("cmd", [0, 1])
def test_18_a_bare_err_is_fatal_with_any_code(cmd: int) -> None:
    _, book = open_client()
    book >> (lambda s: s.send(Request(1))) << req(1)
    book >> Bare(err(ErrorNumber.BUSINESS, cmd)) << fin(Reason.PROTOCOL)
    book << Emits(Refused(ErrorNumber.BUSINESS, cmd, trusted=False))
    book << Emits(RequestLost(2, 1, "connection_lost"))
    book << Emits(Closed("refused", Side.LOCAL, clean=False))
    book.done()
    _, book = open_server()
    book >> Bare(err(ErrorNumber.INTERNAL, cmd)) << fin(Reason.PROTOCOL)
    book << Emits(Refused(ErrorNumber.INTERNAL, cmd, trusted=False))
    book << Emits(Closed("refused", Side.LOCAL, clean=False))
    book.done()


@rule("magline.18")
@pytest.mark.parametrize("auth", ["prefer", "require"])
def test_18_a_tag_that_is_present_must_be_right(auth: Any) -> None:
    for peer, book in (
        open_server(ServerOptions(control_auth=auth)),
        open_client(ClientOptions(control_auth=auth)),
    ):
        frame = bytearray(peer.encode(fin()))
        frame[20] ^= 1
        refused(book, bytes(frame), "bad_record", ErrorNumber.BAD_RECORD)


@rule("magline.18")
def test_18_require_refuses_bare_control_frames() -> None:
    for body in (Pin(ping_number=1), fin(), err(16), err(15, 1)):
        _, book = open_server(ServerOptions(control_auth="require"))
        refused(book, Bare(body), "bad_record", ErrorNumber.BAD_RECORD)
    for answer in (Pon(ping_number=1), fin(), err(16), err(15, 1)):
        _, book = open_client(ClientOptions(control_auth="require"))
        refused(book, Bare(answer), "bad_record", ErrorNumber.BAD_RECORD)
    _, book = open_server(ServerOptions(control_auth="require"))
    book >> Pin(ping_number=1) << Pon(ping_number=1) << Emits(Pinged(1))
    book.done()


@rule("magline.18")
def test_18_a_tag_before_there_are_keys_cannot_be_right() -> None:
    frame = encode_frame(Frame(seq=1, auth=bytes(16), body=fin()))
    for _, book in (new_server(), new_client()):
        refused_bare(book, frame, "bad_record", ErrorNumber.BAD_RECORD)


# -- 20: ordered commands --------------------------------------------------------------------


@rule("magline.20")
def test_20_the_listed_commands_in_their_order_then_everything() -> None:
    _, book = open_server(ORDER)
    book >> Pin(ping_number=1) << Pon(ping_number=1) << Emits(Pinged(1))
    book >> req(0x10, b"token") << Emits(Requested(3, 0x10, b"token", step=0))
    book >> Pin(ping_number=2) << Pon(ping_number=2) << Emits(Pinged(2))
    book >> (lambda s: s.send(Reply(3))) << To(3, rep(0x10))
    book >> req(0x20) << Emits(Requested(5, 0x20, b"", step=1))
    book >> (lambda s: s.identify("ann")) >> (lambda s: s.send(Reply(5))) << To(5, rep(0x20))
    book << Emits(Authenticated("ann"))
    book >> req(0x99) << Emits(Requested(6, 0x99, b""))
    book >> (lambda s: s.send(Push(1))) << psh(1)
    session = book.done()
    assert isinstance(session, ServerSession)
    assert session.authenticated


@rule("magline.20")
@pytest.mark.parametrize("cmd", [0x20, 0x99])
def test_20_another_request_is_refused(cmd: int) -> None:
    _, book = open_server(ORDER)
    refused(book, req(cmd), "auth_failed", ErrorNumber.ORDER_CMD, Reason.AUTH)


@rule("magline.20")
@pytest.mark.parametrize("cmd", [0x10, 0x20])
def test_20_no_request_while_a_step_is_decided(cmd: int) -> None:
    _, book = open_server(ORDER)
    book >> req(0x10) << Emits(Requested(2, 0x10, b"", step=0))
    refused(book, req(cmd), "auth_failed", ErrorNumber.ORDER_CMD, Reason.AUTH)


@rule("magline.20")
def test_20_nor_an_err_about_a_request() -> None:
    _, book = open_server(ORDER)
    refused(book, err(15, 7), "auth_failed", ErrorNumber.ORDER_CMD, Reason.AUTH)


@rule("magline.20")
def test_20_fin_is_legal_at_any_time() -> None:
    _, book = open_server(ORDER)
    book >> req(0x10) << Emits(Requested(2, 0x10, b"", step=0))
    book >> fin() << Emits(Finished(0)) << Emits(Closed("normal", Side.REMOTE))
    book.done()


@rule("magline.20")
def test_20_a_failed_step_sends_its_err_and_fin_3() -> None:
    store = MemoryStore()
    peer, book = open_server(ORDER, store=store)
    book >> req(0x10, b"wrong") << Emits(Requested(2, 0x10, b"wrong", step=0))
    book >> (lambda s: s.send(Failure(2, ErrorNumber.AUTH)))
    book << To(2, err(ErrorNumber.AUTH, 0x10)) << fin(Reason.AUTH)
    book << EmitsKind.of(Failed, code="auth_failed")
    book << Emits(Closed("auth_failed", Side.LOCAL, clean=False))
    book.done()
    assert store.find(session_id_of(peer.sid), 0.0) is None


@rule("magline.20")
def test_20_nothing_is_pushed_before() -> None:
    _, book = open_server(ORDER)
    with pytest.raises(SessionError, match="ordering"):
        book.session.send(Push(1))  # type: ignore[attr-defined]
    book.done()


# -- 21: what was under way when the connection was lost -------------------------------------


@rule("magline.21")
def test_21_requests_in_flight_fail_and_are_never_sent_again() -> None:
    _, book = open_client()
    book >> (lambda s: s.send(Request(1, b"once"))) << req(1, b"once")
    book >> Eof() << Emits(RequestLost(2, 1, "connection_lost"))
    book << Emits(Closed("eof", Side.REMOTE, clean=False))
    old = book.done()
    assert isinstance(old, ClientSession)
    assert old.ticket is not None
    peer, book = new_client(ticket=old.ticket, seed="again")
    book >> peer.ack(old.ticket.res) << Pin(ping_number=1) << EmitsKind.of(Established)
    book >> Pon(ping_number=1) << EmitsKind.of(Resumed) << EmitsKind.of(Ponged)
    book.done()


def away(store: MemoryStore, options: ServerOptions | None = None) -> Any:
    """The ticket of a client that has lost its connection."""
    peer, book = open_server(options, store=store)
    book >> Eof() << Emits(Closed("eof", Side.REMOTE, clean=False))
    book.done()
    return peer.ticket


def back(store: MemoryStore, ticket: Any, **more: Any) -> Playbook:
    """That client has come back and is yet to confirm."""
    peer, book = new_server(store=store, seed="second", private=SECOND, **more)
    return book >> peer.syn(ticket) << an_ack << EmitsKind.of(Established, resumed=True)


@rule("magline.21")
def test_21_pushes_wait_for_a_client_that_is_away() -> None:
    store = MemoryStore(ResumptionOptions(max_queued=64))
    ticket = away(store)
    for number in range(70):
        assert store.queue(session_id_of(ticket.sid), Push(number), 1.0)
    book = back(store, ticket)
    book >> Pin(ping_number=1) << Pon(ping_number=1)
    for number in range(6, 70):
        book << psh(number)
    book << EmitsKind.of(Resumed, dropped=6) << Emits(Pinged(1))
    book.done()


@rule("magline.21")
def test_21_what_could_not_go_out_waits_on() -> None:
    """The keys wear out in the middle of the queue: the rest waits for the next connection."""
    store = MemoryStore()
    ticket = away(store)
    for number in range(20):
        store.queue(session_id_of(ticket.sid), Push(number), 1.0)
    book = back(store, ticket, options=ServerOptions(rekey_seq=16))
    book >> Pin(ping_number=1) << Pon(ping_number=1)
    for number in range(11):
        book << psh(number)
    book << fin(Reason.REKEY) << EmitsKind.of(Resumed) << Emits(Pinged(1))
    book << Emits(Closed("rekey", Side.LOCAL))
    session = book.done()
    assert isinstance(session, ServerSession)
    assert store.take_queue(session.session_id)[0] == tuple(Push(n) for n in range(11, 20))
