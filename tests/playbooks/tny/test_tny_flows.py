"""The flows of tny's messages (§6 of the rules): who says what, in both roles.

Each dialogue runs in both dialects, with a session as server, as client, and back to back.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.playbook import At, Emits, EmitsKind, Eof, Pair, rule
from tests.playbooks.tny.peer import (
    DIALECTS,
    EPOCH_MS,
    Peer,
    client_book,
    push,
    request,
    response,
    server_book,
)

from wirelake.protocols.sansio import Closed, Failed, SessionError, Side
from wirelake.protocols.tny.layout import Ping, Pong
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.message import CLOSING, ResultCode
from wirelake.protocols.tny.session import (
    CallFailed,
    ClientSession,
    Pinged,
    Ponged,
    Pushed,
    Replied,
    Requested,
    ServerSession,
    Unmatched,
)
from wirelake.protocols.tny.transform import Dialect

LOGIN, MOVE, CHAT = 1001, 2002, 3003
HELLO = b"hello"

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)
every_dialect = pytest.mark.parametrize("dialect", [*DIALECTS, "auto"])


def pair(dialect: Any, **server: Any) -> Pair:
    client = ClientSession(ClientOptions(dialect=dialect), access_id=7, epoch_ms=EPOCH_MS)
    return Pair(client, ServerSession(ServerOptions(dialect=dialect, **server), epoch_ms=EPOCH_MS))


# -- request and response --------------------------------------------------------------------


@rule("tny.6.no_handshake", "tny.6.request", "tny.6.response")
@both_dialects
def test_a_server_answers_the_first_packet_of_a_connection(dialect: Dialect) -> None:
    asked = request(1, LOGIN, HELLO)
    (
        server_book(Peer(dialect))
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.respond(asked, b"welcome"))
        << response(1, asked, b"welcome")
    ).done()


@rule("tny.6.request", "tny.6.response")
@both_dialects
def test_a_client_asks_and_is_answered(dialect: Dialect) -> None:
    asked = request(1, LOGIN, HELLO)
    answer = response(9, asked, b"welcome")
    book = (
        client_book(Peer(dialect))
        >> (lambda s: s.request(LOGIN, HELLO))
        << asked
        >> answer
        << Emits(Replied(asked, answer))
    )
    session = book.done()
    assert isinstance(session, ClientSession)
    assert session.in_flight == 0
    assert session.timers.at("reply") is None


@rule("tny.6.request", "tny.6.response", "tny.6.push")
@every_dialect
def test_request_response_and_push_back_to_back(dialect: Any) -> None:
    both = pair(dialect)
    client, server = both.client, both.server
    assert isinstance(client, ClientSession)
    assert isinstance(server, ServerSession)
    client.request(LOGIN, HELLO)
    both.run()
    asked = request(1, LOGIN, HELLO)
    assert both.take() == ([], [Requested(asked)])
    server.respond(asked, b"welcome")
    server.push(CHAT, b"news", line=3)
    both.run()
    answer, news = response(1, asked, b"welcome"), push(2, CHAT, b"news", line=3)
    assert both.take() == ([Replied(asked, answer), Pushed(news)], [])
    server.request(MOVE)  # either end may ask
    both.run()
    back = request(3, MOVE)
    assert both.take() == ([Requested(back)], [])
    client.respond(back, code=207)
    both.run()
    assert both.take() == ([], [Replied(back, response(2, back, code=207))])


@rule("tny.6.response")
@both_dialects
def test_answers_may_come_in_any_order(dialect: Dialect) -> None:
    first, second = request(1, MOVE), request(2, MOVE)
    (
        client_book(Peer(dialect))
        >> (lambda s: s.request(MOVE))
        << first
        >> (lambda s: s.request(MOVE))
        << second
        >> response(1, second)
        << Emits(Replied(second, response(1, second)))
        >> response(2, first)
        << Emits(Replied(first, response(2, first)))
    ).done()


@rule("tny.6.unmatched")
@both_dialects
def test_a_response_that_answers_nothing_is_a_fault_and_no_more(dialect: Dialect) -> None:
    stray = response(1, request(77, MOVE))
    session = (
        client_book(Peer(dialect))
        >> stray
        << EmitsKind.of(Failed, code="unexpected_reply", fatal=False, side=Side.REMOTE)
        << Emits(Unmatched(stray))
        >> (lambda s: s.request(MOVE))
        << request(1, MOVE)
    ).done()
    assert not session.closed


@rule("tny.6.unmatched", "tny.6.response")
def test_a_response_of_another_protocol_does_not_answer() -> None:
    asked = request(1, MOVE)
    other = response(1, asked, protocol=CHAT)
    (
        client_book()
        >> (lambda s: s.request(MOVE))
        << asked
        >> other
        << EmitsKind.of(Failed, code="unexpected_reply", fatal=False)
        << Emits(Unmatched(other))
        >> response(2, asked)
        << Emits(Replied(asked, response(2, asked)))
    ).done()
    (
        client_book(strict=False)  # as the original: ToMessage alone counts
        >> (lambda s: s.request(MOVE))
        << asked
        >> other
        << Emits(Replied(asked, other))
    ).done()


@rule("tny.6.timeout")
@both_dialects
def test_a_response_is_waited_for_ten_seconds(dialect: Dialect) -> None:
    asked, later = request(1, MOVE), request(2, CHAT)
    late = response(1, asked)
    (
        client_book(Peer(dialect))
        >> (lambda s: s.request(MOVE))
        << asked
        >> (lambda s: s.request(CHAT, timeout_s=30))
        << later
        >> At(9.999)
        >> At(10)
        << Emits(CallFailed(asked, "timeout"))
        >> late
        << EmitsKind.of(Failed, code="unexpected_reply", fatal=False)
        << Emits(Unmatched(late))
        >> At(30)
        << Emits(CallFailed(later, "timeout"))
    ).done()


@rule("tny.6.timeout")
def test_a_timeout_counts_from_the_moment_that_the_caller_names() -> None:
    session = (
        client_book()
        >> (lambda s: s.request(MOVE, now=100.0))
        << request(1, MOVE, time=EPOCH_MS + 100_000)
        >> At(109.9)
        >> At(110.0)
        << EmitsKind.of(CallFailed, code="timeout")
    ).done()
    assert session.next_timer() is None


@rule("tny.6.unknown_protocol")
@both_dialects
def test_an_unknown_protocol_is_answered_205_without_a_body(dialect: Dialect) -> None:
    asked = request(1, 424_242, HELLO)
    session = (
        server_book(Peer(dialect))
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.respond(asked, code=ResultCode.NO_SUCH_PROTOCOL))
        << response(1, asked, code=205)
    ).done()
    assert not session.closed


# -- push ------------------------------------------------------------------------------------


@rule("tny.6.push")
@both_dialects
def test_a_push_is_not_answered(dialect: Dialect) -> None:
    news = push(1, CHAT, b"")
    assert news.to_message == 0
    (client_book(Peer(dialect)) >> news << Emits(Pushed(news))).done()
    (server_book(Peer(dialect)) >> (lambda s: s.push(CHAT, b"")) << news).done()


# -- ping and pong ---------------------------------------------------------------------------


@rule("tny.6.heartbeat")
@both_dialects
@pytest.mark.parametrize("book", [server_book, client_book])
def test_a_ping_gets_a_pong_at_once_and_a_pong_nothing(book: Any, dialect: Dialect) -> None:
    peer = Peer(dialect)
    (
        book(peer, idle_limit_s=None)
        >> Ping()
        << Emits(Pinged())
        << Pong()
        >> Pong()
        << Emits(Ponged())
        >> (lambda s: s.ping())
        << Ping()
    ).done()
    assert peer.numbers == []


@rule("tny.6.heartbeat")
@every_dialect
def test_ping_and_pong_back_to_back(dialect: Any) -> None:
    both = pair(dialect)
    both.client.ping()  # type: ignore[attr-defined]
    both.run()
    client, server = both.take()
    assert [type(event) for event in client if not hasattr(event, "dialect")] == [Ponged]
    assert [type(event) for event in server if not hasattr(event, "dialect")] == [Pinged]


@rule("tny.6.heartbeat")
def test_no_pings_are_sent_by_default() -> None:
    assert client_book().session.next_timer() is None
    (client_book(ping_interval_s=20) >> At(19.9) >> At(20) << Ping() >> At(40) << Ping()).done()


@rule("tny.6.idle")
@both_dialects
def test_a_client_silent_for_180_seconds_is_dropped(dialect: Dialect) -> None:
    (
        server_book(Peer(dialect))
        >> At(100)
        >> Ping()
        << Emits(Pinged())
        << Pong()
        >> At(279.9)
        >> At(280)
        << EmitsKind.of(Failed, code="idle", fatal=True)
        << Emits(Closed("idle", Side.LOCAL, clean=False))
    ).done()


@rule("tny.6.idle")
def test_half_a_packet_is_no_sign_of_life() -> None:
    half = Peer().encode(request(1, MOVE, HELLO))[:-1]
    session = (
        server_book()
        >> At(100)
        >> half
        >> At(180)
        << EmitsKind.of(Failed, code="idle")
        << EmitsKind.of(Closed, reason="idle")
    ).done()
    assert session.buffered == 0


# -- errors and endings ----------------------------------------------------------------------


@rule("tny.6.error_level", "tny.6.close_reason")
@pytest.mark.parametrize("code", sorted(CLOSING))
def test_a_code_that_closes_is_sent_and_then_the_connection_closes(code: int) -> None:
    asked = request(1, LOGIN)
    (
        server_book()
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.fail(code, asked))
        << response(1, asked, code=code)
        << Emits(Closed(f"code_{code}", Side.LOCAL))
    ).done()
    (
        server_book()
        >> (lambda s: s.fail(code))
        << push(1, 0, code=code)
        << Emits(Closed(f"code_{code}", Side.LOCAL))
    ).done()


@rule("tny.6.warn_level")
@pytest.mark.parametrize(
    "code", [151, 152, 155, 156, *range(180, 186), *range(200, 210), *range(211, 216), 219]
)
def test_a_code_that_warns_keeps_the_connection(code: int) -> None:
    asked = request(1, LOGIN)
    session = (
        server_book()
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.respond(asked, code=code))
        << response(1, asked, code=code)
        >> (lambda s: s.push(0, code=code))
        << push(2, 0, code=code)
    ).done()
    assert not session.closed


@rule("tny.6.close_reason")
def test_the_last_code_is_the_reason_of_a_close_else_there_is_none() -> None:
    asked = request(1, LOGIN)
    refused = response(1, asked, code=210)
    (
        client_book()
        >> (lambda s: s.request(LOGIN))
        << asked
        >> refused
        << Emits(Replied(asked, refused))
        >> Eof()
        << Emits(Closed("code_210", Side.REMOTE))
    ).done()
    (client_book() >> Eof() << Emits(Closed("eof", Side.REMOTE))).done()


@rule("tny.6.close_reason")
def test_calls_end_with_their_connection() -> None:
    asked = request(1, MOVE)
    (
        client_book()
        >> (lambda s: s.request(MOVE))
        << asked
        >> Eof()
        << Emits(CallFailed(asked, "connection_lost"))
        << Emits(Closed("eof", Side.REMOTE, clean=False))
    ).done()
    (
        client_book()
        >> (lambda s: s.request(MOVE))
        << asked
        >> (lambda s: s.close())
        << Emits(CallFailed(asked, "connection_lost"))
        << Emits(Closed("done", Side.LOCAL, clean=False))
    ).done()


@rule("tny.6.reconnect")
def test_message_ids_survive_a_reconnect_and_numbers_do_not() -> None:
    first = client_book()
    first >> (lambda s: s.request(MOVE)) << request(1, MOVE)
    first >> (lambda s: s.push(CHAT)) << push(2, CHAT)
    old = first.session
    assert isinstance(old, ClientSession)
    peer = Peer()
    (
        client_book(peer, first_id=old.next_id) >> (lambda s: s.request(MOVE)) << request(3, MOVE)
    ).done()
    assert peer.numbers == [1]


@rule("tny.6.reconnect")
def test_a_message_may_be_sent_again_under_its_id() -> None:
    kept = request(5, MOVE, HELLO, time=EPOCH_MS - 3)
    (
        client_book(first_id=9)
        >> (lambda s: s.send(kept))
        << kept
        >> (lambda s: s.request(MOVE))
        << request(9, MOVE)
    ).done()


def test_too_many_requests_at_once_are_refused_one_by_one() -> None:
    asked = [request(n, MOVE) for n in (1, 2, 3)]
    session = (
        server_book(max_pending=2)
        >> asked[0]
        << Emits(Requested(asked[0]))
        >> asked[1]
        << Emits(Requested(asked[1]))
        >> asked[2]
        << EmitsKind.of(Failed, code="too_busy", fatal=False)
        << response(1, asked[2], code=ResultCode.SERVER_ERROR)
        >> (lambda s: s.release(asked[0]))
        >> request(4, MOVE)
        << EmitsKind.of(Requested)
    ).done()
    assert isinstance(session, ServerSession)
    assert session.pending == 2


def test_a_client_has_no_more_in_flight_than_its_limit() -> None:
    session = ClientSession(ClientOptions(max_in_flight=2))
    session.request(MOVE)
    session.request(MOVE)
    with pytest.raises(SessionError) as error:
        session.request(MOVE)
    assert error.value.code == "too_busy"
    assert session.in_flight == 2
