"""Health, counters, connections, topics, clients and services.

There may be a million clients: what is counted over all of them is counted in slices (`in_slices`),
with turns of the event loop in between, and only the rows of the page are formatted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from wirelake import __version__

from ..errors import HubError
from ..observe.recording import Recording
from .http import JsonResponse, hub_of, known_protocol, known_queries, number

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.table import TrackedConnection
    from ..pubsub.subscriptions import Client

__all__ = [
    "Traffic",
    "clientz",
    "connz",
    "healthz",
    "in_slices",
    "nested",
    "readyz",
    "recording_of",
    "recording_state",
    "services",
    "topicz",
    "traffic_of",
    "varz",
]

Item = TypeVar("Item")

_PAGE: Final = 1_000
"""Maximum rows per page."""
_DEFAULT: Final = 100
_OFFSET: Final = 10_000_000
_SLICE: Final = 5_000
"""Items looked at in one turn of the loop: about a millisecond."""


async def healthz(_: Request) -> Response:
    """Answer that the event loop runs."""
    return JsonResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Answer whether connections can be served; 503 until all listeners are open, in a drain, and
    while the store cannot be read or written."""
    hub = hub_of(request)
    not_open = [name for name, listener in hub.listeners.items() if not listener.addresses]
    if hub.draining:
        raise HubError("closing")
    if not_open:
        raise HubError("closing", f"not listening yet: {', '.join(not_open)}")
    problem = await hub.store.problem()
    if problem:
        raise HubError("storage_failed", problem)
    return JsonResponse({"status": "ok"})


async def varz(request: Request) -> Response:
    """Answer with all counters."""
    hub = hub_of(request)
    counters = hub.counters
    traffic = await traffic_of(hub)
    return JsonResponse(
        {
            "version": __version__,
            "started_ns": hub.started_ns,
            "uptime_s": round((time.time_ns() - hub.started_ns) / 1e9, 3),
            "draining": hub.draining,
            "listeners": {
                name: [f"{host}:{port}" for host, port in listener.addresses]
                for name, listener in hub.listeners.items()
            },
            "connections": traffic.connections,
            "accepted": counters.accepted,
            "refused": counters.refused,
            "accept_errors": nested(counters.accept_errors),
            "handshake_failures": nested(counters.handshake_failures),
            "buffered_bytes": hub.context.budget.total,
            "auth_failures": counters.auth_failures,
            "close_reasons": nested(counters.close_reasons),
            "failures": nested(counters.failures),
            "drops": nested(counters.drops),
            "calls": nested(counters.calls),
            "calls_running": hub.services.running,
            "provided": counters.provided,
            "bytes_in": traffic.bytes_in,
            "bytes_out": traffic.bytes_out,
            "published": counters.published,
            "refused_publishes": counters.refused_publishes,
            "stored": counters.stored,
            "delivered": counters.delivered,
            "skipped": counters.skipped,
            "acked": counters.acked,
            "dead": counters.dead,
            "store_failures": hub.store.failures.counts,
            "recording": recording_state(hub),
        }
    )


async def connz(request: Request) -> Response:
    """Answer with open connections by id, and the last closed ones, newest first."""
    known_queries(request, "limit", "offset", "protocol", "client")
    hub = hub_of(request)
    limit = number(request, "limit", _DEFAULT, _PAGE)
    offset = number(request, "offset", 0, _OFFSET)
    protocol = known_protocol(request)
    client = request.query_params.get("client")

    def matches(of_protocol: str, of_client: str) -> bool:
        return protocol in (None, of_protocol) and client in (None, of_client)

    found: list[TrackedConnection] = []
    async for some in in_slices(list(hub.connections.values())):
        found.extend(each for each in some if matches(each.protocol, _client_of(each)))
    newest_first = reversed(hub.table.closed_connections)
    closed = [each for each in newest_first if matches(each.protocol, each.client)]
    return JsonResponse(
        {
            "open": len(found),
            "connections": [_shown(each) for each in found[offset : offset + limit]],
            "closed": closed[:limit],
        }
    )


async def topicz(request: Request) -> Response:
    """Answer with the topics."""
    limit, offset = _bounds(request)
    count, rows = await hub_of(request).topics.topic_page(offset, limit)
    return JsonResponse({"count": count, "topics": rows})


async def services(request: Request) -> Response:
    """Answer with the services by name, and the processes that offer some."""
    limit, offset = _bounds(request)
    offers = hub_of(request).offers
    count, found = offers.listed(None, offset, limit)
    processes = [
        {
            "client": each.name,
            "peer": each.peer,
            "services": len(offers.of(each)),
            "running": each.running,
            "limit": each.limit,
            "unexpected": each.unexpected,
        }
        for each in offers.providers
    ]
    return JsonResponse({"count": count, "services": found, "processes": processes})


async def clientz(request: Request) -> Response:
    """Answer with the clients of the store, then those of connections that are not in it."""
    limit, offset = _bounds(request)
    hub = hub_of(request)
    anonymous: list[Client] = []
    async for some in in_slices(list(hub.connections.values())):
        found = (each.client for each in some)
        anonymous.extend(each for each in found if each is not None and not each.number)
    count, page = await hub.topics.client_page(offset, limit)
    for each in anonymous[max(0, offset - count) : max(0, offset + limit - count)]:
        page.append(await hub.topics.client_state(each))
    return JsonResponse({"count": count + len(anonymous), "clients": page})


def recording_of(hub: Hub) -> Recording | None:
    """Return the recording, if there is one."""
    return hub.tap.find(Recording)


class Traffic(NamedTuple):
    """Open connections, and bytes of closed and open ones, by protocol."""

    connections: Counter[str]
    bytes_in: Counter[str]
    bytes_out: Counter[str]


async def traffic_of(hub: Hub) -> Traffic:
    """Count connections and bytes by protocol."""
    # Connections count their own bytes, and the counters get them at the close: one dict update per
    # connection instead of one per read and write. The counters are copied together with the list:
    # a connection that is closed meanwhile is counted once.
    counters = hub.counters
    found = Traffic(Counter(), Counter(counters.bytes_in), Counter(counters.bytes_out))
    async for some in in_slices(list(hub.connections.values())):
        for each in some:
            found.connections[each.protocol] += 1
            found.bytes_in[each.protocol] += each.in_bytes
            found.bytes_out[each.protocol] += each.out_bytes
    return found


async def in_slices(items: Sequence[Item], size: int = _SLICE) -> AsyncIterator[Sequence[Item]]:
    """Yield slices of a list; other connections are served in between."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


def _bounds(request: Request) -> tuple[int, int]:
    """Return the limit and the offset of a page."""
    known_queries(request, "limit", "offset")
    limit = number(request, "limit", _DEFAULT, _PAGE)
    return limit, number(request, "offset", 0, _OFFSET)


def nested(counter: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return a counter of pairs as nested dicts."""
    found: dict[str, dict[str, int]] = {}
    for (outer, inner), count in counter.items():
        found.setdefault(outer, {})[inner] = count
    return found


def recording_state(hub: Hub) -> str:
    """Return `off`, `on`, or `failed:` and the reason."""
    found = recording_of(hub)
    if found is None:
        return "off"
    return f"failed: {found.failure}" if found.failure else "on"


def _client_of(connection: TrackedConnection) -> str:
    return "" if connection.client is None else connection.client.id


def _shown(connection: TrackedConnection) -> dict[str, Any]:
    return {
        "id": str(connection.id),
        "protocol": connection.protocol,
        "peer": "{}:{}".format(*connection.peer),
        "client": _client_of(connection),
        "opened_ns": connection.opened_ns,
        "bytes_in": connection.in_bytes,
        "bytes_out": connection.out_bytes,
        "slow": bool(connection.paused_since),
        "reported": connection.reported,
    }
