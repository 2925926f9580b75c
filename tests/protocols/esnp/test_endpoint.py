"""The peer's requests: what is held for them, and that it is let go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.esnp.peer import ASYNC, EVENT, REQUEST, Taking, data, m, mid, raw

from wirelake.protocols.esnp.layout import Payload, SeqNo
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.sansio import Role


def held(one: Taking) -> tuple[int, ...]:
    """Everything that a session keeps for its peer."""
    return (
        one.pending,
        len(one._ids),
        len(one._waiting),
        one._open_bytes,
        one._parts.held_bytes,
        len(one._gathering),
        one.buffered,
    )


def give(one: Taking, *messages: Any) -> None:
    """Lets messages come, and takes what is handed over."""
    for message in messages:
        one.receive(raw(message), 0.0)
    one.events()


def test_answered_requests_are_removed() -> None:
    one = Taking(Role.SERVER)
    give(one, m(REQUEST, mid(1)), m(REQUEST), m(REQUEST, ASYNC, mid(3)), m(REQUEST, mid(0)))
    give(one, *(m(REQUEST, mid(4), SeqNo(current=n, maximum=2)) for n in (2, 1)))
    assert one.pending == 5
    while one.pending:
        one.answer(one.taken.pop(0))
        one.events()
    assert held(one) == (0,) * 7


def test_refused_requests_are_removed() -> None:
    one = Taking(Role.SERVER, SessionOptions(max_requests=1, max_part_bytes=40))
    give(one, m(REQUEST, mid(1), SeqNo(current=1)), m(REQUEST, mid(1), SeqNo(current=1)))
    assert one.pending == 1
    give(one, m(REQUEST, mid(1), SeqNo(current=2, maximum=2)))
    assert held(one) == (0,) * 7
    give(one, m(REQUEST, mid(2), SeqNo(current=1), Payload(data=bytes(50))))
    assert one.pending == 1
    one.on_timer(30.0)
    assert held(one) == (0,) * 7


@pytest.mark.parametrize("end", ["close", "eof", "broken"])
def test_the_end_removes_all_requests(end: str) -> None:
    one = Taking(Role.SERVER, SessionOptions(idle_limit_s=5))
    give(one, m(REQUEST, mid(1)), m(REQUEST, mid(2)), m(REQUEST, mid(3), SeqNo(current=1)))
    one.receive(raw(m(EVENT, data("a", 1)))[:7], 0.0)
    assert 0 not in held(one)
    if end == "close":
        one.close()
    elif end == "eof":
        one.receive_eof()
    else:
        one.message_limit = 1
        one.receive(bytes(200), 0.0)
    assert one.closed
    assert held(one) == (0,) * 7
    assert one.next_timer() is None


def test_a_limit_that_is_reached_is_not_passed() -> None:
    options = SessionOptions(max_requests=3, max_parts=2)
    one = Taking(Role.SERVER, options)
    for number in range(1, 50):
        give(one, m(REQUEST, mid(number)), m(REQUEST, mid(100 + number), SeqNo(current=1)))
        assert one.pending <= 3
        assert len(one._gathering) <= 3
