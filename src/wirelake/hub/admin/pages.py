"""Health, counters, connections, topics and clients."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from wirelake import __version__

from ..errors import HubError
from ..observe.recording import Recording
from .http import JsonResponse, hub_of, known_protocol, known_queries, number

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.table import TrackedConnection

__all__ = [
    "byte_totals",
    "clientz",
    "connz",
    "healthz",
    "nested",
    "readyz",
    "recording_of",
    "recording_state",
    "topicz",
    "varz",
]

_PAGE: Final = 1_000
"""Maximum rows per page."""
_DEFAULT: Final = 100
_OFFSET: Final = 10_000_000


async def healthz(_: Request) -> Response:
    """Answer that the event loop runs."""
    return JsonResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Answer whether connections are accepted; 503 until all listeners are open and in a drain."""
    hub = hub_of(request)
    not_open = [name for name, listener in hub.listeners.items() if not listener.addresses]
    if hub.draining:
        raise HubError("closing")
    if not_open:
        raise HubError("closing", f"not listening yet: {', '.join(not_open)}")
    return JsonResponse({"status": "ok"})


async def varz(request: Request) -> Response:
    """Answer with all counters."""
    hub = hub_of(request)
    counters = hub.counters
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
            "connections": Counter(each.protocol for each in hub.connections.values()),
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
            "bytes_in": byte_totals(hub, "in"),
            "bytes_out": byte_totals(hub, "out"),
            "published": counters.published,
            "refused_publishes": counters.refused_publishes,
            "stored": counters.stored,
            "delivered": counters.delivered,
            "skipped": counters.skipped,
            "acked": counters.acked,
            "dead": counters.dead,
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

    found = [each for each in hub.connections.values() if matches(each.protocol, _client_of(each))]
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
    known_queries(request, "limit", "offset")
    return _paged(request, "topics", hub_of(request).topics.topic_rows())


async def clientz(request: Request) -> Response:
    """Answer with the clients."""
    known_queries(request, "limit", "offset")
    return _paged(request, "clients", hub_of(request).topics.client_rows())


def recording_of(hub: Hub) -> Recording | None:
    """Return the recording, if there is one."""
    return hub.tap.find(Recording)


def byte_totals(hub: Hub, direction: Literal["in", "out"]) -> Counter[str]:
    """Return bytes by protocol, of closed and open connections."""
    # Connections count their own bytes, and the counters get them at the close: one dict update per
    # connection instead of one per read and write.
    received = direction == "in"
    total = Counter(hub.counters.bytes_in if received else hub.counters.bytes_out)
    for each in hub.connections.values():
        total[each.protocol] += each.in_bytes if received else each.out_bytes
    return total


def _paged(request: Request, name: str, rows: list[Any]) -> Response:
    limit = number(request, "limit", _DEFAULT, _PAGE)
    offset = number(request, "offset", 0, _OFFSET)
    return JsonResponse({"count": len(rows), name: rows[offset : offset + limit]})


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
