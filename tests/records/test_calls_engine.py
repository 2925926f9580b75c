"""Calls: each rule of the page of matching rules, in a scene of a few messages."""

from __future__ import annotations

from typing import Any

from wirelake.records.calls import CallRow, CallsEngine
from wirelake.records.engine import EngineLimits, feed_event
from wirelake.records.rows import Event, Fact, Opened
from wirelake.records.tunnels import tunnel_connection

from .scenes import SECOND, answer, ask, closed, fault, message, run


def calls(*events: Event, **limits: int) -> list[CallRow]:
    """The calls that come of these events, in the order of their requests or answers."""
    rows: list[CallRow] = run(CallsEngine(EngineLimits(**limits)), events)
    return sorted(rows, key=lambda row: (row.request_ns or row.response_ns or 0, row.connection))


def outcomes(*events: Event, **limits: int) -> list[tuple[str | None, str | None]]:
    """Outcome and cause of each."""
    return [(row.outcome, row.cause) for row in calls(*events, **limits)]


def comet(make: Any, ts_ns: int, **more: Any) -> Any:
    """A command or an answer without an id."""
    return make(ts_ns, None, protocol="comet", **more)


# -- by id -----------------------------------------------------------------------------------------


def test_an_answer_finds_its_request_by_id() -> None:
    first, second = calls(
        ask(10, 1, target="test/add"),
        ask(20, 2),
        answer(30, 2, "error", reason="no"),
        answer(45, 1),
    )
    assert (first.outcome, first.latency_ns, first.status, first.target) == (
        "answered", 35, "ok", "test/add",
    )  # fmt: skip
    assert (second.outcome, second.latency_ns, second.status, second.reason) == (
        "failed", 10, "error", "no",
    )  # fmt: skip
    assert (first.requests, first.parts, first.request_bytes, first.response_bytes) == (
        1,
        1,
        10,
        10,
    )
    assert first.first_part_ns == first.response_ns == 45


def test_both_ends_may_ask_with_the_same_ids() -> None:
    rows = calls(ask(1, 7), ask(2, 7, direction="s2c"), answer(3, 7, direction="c2s"), answer(4, 7))
    assert [(row.direction, row.latency_ns) for row in rows] == [("c2s", 3), ("s2c", 1)]


def test_connections_do_not_mix() -> None:
    rows = calls(ask(1, 7), ask(2, 7, connection=2), answer(3, 7, connection=2))
    assert [row.outcome for row in rows] == ["open", "answered"]


def test_a_second_answer_counts_on_the_call() -> None:
    (row,) = calls(ask(1, 7), answer(2, 7), answer(3, 7, "error"), answer(10 * SECOND + 2, 7))
    assert (row.outcome, row.duplicates, row.response_ns, row.status) == ("answered", 2, 2, "ok")


def test_a_second_answer_after_the_window_is_an_orphan() -> None:
    found = outcomes(ask(1, 7), answer(2, 7), answer(10 * SECOND + 3, 7))
    assert found == [("answered", None), ("orphan", None)]


def test_an_answer_without_a_request_is_an_orphan() -> None:
    (row,) = calls(answer(5, 7, "error", reason="why", target="9"))
    assert (row.outcome, row.request_ns, row.response_ns, row.latency_ns) == (
        "orphan",
        None,
        5,
        None,
    )
    assert (row.direction, row.message_id, row.requests, row.parts) == ("c2s", 7, 0, 1)
    assert (row.status, row.reason, row.target) == ("error", "why", "9")


def test_a_late_answer_is_an_answer() -> None:
    (row,) = calls(ask(0, 7), answer(3600 * SECOND, 7))
    assert (row.outcome, row.latency_ns) == ("answered", 3600 * SECOND)


def test_a_repeated_request_is_the_same_call_until_it_is_answered() -> None:
    first, second = calls(ask(1, 7), ask(2, 7), answer(4, 7), ask(5, 7), answer(6, 7))
    assert (first.requests, first.request_bytes, first.latency_ns) == (2, 20, 3)
    assert (second.requests, second.latency_ns) == (1, 1)


def test_parts_and_traces_do_not_complete_a_call() -> None:
    (row,) = calls(
        ask(1, 7),
        message(2, "trace", reply_to=7),
        message(3, "part", reply_to=7),
        message(4, "part", reply_to=7),
        answer(6, 7),
        message(7, "trace", reply_to=7),
    )
    assert (row.outcome, row.first_part_ns, row.response_ns, row.parts) == ("answered", 3, 6, 3)
    assert (row.traces, row.response_bytes, row.latency_ns) == (2, 30, 5)


def test_parts_without_a_request_are_one_orphan() -> None:
    (row,) = calls(message(3, "part", reply_to=7), answer(6, 7))
    assert (row.outcome, row.parts, row.first_part_ns, row.response_ns) == ("orphan", 2, 3, 6)


def test_parts_that_never_end_are_an_unfinished_orphan() -> None:
    assert outcomes(message(3, "part", reply_to=7)) == [("orphan", "unfinished")]
    found = outcomes(message(3, "part", reply_to=7), ask(4, 7), answer(5, 7))
    assert sorted(found) == [("answered", None), ("orphan", "unfinished")]


def test_a_part_after_the_answer_is_a_duplicate() -> None:
    (row,) = calls(ask(1, 7), answer(2, 7), message(3, "part", reply_to=7))
    assert (row.duplicates, row.parts) == (1, 1)


def test_a_response_after_the_window_does_not_belong_to_the_call() -> None:
    late = 10 * SECOND + 3
    first, second = calls(
        ask(1, 7),
        answer(2, 7),
        message(late, "trace", reply_to=7),
        message(late, "part", reply_to=7),
        answer(late + 1, 7),
    )
    assert (first.outcome, first.traces, first.duplicates, first.parts) == ("answered", 0, 0, 1)
    assert (second.outcome, second.parts) == ("orphan", 2)


def test_trace_without_a_call_is_in_no_row() -> None:
    assert calls(message(2, "trace", reply_to=7), message(3, "push"), message(4, "event")) == []


def test_the_end_of_a_connection_and_of_the_input() -> None:
    assert outcomes(ask(1, 7), closed(5)) == [("lost", "closed")]
    assert outcomes(ask(1, 7)) == [("open", None)]
    assert outcomes(ask(1, 7), closed(5), answer(6, 7)) == [("lost", "closed"), ("orphan", None)]


def test_a_fault_may_hide_the_answer_of_an_open_call() -> None:
    assert outcomes(ask(1, 7), fault(2), closed(5)) == [("unknown", "gap")]
    assert outcomes(ask(1, 7), fault(2, code="bad_length")) == [("unknown", "bad_length")]
    assert outcomes(fault(0), ask(1, 7), closed(5)) == [("lost", "closed")]
    assert outcomes(fault(1), ask(1, 7), closed(5)) == [("unknown", "gap")]
    assert outcomes(ask(1, 7), fault(2, "c2s"), closed(5)) == [("lost", "closed")]
    assert outcomes(ask(1, 7), message(2, "sealed"), closed(5)) == [("unknown", "sealed")]


def test_matching_by_id_continues_after_a_gap() -> None:
    assert outcomes(ask(1, 7), fault(2), fault(2, "c2s"), answer(3, 7)) == [("answered", None)]


def test_faults_that_hide_nothing() -> None:
    for code in ("conflict", "truncated_stream"):
        assert outcomes(ask(1, 7), fault(2, code=code), closed(5)) == [("lost", "closed")]
        assert outcomes(comet(ask, 1), fault(2, code=code), comet(answer, 3)) == [
            ("answered", None)
        ]


# -- by order --------------------------------------------------------------------------------------


def test_answers_without_ids_come_in_order() -> None:
    first, second = calls(
        comet(ask, 1, target="auth"),
        comet(ask, 2, target="subscribe"),
        comet(answer, 4),
        comet(answer, 9, status="4", reason="bad"),
    )
    assert (first.target, first.latency_ns, first.outcome) == ("auth", 3, "answered")
    assert (second.target, second.latency_ns, second.outcome) == ("subscribe", 7, "failed")
    assert outcomes(comet(answer, 1)) == [("orphan", None)]


def test_requests_without_ids_do_not_take_answers_that_name_one() -> None:
    rows = calls(ask(1), ask(2, 7), answer(3, 7), answer(4))
    assert [(row.message_id, row.latency_ns) for row in rows] == [(None, 3), (7, 1)]


def test_an_answer_that_names_no_request_takes_the_oldest_with_its_target() -> None:
    def magline(make: Any, ts_ns: int, *args: Any, **more: Any) -> Any:
        return make(ts_ns, *args, protocol="magline", **more)

    rows = calls(
        magline(ask, 1, 1, target="5"),
        magline(ask, 2, 2, target="6"),
        magline(ask, 3, 3, target="6"),
        magline(answer, 10, 2),
        magline(answer, 20, target="6"),
        magline(answer, 30, target="5"),
        magline(answer, 40, target="5"),
        magline(answer, 50, 3),
    )
    assert [(row.message_id, row.response_ns, row.duplicates) for row in rows] == [
        (1, 30, 0),
        (2, 10, 0),
        (3, 20, 1),
        (None, 40, 0),
    ]
    assert [row.outcome for row in rows] == ["answered", "answered", "answered", "orphan"]


def test_a_gap_ends_matching_by_order_until_a_request_after_a_quiet_time() -> None:
    late = 20 * SECOND
    found = outcomes(
        comet(ask, 1),  # its answer may be missing
        fault(2),
        comet(ask, 3),  # nobody can tell which answer is whose
        comet(answer, 4),
        comet(ask, SECOND),
        comet(ask, late),  # whatever was under way is over
        comet(answer, late + 5),
    )
    assert found == [
        ("unknown", "gap"),
        ("unknown", "unsettled"),
        ("orphan", "unsettled"),
        ("unknown", "unsettled"),
        ("answered", None),
    ]


def test_a_gap_lasts_until_a_later_message() -> None:
    late = 20 * SECOND
    found = outcomes(
        fault(2), comet(ask, late), comet(ask, 2 * late), message(2 * late + 1, "push"),
        comet(ask, 3 * late), comet(answer, 3 * late + 1),
    )  # fmt: skip
    assert found == [("unknown", "unsettled"), ("unknown", "unsettled"), ("answered", None)]


def test_a_gap_in_the_requests_stops_matching_as_well() -> None:
    found = outcomes(fault(2, "c2s"), comet(ask, 20 * SECOND), comet(answer, 21 * SECOND))
    assert found == [("unknown", "unsettled"), ("orphan", "unsettled")]


def test_an_order_that_cannot_be_trusted_leaves_calls_with_ids_unknown() -> None:
    found = outcomes(fault(1, "c2s"), ask(2, 7, target="5"), answer(3, target="5"), closed(9))
    assert found == [("unknown", "unsettled"), ("orphan", "unsettled")]


def test_a_connection_that_begins_in_the_middle() -> None:
    late = 20 * SECOND
    assert outcomes(
        Opened(1, 1, whole=False),
        comet(answer, 2),
        comet(ask, 3),
        comet(answer, 4),
        comet(ask, late),
        comet(answer, late + 1),
    ) == [
        ("orphan", "unsettled"),
        ("unknown", "unsettled"),
        ("orphan", "unsettled"),
        ("answered", None),
    ]
    assert outcomes(Opened(1, 1), comet(ask, 3), comet(answer, 4)) == [("answered", None)]


# -- clients, tunnels, limits ----------------------------------------------------------------------


def test_calls_have_the_signed_on_client() -> None:
    rows = calls(
        comet(ask, 1, target="heartbeat"),
        comet(ask, 2, client="ann"),
        comet(answer, 3),
        comet(answer, 4, status="0"),
        comet(ask, 5, client="bob"),
        comet(answer, 6, name="auth_success"),
        comet(ask, 7, client="eve"),
        comet(answer, 8, status="2"),
        closed(9),
        comet(ask, 10),
    )
    assert [row.client for row in rows] == [None, "ann", "bob", "bob", None]


def tunnel(make: Any, ts_ns: int, number: int, link: int = 50) -> Any:
    """A message in tunnel 3/4."""
    return make(ts_ns, number, connection=tunnel_connection(3, 4), protocol="tny", tunnel_link=link)


def relay(ts_ns: int, name: str, **more: Any) -> Any:
    """A packet of the link about that tunnel."""
    return message(
        ts_ns, "control", name=name, target="3/4", protocol="relay", connection=50, **more
    )


def test_the_ends_of_tunnels() -> None:
    for name, more, cause in (
        ("tunnel_disconnect", {}, "closed"),
        ("tunnel_connect", {}, "replaced"),
        ("tunnel_connected", {"fields": {"result": False}}, "closed"),
    ):
        (row,) = calls(tunnel(ask, 1, 7), relay(2, name, **more))
        assert (row.outcome, row.cause, row.tunnel_link) == ("lost", cause, 50)
    assert outcomes(
        tunnel(ask, 1, 7), relay(2, "tunnel_switch_link"), tunnel(answer, 3, 7, 51)
    ) == [("answered", None)]


def test_tunnels_outlive_their_link_and_keep_its_faults() -> None:
    asked = tunnel(ask, 1, 7)
    assert outcomes(asked, closed(2, 50), tunnel(answer, 3, 7, 51)) == [("answered", None)]
    asked = tunnel(ask, 1, 7)
    broken = fault(2, connection=50)
    assert outcomes(asked, broken, relay(3, "tunnel_disconnect")) == [("unknown", "gap")]
    asked = tunnel(ask, 1, 7)
    gone = closed(3, 50)
    assert outcomes(asked, broken, gone, relay(4, "tunnel_disconnect")) == [("unknown", "gap")]


def test_too_many_open_calls() -> None:
    assert outcomes(ask(1, 1), ask(2, 2), ask(3, 3), answer(4, 3), open_calls=2) == [
        ("unknown", "limit"),
        ("open", None),
        ("answered", None),
    ]
    by_order = [comet(ask, ts_ns) for ts_ns in (1, 2, 3)]
    assert outcomes(*by_order, comet(answer, 4), open_calls=2) == [
        *[("unknown", "limit")] * 3,
        ("orphan", "unsettled"),
    ]


def test_too_many_answered_calls() -> None:
    asked = [ask(ts_ns, ts_ns) for ts_ns in range(1, 5)]
    answers = [answer(10 + number, number) for number in range(1, 5)]
    rows = calls(*asked, *answers, answer(20, 1), answer(21, 4), answered_calls=2)
    assert [(row.outcome, row.duplicates) for row in rows] == [
        *[("answered", 0)] * 3,
        ("answered", 1),
        ("orphan", 0),
    ]


def test_too_many_connections() -> None:
    events = [comet(ask, 1), comet(ask, 2, connection=2), comet(answer, 3), comet(ask, 4)]
    assert outcomes(*events, connections=1) == [
        ("unknown", "limit"),
        ("unknown", "limit"),
        ("orphan", None),
        ("unknown", "unsettled"),
    ]


def test_answered_calls_come_out_when_they_are_final() -> None:
    engine = CallsEngine()
    for event in (ask(1, 7), answer(2, 7), comet(ask, 3, connection=2)):
        feed_event(engine, event)
    assert engine.take() == []
    feed_event(engine, comet(answer, 4, connection=2))
    assert [row.connection for row in engine.take()] == [2]
    engine.advance(10 * SECOND)
    assert engine.take() == []
    engine.advance(10 * SECOND + 3)
    assert [row.connection for row in engine.take()] == [1]
    for event in (ask(20 * SECOND, 8), answer(20 * SECOND, 8)):
        feed_event(engine, event)
    for event in (ask(40 * SECOND, 9), answer(40 * SECOND, 9)):
        feed_event(engine, event)
    assert [row.message_id for row in engine.take()] == [8]


def test_a_fact_names_the_caller() -> None:
    before, after = calls(
        ask(1, 1), Fact(2, "sign_on", 1, {"client": "ann"}), ask(3, 2)
    )  # fmt: skip
    assert (before.client, after.client) == (None, "ann")


def test_the_caller_in_a_tunnel_is_unknown() -> None:
    result = Fact(1, "sign_on", 1, {"client": "ann"})
    (found,) = calls(result, ask(3, 2, tunnel_link=9))
    assert found.client is None
