"""`GET /v1/top`: the state that `wirelake top` shows, in one answer.

Counters start with the hub. Rates are the differences of two answers divided by the difference of
`clock_ns`; latencies are histograms, whose differences are the latencies in between.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from wirelake import __version__
from wirelake.protocols.hub_calls import HUB_SERVICE

from ..net.table import ClosedConnection
from ..observe.counters import LatencyHistogram
from .http import JsonResponse, hub_of, known_queries, number
from .pages import Traffic, in_slices, nested, recording_state, traffic_of

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["Top", "TopTarget", "TopTopic", "call_latencies", "top"]

_DEFAULT: Final = 50
_MOST: Final = 1_000


class TopTarget(msgspec.Struct, kw_only=True):
    """A service, or a call of the hub."""

    name: str
    """Its name: `test/add`, `hub/publish`."""
    calls: int
    """Number of finished calls."""
    failed: int
    """Number of failed calls among them."""
    total_ns: int
    """Sum of their latencies."""
    times: list[tuple[int, int, int]]
    """Latency histogram: nanoseconds from, up to (exclusive), number of calls."""


class TopTopic(msgspec.Struct, kw_only=True):
    """A topic."""

    name: str
    """Its name."""
    subscribers: int
    """Subscribed clients."""
    online: int
    """Connections that are pushed to as soon as something is published."""
    held: int
    """Clients online that get their backlog first."""
    stored: int
    """Notifications in its log."""
    published: int
    """Notifications published with an audience, since the start of the hub."""
    delivered: int
    """How often one of them was pushed."""


class Top(msgspec.Struct, kw_only=True):
    """The current state of the hub. Counters start with the hub."""

    version: str
    """The version of Wirelake."""
    started_ns: int
    """When the hub started, in nanoseconds since 1970."""
    ts_ns: int
    """The current time, in nanoseconds since 1970."""
    clock_ns: int
    """A monotonic clock, for rates."""
    cpu_ns: int
    """CPU time of the hub."""
    draining: bool
    """Whether it shuts down."""
    recording: str
    """`off`, `on`, or `failed:` and the reason."""
    connections: dict[str, int]
    """Open connections, by protocol."""
    accepted: dict[str, int]
    """Accepted connections, by protocol."""
    closed: dict[str, int]
    """Closed connections, by protocol."""
    refused: dict[str, int]
    """Connections refused, by limit."""
    bytes_in: dict[str, int]
    """Bytes received, by protocol."""
    bytes_out: dict[str, int]
    """Bytes sent, by protocol."""
    calls: dict[str, dict[str, int]]
    """Calls of services, by protocol and outcome."""
    calls_running: int
    """Running calls."""
    published: int
    """Notifications published."""
    refused_publishes: int
    """Publishes refused."""
    stored: int
    """Notifications stored."""
    delivered: dict[str, int]
    """Notifications sent, by protocol."""
    skipped: dict[str, int]
    """Transient notifications not sent to slow readers, by protocol."""
    acked: int
    """Notifications acknowledged."""
    dead: dict[str, int]
    """Dead letters, by reason."""
    auth_failures: dict[str, int]
    """Failed sign-ons, by protocol."""
    failures: dict[str, dict[str, int]]
    """Protocol errors of peers, by protocol and code."""
    targets: list[TopTarget]
    """Everything that was called."""
    topic_count: int
    """Number of topics."""
    topics: list[TopTopic]
    """The topics with the most traffic since the start of the hub."""
    failed_connections: list[ClosedConnection]
    """The last connections closed for an unusual reason, newest first."""


async def top(request: Request) -> Response:
    """Answer with the current state."""
    known_queries(request, "limit")
    limit = number(request, "limit", _DEFAULT, _MOST)
    hub = hub_of(request)
    topics = [await _topic(hub, name) for name in await _busiest(hub, limit)]
    count, _ = await hub.store.topic_page(0, 0)
    return JsonResponse(_top(hub, count, topics, await traffic_of(hub)))


def call_latencies(hub: Hub) -> dict[str, LatencyHistogram]:
    """Return the histogram of everything that was called, by name."""
    found = {f"{HUB_SERVICE}/{name}": times for name, times in hub.counters.hub_calls.items()}
    found |= {each.name: each.latency for each in hub.services.every}
    return {name: times for name, times in found.items() if times.total_ns}


def _top(hub: Hub, topic_count: int, topics: list[TopTopic], traffic: Traffic) -> Top:
    counters = hub.counters
    return Top(
        version=__version__,
        started_ns=hub.started_ns,
        ts_ns=time.time_ns(),
        clock_ns=time.monotonic_ns(),
        cpu_ns=time.process_time_ns(),
        draining=hub.draining,
        recording=recording_state(hub),
        connections=traffic.connections,
        accepted=counters.accepted,
        closed=_by_protocol(counters.close_reasons),
        refused=counters.refused,
        bytes_in=traffic.bytes_in,
        bytes_out=traffic.bytes_out,
        calls=nested(counters.calls),
        calls_running=hub.services.running,
        published=counters.published,
        refused_publishes=counters.refused_publishes,
        stored=counters.stored,
        delivered=counters.delivered,
        skipped=counters.skipped,
        acked=counters.acked,
        dead=counters.dead,
        auth_failures=counters.auth_failures,
        failures=nested(counters.failures),
        targets=[_target(name, times) for name, times in call_latencies(hub).items()],
        topic_count=topic_count,
        topics=topics,
        failed_connections=list(reversed(hub.table.failed_connections)),
    )


async def _busiest(hub: Hub, limit: int) -> list[str]:
    # The largest of each slice compete with the largest so far; other connections run in between.
    found: list[tuple[int, str]] = []
    async for some in in_slices(list(hub.topics.registry.traffic.items())):
        sums = [(each.published + each.delivered, name) for name, each in some]
        found = heapq.nlargest(limit, [*found, *sums])
    return [name for _, name in found]


def _target(name: str, times: LatencyHistogram) -> TopTarget:
    filled = times.filled()
    return TopTarget(
        name=name,
        calls=sum(count for _, _, count in filled),
        failed=times.failed,
        total_ns=times.total_ns,
        times=filled,
    )


async def _topic(hub: Hub, name: str) -> TopTopic:
    traffic = hub.topics.registry.traffic[name]
    row = await hub.store.topic(name)
    state = None if row is None else await hub.topics.topic_state(row)
    return TopTopic(
        name=name,
        subscribers=0 if state is None else state.subscribers,
        online=0 if state is None else state.online,
        held=0 if state is None else state.held,
        stored=0 if state is None else state.stored,
        published=traffic.published,
        delivered=traffic.delivered,
    )


def _by_protocol(counter: Counter[tuple[str, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (protocol, _), count in counter.items():
        found[protocol] += count
    return found
