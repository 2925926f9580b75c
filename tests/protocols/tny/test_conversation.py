"""Wrong use of tny sessions, which raises and changes nothing, and the limits that hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.playbooks.tny.peer import EPOCH_MS, Peer, push, request, response

from wirelake.protocols.sansio import Closed, Failed, SessionError, Side
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.session import (
    CallFailed,
    ClientSession,
    Replied,
    Requested,
    ServerSession,
)
from wirelake.protocols.tny.transform import TransformConfig

MOVE = 2002


def state_of(session: Any) -> tuple[Any, ...]:
    return (
        session.state,
        session.next_id,
        session.in_flight,
        session.pending,
        session.sent_bytes,
        session.next_timer(),
    )


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda s: s.request(MOVE, line=8), "int_range"),
        (lambda s: s.request(2**31), "int_range"),
        (lambda s: s.push(MOVE, code=2**40), "int_range"),
        (lambda s: s.push(MOVE, bytes(2_000_000)), "too_large"),
        (lambda s: s.request(MOVE, headers=(b"abcd",)), "bad_value"),
        (lambda s: s.respond(request(1, MOVE)), "bad_state"),
    ],
)
def test_what_cannot_be_sent_raises_and_changes_nothing(
    wrong: Callable[[Any], Any], code: str
) -> None:
    session = ClientSession()
    before = state_of(session)
    with pytest.raises(SessionError) as error:
        wrong(session)
    assert error.value.code in {code, "bad_value"}
    assert state_of(session) == before
    assert session.to_send() == b""
    session.push(MOVE)
    assert session.next_id == 2


def test_a_closed_session_sends_nothing() -> None:
    session = ClientSession()
    session.close()
    assert session.events() == [Closed("done", Side.LOCAL)]
    for wrong in (lambda: session.request(MOVE), lambda: session.push(MOVE), session.ping):
        with pytest.raises(SessionError, match="bad_state"):
            wrong()
    session.close()
    assert session.events() == []


def test_a_request_is_answered_once() -> None:
    session = ServerSession()
    asked = request(1, MOVE)
    session.receive(Peer().encode(asked), 0.0)
    session.respond(asked)
    with pytest.raises(SessionError, match="bad_state"):
        session.respond(asked)
    assert session.pending == 0


def test_an_answer_that_does_not_fit_leaves_the_request_open() -> None:
    session = ServerSession(ServerOptions(max_payload=100))
    asked = request(1, MOVE)
    session.receive(Peer().encode(asked), 0.0)
    with pytest.raises(SessionError, match="too_large"):
        session.respond(asked, bytes(100))
    assert session.pending == 1
    session.respond(asked, bytes(50))
    assert session.pending == 0


def test_an_answer_sent_as_it_is_answers_too() -> None:
    session = ServerSession()
    asked = request(1, MOVE)
    session.receive(Peer().encode(asked), 0.0)
    session.send(response(7, asked))
    assert session.pending == 0


def test_requests_with_one_id_are_counted_and_answered_each() -> None:
    session, peer = ServerSession(), Peer()
    asked = request(1, MOVE)
    session.receive(peer.encode(asked) + peer.encode(asked), 0.0)
    assert session.pending == 2
    session.respond(asked)
    session.release(asked)
    session.release(asked)
    assert session.pending == 0


def test_a_response_that_a_server_cannot_give_for_want_of_room_is_not_an_exception() -> None:
    session = ServerSession(ServerOptions(max_pending=1, max_payload=60))
    peer = Peer(access_id=2**62)
    first, second = request(1, MOVE), request(2, MOVE, forward_header=bytes(30))
    session.receive(peer.encode(first) + peer.encode(second), 0.0)
    asked, failed = session.events()
    assert isinstance(asked, Requested)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.fatal) == ("too_busy", False)


def test_the_time_of_a_message_is_the_wall_clock_at_the_sessions_now() -> None:
    session = ClientSession(epoch_ms=EPOCH_MS)
    session.push(MOVE, now=1.5)
    written = session.to_send()
    message, _ = Peer().decode(written, 0, len(written))
    assert message == push(1, MOVE, time=EPOCH_MS + 1500)
    session.push(MOVE, now=0.5)  # time does not run backwards
    assert session.now == 1.5


def test_one_timer_serves_all_calls() -> None:
    session, peer = ClientSession(ClientOptions(max_in_flight=500)), Peer()
    for n in range(500):
        session.request(MOVE, now=n / 100, timeout_s=10 - n / 1000)
    assert len(session.timers) == 1
    session.on_timer(12.0)
    failed = [event.request.id for event in session.events() if isinstance(event, CallFailed)]
    assert failed == list(range(1, len(failed) + 1))
    assert session.in_flight == 500 - len(failed) > 0
    assert session.next_timer() is not None
    answer = peer.encode(response(1, request(500, MOVE)))
    session.receive(answer, 12.0)
    assert [type(event) for event in session.events()] == [Replied]
    session.on_timer(20.0)
    assert session.in_flight == 0
    assert session.next_timer() is None


def test_the_earlier_of_two_deadlines_counts() -> None:
    session = ClientSession()
    session.request(MOVE)
    session.request(MOVE, timeout_s=2)
    assert session.next_timer() == 2
    session.on_timer(2)
    assert session.next_timer() == 10


def test_only_bytes_of_one_packet_are_held() -> None:
    session, peer = ServerSession(), Peer()
    stream = b"".join(peer.encode(push(n, MOVE, bytes(100))) for n in range(1, 20))
    for start in range(0, len(stream), 11):
        session.receive(stream[start : start + 11], 0.0)
        assert session.buffered < 200
        assert len(session.timers) == 1
    assert len(session.events()) == 19


def test_a_server_closes_after_a_closing_code_and_a_client_does_not() -> None:
    client = ClientSession()
    client.push(MOVE, code=ResultCode.AUTH_FAILED)
    assert not client.closed
    server = ServerSession()
    server.request(MOVE)
    server.push(MOVE, code=ResultCode.AUTH_FAILED)
    lost, closed = server.events()
    assert isinstance(lost, CallFailed)
    assert closed == Closed("code_210", Side.LOCAL, clean=False)


def test_numbers_that_run_out_while_an_error_is_sent_close_too() -> None:
    keyed = TransformConfig(verify=True)
    session = ServerSession(ServerOptions(reading=keyed, max_number=1))
    spoilt = bytearray(Peer(writing=keyed).encode(push(1, MOVE)))
    spoilt[-1] ^= 1
    session.receive(bytes(spoilt), 0.0)
    assert session.events()[-1] == Closed("numbers_used_up", Side.LOCAL)
