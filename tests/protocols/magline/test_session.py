"""magline sessions from the caller's side: what is misuse, what stays as it was, what is public.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.magline import endpoint as events
from wirelake.protocols.magline import session
from wirelake.protocols.magline.layout import ErrorNumber, Reason
from wirelake.protocols.magline.limits import ClientOptions, ServerOptions
from wirelake.protocols.magline.session import (
    ClientKey,
    ClientSession,
    Failure,
    MemoryStore,
    Push,
    Replied,
    Reply,
    Request,
    Requested,
    ServerKeys,
    ServerSession,
)
from wirelake.protocols.sansio import CLOSED, Closed, Event, Failed, Role, SessionError, diagram
from wirelake.wire.errors import CODES, EncodeError

ANONYMOUS = ClientKey(allow_anonymous=True)
KEYS = ServerKeys(allow_anonymous=True)


def counting(first: int) -> Callable[[int], bytes]:
    """Bytes that differ from draw to draw."""
    drawn = first

    def draw(size: int) -> bytes:
        nonlocal drawn
        drawn += 1
        return bytes([drawn]) * size

    return draw


def client(options: ClientOptions | None = None) -> ClientSession:
    return ClientSession(options, key=ANONYMOUS, entropy=counting(0))


def server(options: ServerOptions | None = None, store: MemoryStore | None = None) -> ServerSession:
    return ServerSession(options, keys=KEYS, entropy=counting(100), store=store)


def carry(one: ClientSession, other: ServerSession) -> None:
    for _ in range(4):
        other.receive(one.to_send(), 0.0)
        one.receive(other.to_send(), 0.0)


def connected(**options: Any) -> tuple[ClientSession, ServerSession]:
    one, other = client(options.get("client")), server(options.get("server"))
    one.connect()
    carry(one, other)
    one.events()
    other.events()
    return one, other


def misused(code: str, call: Callable[[], Any]) -> None:
    with pytest.raises(SessionError) as caught:
        call()
    assert caught.value.code == code
    assert code in CODES


# -- misuse ----------------------------------------------------------------------------------


def test_a_client_connects_once_and_then_sends() -> None:
    one = client()
    misused("bad_state", lambda: one.send(Request(1)))
    misused("bad_state", one.ping)
    one.connect()
    misused("bad_state", one.connect)
    misused("bad_state", lambda: one.send(Request(1)))


def test_a_closed_session_does_nothing() -> None:
    one, other = connected()
    one.close()
    carry(one, other)
    for each in (one, other):
        misused("bad_state", each.close)
        misused("bad_state", lambda each=each: each.abort(ErrorNumber.INTERNAL))  # type: ignore[misc]
        each.events()
        each.receive(b"anything", 1.0)
        each.receive_eof()
        each.on_timer(1e9)
        assert each.events() == []
        assert each.to_send() == b""
        assert each.next_timer() is None
    misused("bad_state", lambda: other.send(Push(1)))
    misused("bad_state", lambda: other.identify("ann"))
    misused("bad_state", lambda: one.send(Request(1)))


def test_a_server_answers_what_was_asked_and_only_once() -> None:
    one, other = connected()
    misused("bad_state", lambda: other.send(Reply(2)))
    seq = one.send(Request(7))
    carry(one, other)
    other.send(Reply(seq))
    misused("bad_state", lambda: other.send(Reply(seq)))
    misused("bad_state", lambda: other.send(Failure(seq)))


def test_a_server_sends_nothing_before_the_syn() -> None:
    other = server()
    misused("bad_state", lambda: other.send(Push(1)))
    misused("bad_state", lambda: other.identify("ann"))
    other.close(Reason.SHUTDOWN)
    assert len(other.to_send()) == 20  # a bare FIN


def test_what_cannot_be_sent_leaves_everything_as_it_was() -> None:
    one, other = connected(client=ClientOptions(max_frame=1000))
    misused("int_range", lambda: one.send(Request(1 << 32)))
    misused("int_range", lambda: one.send(Request(-1)))
    misused("bad_value", lambda: one.send(Request(0)))
    misused("bad_value", lambda: one.send(Request(1, "text")))  # type: ignore[arg-type]
    misused("too_large", lambda: one.send(Request(1, bytes(2000))))
    assert one.in_flight == 0
    seq = one.send(Request(1, b"fine"))
    carry(one, other)
    assert other.events() == [Requested(seq, 1, b"fine")]
    misused("too_large", lambda: other.send(Reply(seq, bytes(1 << 20))))
    other.send(Reply(seq, b"fine too"))  # it still waits for its answer
    carry(one, other)
    assert one.events() == [Replied(seq, 1, b"fine too")]
    misused("bad_value", lambda: other.close(77, resumable=False))
    assert not other.closed


def test_a_refused_close_keeps_the_session_resumable() -> None:
    store = MemoryStore()
    one, other = client(), server(store=store)
    one.connect()
    carry(one, other)
    misused("bad_value", lambda: other.close(77, resumable=False))
    other.close()
    assert len(store) == 1


def test_an_entropy_that_gives_too_little_is_the_callers_fault() -> None:
    short = ClientSession(key=ANONYMOUS, entropy=lambda size: bytes(size - 1))
    with pytest.raises(EncodeError, match="32 bytes"):
        short.connect()


# -- the other side's misuse -----------------------------------------------------------------


def test_a_failure_has_a_code_a_side_and_an_offset() -> None:
    one, other = connected()
    other.receive(b"\x7f\x66\x00\x04" + bytes(11), 0.0)
    other.receive(b"\x05" + bytes(5), 0.0)
    failed, closed = other.events()
    assert isinstance(failed, Failed)
    assert (failed.code, failed.side, failed.offset) == ("bad_length", "remote", 80 + 12)
    assert isinstance(closed, Closed)
    assert one.state == "open"


@given(st.binary(max_size=300), st.integers(0, 3), st.integers(1, 50))
def test_any_bytes_in_any_state_give_a_documented_end(data: bytes, which: int, cut: int) -> None:
    one, other = connected()
    fresh = client()
    fresh.connect()
    target = (one, other, fresh, server())[which]
    target.to_send()
    for at in range(0, len(data), cut):
        target.receive(data[at : at + cut], 0.0)
    for event in target.events():
        if isinstance(event, Failed):
            assert event.code in CODES
    assert target.buffered <= len(data)
    assert len(target.timers) <= 5


# -- the tables ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ClientSession, ServerSession])
def test_tables_lead_somewhere_and_to_the_end(kind: Any) -> None:
    table = next(iter(kind.TABLES.values()))
    reached = {state for triggers in table.values() for state in triggers.values()}
    assert reached | {kind.FIRST} == set(table)
    assert not table[CLOSED]
    for state, triggers in table.items():
        ends = state in {CLOSED, "new", "answering"} or "receive FIN" in triggers
        assert ends, state


def test_tables_can_be_drawn() -> None:
    assert '"resuming" -> "confirming"' in diagram(ClientSession.TABLES, Role.CLIENT)
    assert '"ordering" -> "deciding"' in diagram(ServerSession.TABLES, Role.SERVER)


def test_directions_are_in_the_tables() -> None:
    """Rule 17, read off: what a role hears is what the other says."""

    def heard(kind: Any, role: Role) -> set[str]:
        return {
            trigger.removeprefix("receive ")
            for triggers in kind.TABLES[role].values()
            for trigger in triggers
            if trigger.startswith("receive ")
        }

    assert heard(ServerSession, Role.SERVER) == {"SYN", "PIN", "REQ", "ERR", "FIN"}
    assert heard(ClientSession, Role.CLIENT) == {"ACK", "PON", "REP", "PSH", "ERR", "FIN"}


# -- the public face -------------------------------------------------------------------------


def test_public_names() -> None:
    assert all(hasattr(session, name) for name in session.__all__)
    sent = ("Request", "Reply", "Failure", "Push")
    reported = [
        each.__name__
        for each in vars(events).values()
        if isinstance(each, type) and issubclass(each, Event) and each.__module__ == events.__name__
    ]
    assert reported
    assert {*sent, *reported} <= set(session.__all__)


def test_half_open_until_the_client_has_shown_itself() -> None:
    other = server()
    assert other.half_open
    one = client()
    one.connect()
    carry(one, other)
    assert not other.half_open
    assert other.authenticated
    assert other.established


@pytest.mark.parametrize("number", [0, 17, 0xFFFF, 1 << 32, -1])
def test_numbers_outside_the_error_table(number: int) -> None:
    assert not events.is_error_number(number)
    assert events.is_reason(number) == (number == 0)


def test_names_of_reasons() -> None:
    assert events.reason_name(Reason.REKEY) == "rekey"
    assert events.reason_name(0x10001) == "reason 65537"
    assert all(events.is_reason(reason) for reason in Reason)
    assert all(events.is_error_number(number) for number in ErrorNumber)
    assert events.is_error_number(0x10000)
