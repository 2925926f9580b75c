"""The connection table, and the periodic scan for expired deadlines.

`ConnectionTable` knows which connections are open, decides whether a new one is accepted, and
remembers why the last ones were closed. A connection is counted from the moment it is accepted,
before a TLS handshake (`reserve`), and is *half-open* until its client has signed on (a link: until
it is established). Half-open connections have limits of their own, so that a flood of them cannot
keep out clients that can authenticate (`docs/concepts/hub.md`, Limits).

Limits per address count what the address itself has opened. A tunnel's address is only what its
gateway says: it is charged to that address *behind that gateway*, so that a gateway cannot use up
the limits of an address that connects directly, or through another gateway.

`DeadlineScan` visits every connection once a second, instead of one timer per connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import Any, Final, Protocol

import msgspec

from wirelake.protocols.sansio import Side

from ..config import ActiveLimits
from ..observe.counters import Counters
from ..observe.tap import ObservedConnection, Tap
from ..pubsub.subscriptions import Client, Receiver
from ..pubsub.topics import Topics

__all__ = [
    "PERIOD_S",
    "STEPS",
    "ClosedConnection",
    "ConnectionTable",
    "DeadlineScan",
    "TrackedConnection",
]

_MAX_CLOSED: Final = 1_000
"""Closed connections kept for `/connz`."""
_MAX_FAILED: Final = 100
"""Connections closed for an unusual reason. Kept apart, so that many normal closes do not push
them out."""
_USUAL_REASONS: Final = frozenset(
    {"eof", "normal", "link_close", "disconnected", "replaced", "shutdown"}
)
"""Close reasons that need no attention."""
_ID_BITS: Final = 28
_EPOCHS: Final = 1 << 61
"""Beyond all ids that begin with a time."""
"""Bits of a connection id for a counter; the bits above are the time of the start in seconds."""


class TrackedConnection(Receiver, ObservedConnection, Protocol):
    """What the table needs of a connection, beside delivery and observation."""

    opened_ns: int
    in_bytes: int
    out_bytes: int
    reserved: bool
    """Whether the connection was counted when it was accepted, and is not in the table yet."""

    @property
    def gateway(self) -> str:
        """The address of the gateway of a tunnel; empty for a connection with a socket."""

    @property
    def reported(self) -> dict[str, Any]:
        """What the client has reported about itself."""

    def check_deadlines(self, now: float) -> None:
        """Act on deadlines that have passed."""

    def end(self, reason: str) -> None:
        """Close the connection as its protocol does."""


class ClosedConnection(msgspec.Struct, frozen=True, gc=False):
    """A closed connection."""

    id: str
    """Its id, as in recordings: a 64-bit number as text, which JavaScript and jq keep exact."""
    protocol: str
    """Its protocol."""
    peer: str
    """The remote address, as `host:port`."""
    client: str
    """The client that had signed on; empty without one."""
    opened_ns: int
    """When it was accepted, in nanoseconds since 1970."""
    closed_ns: int
    """When it was closed."""
    bytes_in: int
    """Bytes received."""
    bytes_out: int
    """Bytes sent."""
    reason: str
    """Why it was closed: a code."""
    side: str
    """Who closed it: `peer` or `hub`."""


class ConnectionTable:
    """Accepts connections within the limits and keeps track of them."""

    def __init__(
        self,
        connections: dict[int, TrackedConnection],
        loop: asyncio.AbstractEventLoop,
        limits: ActiveLimits,
        counters: Counters,
        tap: Tap,
        topics: Topics,
        deadlines: DeadlineScan,
        epoch: int = 0,
    ):
        self._open = connections
        self._loop = loop
        self._limits = limits
        self._counters = counters
        self._tap = tap
        self._topics = topics
        self._deadlines = deadlines
        self.lingering: set[TrackedConnection] = set()
        """Closed connections whose peers have not read the last bytes yet."""
        self.closed_connections: deque[ClosedConnection] = deque(maxlen=_MAX_CLOSED)
        self.failed_connections: deque[ClosedConnection] = deque(maxlen=_MAX_FAILED)
        """The last connections that were closed for an unusual reason."""
        self.draining = False
        """Whether the hub shuts down: no connection is accepted."""
        self._reserved = 0
        self._by_address: Counter[str] = Counter()
        self._half_open: dict[int, tuple[str, str]] = {}
        self._half_open_by_address: Counter[str] = Counter()
        self._half_open_by_gateway: Counter[str] = Counter()
        self._accept_credit = 2 * limits.current.connects_per_s
        self._accept_at = loop.time()
        # Ids must not repeat across restarts: recordings of several runs go into one lake, where
        # the id is the key of a connection.
        # Hubs that share a store have epochs, which are never given twice.
        self._next_id = _EPOCHS | epoch << _ID_BITS if epoch else int(time.time()) << _ID_BITS

    def new_id(self) -> int:
        """Return an id that no connection ever had, here or before a restart."""
        self._next_id += 1
        return self._next_id

    def reserve(self, address: str, gateway: str = "", dialled: bool = False) -> bool:
        """Count a connection that is being accepted; return False when a limit is reached."""
        # A gateway whose limits are used up by its users still has to reach its backends.
        limit = "" if dialled else self._reached_limit(address, gateway)
        if limit:
            self._counters.refused[limit] += 1
            return False
        self._reserved += 1
        self._by_address[address] += 1
        self._half_open_by_address[address] += 1
        if gateway:
            self._half_open_by_gateway[gateway] += 1
        return True

    def release(self, connection: TrackedConnection) -> None:
        """Stop counting a connection that ended before it was added."""
        if not connection.reserved:
            return
        connection.reserved = False
        self._reserved -= 1
        _decrement(self._by_address, connection.charged_to)
        self._end_half_open(connection.charged_to, connection.gateway)

    def admit(self, connection: TrackedConnection) -> bool:
        """Add a connection; return False when a limit is reached, unless it was reserved."""
        if not connection.reserved:
            dialled = connection.direction_in == "s2c"
            if not self.reserve(connection.charged_to, connection.gateway, dialled):
                return False
            connection.reserved = True
        if self.draining:
            self.release(connection)
            return False
        connection.reserved = False
        self._reserved -= 1
        self._half_open[connection.id] = (connection.charged_to, connection.gateway)
        self._open[connection.id] = connection
        self._counters.accepted[connection.protocol] += 1
        self._deadlines.add(connection)
        if self._tap.active:
            self._tap.opened(connection)
        return True

    @property
    def count(self) -> int:
        """Connections that are open or being accepted."""
        return len(self._open) + self._reserved

    def _reached_limit(self, address: str, gateway: str) -> str:
        """Return the name of the limit that refuses a connection; empty to accept it."""
        # Limits of the whole hub first, then those of an address. None of the checks stores
        # anything for a refused connection (a Counter has no entry for a key that is only read).
        limits = self._limits.current
        if self.draining:
            return "closing"
        if self.count >= limits.connections:
            return "connections"
        if self._by_address[address] >= limits.connections_per_address:
            return "connections_per_address"
        if len(self._half_open) + self._reserved >= limits.half_open:
            return "half_open"
        if self._half_open_by_address[address] >= limits.half_open_per_address:
            return "half_open_per_address"
        # The addresses behind a gateway are its own claim, so it may have any number of them. Half
        # of the limit is left to everybody else.
        if gateway and 2 * self._half_open_by_gateway[gateway] >= limits.half_open:
            return "half_open_per_gateway"
        # A token bucket: `connects_per_s` on average, bursts of twice that. It is charged last, so
        # that connections refused by another limit use none of the rate of the others.
        now = self._loop.time()
        earned = (now - self._accept_at) * limits.connects_per_s
        self._accept_credit = min(self._accept_credit + earned, 2 * limits.connects_per_s)
        self._accept_at = now
        if self._accept_credit < 1:
            return "connects_per_s"
        self._accept_credit -= 1
        return ""

    def signed_on(self, connection: TrackedConnection, client: Client) -> None:
        """Assign a connection to its client."""
        connection.client = client
        self.end_half_open(connection)
        if self._tap.active and client.durable:
            self._tap.signed_on(connection, client.id)

    def is_half_open(self, connection: TrackedConnection) -> bool:
        """Return whether a connection counts as half-open."""
        return connection.id in self._half_open

    def end_half_open(self, connection: TrackedConnection) -> None:
        """Stop counting a connection as half-open.

        Listeners call it for connections without a client: links, and users of a gateway.
        """
        found = self._half_open.pop(connection.id, None)
        if found is not None:
            self._end_half_open(*found)

    def _end_half_open(self, address: str, gateway: str) -> None:
        _decrement(self._half_open_by_address, address)
        if gateway:
            _decrement(self._half_open_by_gateway, gateway)

    def closed(self, connection: TrackedConnection) -> None:
        """Remove a connection and remember why it was closed."""
        if self._open.pop(connection.id, None) is None:
            return  # refused by `admit`, or already removed
        self._deadlines.remove(connection)
        _decrement(self._by_address, connection.charged_to)
        self.end_half_open(connection)
        self._topics.detach(connection)
        # Bytes are added up at the close, not with every read and write
        # (`admin.pages.traffic_of`).
        counters, protocol, reason = self._counters, connection.protocol, connection.close_reason
        counters.closed(protocol, reason, by_peer=connection.close_side is Side.REMOTE)
        counters.bytes_in[protocol] += connection.in_bytes
        counters.bytes_out[protocol] += connection.out_bytes
        if self._tap.active:
            self._tap.closed(connection)
        closed = ClosedConnection(
            id=str(connection.id),
            protocol=protocol,
            peer="{}:{}".format(*connection.peer),
            client=connection.client.id if connection.client is not None else "",
            opened_ns=connection.opened_ns,
            closed_ns=time.time_ns(),
            bytes_in=connection.in_bytes,
            bytes_out=connection.out_bytes,
            reason=reason,
            side="hub" if connection.close_side is Side.LOCAL else "peer",
        )
        self.closed_connections.append(closed)
        if reason not in _USUAL_REASONS:
            self.failed_connections.append(closed)


def _decrement(counter: Counter[str], key: str) -> None:
    # Addresses come and go: a counter that kept zeros would grow with every address ever seen.
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]


# -- deadlines -----------------------------------------------------------------------------------

PERIOD_S: Final = 1.0
"""How late a deadline may act. The shortest deadline of the hub is two seconds, so this is precise
enough (`docs/concepts/hub.md`, Limits)."""
STEPS: Final = 8
"""Groups per period, so that 10,000 connections are not visited in one turn of the loop."""


class _HasDeadlines(Protocol):
    id: int

    def check_deadlines(self, now: float) -> None: ...


class DeadlineScan:
    """Objects with deadlines, in groups by id."""

    # One timer per connection would have to be moved with every received frame, and would add to
    # the memory of idle connections (3.6 KB each, of at most 4: benchmarks/results/hub.json, idle).
    # A scan costs one call per connection and second, however busy the connection is.

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._groups: list[dict[int, _HasDeadlines]] = [{} for _ in range(STEPS)]
        self._step = 0
        self._handle: asyncio.TimerHandle | None = None

    def add(self, item: _HasDeadlines) -> None:
        """Start checking an object."""
        self._groups[item.id % STEPS][item.id] = item

    def remove(self, item: _HasDeadlines) -> None:
        """Stop checking an object."""
        self._groups[item.id % STEPS].pop(item.id, None)

    def start(self) -> None:
        """Start scanning."""
        self._handle = self._loop.call_later(PERIOD_S / STEPS, self._tick)

    def stop(self) -> None:
        """Stop scanning."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        self._handle = self._loop.call_later(PERIOD_S / STEPS, self._tick)
        now = self._loop.time()
        self._step = (self._step + 1) % STEPS
        for item in tuple(self._groups[self._step].values()):  # a check may close the item
            item.check_deadlines(now)
