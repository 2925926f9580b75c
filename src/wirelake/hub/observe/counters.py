"""How long things take: a histogram that costs a quarter of a microsecond to add to.

Each power of two of nanoseconds has four buckets, so what is read from one is off by an eighth at
most. There is one histogram for each service and for each call of the hub itself: a fixed number.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter_ns
from typing import Final

from wirelake.protocols.hub_calls import CALLS

__all__ = [
    "BUCKETS",
    "Counts",
    "Times",
    "bounds",
]


BUCKETS: Final = 248
"""As many as there are in 63 bits: three centuries."""


class Times:
    """The durations of something that is done again and again."""

    __slots__ = ("buckets", "failed", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        """How often it took so long (`bounds`)."""
        self.failed = 0
        """How often it failed; failures are in the buckets, too."""
        self.total_ns = 0
        """All durations together."""

    def note(self, begun_ns: int) -> None:
        """It is done; `begun_ns` is what `perf_counter_ns` said when it began."""
        took = perf_counter_ns() - begun_ns
        self.total_ns += took
        shift = took.bit_length() - 3
        if shift > 0:
            self.buckets[(shift << 2) + (took >> shift)] += 1
        else:
            self.buckets[took] += 1

    def fail(self, begun_ns: int) -> None:
        """It is done, and has failed."""
        self.failed += 1
        self.note(begun_ns)

    @property
    def count(self) -> int:
        """How often it was done."""
        return sum(self.buckets)

    def filled(self) -> list[tuple[int, int, int]]:
        """The buckets that are not empty: from, up to but without, how often."""
        return [(*bounds(at), count) for at, count in enumerate(self.buckets) if count]


def bounds(bucket: int) -> tuple[int, int]:
    """The nanoseconds of a bucket: from, up to but without."""
    if bucket < 8:
        return bucket, bucket + 1
    shift = (bucket >> 2) - 1
    start = bucket - (shift << 2)
    return start << shift, (start + 1) << shift


# What the hub counts: plain numbers, read by the admin pages and by nobody on the way.


class Counts:
    """Totals since the start. Labels come from fixed lists, so they are bounded."""

    __slots__ = (
        "accepted",
        "acked",
        "auth_failures",
        "bytes_in",
        "bytes_out",
        "calls",
        "close_reasons",
        "dead",
        "delivered",
        "drops",
        "failures",
        "hub_calls",
        "published",
        "refused",
        "refused_publishes",
        "skipped",
        "stored",
    )

    def __init__(self) -> None:
        self.accepted: Counter[str] = Counter()
        """Connections, by protocol."""
        self.refused: Counter[str] = Counter()
        """Connections that were one too many, by limit."""
        self.close_reasons: Counter[tuple[str, str]] = Counter()
        """Connections that are over, by protocol and reason."""
        self.failures: Counter[tuple[str, str]] = Counter()
        """Broken rules, by protocol and code."""
        self.drops: Counter[tuple[str, str]] = Counter()
        """Connections that were cut off, by protocol and reason."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls, by protocol and outcome: `ok`, or the code of the refusal."""
        self.hub_calls: dict[str, Times] = {name: Times() for name in CALLS}
        """How long the hub's own calls take, by name."""
        self.auth_failures: Counter[str] = Counter()
        """By protocol."""
        self.bytes_in: Counter[str] = Counter()
        """Of connections that are over, by protocol."""
        self.bytes_out: Counter[str] = Counter()
        """The same."""
        self.published = 0
        self.refused_publishes = 0
        self.stored = 0
        self.delivered: Counter[str] = Counter()
        """Notifications written, by protocol."""
        self.skipped: Counter[str] = Counter()
        """Notifications that were not stored and met a slow reader, by protocol."""
        self.acked = 0
        self.dead: Counter[str] = Counter()
        """Dead letters, by reason."""

    def failed(self, protocol: str, code: str) -> None:
        """A peer broke a rule."""
        self.failures[protocol, code] += 1

    def dropped(self, protocol: str, reason: str) -> None:
        """A connection was cut off."""
        self.drops[protocol, reason] += 1
