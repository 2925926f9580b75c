"""SEQ_NO: requests and replies in several messages (section 8, bullet 5)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.esnp.peer import (
    ASKED,
    ASYNC,
    EVENT,
    INFO,
    REQUEST,
    RESP,
    book,
    data,
    err,
    failed,
    m,
    mid,
    pair,
    raw,
    smid,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, rule

from wirelake.protocols.esnp.layout import Message, Payload, SeqNo
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.session import Announced, Answered, CallFailed
from wirelake.protocols.sansio import Role, SessionError


def part(number: int, current: int, maximum: int) -> Message:
    """A part of a request."""
    row = SeqNo(current=current, maximum=maximum)
    return m(REQUEST, mid(number), row, Payload(data=bytes([current & 0xFF])))


def piece(number: int, current: int, maximum: int) -> Message:
    """A part of a reply."""
    row = SeqNo(current=current, maximum=maximum)
    return m(RESP, REQUEST, smid(number), row, Payload(data=bytes([current & 0xFF])))


def answers(*rows: Any, call: int = -1, **named: Any) -> Any:
    """An answer on a session."""
    return lambda s: s.answer(s.taken[call], rows, **named)


# -- requests --------------------------------------------------------------------------------


@rule("esnp.8.5", "esnp.3.sequence")
@pytest.mark.parametrize("maxima", [(0, 0, 3), (3, 3, 3)], ids=["unknown", "known"])
def test_a_request_in_parts_is_handed_over_whole(maxima: tuple[int, ...]) -> None:
    """The last part is the one whose number is its maximum; the answer is one."""
    parts = [part(7, n, maximum) for n, maximum in enumerate(maxima, 1)]
    dialogue = book() >> parts[0] >> parts[1] >> parts[2] << ASKED
    dialogue = dialogue >> answers() << m(RESP, REQUEST, smid(7))
    call = dialogue.done().taken[0]
    assert call.parts == tuple(parts)
    assert call.raw == tuple(map(raw, parts))


@rule("esnp.8.5")
def test_parts_are_put_in_order() -> None:
    dialogue = book() >> part(7, 3, 3) >> part(7, 1, 0) >> part(7, 2, 0) << ASKED
    call = dialogue.done().taken[0]  # type: ignore[attr-defined]
    assert call.parts == (part(7, 1, 0), part(7, 2, 0), part(7, 3, 3))


@rule("esnp.8.5")
def test_sequences_are_gathered_by_message_id() -> None:
    dialogue = book() >> part(1, 1, 2) >> part(2, 1, 2) >> part(2, 2, 2) << ASKED
    dialogue = dialogue >> part(1, 2, 2)
    dialogue = dialogue >> answers() << m(RESP, REQUEST, smid(2)) << ASKED
    (dialogue >> answers() << m(RESP, REQUEST, smid(1))).done()


@rule("esnp.8.5")
def test_the_first_part_names_the_target() -> None:
    """Kind, ASYNC and what a reply carries back."""
    first = m(INFO, ASYNC, mid(7), SeqNo(current=1, maximum=0))
    last = m(INFO, mid(7), SeqNo(current=2, maximum=2))
    dialogue = book() >> m(REQUEST, mid(1)) << ASKED >> last >> first << ASKED
    dialogue = dialogue >> answers() << m(RESP, INFO, smid(7))
    assert dialogue.done().taken[1].concurrent


@rule("esnp.8.5")
def test_parts_without_an_id_cannot_be_gathered() -> None:
    lone = m(REQUEST, SeqNo(current=1, maximum=2))
    (book() >> lone << ASKED).done()
    event = m(EVENT, mid(7), SeqNo(current=1, maximum=2))
    (book() >> event << Emits(Announced(event, raw(event)))).done()


@rule("esnp.8.5", "esnp.8.2")
def test_an_id_whose_request_is_not_whole_is_in_flight() -> None:
    dialogue = book() >> part(7, 1, 2) >> m(REQUEST, mid(7)) << failed("bad_args")
    dialogue = dialogue << m(RESP, err("message id 7 is in flight"), REQUEST, smid(7))
    dialogue = dialogue >> part(7, 2, 2) << ASKED >> part(7, 1, 2) << failed("bad_args")
    (dialogue << m(RESP, err("message id 7 is in flight"), REQUEST, smid(7))).done()


@rule("esnp.8.5", "esnp.class.SeqRange")
@pytest.mark.parametrize(("current", "maximum"), [(0, 0), (-1, 2), (3, 2), (1, -1)])
def test_a_part_that_cannot_be_one_is_refused_once(current: int, maximum: int) -> None:
    """One error reply; the rest of the sequence is swallowed, and the id is free after it."""
    dialogue = book() >> part(7, 1, 0) if current != 1 else book()
    dialogue = dialogue >> part(7, current, maximum) << failed("seq_range", fatal=False)
    dialogue = dialogue << _is_error >> part(7, 2, 0) >> part(7, 3, 3)
    (dialogue >> part(7, 1, 1) << ASKED).done()


@rule("esnp.8.5")
@pytest.mark.parametrize("again", [1, 2])
def test_a_repeated_part_is_refused(again: int) -> None:
    dialogue = book() >> part(7, 1, 0) >> part(7, 2, 0)
    dialogue = dialogue >> part(7, again, 0) << failed("seq_range") << _is_error
    (dialogue >> part(7, 3, 3)).done()


def _is_error(message: Any) -> bool:
    return any(type(row).__name__ == "Error" for row in message.rows)


@rule("esnp.8.5")
def test_the_next_part_must_come_in_time() -> None:
    """Each begins the time anew."""
    dialogue = book() >> part(7, 1, 0) >> At(29) >> part(7, 2, 0) >> At(58)
    dialogue = dialogue >> At(59) << failed("timeout", fatal=False)
    late = err("no further part of 7")
    dialogue = dialogue << m(RESP, late, REQUEST, smid(7))
    session: Any = dialogue.done()
    assert (session.pending, session.next_timer()) == (0, None)


@rule("esnp.8.5")
def test_a_refused_sequence_expires_without_another_error() -> None:
    dialogue = book() >> part(7, 0, 0) << failed("seq_range") << _is_error >> At(30)
    session: Any = dialogue.done()
    assert session.pending == 0


@rule("esnp.8.5")
@pytest.mark.parametrize(
    "options",
    [SessionOptions(max_parts=2), SessionOptions(max_part_bytes=70)],
    ids=["parts", "bytes"],
)
def test_a_sequence_has_limits(options: SessionOptions) -> None:
    dialogue = book(options) >> part(7, 1, 0) >> part(7, 2, 0)
    dialogue = dialogue >> part(7, 3, 0) << failed("too_many", fatal=False) << _is_error
    (dialogue >> part(7, 4, 4) >> m(REQUEST, mid(8)) << ASKED).done()


@rule("esnp.8.5")
def test_sequences_count_as_requests() -> None:
    dialogue = book(SessionOptions(max_requests=2)) >> part(1, 1, 0) >> m(REQUEST, mid(2)) << ASKED
    dialogue = dialogue >> part(3, 1, 0) << failed("too_busy", fatal=False) << _is_error
    dialogue = dialogue >> m(REQUEST, mid(4)) << failed("too_busy") << _is_error
    (dialogue >> answers() << m(RESP, REQUEST, smid(2)) >> part(1, 2, 2) << ASKED).done()


# -- replies ---------------------------------------------------------------------------------


@rule("esnp.8.5")
def test_a_reply_in_parts() -> None:
    dialogue = book() >> m(REQUEST, mid(7)) << ASKED >> m(REQUEST, mid(8))
    for seq in ((1, 0), (2, 0)):
        dialogue = dialogue >> answers(Payload(data=bytes([seq[0]])), seq=seq)
        dialogue = dialogue << numbered_part(7, *seq)
    dialogue = dialogue >> answers(Payload(data=b"\x03"), seq=(3, 3))
    (dialogue << numbered_part(7, 3, 3) << ASKED).done()


def numbered_part(number: int, current: int, maximum: int) -> Message:
    """A part of a reply as we write it."""
    row = SeqNo(current=current, maximum=maximum)
    return m(RESP, row, REQUEST, smid(number), Payload(data=bytes([current])))


@rule("esnp.8.5", "esnp.3.sequence")
def test_a_caller_gets_the_parts_in_order_and_the_last_ends_the_call() -> None:
    one, two, three = (piece(1, n, 3 if n == 3 else 0) for n in (1, 2, 3))
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request([])) << m(REQUEST, mid(1))
    dialogue = dialogue >> one << Emits(Answered(1, one, raw(one), last=False)) >> three
    dialogue = dialogue >> two << Emits(Answered(1, two, raw(two), last=False))
    dialogue = dialogue << Emits(Answered(1, three, raw(three), last=True))
    (dialogue >> three << failed("unexpected_reply")).done()


@rule("esnp.8.5")
def test_an_error_ends_a_reply_in_parts() -> None:
    dialogue = book() >> m(REQUEST, mid(1)) << ASKED >> answers(seq=(1, 0))
    dialogue = dialogue << m(RESP, SeqNo(current=1), REQUEST, smid(1))
    sorry = m(RESP, err("gone"), REQUEST, smid(1))
    (dialogue >> answers(error="gone") << sorry).done()
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request([])) << m(REQUEST, mid(1))
    dialogue = dialogue >> piece(1, 1, 0) << EmitsKind.of(Answered, last=False)
    (dialogue >> sorry << Emits(Answered(1, sorry, raw(sorry), last=True))).done()


@rule("esnp.8.5", "esnp.3.error")
def test_an_error_that_is_a_part_ends_it_too() -> None:
    """Whatever its number: no part follows a failure."""
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request([])) << m(REQUEST, mid(1))
    dialogue = dialogue >> piece(1, 1, 0) << EmitsKind.of(Answered, last=False)
    sorry = m(RESP, err("gone"), REQUEST, smid(1), SeqNo(current=3, maximum=0))
    (dialogue >> sorry << Emits(Answered(1, sorry, raw(sorry), last=True))).done()


@rule("esnp.8.5")
def test_a_reply_in_parts_must_end_in_time_too() -> None:
    """The caller's time is for the whole call."""
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request([])) << m(REQUEST, mid(1)) >> At(4)
    dialogue = dialogue >> piece(1, 1, 0) << EmitsKind.of(Answered)
    (dialogue >> At(5) << Emits(CallFailed(1, "timeout"))).done()


@rule("esnp.8.5")
def test_a_repeated_piece_is_dropped() -> None:
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request([])) << m(REQUEST, mid(1))
    dialogue = dialogue >> piece(1, 1, 0) << EmitsKind.of(Answered)
    dialogue = dialogue >> piece(1, 1, 0) << failed("seq_range", fatal=False)
    (dialogue >> piece(1, 2, 2) << EmitsKind.of(Answered, last=True)).done()


@rule("esnp.8.5")
def test_more_pieces_than_can_be_held_end_the_call() -> None:
    dialogue = book(SessionOptions(max_parts=2), role=Role.CLIENT)
    dialogue = dialogue >> (lambda s: s.request([])) << m(REQUEST, mid(1))
    dialogue = dialogue >> piece(1, 3, 0) >> piece(1, 4, 0) >> piece(1, 5, 0)
    dialogue = dialogue << failed("too_many", fatal=False) << Emits(CallFailed(1, "too_many"))
    dialogue.done()


@rule("esnp.8.5")
def test_parts_out_of_turn_are_misuse() -> None:
    session: Any = (book() >> m(REQUEST, mid(1)) << ASKED).done()
    call = session.taken[0]
    for wrong in ((2, 2), (0, 0), (1, -1)):
        with pytest.raises(SessionError, match="seq_range"):
            session.answer(call, seq=wrong)
    session.answer(call, seq=(1, 0))
    with pytest.raises(SessionError, match="expected part 2 of this reply"):
        session.answer(call)
    with pytest.raises(SessionError, match="expected part 2 of this reply"):
        session.answer(call, seq=(3, 3))
    session.answer(call, seq=(2, 2))
    with pytest.raises(SessionError, match="not waiting"):
        session.answer(call, seq=(3, 3))


# -- both ends -------------------------------------------------------------------------------


@rule("esnp.8.5")
def test_sequences_back_to_back() -> None:
    both = pair()
    number = both.client.request([data("a", 1)], seq=(1, 0))
    both.client.request([data("a", 2)], seq=(2, 0), number=number)
    both.run()
    assert both.server.taken == []
    assert both.client.request([data("a", 3)], seq=(3, 3), number=number) == number
    both.run()
    call = both.called()
    assert [each.rows[-1] for each in call.parts] == [data("a", n) for n in (1, 2, 3)]
    for n in (1, 2):
        both.server.answer(call, [data("b", n)], seq=(n, 2))
    client, _ = both.run().take()
    found = [(e.id, e.message.rows[-1], e.last) for e in client if isinstance(e, Answered)]
    assert found == [(number, data("b", 1), False), (number, data("b", 2), True)]


@rule("esnp.8.5")
def test_a_caller_numbers_its_parts_in_order() -> None:
    both = pair()
    client = both.client
    with pytest.raises(SessionError, match="expected part 1 of call 1"):
        client.request([], seq=(2, 2))
    with pytest.raises(SessionError, match="1 of -1"):
        client.request([], seq=(1, -1))
    number = client.request([], seq=(1, 0))
    with pytest.raises(SessionError, match="part 2 of call"):
        client.request([], number=number)
    with pytest.raises(SessionError, match="part 2 of call"):
        client.request([], seq=(3, 3), number=number)
    client.request([], seq=(2, 2), number=number)
    with pytest.raises(SessionError, match="already in flight"):
        client.request([], seq=(3, 3), number=number)


@rule("esnp.8.5")
def test_parts_after_an_early_answer_are_misuse() -> None:
    both = pair()
    number = both.client.request([], seq=(1, 0))
    answer = raw(m(RESP, REQUEST, smid(number)))
    both.client.receive(answer, 0.0)
    with pytest.raises(SessionError, match="part 1 of call"):
        both.client.request([], seq=(2, 2), number=number)
