"""Progress of sources, despite wrong timestamps of single packets and files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from wirelake.lake.engine.watermarks import (
    LATEST,
    Latest,
    Reached,
    complete_ns,
    expected_ns,
    watermark_ns,
)

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
NOW = 1_000 * 24 * HOUR
LATENESS = 600 * SECOND


def reached(ts_ns: int, *mtimes_ns: int) -> Reached:
    return Reached(ts_ns, mtimes_ns or (ts_ns,))


def test_the_latest_times_of_all_batches_are_kept() -> None:
    latest = Latest()
    for start in range(0, 100, 10):
        times = [*range(start, start + 10)]
        latest.add(pa.record_batch({"ts_ns": pa.array(times, pa.int64())}))
    assert sorted(latest.times) == [*range(100 - LATEST, 100)]


def test_without_messages_there_is_no_time() -> None:
    assert Latest().times == []
    assert watermark_ns([], NOW) is None


@pytest.mark.parametrize("wild", [0, 1, 7])
def test_a_few_implausible_times_are_ignored(wild: int) -> None:
    good = [NOW - number * SECOND for number in range(LATEST)]
    found = watermark_ns([*good, *[NOW + HOUR] * wild], NOW + 2 * HOUR)
    assert found is not None
    assert NOW - LATEST * SECOND <= found <= NOW


def test_no_packet_is_younger_than_its_file() -> None:
    assert watermark_ns([NOW, NOW + SECOND, NOW + 2 * SECOND], NOW) == NOW
    assert watermark_ns([NOW + SECOND], NOW) is None


def test_the_source_that_is_furthest_behind_counts() -> None:
    sources = {"a": reached(NOW), "b": reached(NOW - HOUR)}
    assert complete_ns(sources, LATENESS) == NOW - HOUR - LATENESS
    assert expected_ns(sources, LATENESS) == NOW - HOUR - LATENESS


def test_a_source_that_is_a_day_behind_has_ended() -> None:
    sources = {"a": reached(NOW), "b": reached(NOW - 25 * HOUR)}
    assert complete_ns(sources, LATENESS) == NOW - LATENESS
    assert expected_ns(sources, LATENESS) == NOW - LATENESS


def test_nothing_was_reached_without_sources() -> None:
    assert (complete_ns({}, 0), expected_ns({}, 0)) == (0, 0)


@pytest.mark.parametrize(
    ("files", "waits"),
    [
        ((NOW - 2 * HOUR, NOW - HOUR), True),  # one in an hour: the next may come any moment
        ((NOW - HOUR - 2 * SECOND, NOW - HOUR - SECOND, NOW - HOUR), False),  # one in a second
        ((NOW - HOUR,), True),  # nothing is known
    ],
)
def test_a_file_that_should_have_come_long_ago_is_not_waited_for(
    files: tuple[int, ...], waits: bool
) -> None:
    sources = {"a": reached(NOW), "b": reached(NOW - HOUR, *files)}
    furthest = NOW - HOUR if waits else NOW
    assert expected_ns(sources, LATENESS) == furthest - LATENESS
    assert complete_ns(sources, LATENESS) == NOW - HOUR - LATENESS


def test_captures_that_were_copied_at_once_are_all_waited_for() -> None:
    sources = {"a": reached(NOW, NOW + HOUR), "b": reached(NOW - HOUR, NOW + HOUR)}
    assert expected_ns(sources, 0) == NOW - HOUR


def test_nothing_is_settled_from_the_time_since_which_events_wait() -> None:
    waiting = Reached(NOW, [NOW], NOW - HOUR)
    for sources in ({"a": waiting}, {"a": waiting, "b": reached(NOW - SECOND)}):
        assert complete_ns(sources, LATENESS) == expected_ns(sources, LATENESS) == NOW - HOUR - 1
    assert complete_ns({"a": Reached(NOW, [NOW], NOW - SECOND)}, LATENESS) == NOW - LATENESS


def test_unread_captures_settle_nothing() -> None:
    sources = {"a": reached(NOW)}
    assert complete_ns(sources, LATENESS, NOW - HOUR) == NOW - HOUR - LATENESS
    assert expected_ns(sources, LATENESS, NOW + HOUR) == NOW - LATENESS


def test_a_source_that_has_ended_holds_nothing_back() -> None:
    sources = {"a": reached(NOW), "b": Reached(NOW - 25 * HOUR, [NOW], NOW - 26 * HOUR)}
    assert complete_ns(sources, LATENESS) == NOW - LATENESS
