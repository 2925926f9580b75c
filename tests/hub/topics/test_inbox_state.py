"""Cursor, spans and holes, without a hub."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirelake.hub.pubsub.inboxes import MOST_SPANS, Inbox


def test_handing_in_order_moves_the_cursor_alone() -> None:
    inbox = Inbox()
    for number in (3, 7, 20):
        inbox.hand(number)
    assert (inbox.cursor, inbox.spans, inbox.top) == (20, [], 20)
    assert inbox.handed(5)
    assert not inbox.handed(21)


def test_what_is_pushed_does_not_hide_what_waits() -> None:
    inbox = Inbox(10)
    inbox.begin(50)
    inbox.hand(60)
    inbox.hand(70)
    assert inbox.spans == [(50, 70)]
    assert [inbox.handed(each) for each in (10, 11, 50, 51, 70, 71)] == [
        True, False, False, True, True, False,
    ]  # fmt: skip
    assert list(inbox.gaps()) == [(10, 50), (70, None)]
    assert inbox.not_handed([5, 11, 20, 50, 51, 70, 71]) == 4
    assert inbox.not_handed([5, 11, 20, 50, 51, 70, 71], 20) == 2
    inbox.hand(20)
    assert list(inbox.gaps()) == [(20, 50), (70, None)]
    inbox.settle(50)
    assert (inbox.cursor, inbox.spans) == (70, [])


def test_holes_are_owed_until_they_are_acknowledged() -> None:
    inbox = Inbox()
    inbox.hand(5)
    inbox.holes[5] = 1
    assert inbox.owes(5)
    assert inbox.owes(6)
    assert not inbox.owes(4)
    assert inbox.lowest() == 5
    del inbox.holes[5]
    assert not inbox.owes(5)
    assert inbox.lowest() == 6


def test_too_many_spans_are_delivered_again_rather_than_lost() -> None:
    inbox = Inbox()
    for at in range(10, 10 * (MOST_SPANS + 2), 10):
        inbox.begin(at)
        inbox.hand(at + 1)
        inbox.holes[at + 1] = 0
    assert len(inbox.spans) == MOST_SPANS
    assert not inbox.handed(11)
    assert 11 not in inbox.holes
    assert inbox.handed(21)
    assert 21 in inbox.holes


@given(st.integers(0, 2**52), st.sets(st.integers(1, 2**52), max_size=50), st.data())
def test_packing_keeps_everything(cursor: int, holes: set[int], data: st.DataObject) -> None:
    inbox = Inbox(cursor)
    for step in data.draw(st.lists(st.integers(1, 1000), max_size=10)):
        inbox.begin(inbox.top + step)
        inbox.hand(inbox.top + data.draw(st.integers(1, 1000)))
    inbox.holes = dict.fromkeys(holes, 0)
    again = Inbox.unpack(cursor, inbox.pack())
    assert (again.cursor, again.spans, again.holes) == (cursor, inbox.spans, inbox.holes)
