"""The figures of `wirelake top`: what two looks at a hub tell about the time between them.

Rates are differences of counters since the last look. Percentiles are read from the differences of
buckets over the last ten looks, for a second may have few calls. A hub that was started anew begins
from nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

__all__ = ["Figures", "History", "Look", "Target", "Topic", "Trouble", "quantile"]

_LOOKS: Final = 11
"""Looks that are remembered: ten times the interval."""

Buckets: TypeAlias = Sequence[tuple[int, int, int]]
"""Nanoseconds from, up to but without, and how many."""


class LookTarget(msgspec.Struct, kw_only=True):
    """Something that can be called."""

    name: str
    calls: int
    failed: int
    times: list[tuple[int, int, int]]


class LookTopic(msgspec.Struct, kw_only=True):
    """A topic."""

    name: str
    subscribers: int
    online: int
    held: int
    stored: int
    published: int
    delivered: int


class Trouble(msgspec.Struct, kw_only=True):
    """A connection that ended for a reason that somebody should know of."""

    protocol: str
    peer: str
    client: str
    closed_ns: int
    reason: str
    side: str


class Look(msgspec.Struct, kw_only=True):
    """What `/v1/top` says; what a newer hub says beside it does not matter."""

    version: str
    started_ns: int
    ts_ns: int
    clock_ns: int
    cpu_ns: int
    draining: bool
    recording: str
    connections: dict[str, int]
    accepted: dict[str, int]
    closed: dict[str, int]
    refused: dict[str, int]
    bytes_in: dict[str, int]
    bytes_out: dict[str, int]
    calls: dict[str, dict[str, int]]
    calls_running: int
    published: int
    refused_publishes: int
    stored: int
    delivered: dict[str, int]
    skipped: dict[str, int]
    acked: int
    dead: dict[str, int]
    auth_failures: dict[str, int]
    failures: dict[str, dict[str, int]]
    targets: list[LookTarget]
    topic_count: int
    topics: list[LookTopic]
    troubles: list[Trouble]


class Line(msgspec.Struct, kw_only=True):
    """One protocol, or all of them: what is open, and how much there is in a second."""

    protocol: str
    connections: int
    opened_per_s: float
    closed_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    calls_per_s: float
    delivered_per_s: float


class Target(msgspec.Struct, kw_only=True):
    """A service, or a call of the hub."""

    name: str
    calls: int
    """Since the start of the hub."""
    failed: int
    """The same."""
    calls_per_s: float
    p50_ns: int | None
    """None when it was not called of late."""
    p99_ns: int | None


class Topic(msgspec.Struct, kw_only=True):
    """A topic."""

    name: str
    subscribers: int
    online: int
    held: int
    stored: int
    published_per_s: float
    delivered_per_s: float


class Figures(msgspec.Struct, kw_only=True):
    """A hub, and what it did since the last look."""

    ts_ns: int
    version: str
    uptime_s: float
    interval_s: float
    cpu: float
    """The share of one core that it used."""
    draining: bool
    recording: str
    protocols: list[Line]
    total: Line
    calls_failed_per_s: float
    calls_running: int
    p50_ns: int | None
    p99_ns: int | None
    published_per_s: float
    refused_per_s: float
    stored_per_s: float
    acked_per_s: float
    skipped: int
    """Since the start of the hub, as the next ones."""
    dead: int
    turned_away: int
    auth_failures: int
    broken_rules: int
    topic_count: int
    topics: list[Topic]
    """The busiest first."""
    targets: list[Target]
    """The slowest first."""
    troubles: list[Trouble]
    """The newest first."""


class History:
    """The last looks at a hub."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=_LOOKS)

    def add(self, look: Look) -> Figures | None:
        """Takes one more look; the figures, if there was one before it."""
        if self._looks and self._looks[-1].started_ns != look.started_ns:
            self._looks.clear()
        self._looks.append(look)
        if len(self._looks) < 2:
            return None
        return _figures(self._looks[0], self._looks[-2], look)


def _figures(first: Look, last: Look, look: Look) -> Figures:
    seconds = max(look.clock_ns - last.clock_ns, 1) / 1e9
    protocols = sorted({*look.accepted, *look.connections, *look.bytes_out})
    lines = [_line(name, last, look, seconds) for name in protocols]
    recent = _recent_times(first, look)
    together = _together(recent.values())
    failed = _failed(look) - _failed(last)
    return Figures(
        ts_ns=look.ts_ns,
        version=look.version,
        uptime_s=(look.ts_ns - look.started_ns) / 1e9,
        interval_s=seconds,
        cpu=(look.cpu_ns - last.cpu_ns) / 1e9 / seconds,
        draining=look.draining,
        recording=look.recording,
        protocols=lines,
        total=_sum(lines),
        calls_failed_per_s=failed / seconds,
        calls_running=look.calls_running,
        p50_ns=quantile(together, 0.5),
        p99_ns=quantile(together, 0.99),
        published_per_s=(look.published - last.published) / seconds,
        refused_per_s=(look.refused_publishes - last.refused_publishes) / seconds,
        stored_per_s=(look.stored - last.stored) / seconds,
        acked_per_s=(look.acked - last.acked) / seconds,
        skipped=sum(look.skipped.values()),
        dead=sum(look.dead.values()),
        turned_away=sum(look.refused.values()),
        auth_failures=sum(look.auth_failures.values()),
        broken_rules=sum(sum(codes.values()) for codes in look.failures.values()),
        topic_count=look.topic_count,
        topics=_topics(last, look, seconds),
        targets=_targets(last, look, recent, seconds),
        troubles=look.troubles,
    )


def _line(name: str, last: Look, look: Look, seconds: float) -> Line:
    def rate(new: Mapping[str, int], old: Mapping[str, int]) -> float:
        return (new.get(name, 0) - old.get(name, 0)) / seconds

    calls = sum(look.calls.get(name, {}).values()) - sum(last.calls.get(name, {}).values())
    return Line(
        protocol=name,
        connections=look.connections.get(name, 0),
        opened_per_s=rate(look.accepted, last.accepted),
        closed_per_s=rate(look.closed, last.closed),
        bytes_in_per_s=rate(look.bytes_in, last.bytes_in),
        bytes_out_per_s=rate(look.bytes_out, last.bytes_out),
        calls_per_s=calls / seconds,
        delivered_per_s=rate(look.delivered, last.delivered),
    )


def _sum(lines: Sequence[Line]) -> Line:
    sums: dict[str, Any] = {
        name: sum(getattr(each, name) for each in lines)
        for name in Line.__struct_fields__
        if name != "protocol"
    }
    return Line(protocol="all", **sums)


def _failed(look: Look) -> int:
    return sum(
        count for codes in look.calls.values() for code, count in codes.items() if code != "ok"
    )


def _topics(last: Look, look: Look, seconds: float) -> list[Topic]:
    before = {each.name: each for each in last.topics}
    found = []
    for each in look.topics:
        old = before.get(each.name)  # a topic that comes into view has no rate yet
        published = 0 if old is None else max(0, each.published - old.published)
        delivered = 0 if old is None else max(0, each.delivered - old.delivered)
        found.append(
            Topic(
                name=each.name,
                subscribers=each.subscribers,
                online=each.online,
                held=each.held,
                stored=each.stored,
                published_per_s=published / seconds,
                delivered_per_s=delivered / seconds,
            )
        )
    return sorted(
        found, key=lambda each: (-each.published_per_s - each.delivered_per_s, -each.stored)
    )


def _targets(last: Look, look: Look, recent: Mapping[str, Buckets], seconds: float) -> list[Target]:
    before = {each.name: each.calls for each in last.targets}
    found = [
        Target(
            name=each.name,
            calls=each.calls,
            failed=each.failed,
            calls_per_s=(each.calls - before.get(each.name, 0)) / seconds,
            p50_ns=quantile(recent[each.name], 0.5),
            p99_ns=quantile(recent[each.name], 0.99),
        )
        for each in look.targets
    ]
    return sorted(found, key=lambda each: -(each.p99_ns or 0))


# -- durations -------------------------------------------------------------------------------


def _recent_times(first: Look, look: Look) -> dict[str, Buckets]:
    before = {each.name: each.times for each in first.targets}
    return {each.name: _grown(before.get(each.name, ()), each.times) for each in look.targets}


def _grown(old: Buckets, new: Buckets) -> Buckets:
    """What has come into buckets."""
    before = {start: count for start, _, count in old}
    grown = [(start, stop, count - before.get(start, 0)) for start, stop, count in new]
    return [each for each in grown if each[2] > 0]


def _together(histograms: Iterable[Buckets]) -> Buckets:
    counts: Counter[tuple[int, int]] = Counter()
    for each in histograms:
        for start, stop, count in each:
            counts[start, stop] += count
    return sorted((start, stop, count) for (start, stop), count in counts.items())


def quantile(buckets: Buckets, share: float) -> int | None:
    """The duration that a share of all do not exceed, as if a bucket's were spread evenly; None
    when there are none."""
    left = share * sum(count for _, _, count in buckets)
    for start, stop, count in buckets:
        if left <= count:
            return round(start + (stop - start) * left / count)
        left -= count
    return buckets[-1][1] if buckets else None
