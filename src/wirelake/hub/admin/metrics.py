"""`GET /metrics`: the hub's counters as Prometheus metrics.

The counters are in `wirelake.hub.observe.counters`; here they get their names. Labels come from
fixed lists (protocols, reasons, limits), so the number of series is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from ..errors import HubError
from ..observe.counters import LatencyHistogram, bounds
from ..store import Size
from .http import hub_of
from .pages import Traffic, recording_of, traffic_of
from .top import call_latencies

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["TARGETS", "HubCollector", "collector_of", "metrics_page"]

TARGETS: Final = 100
"""Services and hub calls with their own series; the rest share one, `other`."""
_STORE_S: Final = 3.0
"""Maximum time to wait for the database: less than the 10 s that Prometheus waits by default."""
_OTHER: Final = "other"
_BOUNDS: Final = tuple(range(12, 37, 2))
"""Upper bounds of buckets, as powers of two nanoseconds: from 4 µs to 69 s, by factors of 4."""


async def metrics_page(request: Request) -> Response:
    """Answer with all series in the Prometheus text format."""
    registry = CollectorRegistry(auto_describe=False)
    hub = hub_of(request)
    registry.register(await collector_of(hub))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


async def collector_of(hub: Hub) -> HubCollector:
    """Return the collector of a hub, with what has to be read or counted for it."""
    try:
        async with asyncio.timeout(_STORE_S):
            size: Size | None = await hub.store.size()
            topics, _ = await hub.store.topic_page(0, 0)
    except (HubError, TimeoutError):
        # The database cannot be read, which `store_failures` counts, or does not answer: that is
        # when the other metrics are needed.
        size, topics = None, 0
    return HubCollector(hub, await traffic_of(hub), size, topics)


class HubCollector(Collector):
    """Reads the counters of a hub."""

    def __init__(self, hub: Hub, traffic: Traffic, size: Size | None, topics: int):
        self._hub = hub
        self._traffic = traffic
        self._size = size
        self._topics = topics

    def collect(self) -> Iterable[Metric]:
        """Yield every metric family."""
        yield from self._connections()
        yield from self._messages()
        yield from self._state()

    def _connections(self) -> Iterable[Metric]:
        counters, traffic = self._hub.counters, self._traffic
        yield _gauges("connections", "Open connections.", "protocol", traffic.connections)
        yield _counts(
            "connections_accepted", "Connections accepted.", "protocol", counters.accepted
        )
        yield _counts(
            "connections_refused", "Connections refused by a limit.", "limit", counters.refused
        )
        yield _pairs(
            "accept_errors", "Failures to accept connections.", "error", counters.accept_errors
        )
        yield _pairs(
            "handshake_failures",
            "Connections that ended before their TLS handshake was complete.",
            "reason",
            counters.handshake_failures,
        )
        yield _pairs("connections_closed", "Connections closed.", "reason", counters.close_reasons)
        yield _pairs(
            "connections_dropped", "Connections aborted by the hub.", "reason", counters.drops
        )
        yield _pairs("protocol_failures", "Protocol errors of peers.", "code", counters.failures)
        yield _counts("auth_failures", "Failed sign-ons.", "protocol", counters.auth_failures)
        known = "Known keys of an issuer of signed tokens; 0: its tokens are refused."
        yield _gauges("issuer_keys", known, "issuer", self._hub.authority.issuers.key_counts)
        held = "Bytes in memory for peers: incomplete, in running calls, or unread."
        yield _gauge("buffered_bytes", held, self._hub.context.budget.total)
        yield _counts("bytes_in", "Bytes received.", "protocol", traffic.bytes_in)
        yield _counts("bytes_out", "Bytes sent.", "protocol", traffic.bytes_out)

    def _messages(self) -> Iterable[Metric]:
        counters = self._hub.counters
        yield _pairs("calls", "Calls of services.", "outcome", counters.calls)
        yield self._call_seconds()
        yield _counts(
            "provided_calls", "Calls sent to service processes.", "outcome", counters.provided
        )
        yield _count("published", "Notifications published.", counters.published)
        yield _count("publishes_refused", "Publishes refused.", counters.refused_publishes)
        yield _count("stored", "Notifications stored.", counters.stored)
        yield _counts("delivered", "Notifications sent.", "protocol", counters.delivered)
        yield _counts(
            "skipped",
            "Transient notifications not sent to slow readers.",
            "protocol",
            counters.skipped,
        )
        yield _count("acked", "Notifications acknowledged.", counters.acked)
        yield _counts(
            "dead_letters", "Notifications that became dead letters.", "reason", counters.dead
        )

    def _call_seconds(self) -> Metric:
        family = HistogramMetricFamily(
            "wirelake_call_seconds", "Latency of calls.", labels=["target"]
        )
        # A series per service, up to a bound: the number of services is the application's choice,
        # and each series has 14 buckets.
        named = list(call_latencies(self._hub).items())
        for name, times in named[:TARGETS]:
            family.add_metric([name], _cumulative([times]), times.total_ns / 1e9)
        others = [times for _, times in named[TARGETS:]]
        if others:
            total = sum(each.total_ns for each in others)
            family.add_metric([_OTHER], _cumulative(others), total / 1e9)
        return family

    def _state(self) -> Iterable[Metric]:
        hub = self._hub
        yield _gauge("calls_running", "Running calls.", hub.services.running)
        offers = hub.offers
        yield _gauge("service_processes", "Processes that offer services.", len(offers.providers))
        yield _gauge("offered_services", "Services that processes offer.", offers.count)
        under_way = sum(each.running for each in offers.providers)
        yield _gauge(
            "provided_calls_running", "Calls in service processes, without an answer.", under_way
        )
        uptime = (time.time_ns() - hub.started_ns) / 1e9
        yield _gauge("uptime_seconds", "Seconds since the start.", uptime)
        yield _gauge("draining", "1 while the hub shuts down.", int(hub.draining))
        yield from self._store()
        recording = recording_of(hub)
        if recording is not None:
            failed = int(bool(recording.failure))
            yield _gauge("recording_failed", "1 while the recording cannot be written.", failed)
            lost = "Frames not recorded, up to the last time recording resumed."
            yield _count("recording_lost", lost, recording.lost.frames)

    def _store(self) -> Iterable[Metric]:
        store = self._hub.store
        failures = {"read": 0, "write": 0, **store.failures.counts}
        yield _counts(
            "store_failures", "Failed reads and writes of the store.", "operation", failures
        )
        yield _gauge("idempotency_keys", "Idempotency keys kept.", self._hub.topics.keys.total)
        size = self._size
        if size is None:
            return
        yield _gauge("topics", "Topics with subscribers.", self._topics)
        yield _gauge("store_bytes", "Size of the database file.", size.database)
        yield _gauge("store_free_bytes", "Part of the file that is free for reuse.", size.free)
        yield _gauge("store_wal_bytes", "Size of the write-ahead log.", size.wal)


def _cumulative(histograms: Sequence[LatencyHistogram]) -> list[tuple[str, float]]:
    """Return cumulative buckets: the upper bound in seconds, and the count up to it."""
    # The bounds are powers of two, which are bounds of the histogram, too: no bucket is divided.
    counts = [sum(column) for column in zip(*(each.buckets for each in histograms), strict=True)]
    found: list[tuple[str, float]] = []
    below, at = 0, 0
    for power in _BOUNDS:
        while bounds(at)[1] <= 1 << power:
            below += counts[at]
            at += 1
        found.append((str((1 << power) / 1e9), below))
    return [*found, ("+Inf", below + sum(counts[at:]))]


def _count(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"wirelake_{name}", text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"wirelake_{name}", text, value=value)


def _counts(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"wirelake_{name}", text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"wirelake_{name}", text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _pairs(name: str, text: str, label: str, values: Mapping[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily(f"wirelake_{name}", text, labels=["protocol", label])
    for keys, value in sorted(values.items()):
        family.add_metric(list(keys), value)
    return family
