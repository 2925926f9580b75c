"""The figures of `wirelake top`, computed from successive samples of a hub's counters.

Rates are differences between two samples. Percentiles come from the differences of histogram
buckets over the last ten intervals, because one second may have few calls. A restart of the hub
discards earlier samples.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

__all__ = ["FailedConnection", "Figures", "History", "Sample", "Target", "Topic", "quantile"]

_SAMPLES: Final = 11
"""Samples kept: ten intervals."""

Buckets: TypeAlias = Sequence[tuple[int, int, int]]
"""Histogram buckets: first nanosecond, last nanosecond (exclusive), count."""


class SampleTarget(msgspec.Struct, kw_only=True):
    """Counters of a call target."""

    name: str
    calls: int
    failed: int
    times: list[tuple[int, int, int]]


class SampleTopic(msgspec.Struct, kw_only=True):
    """Counters of a topic."""

    name: str
    subscribers: int
    online: int
    held: int
    stored: int
    published: int
    delivered: int


class FailedConnection(msgspec.Struct, kw_only=True):
    """A connection that closed with an error."""

    protocol: str
    peer: str
    client: str
    closed_ns: int
    reason: str
    side: str


class Sample(msgspec.Struct, kw_only=True):
    """The response of `/v1/top`; unknown keys of a newer hub are ignored."""

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
    targets: list[SampleTarget]
    topic_count: int
    topics: list[SampleTopic]
    failed_connections: list[FailedConnection]


class Line(msgspec.Struct, kw_only=True):
    """Open connections and rates of one protocol, or of all."""

    protocol: str
    connections: int
    opened_per_s: float
    closed_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    calls_per_s: float
    delivered_per_s: float


class Target(msgspec.Struct, kw_only=True):
    """A service operation, or a call of the hub itself."""

    name: str
    calls: int
    """Since the start of the hub."""
    failed: int
    """The same."""
    calls_per_s: float
    p50_ns: int | None
    """None if there were no recent calls."""
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
    """State of a hub, and its rates since the last sample."""

    ts_ns: int
    version: str
    uptime_s: float
    interval_s: float
    cpu: float
    """Fraction of one core."""
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
    """Since the start of the hub, like the next four."""
    dead: int
    turned_away: int
    auth_failures: int
    broken_rules: int
    topic_count: int
    topics: list[Topic]
    """Busiest first."""
    targets: list[Target]
    """Slowest first."""
    failed_connections: list[FailedConnection]
    """Newest first."""


class History:
    """The last samples of a hub."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES)

    def add(self, sample: Sample) -> Figures | None:
        """Add a sample; return the figures unless it is the first."""
        if self._samples and self._samples[-1].started_ns != sample.started_ns:
            self._samples.clear()
        self._samples.append(sample)
        if len(self._samples) < 2:
            return None
        return _figures(self._samples[0], self._samples[-2], sample)


def _figures(first: Sample, last: Sample, sample: Sample) -> Figures:
    # By the hub's monotonic clock: neither the network nor a change of the time affects rates.
    seconds = max(sample.clock_ns - last.clock_ns, 1) / 1e9
    protocols = sorted({*sample.accepted, *sample.connections, *sample.bytes_out})
    lines = [_line(name, last, sample, seconds) for name in protocols]
    recent = _recent_times(first, sample)
    merged = _merged(recent.values())
    failed = _failed(sample) - _failed(last)
    return Figures(
        ts_ns=sample.ts_ns,
        version=sample.version,
        uptime_s=(sample.ts_ns - sample.started_ns) / 1e9,
        interval_s=seconds,
        cpu=(sample.cpu_ns - last.cpu_ns) / 1e9 / seconds,
        draining=sample.draining,
        recording=sample.recording,
        protocols=lines,
        total=_sum(lines),
        calls_failed_per_s=failed / seconds,
        calls_running=sample.calls_running,
        p50_ns=quantile(merged, 0.5),
        p99_ns=quantile(merged, 0.99),
        published_per_s=(sample.published - last.published) / seconds,
        refused_per_s=(sample.refused_publishes - last.refused_publishes) / seconds,
        stored_per_s=(sample.stored - last.stored) / seconds,
        acked_per_s=(sample.acked - last.acked) / seconds,
        skipped=sum(sample.skipped.values()),
        dead=sum(sample.dead.values()),
        turned_away=sum(sample.refused.values()),
        auth_failures=sum(sample.auth_failures.values()),
        broken_rules=sum(sum(codes.values()) for codes in sample.failures.values()),
        topic_count=sample.topic_count,
        topics=_topics(last, sample, seconds),
        targets=_targets(last, sample, recent, seconds),
        failed_connections=sample.failed_connections,
    )


def _line(name: str, last: Sample, sample: Sample, seconds: float) -> Line:
    def rate(new: Mapping[str, int], old: Mapping[str, int]) -> float:
        return (new.get(name, 0) - old.get(name, 0)) / seconds

    calls = sum(sample.calls.get(name, {}).values()) - sum(last.calls.get(name, {}).values())
    return Line(
        protocol=name,
        connections=sample.connections.get(name, 0),
        opened_per_s=rate(sample.accepted, last.accepted),
        closed_per_s=rate(sample.closed, last.closed),
        bytes_in_per_s=rate(sample.bytes_in, last.bytes_in),
        bytes_out_per_s=rate(sample.bytes_out, last.bytes_out),
        calls_per_s=calls / seconds,
        delivered_per_s=rate(sample.delivered, last.delivered),
    )


def _sum(lines: Sequence[Line]) -> Line:
    sums: dict[str, Any] = {
        name: sum(getattr(each, name) for each in lines)
        for name in Line.__struct_fields__
        if name != "protocol"
    }
    return Line(protocol="all", **sums)


def _failed(sample: Sample) -> int:
    return sum(
        count for codes in sample.calls.values() for code, count in codes.items() if code != "ok"
    )


def _topics(last: Sample, sample: Sample, seconds: float) -> list[Topic]:
    before = {each.name: each for each in last.topics}
    found = []
    for each in sample.topics:
        old = before.get(each.name)  # a topic that was not in the last sample has no rate yet
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


def _targets(
    last: Sample, sample: Sample, recent: Mapping[str, Buckets], seconds: float
) -> list[Target]:
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
        for each in sample.targets
    ]
    return sorted(found, key=lambda each: -(each.p99_ns or 0))


# -- durations -------------------------------------------------------------------------------


def _recent_times(first: Sample, sample: Sample) -> dict[str, Buckets]:
    before = {each.name: each.times for each in first.targets}
    return {each.name: _grown(before.get(each.name, ()), each.times) for each in sample.targets}


def _grown(old: Buckets, new: Buckets) -> Buckets:
    """Return the counts added to buckets."""
    before = {start: count for start, _, count in old}
    # The hub only counts up, so a difference of two samples is the histogram of what came between.
    grown = [(start, stop, count - before.get(start, 0)) for start, stop, count in new]
    return [each for each in grown if each[2] > 0]


def _merged(histograms: Iterable[Buckets]) -> Buckets:
    counts: Counter[tuple[int, int]] = Counter()
    for each in histograms:
        for start, stop, count in each:
            counts[start, stop] += count
    return sorted((start, stop, count) for (start, stop), count in counts.items())


def quantile(buckets: Buckets, share: float) -> int | None:
    """Return the duration that a share of all values do not exceed; None if there are none.

    Values are assumed to be spread evenly within a bucket.
    """
    left = share * sum(count for _, _, count in buckets)
    for start, stop, count in buckets:
        if left <= count:
            return round(start + (stop - start) * left / count)
        left -= count
    return buckets[-1][1] if buckets else None
