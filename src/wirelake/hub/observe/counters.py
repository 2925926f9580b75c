"""Counters and latency histograms of the hub: plain numbers that the admin pages read.

A histogram has four buckets per power of two of nanoseconds, so a value read from it is off by an
eighth at most, and recording one costs a quarter of a microsecond. There is one histogram per
service and per call of the hub itself, so their number is bounded.

Everything is written on the event loop only, so plain integers need no lock.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter_ns
from typing import Final

from wirelake.protocols.hub_calls import CALLS

__all__ = ["BUCKETS", "Counters", "LatencyHistogram", "bounds"]

BUCKETS: Final = 248
"""Buckets for 63 bits of nanoseconds: three centuries."""


class LatencyHistogram:
    """Durations of one kind of call."""

    __slots__ = ("buckets", "failed", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        """Number of calls per bucket (`bounds`)."""
        self.failed = 0
        """Number of failed calls; they are in the buckets, too."""
        self.total_ns = 0
        """Sum of all durations."""

    def record(self, begun_ns: int) -> None:
        """Record a call that ends now; `begun_ns` is `perf_counter_ns()` at its begin."""
        # The bucket is the exponent and the two bits after the leading one: bit operations only,
        # because this runs for every call. Durations below 8 ns have a bucket each.
        took = perf_counter_ns() - begun_ns
        self.total_ns += took
        shift = took.bit_length() - 3
        if shift > 0:
            self.buckets[(shift << 2) + (took >> shift)] += 1
        else:
            self.buckets[took] += 1

    def record_failure(self, begun_ns: int) -> None:
        """Record a call that failed."""
        self.failed += 1
        self.record(begun_ns)

    @property
    def count(self) -> int:
        """Number of calls."""
        return sum(self.buckets)

    def quantile_ns(self, part: float) -> int:
        """Return the duration that this part of all calls did not exceed; 0 without calls."""
        rank, below = part * self.count, 0
        for start, stop, count in self.filled():
            below += count
            if below >= rank:
                return (start + stop) // 2
        return 0

    def filled(self) -> list[tuple[int, int, int]]:
        """Return the buckets that are not empty: from, up to (exclusive), number of calls."""
        return [(*bounds(at), count) for at, count in enumerate(self.buckets) if count]


def bounds(bucket: int) -> tuple[int, int]:
    """Return the nanoseconds of a bucket: from, up to (exclusive)."""
    if bucket < 8:
        return bucket, bucket + 1
    shift = (bucket >> 2) - 1
    start = bucket - (shift << 2)
    return start << shift, (start + 1) << shift


_MAX_REASONS: Final = 256
"""Close reasons that are counted apart, if peers chose them: four times those of the hub."""


class Counters:
    """Totals since the start. Labels come from fixed lists, or their number is bounded."""

    __slots__ = (
        "accept_errors",
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
        "handshake_failures",
        "hub_calls",
        "provided",
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
        """Connections refused, by limit."""
        self.accept_errors: Counter[tuple[str, str]] = Counter()
        """Failures to accept connections, by protocol and error: `EMFILE` without descriptors."""
        self.handshake_failures: Counter[tuple[str, str]] = Counter()
        """Connections that ended before their TLS handshake was complete, by protocol and
        reason."""
        self.close_reasons: Counter[tuple[str, str]] = Counter()
        """Closed connections, by protocol and reason."""
        self.failures: Counter[tuple[str, str]] = Counter()
        """Protocol errors of peers, by protocol and code."""
        self.drops: Counter[tuple[str, str]] = Counter()
        """Connections the hub aborted, by protocol and reason."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls, by protocol and outcome: `ok` or an error code."""
        self.hub_calls: dict[str, LatencyHistogram] = {name: LatencyHistogram() for name in CALLS}
        """Latency of the hub's own calls, by name."""
        self.provided: Counter[str] = Counter()
        """Calls that the hub sent to processes with services, by outcome: `ok`, `failed`,
        `timeout`, `lost`, `cancelled`, or `bad_reply`."""
        self.auth_failures: Counter[str] = Counter()
        """Wrong ids or tokens, by protocol."""
        self.bytes_in: Counter[str] = Counter()
        """Bytes received on closed connections, by protocol."""
        self.bytes_out: Counter[str] = Counter()
        """Bytes sent on closed connections, by protocol."""
        self.published = 0
        self.refused_publishes = 0
        self.stored = 0
        self.delivered: Counter[str] = Counter()
        """Notifications written, by protocol."""
        self.skipped: Counter[str] = Counter()
        """Transient notifications not sent to a slow reader, by protocol."""
        self.acked = 0
        self.dead: Counter[str] = Counter()
        """Dead letters, by reason."""

    def failed(self, protocol: str, code: str) -> None:
        """Count a protocol error of a peer."""
        self.failures[protocol, code] += 1

    def closed(self, protocol: str, reason: str, *, by_peer: bool) -> None:
        """Count a closed connection."""
        # Some protocols carry the reason of the peer, as a number or as text: a peer that invents
        # one for each connection would make an endless list of metrics.
        known = (protocol, reason) in self.close_reasons
        if by_peer and not known and len(self.close_reasons) >= _MAX_REASONS:
            reason = "other"
        self.close_reasons[protocol, reason] += 1

    def reset_before_accept(self, protocol: str) -> None:
        """Count a connection that was gone when the hub accepted it."""
        self.accepted[protocol] += 1
        self.close_reasons[protocol, "reset"] += 1

    def dropped(self, protocol: str, reason: str) -> None:
        """Count a connection that the hub aborted."""
        self.drops[protocol, reason] += 1
