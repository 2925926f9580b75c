"""Events of a connection reach the engines in the order of their time, also behind holes."""

from __future__ import annotations

from tests.columnar.reorder_buffer import ReorderBuffer

from wirelake.capture.tcp.assembly import StreamAssembler
from wirelake.records.rows import Closed, Event, FaultRow, MessageRow


def message(
    ts_ns: int, connection: int = 1, link: int | None = None, protocol: str = "tny"
) -> MessageRow:
    return MessageRow(
        ts_ns, ts_ns, connection, "c2s", protocol, "request", "request", tunnel_link=link
    )


def times(events: list[Event]) -> list[int]:
    return [event.ts_ns for event in events]


def test_nothing_waits_and_everything_passes_in_order() -> None:
    assert times(ReorderBuffer().passed([message(3), message(1, 2), message(2)])) == [1, 2, 3]


def test_what_is_later_than_a_hole_waits_for_it() -> None:
    held = ReorderBuffer()
    held.waiting = {1: 20}
    first = held.passed([message(10), message(30), Closed(40, 1), message(35, connection=2)])
    assert times(first) == [10, 35]
    held.waiting = {}
    fault = FaultRow(20, 1, "s2c", "gap", 5)
    assert times(held.passed([fault, message(50, connection=2)])) == [20, 30, 40, 50]


def test_messages_of_tunnels_wait_with_their_link() -> None:
    held = ReorderBuffer()
    held.waiting = {7: 5}
    assert held.passed([message(6, connection=99, link=7)]) == []
    assert times(list(held.all())) == [6]


def links() -> ReorderBuffer:
    """Two links are known."""
    held = ReorderBuffer()
    held.passed([message(1, connection=7, protocol="relay"), message(1, 8, protocol="relay")])
    return held


def test_all_links_wait_with_one() -> None:
    held = links()
    held.waiting = {7: 5}
    events = [message(4, 99, link=8), message(6, 99, link=8), message(6, 2), message(7, 99, link=7)]
    assert times(held.passed(events)) == [4, 6]
    held.waiting = {}
    assert times(held.passed([Closed(9, 8)])) == [6, 7, 9]


def test_links_do_not_wait_for_other_connections() -> None:
    held = links()
    held.waiting = {2: 5}
    assert times(held.passed([message(6, 99, link=8), message(6, 2)])) == [6]


def test_a_hole_shows_before_anything_waits_behind_it() -> None:
    """A packet that was not captured whole tells how far the stream reaches."""
    stream = StreamAssembler()
    stream.feed(1000, b"abc", 1, 0, 0)
    assert stream.waiting_since_ns is None
    stream.feed(1003, b"de", 2, 0, 0, missing=10)
    assert stream.waiting_since_ns == 2
    stream.feed(1020, b"later", 3, 0, 0)
    assert stream.waiting_since_ns == 2
    stream.end()
    assert stream.waiting_since_ns is None
