"""Cursor, spans and holes, without a hub."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirelake.hub.pubsub.subscriptions import MAX_SPANS, Inbox


def test_handing_in_order_moves_the_cursor_alone() -> None:
    inbox = Inbox()
    for number in (3, 7, 20):
        inbox.mark_sent(number)
    assert (inbox.cursor, inbox.spans, inbox.top) == (20, [], 20)
    assert inbox.was_sent(5)
    assert not inbox.was_sent(21)


def test_pushed_ones_do_not_hide_stored_ones() -> None:
    inbox = Inbox(10)
    inbox.start_span(50)
    inbox.mark_sent(60)
    inbox.mark_sent(70)
    assert inbox.spans == [(50, 70)]
    assert [inbox.was_sent(each) for each in (10, 11, 50, 51, 70, 71)] == [
        True, False, False, True, True, False,
    ]  # fmt: skip
    assert list(inbox.gaps()) == [(10, 50), (70, None)]
    inbox.mark_sent(20)
    assert list(inbox.gaps()) == [(20, 50), (70, None)]
    inbox.advance_cursor(50)
    assert (inbox.cursor, inbox.spans) == (70, [])


def test_holes_stay_pending_until_acknowledged() -> None:
    inbox = Inbox()
    inbox.mark_sent(5)
    inbox.holes[5] = 1
    assert inbox.is_unacked(5)
    assert inbox.is_unacked(6)
    assert not inbox.is_unacked(4)
    assert inbox.lowest_needed() == 5
    del inbox.holes[5]
    assert not inbox.is_unacked(5)
    assert inbox.lowest_needed() == 6


def test_too_many_spans_are_delivered_again_rather_than_lost() -> None:
    inbox = Inbox()
    for at in range(10, 10 * (MAX_SPANS + 2), 10):
        inbox.start_span(at)
        inbox.mark_sent(at + 1)
        inbox.holes[at + 1] = 0
    assert len(inbox.spans) == MAX_SPANS
    assert not inbox.was_sent(11)
    assert 11 not in inbox.holes
    assert inbox.was_sent(21)
    assert 21 in inbox.holes


@given(st.integers(0, 2**52), st.sets(st.integers(1, 2**52), max_size=50), st.data())
def test_packing_keeps_everything(cursor: int, holes: set[int], data: st.DataObject) -> None:
    inbox = Inbox(cursor)
    for step in data.draw(st.lists(st.integers(1, 1000), max_size=10)):
        inbox.start_span(inbox.top + step)
        inbox.mark_sent(inbox.top + data.draw(st.integers(1, 1000)))
    inbox.holes = dict.fromkeys(holes, 0)
    again = Inbox.unpack(cursor, inbox.pack())
    assert (again.cursor, again.spans, again.holes) == (cursor, inbox.spans, inbox.holes)
