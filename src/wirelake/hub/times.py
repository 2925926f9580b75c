"""How long things take: a histogram that costs a quarter of a microsecond to add to.

Each power of two of nanoseconds has four buckets, so what is read from one is off by an eighth at
most. There is one histogram for each service and for each call of the hub itself: a fixed number.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Final

__all__ = ["BUCKETS", "Times", "bounds"]

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
