"""Folds remember no more than engines, and give up what engines give up."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.columnar.folding import differences, engine_rows, fold_rows
from tests.columnar.folding_scenes import window_of
from tests.records.scenes import SECOND, answer, ask, closed, message

from wirelake.columnar.fold import Fold, TunnelFold
from wirelake.columnar.fold import fold as folding
from wirelake.columnar.fold import tunnels as tunnelling
from wirelake.records.engine import EngineLimits
from wirelake.records.rows import Event, Opened

LIMITS = EngineLimits()


def _too_many_open() -> Iterator[Event]:
    for number in range(LIMITS.open_calls + 10):
        yield ask(number, number)
    yield answer(10_000, 3)
    yield answer(10_000, 4_000)


def _too_many_in_order() -> Iterator[Event]:
    for number in range(LIMITS.open_calls + 10):
        yield ask(number)
    yield answer(10_000)
    yield ask(20 * SECOND)
    yield answer(21 * SECOND)


def _too_many_answered() -> Iterator[Event]:
    for number in range(LIMITS.answered_calls + 10):
        yield ask(2 * number, number)
        yield answer(2 * number + 1, number)
    yield answer(100_000, 3)
    yield answer(100_000, LIMITS.answered_calls)


@pytest.mark.parametrize("story", [_too_many_open, _too_many_in_order, _too_many_answered])
def test_calls_of_one_connection(story: object) -> None:
    assert callable(story)
    windows = [window_of([*story(), closed(30 * SECOND)])]
    [rows] = fold_rows(windows, [(1, 1)])
    assert differences(engine_rows(windows), rows) == []


def _rows(batches: Iterator[tuple[str, pa.RecordBatch]], table: str) -> list[dict[str, object]]:
    return [row for name, batch in batches if name == table for row in batch.to_pylist()]


def test_the_oldest_connections_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "LIMIT", 2)
    fold = Fold()
    events = [Opened(each, each) for each in (1, 2, 3)]
    asked = [ask(9 + each, connection=each) for each in (1, 2, 3)]
    found = list(fold.window(window_of([*events, *asked])))
    [call] = _rows(iter(found), "calls")
    assert (call["connection"], call["outcome"], call["cause"]) == (1, "unknown", "limit")
    assert [row["connection"] for row in _rows(iter(found), "connections")] == [1]
    # Seen again, its order cannot be trusted; that of a new one can.
    later = [ask(20, connection=1), Opened(20, 4), ask(21, connection=4)]
    calls = _rows(fold.window(window_of(later)), "calls")
    causes = {row["connection"]: row["cause"] for row in calls}
    assert causes == {1: "unsettled", 2: "limit", 3: "limit"}


def test_ended_tunnels_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnelling, "_LIMITS", EngineLimits(closed_tunnels=1))
    packets = [
        message(at, "control", name=name, protocol="relay", connection=8, target=f"7/{number}")
        for at, (name, number) in enumerate(
            [
                *(("tunnel_connect", 1), ("tunnel_connect", 2), ("tunnel_connect", 3)),
                *(("tunnel_disconnect", 2), ("tunnel_disconnect", 1)),
            ]
        )
    ]
    result = [
        batch for name, batch in Fold().window(window_of(packets)) if name == "_tunnel_events"
    ]
    fold = TunnelFold()
    fold.feed(result)
    [gone] = _rows(fold.take(), "tunnels")
    assert (gone["tunnel_id"], gone["outcome"]) == (2, "closed")
    left = _rows(fold.finish(), "tunnels")
    assert {row["tunnel_id"]: row["outcome"] for row in left} == {1: "closed", 3: "open"}


def test_calls_of_idle_connections_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "IDLE_CALLS", 0)
    fold = Fold()
    first = window_of([Opened(0, 1), ask(1, 5), answer(2, 5)])
    assert _rows(fold.window(first), "calls") == []
    busy = window_of([ask(60 * SECOND, number, connection=2) for number in range(3)])
    [call] = _rows(fold.window(busy), "calls")
    assert (call["connection"], call["outcome"]) == (1, "answered")


def test_an_answered_call_of_a_silent_connection_becomes_final_in_time() -> None:
    """However few wait: a live capture would not show it before its end."""
    fold = Fold()
    opened = [Opened(each, each) for each in (1, 2)]
    fed = [*opened, ask(10, 5, connection=1), answer(20, 5, connection=1)]
    assert _rows(fold.window(window_of(fed)), "calls") == []
    [call] = _rows(fold.window(window_of([ask(30 * SECOND, connection=2)])), "calls")
    assert (call["connection"], call["response_ns"]) == (1, 20)


def test_an_early_fold_yields_a_call_once_with_its_answer() -> None:
    fold = Fold(early=True)
    fed = [Opened(1, 1), ask(10, 5, connection=1), answer(20, 5, connection=1)]
    [call] = _rows(fold.window(window_of(fed)), "calls")
    assert (call["response_ns"], call["outcome"]) == (20, "answered")
    assert _rows(fold.window(window_of([answer(30, 5, connection=1)])), "calls") == []
    later = [ask(40 * SECOND, 5, connection=1), answer(41 * SECOND, 5, connection=1)]
    [call] = _rows(fold.window(window_of(later)), "calls")
    assert call["request_ns"] == 40 * SECOND
    assert _rows(fold.finish(), "calls") == []
