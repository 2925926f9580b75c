"""Figures of `wirelake top`: rates are differences, percentiles come from buckets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from wirelake.cli.top.figures import Figures, History, Sample, quantile

S = 1_000_000_000
BASE: dict[str, Any] = {
    "version": "1.0.0",
    "started_ns": 100 * S,
    "ts_ns": 200 * S,
    "clock_ns": 50 * S,
    "cpu_ns": 10 * S,
    "draining": False,
    "recording": "on",
    "connections": {"esnp": 2, "comet": 1},
    "accepted": {"esnp": 3, "comet": 1},
    "closed": {"esnp": 1},
    "refused": {},
    "bytes_in": {"esnp": 1_000, "comet": 100},
    "bytes_out": {"esnp": 2_000, "comet": 100},
    "calls": {"esnp": {"ok": 10, "failed": 1}},
    "calls_running": 0,
    "published": 5,
    "refused_publishes": 0,
    "stored": 5,
    "delivered": {"comet": 5},
    "skipped": {},
    "acked": 4,
    "dead": {},
    "auth_failures": {},
    "failures": {},
    "targets": [{"name": "a/b", "calls": 10, "failed": 1, "times": [[1_000, 2_000, 10]]}],
    "topic_count": 1,
    "topics": [],
    "failed_connections": [],
    "of_a_newer_hub": {"what": "ever"},
}
TOPIC = {"subscribers": 1, "online": 1, "held": 0, "stored": 0, "published": 0, "delivered": 0}


def _look(**changes: Any) -> Sample:
    return msgspec.convert({**BASE, **changes}, Sample)


def _after(**changes: Any) -> Figures:
    """The figures two seconds later."""
    history = History()
    assert history.add(_look()) is None
    found = history.add(_look(**{"clock_ns": 52 * S, "ts_ns": 202 * S, **changes}))
    assert found is not None
    return found


def test_rates_are_differences_by_the_time_between() -> None:
    found = _after(
        cpu_ns=11 * S,
        accepted={"esnp": 7, "comet": 1},
        bytes_in={"esnp": 3_000, "comet": 100},
        calls={"esnp": {"ok": 28, "failed": 2, "not_found": 1}},
        delivered={"comet": 25},
        published=11,
    )
    esnp = next(each for each in found.protocols if each.protocol == "esnp")
    assert (esnp.connections, esnp.opened_per_s, esnp.closed_per_s) == (2, 2.0, 0.0)
    assert (esnp.bytes_in_per_s, esnp.calls_per_s) == (1_000.0, 10.0)
    assert (found.total.connections, found.total.delivered_per_s) == (3, 10.0)
    assert (found.calls_failed_per_s, found.published_per_s) == (1.0, 3.0)
    assert (found.cpu, found.uptime_s, found.interval_s) == (0.5, 102.0, 2.0)


def test_percentiles_are_of_what_is_new() -> None:
    slow = {"name": "slow/one", "calls": 1, "failed": 0, "times": [[4 * S, 5 * S, 1]]}
    same = {"name": "a/b", "calls": 110, "failed": 1}
    found = _after(targets=[{**same, "times": [[1_000, 2_000, 10], [8_000, 10_000, 100]]}, slow])
    first, second = found.targets
    assert (first.name, first.calls_per_s) == ("slow/one", 0.5)
    assert 4 * S <= (first.p50_ns or 0) <= 5 * S
    assert (second.name, second.calls_per_s, second.failed) == ("a/b", 50.0, 1)
    assert (second.p50_ns, second.p99_ns) == (9_000, 9_980)
    assert (found.p50_ns or 0) < 10_000 < 4 * S


def test_what_was_not_called_has_no_percentiles() -> None:
    (target,) = _after().targets
    assert (target.p50_ns, target.p99_ns, target.calls_per_s) == (None, None, 0.0)


def test_a_new_topic_has_no_rate() -> None:
    topic = {**TOPIC, "name": "@news", "published": 500, "delivered": 900}
    history = History()
    for number in range(3):
        grown = {**topic, "published": 500 + 10 * number}
        looked = _look(clock_ns=(50 + number) * S, topics=[grown] if number else [])
        found = history.add(looked)
        if number:
            assert found is not None
            assert found.topics[0].published_per_s == (0.0 if number == 1 else 10.0)


def test_the_busiest_topic_is_first() -> None:
    topics = [{**TOPIC, "name": name, "published": 1} for name in ("@a", "@b")]
    history = History()
    history.add(_look(topics=topics))
    later = [topics[0], {**topics[1], "published": 9}]
    found = history.add(_look(clock_ns=51 * S, topics=later))
    assert found is not None
    assert [each.name for each in found.topics] == ["@b", "@a"]


def test_rates_start_again_after_a_restart_of_the_hub() -> None:
    history = History()
    history.add(_look())
    assert history.add(_look(started_ns=300 * S, published=0)) is None
    found = history.add(_look(started_ns=300 * S, clock_ns=51 * S, published=4))
    assert found is not None
    assert found.published_per_s == 4.0


@pytest.mark.parametrize(
    ("buckets", "share", "wanted"),
    [
        ([], 0.5, None),
        ([(100, 200, 1)], 0.5, 150),
        ([(100, 200, 1)], 1.0, 200),
        ([(0, 10, 50), (10, 20, 50)], 0.5, 10),
        ([(0, 10, 50), (10, 20, 50)], 0.99, 20),
        ([(0, 10, 1), (1_000, 2_000, 99)], 0.01, 10),
    ],
)
def test_quantiles(buckets: list[tuple[int, int, int]], share: float, wanted: int | None) -> None:
    assert quantile(buckets, share) == wanted
