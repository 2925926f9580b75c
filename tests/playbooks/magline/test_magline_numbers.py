"""Every error number and every FIN reason of magline, said and heard (section 2).

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.magline.peer import (
    SHARED,
    Bare,
    To,
    err,
    fin,
    head,
    new_client,
    new_server,
    open_client,
    open_server,
    refused,
    refused_bare,
    rep,
    req,
)
from tests.playbooks.playbook import PROVEN, At, Emits, EmitsKind, Playbook, rule

from wirelake.protocols.magline.layout import Ack, ErrorNumber, Pin, Pon, Reason
from wirelake.protocols.magline.limits import ClientOptions, ServerOptions
from wirelake.protocols.magline.session import (
    ClientSession,
    Failure,
    Finished,
    MemoryStore,
    Pinged,
    Refused,
    Reply,
    Request,
    Requested,
    RequestFailed,
    ServerKeys,
    ServerSession,
)
from wirelake.protocols.sansio import Closed, Failed, SessionError, Side

E = ErrorNumber


# -- error numbers that sessions say by themselves -------------------------------------------


@rule("magline.error.bad_frame")
def test_error_1_bad_frame() -> None:
    """Bad magic, a magic that does not fit, a bad header, a bad length; with and without keys."""
    cases = {
        "bad_magic": b"\x00",
        "magic_mismatch": head(magic=0x7E, cmd=4, seq=2, length=4),
        "bad_header": head(cmd=4, head_length=4, seq=2, length=8),
        "bad_length": head(cmd=4, seq=2, length=5),
    }
    for code, frame in cases.items():
        refused_bare(new_server()[1], frame, code, E.BAD_FRAME)
        refused(open_server()[1], frame, code, E.BAD_FRAME)
        refused_bare(new_client()[1], frame, code, E.BAD_FRAME)
        refused(open_client()[1], frame, code, E.BAD_FRAME)


@rule("magline.error.bad_version")
def test_error_2_bad_version() -> None:
    refused_bare(new_server()[1], b"\x7f\x65", "bad_version", E.BAD_VERSION)
    refused(open_server()[1], b"\x7f\x65", "bad_version", E.BAD_VERSION)
    refused(open_client()[1], b"\x7e\x01", "bad_version", E.BAD_VERSION)


@rule("magline.error.unknown_cmd")
@pytest.mark.parametrize("cmd", [0, 10, 0xFFFF])
def test_error_3_unknown_cmd(cmd: int) -> None:
    frame = head(cmd=cmd, seq=2)
    refused_bare(new_server()[1], frame, "unknown_type", E.UNKNOWN_CMD)
    refused(open_server()[1], frame, "unknown_type", E.UNKNOWN_CMD)
    refused(open_client()[1], frame, "unknown_type", E.UNKNOWN_CMD)


@rule("magline.error.bad_option")
def test_error_4_bad_option() -> None:
    critical = head(cmd=4, optional=0x8000, head_length=2, seq=2, length=6)
    refused(open_server()[1], critical, "bad_option", E.BAD_OPTION)
    short_tag = head(cmd=4, optional=1, head_length=5, seq=2, length=9) + b"\0\3abc" + bytes(4)
    refused(open_server()[1], short_tag, "bad_option", E.BAD_OPTION)
    on_data = head(magic=0x7E, cmd=8, optional=1, head_length=18, seq=2, length=38)
    refused(open_client()[1], on_data, "bad_option", E.BAD_OPTION)


@rule("magline.error.too_large")
def test_error_5_too_large() -> None:
    refused_bare(new_server()[1], head(length=513), "too_large", E.TOO_LARGE)
    over = head(magic=0x7E, cmd=6, seq=2, length=(1 << 20) + 1)
    refused(open_server()[1], over, "too_large", E.TOO_LARGE)
    small = ServerOptions(max_frame=1000)
    over = head(magic=0x7E, cmd=6, seq=2, length=1001)
    refused(open_server(small)[1], over, "too_large", E.TOO_LARGE)
    ordering = ServerOptions(order_cmds=(7,), order_max_frame=1000)
    refused(open_server(ordering)[1], over, "too_large", E.TOO_LARGE)
    (open_server(ServerOptions(order_max_frame=1000))[1] >> over).done()  # nothing to order
    over = head(magic=0x7E, cmd=8, seq=2, length=1001)
    refused(open_client(ClientOptions(max_frame=1000))[1], over, "too_large", E.TOO_LARGE)


@rule("magline.error.too_large")
def test_error_5_what_is_too_large_is_not_sent_either() -> None:
    _, book = open_client(ClientOptions(max_frame=1000))
    assert isinstance(book.session, ClientSession)
    with pytest.raises(SessionError, match="too_large"):
        book.session.send(Request(1, bytes(981)))
    book >> (lambda s: s.send(Request(1, bytes(980)))) << req(1, bytes(980))  # no Seq is missing
    book.done()


@rule("magline.error.bad_state")
def test_error_6_bad_state() -> None:
    peer, book = new_server()
    refused_bare(book, peer.encode(Pin(ping_number=1)), "bad_state", E.BAD_STATE)
    frame = head(magic=0x7E, cmd=6, length=20) + bytes(20)
    refused_bare(new_server()[1], frame, "bad_state", E.BAD_STATE)
    peer, book = open_server()
    refused(book, peer.syn(), "bad_state", E.BAD_STATE)
    again = Ack(random=bytes(32), public_key=bytes(32), sealed_sid=bytes(32))
    refused(open_client()[1], Bare(again), "bad_state", E.BAD_STATE)


@rule("magline.error.bad_state")
def test_error_6_a_request_for_business_cmd_0_which_is_the_connection() -> None:
    _, book = open_server()
    refused(book, req(0), "bad_state", E.BAD_STATE)
    _, book = open_client()
    assert isinstance(book.session, ClientSession)
    with pytest.raises(SessionError, match="bad_value"):
        book.session.send(Request(0))
    book.done()


@rule("magline.error.handshake")
def test_error_7_handshake() -> None:
    peer, book = new_server(keys=ServerKeys(psks=[bytes([3]) * 32]), key=SHARED)
    refused_bare(book, peer.syn(), "handshake_failed", E.HANDSHAKE, Reason.HANDSHAKE)


@rule("magline.error.session_unknown")
def test_error_8_session_unknown() -> None:
    ticket = open_server()[0].ticket
    peer, book = new_server(store=MemoryStore())
    refused_bare(book, peer.syn(ticket), "session_unknown", E.SESSION_UNKNOWN, Reason.RESUME)


@rule("magline.error.bad_record")
def test_error_9_bad_record() -> None:
    for peer, book in (open_server(), open_client()):
        peer.seq += 1
        body: Any = Pin(ping_number=1) if isinstance(book.session, ServerSession) else rep(1)
        refused(book, peer.encode(body), "bad_record", E.BAD_RECORD)


@rule("magline.error.timeout")
def test_error_10_timeout() -> None:
    _, book = new_server()
    book >> At(10) << Bare(err(E.TIMEOUT)) << Bare(fin(Reason.HANDSHAKE))
    book << EmitsKind.of(Failed, code="timeout")
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    book.done()
    _, book = open_server(ServerOptions(order_cmds=(1,)))
    book >> At(30) << err(E.TIMEOUT) << fin(Reason.AUTH) << EmitsKind.of(Failed, code="timeout")
    book << Emits(Closed("timeout", Side.LOCAL, clean=False))
    book.done()


@rule("magline.error.busy")
def test_error_11_busy_refuses_one_request_and_the_connection_stays() -> None:
    _, book = open_server(ServerOptions(max_requests=2))
    for seq in (2, 3):
        book >> req(1) << Emits(Requested(seq, 1, b""))
    book >> req(1) << To(4, err(E.BUSY, 1))
    book << EmitsKind.of(Failed, code="too_busy", fatal=False)
    book >> (lambda s: s.send(Reply(2))) << To(2, rep(1))
    book >> req(1) << Emits(Requested(5, 1, b""))
    session = book.done()
    assert isinstance(session, ServerSession)
    assert session.unanswered == 2


@rule("magline.error.busy")
def test_error_11_a_client_does_not_ask_too_much() -> None:
    _, book = open_client(ClientOptions(max_requests=1))
    assert isinstance(book.session, ClientSession)
    book >> (lambda s: s.send(Request(1))) << req(1)
    with pytest.raises(SessionError, match="too_busy"):
        book.session.send(Request(1))
    book >> To(2, err(E.BUSY, 1)) << Emits(RequestFailed(2, 1, E.BUSY))
    book >> (lambda s: s.send(Request(1))) << req(1)
    book.done()


@rule("magline.error.order_cmd")
def test_error_12_order_cmd() -> None:
    _, book = open_server(ServerOptions(order_cmds=(1,)))
    refused(book, req(2), "auth_failed", E.ORDER_CMD, Reason.AUTH)


# -- error numbers that applications choose --------------------------------------------------


def failed_request(number: int) -> None:
    """A server's application refuses one request; the client hears why; both go on."""
    _, book = open_server()
    book >> req(7) << Emits(Requested(2, 7, b""))
    book >> (lambda s: s.send(Failure(2, number))) << To(2, err(number, 7))
    book >> Pin(ping_number=1) << Pon(ping_number=1) << Emits(Pinged(1))
    book.done()
    _, book = open_client()
    book >> (lambda s: s.send(Request(7))) << req(7)
    book >> To(2, err(number, 7)) << Emits(RequestFailed(2, 7, number))
    assert book.done().state == "open"


@rule("magline.error.auth")
def test_error_13_auth() -> None:
    failed_request(E.AUTH)


@rule("magline.error.no_route")
def test_error_14_no_route() -> None:
    failed_request(E.NO_ROUTE)


@rule("magline.error.business")
def test_error_15_business() -> None:
    failed_request(E.BUSINESS)


@rule("magline.error.internal")
def test_error_16_internal() -> None:
    failed_request(E.INTERNAL)
    _, book = open_server()
    book >> (lambda s: s.abort(E.INTERNAL)) << err(E.INTERNAL) << fin(Reason.INTERNAL)
    book << Emits(Closed("internal", Side.LOCAL, clean=False))
    book.done()


@rule("magline.error.application")
def test_error_numbers_of_applications_begin_at_0x10000_and_0_is_never_sent() -> None:
    failed_request(0x10000)
    failed_request(0xFFFF_FFFF)
    _, book = open_server()
    book >> req(7) << Emits(Requested(2, 7, b""))
    assert isinstance(book.session, ServerSession)
    for number in (0, 17, 0xFFFF, 1 << 32):
        with pytest.raises(SessionError, match="bad_value"):
            book.session.send(Failure(2, number))
        with pytest.raises(SessionError, match="bad_value"):
            book.session.abort(number)
    book >> (lambda s: s.send(Failure(2))) << To(2, err(E.BUSINESS, 7))
    book.done()


@rule("magline.error.connection")
@pytest.mark.parametrize("number", [int(number) for number in E])
def test_an_err_about_the_connection_is_followed_by_its_fin(number: int) -> None:
    for _, book in (open_server(), open_client()):
        book >> err(number) << Emits(Refused(number))
        book >> fin(Reason.PROTOCOL) << Emits(Finished(Reason.PROTOCOL))
        book << Emits(Closed("protocol", Side.REMOTE, clean=False))
        book.done()


@rule("magline.error.connection")
def test_an_err_whose_fin_does_not_come() -> None:
    _, book = open_client()
    book >> err(E.INTERNAL) << Emits(Refused(E.INTERNAL))
    book >> At(9.9) >> At(10) << Emits(Closed("refused", Side.REMOTE, clean=False))
    book.done()
    _, book = open_client()
    book >> err(E.INTERNAL) << Emits(Refused(E.INTERNAL))
    refused(book, rep(1), "bad_state", E.BAD_STATE)


@rule("magline.error.connection")
def test_an_err_of_a_client_about_a_request_is_a_fault_and_no_more() -> None:
    _, book = open_server()
    book >> err(E.BUSINESS, 7) << EmitsKind.of(Failed, code="unexpected_reply", fatal=False)
    assert book.done().state == "open"


# -- FIN reasons -----------------------------------------------------------------------------


def heard_and_said(reason: int, name: str) -> None:
    for _, book in (open_server(), open_client()):
        book >> (lambda s: s.close(reason)) << fin(reason) << Emits(Closed(name, Side.LOCAL))
        book.done()
    for _, book in (open_server(), open_client()):
        book >> fin(reason) << Emits(Finished(reason)) << Emits(Closed(name, Side.REMOTE))
        book.done()


@rule(*(f"magline.fin.{reason.name.lower()}" for reason in Reason))
@pytest.mark.parametrize("reason", list(Reason))
def test_fin_sent_and_received(reason: Reason) -> None:
    heard_and_said(reason, reason.name.lower())


@rule("magline.fin.application")
def test_fin_reasons_of_applications_begin_at_0x10000() -> None:
    heard_and_said(0x10000, "reason 65536")
    _, book = open_server()
    assert isinstance(book.session, ServerSession)
    for reason in (11, 0xFFFF, 1 << 32, -1):
        with pytest.raises(SessionError, match="bad_value"):
            book.session.close(reason)
    book >> fin(11) << Emits(Finished(11)) << Emits(Closed("reason 11", Side.REMOTE))
    book.done()


@rule("magline.fin.auth")
def test_fin_3_means_that_the_session_is_over() -> None:
    _, book = open_client()
    book >> fin(Reason.AUTH) << Emits(Finished(3)) << Emits(Closed("auth", Side.REMOTE))
    session = book.done()
    assert isinstance(session, ClientSession)
    assert session.ticket is None
    for reason, kept in ((Reason.AUTH, False), (Reason.SHUTDOWN, True)):
        store = MemoryStore()
        _, book = open_server(store=store)
        assert isinstance(book.session, ServerSession)
        book.session.close(reason)
        assert (store.find(book.session.session_id, 0.0) is not None) == kept


@rule("magline.fin.normal")
def test_fin_0_may_end_the_session_too() -> None:
    store = MemoryStore()
    _, book = open_server(store=store)
    book >> (lambda s: s.close(resumable=False)) << fin() << Emits(Closed("normal", Side.LOCAL))
    book.done()
    assert len(store) == 0


@rule("magline.fin.idle")
def test_fin_4_by_itself() -> None:
    _, book = open_server(ServerOptions(idle_limit_s=5))
    book >> At(5) << fin(Reason.IDLE) << EmitsKind.of(Failed, code="idle")
    book << Emits(Closed("idle", Side.LOCAL, clean=False))
    book.done()


def test_fin_is_not_clean_while_requests_are_open() -> None:
    for opened, given in ((open_server, req(1)), (open_client, lambda s: s.send(Request(1)))):
        book: Playbook = opened()[1]
        book >> given
        book.session.events()
        book.session.close()  # type: ignore[attr-defined]
        assert book.session.events()[-1] == Closed("normal", Side.LOCAL, clean=False)


def test_every_number_has_its_playbook() -> None:
    for number in ErrorNumber:
        assert f"magline.error.{number.name.lower()}" in PROVEN
    for reason in Reason:
        assert f"magline.fin.{reason.name.lower()}" in PROVEN
