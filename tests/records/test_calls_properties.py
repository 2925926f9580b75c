"""Calls: what holds for any traffic. Nothing is lost or counted twice, and no match is wrong."""

from __future__ import annotations

from typing import Any, TypeGuard

from hypothesis import given
from hypothesis import strategies as st

from wirelake.records.calls import CallRow, CallsEngine
from wirelake.records.rows import Event, MessageRow, in_order

from .scenes import SECOND, answer, as_set, ask, closed, events, fault, run


@given(events())
def test_each_request_and_each_answer_is_in_exactly_one_row(found: list[Event]) -> None:
    known = [event for event in found if not _nameless_part(event)]
    asked = [event for event in known if _message(event) and event.kind == "request"]
    answers = [event for event in known if _message(event) and event.kind in ("response", "part")]
    rows: list[CallRow] = run(CallsEngine(), known)
    assert sum(row.requests for row in rows) == len(asked)
    assert sum(row.parts + row.duplicates for row in rows) == len(answers)
    assert sum(row.request_bytes or 0 for row in rows) == sum(row.size_bytes for row in asked)


def _nameless_part(event: Event) -> bool:
    """A part that names no call, and comes when none is open, is in no row."""
    return _message(event) and event.kind == "part" and event.reply_to is None


def _message(event: Event) -> TypeGuard[MessageRow]:
    return isinstance(event, MessageRow)


@given(events())
def test_rows_match_their_outcome(found: list[Event]) -> None:
    for row in run(CallsEngine(), found):
        asked, answered = row.request_ns is not None, row.response_ns is not None
        assert asked == (row.outcome != "orphan")
        assert (row.requests > 0) == asked
        assert (row.latency_ns is not None) == (asked and answered)
        assert (row.outcome in ("answered", "failed")) == (asked and answered)
        assert (row.outcome in ("lost", "unknown")) <= (row.cause is not None)
        assert row.latency_ns is None or row.latency_ns >= 0


@given(events(), st.randoms(use_true_random=False))
def test_how_connections_are_mixed_makes_no_difference(found: list[Event], random: Any) -> None:
    plain = [event for event in found if _alone(event)]
    queues: dict[Any, list[Event]] = {}
    for event in plain:
        queues.setdefault(event.connection, []).append(event)
    mixed: list[Event] = []
    while queues:
        chosen = random.choice(sorted(queues, key=repr))
        mixed.append(queues[chosen].pop(0))
        if not queues[chosen]:
            del queues[chosen]
    assert as_set(run(CallsEngine(), plain)) == as_set(run(CallsEngine(), mixed))


def _alone(event: Event) -> bool:
    """Whether it concerns one connection only; links and their tunnels belong together."""
    tunnelled = _message(event) and event.tunnel_link is not None
    return not tunnelled and event.connection not in (None, 8, 9)


# -- order and gaps --------------------------------------------------------------------------------


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Times of requests and of their answers, which come in order and within eight seconds."""
    found: list[tuple[int, int]] = []
    asked = answered = 0
    for _ in range(draw(st.integers(1, 12))):
        asked += draw(st.sampled_from([1, SECOND // 10, SECOND, 5 * SECOND, 15 * SECOND]))
        delay = draw(st.sampled_from([1, SECOND // 10, SECOND, 8 * SECOND]))
        answered = max(answered + 1, asked + delay)
        found.append((asked, answered))
    return found


@given(conversations(), st.data())
def test_behind_a_gap_no_answer_is_given_to_the_wrong_request(
    talk: list[tuple[int, int]], data: st.DataObject
) -> None:
    truth = dict(talk)
    direction = data.draw(st.sampled_from(["c2s", "s2c"]))
    place = 0 if direction == "c2s" else 1
    first = data.draw(st.integers(0, len(talk) - 1))
    last = data.draw(st.integers(first, len(talk) - 1))
    lost = {pair[place] for pair in talk[first : last + 1]}
    begin = talk[first][place]
    behind = talk[last + 1][place] if last + 1 < len(talk) else begin
    seen: list[Event] = [ask(asked, protocol="comet") for asked, _ in talk]
    seen += [answer(answered, protocol="comet") for _, answered in talk]
    left = [
        event
        for event in seen
        if not (_message(event) and event.direction == direction and event.ts_ns in lost)
    ]
    hole = fault(data.draw(st.sampled_from([begin, behind])), direction)
    end = closed(max(answered for _, answered in talk) + 1)
    rows: list[CallRow] = run(CallsEngine(), in_order([*left, hole, end]))
    matched = {row.request_ns: row.response_ns for row in rows if row.outcome == "answered"}
    assert all(truth[asked] == answered for asked, answered in matched.items() if asked)
    before = [pair for pair in talk if pair[1] < min(begin, hole.ts_ns)]
    assert all(matched[asked] == answered for asked, answered in before)
    assert not any(row.outcome == "lost" and row.request_ns in truth for row in rows)


@given(conversations())
def test_without_a_gap_every_call_is_found(talk: list[tuple[int, int]]) -> None:
    seen: list[Event] = [ask(asked, protocol="comet") for asked, _ in talk]
    seen += [answer(answered, protocol="comet") for _, answered in talk]
    rows: list[CallRow] = run(CallsEngine(), in_order(seen))
    assert {row.request_ns: row.response_ns for row in rows} == dict(talk)
