"""The hub: what its parts share, and how they start and stop.

    hub = Hub(config, data="hub-data")
    await hub.start()          all listeners are open
    await hub.serve()          until SIGTERM, or `hub.shut()`
    await hub.stop()

Everything runs in one event loop; only the store's writer has a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from wirelake.protocols.binding import TlsSettings
from wirelake.protocols.sansio import Side

from .config import Config, ConfigError
from .listeners import make_listeners
from .net.auth import Authority
from .net.deadline_scan import DeadlineScan
from .net.outbox import Outbox
from .observe.counters import Counts
from .observe.tap import Tap, make_tap
from .pubsub.topics import Topics
from .rpc.services import Services
from .store import open_store

if TYPE_CHECKING:
    from .net.connection import Connection
    from .net.listener import Listener
    from .pubsub.clients import Client
    from .store import Store

__all__ = ["ClosedConnection", "Hub"]

_log = logging.getLogger(__name__)
_REMEMBERED: Final = 1_000
"""Connections that are over and whose reasons `/connz` still shows."""
_TROUBLES: Final = 100
"""Of those that did not end as they should, how many are remembered however many others ended."""
_ORDINARY: Final = frozenset(
    {"eof", "normal", "link_close", "disconnected", "replaced", "shutdown"}
)
"""Reasons that are nobody's fault."""
_CUT_S: Final = 1.0
"""How long transports may take to tell that they are closed; they need a turn or two."""
_ID_BITS: Final = 28
"""Connections of one start; the bits above are the second of the start."""


class ClosedConnection(msgspec.Struct, frozen=True, gc=False):
    """A connection that is over."""

    id: int
    """Its number, as in recordings."""
    protocol: str
    """What it spoke."""
    peer: str
    """Who was at the other end, as `host:port`."""
    client: str
    """Who had signed on; empty for nobody."""
    opened_ns: int
    """When it came, in nanoseconds since 1970."""
    closed_ns: int
    """When it ended."""
    bytes_in: int
    """Bytes received."""
    bytes_out: int
    """Bytes sent."""
    reason: str
    """Why it ended: a code."""
    side: str
    """Who ended it: `peer` or `hub`."""


class Hub:
    """One live server."""

    loop: asyncio.AbstractEventLoop
    outbox: Outbox
    deadlines: DeadlineScan
    store: Store
    topics: Topics
    authority: Authority
    tap: Tap | None = None
    """Sees every frame; None while nobody records or watches."""

    def __init__(self, config: Config, data: str | Path, services: Services | None = None):
        self.config = config
        self.limits = config.limits
        self.data = Path(data)
        self.services = services or Services()
        self.service = self.services.service
        """Makes a function a service: `@hub.service("test", "add", tny=1002)`."""
        self.counts = Counts()
        self.connections: dict[int, Connection] = {}
        self.leaving: set[Connection] = set()
        """Connections that are over, but whose peers have not read our last words."""
        self.gone: deque[ClosedConnection] = deque(maxlen=_REMEMBERED)
        self.troubles: deque[ClosedConnection] = deque(maxlen=_TROUBLES)
        """The last that ended for a reason that somebody should know of."""
        self.listeners: dict[str, Listener] = {}
        self.started_ns = 0
        self.draining = False
        self._by_address: Counter[str] = Counter()
        self._half_open: dict[int, str] = {}
        self._half_open_by_address: Counter[str] = Counter()
        self._accept_credit = 0.0
        self._accept_at = 0.0
        self._next_id = 0
        self._shut = asyncio.Event()

    # -- the whole ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens the store, then the listeners."""
        self.loop = asyncio.get_running_loop()
        self.started_ns = time.time_ns()
        self._next_id = (self.started_ns // 1_000_000_000) << _ID_BITS
        self._accept_credit = 2 * self.limits.connects_per_s
        self._accept_at = self.loop.time()
        self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.outbox = Outbox(self.loop)
        self.deadlines = DeadlineScan(self.loop)
        self.store = open_store(self.config.store, self.data, self.loop)
        self.authority = Authority(self)
        self.topics = Topics(self)
        self.topics.load()
        self.tap = make_tap(self)
        self.deadlines.start()
        self.listeners = make_listeners(self)
        try:
            for listener in self.listeners.values():
                await listener.start()
        except BaseException:
            await self.stop()
            raise

    async def serve(self) -> None:
        """Waits until somebody says `shut`."""
        await self._shut.wait()

    def shut(self) -> None:
        """Lets `serve` return."""
        self._shut.set()

    async def drain(self) -> None:
        """Takes no new connections, lets calls under way finish, and says goodbye."""
        self.draining = True
        for listener in self.listeners.values():
            await listener.stop()
        until = self.loop.time() + self.limits.drain_s
        while self.services.running and self.loop.time() < until:
            await asyncio.sleep(0.02)
        for connection in tuple(self.connections.values()):
            connection.end("shutdown")
        until = self.loop.time() + 1.0
        while (self.connections or self.leaving) and self.loop.time() < until:
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Ends everything; what was confirmed is on disk."""
        await self.drain()
        for connection in tuple(self.connections.values()):
            connection.drop("shutdown")
        until = self.loop.time() + _CUT_S
        for connection in tuple(self.leaving):
            connection.transport.abort()
        while (self.connections or self.leaving) and self.loop.time() < until:
            await asyncio.sleep(0)  # transports tell that they are closed
        self.deadlines.stop()
        await self.store.close()
        if self.tap is not None:
            self.tap.stop()
            self.tap = None

    def reload(self, config: Config) -> None:
        """Takes over limits, and reads the certificates again. Addresses need a restart."""
        self.config = config
        self.limits = config.limits
        for listener in self.listeners.values():
            listener.reload_tls()

    # -- connections -------------------------------------------------------------------------

    def new_connection_id(self) -> int:
        """A number that no connection ever had, here or before a restart."""
        self._next_id += 1
        return self._next_id

    def admit(self, connection: Connection) -> bool:
        """Lets a connection in, or says by which limit it may not come."""
        limit = self._full(connection.peer[0])
        if limit:
            self.counts.refused[limit] += 1
            return False
        address = connection.peer[0]
        self._by_address[address] += 1
        self._half_open[connection.id] = address
        self._half_open_by_address[address] += 1
        self.connections[connection.id] = connection
        self.counts.accepted[connection.protocol] += 1
        self.deadlines.add(connection)
        if self.tap is not None:
            self.tap.opened(connection)
        return True

    def _full(self, address: str) -> str:
        limits = self.limits
        if self.draining:
            return "closing"
        if len(self.connections) >= limits.connections:
            return "connections"
        if self._by_address[address] >= limits.connections_per_address:
            return "connections_per_address"
        if len(self._half_open) >= limits.half_open:
            return "half_open"
        if self._half_open_by_address[address] >= limits.half_open_per_address:
            return "half_open_per_address"
        now = self.loop.time()
        earned = (now - self._accept_at) * limits.connects_per_s
        self._accept_credit = min(self._accept_credit + earned, 2 * limits.connects_per_s)
        self._accept_at = now
        if self._accept_credit < 1:
            return "connects_per_s"
        self._accept_credit -= 1
        return ""

    def signed_on(self, connection: Connection, client: Client) -> None:
        """A connection belongs to somebody now."""
        connection.client = client
        self._no_longer_half_open(connection.id)
        if self.tap is not None:
            self.tap.signed_on(connection)

    def known(self, connection: Connection) -> None:
        """A connection that has no client (a link, a gateway's user) has shown what it is."""
        self._no_longer_half_open(connection.id)

    def _no_longer_half_open(self, number: int) -> None:
        address = self._half_open.pop(number, None)
        if address is not None:
            _take_one(self._half_open_by_address, address)

    def closed(self, connection: Connection) -> None:
        """A connection is over."""
        if self.connections.pop(connection.id, None) is None:
            return
        self.deadlines.remove(connection)
        _take_one(self._by_address, connection.peer[0])
        self._no_longer_half_open(connection.id)
        self.topics.detach(connection)
        counts, protocol, reason = self.counts, connection.protocol, connection.close_reason
        counts.close_reasons[protocol, reason] += 1
        counts.bytes_in[protocol] += connection.in_bytes
        counts.bytes_out[protocol] += connection.out_bytes
        if self.tap is not None:
            self.tap.closed(connection)
        gone = ClosedConnection(
            id=connection.id,
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
        self.gone.append(gone)
        if reason not in _ORDINARY:
            self.troubles.append(gone)

    # -- certificates ------------------------------------------------------------------------

    def tls_context(self, settings: TlsSettings | None) -> ssl.SSLContext | None:
        """What a listener needs to speak TLS; None when it does not."""
        if settings is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load_certificates(context, settings)
        return context

    def load_certificates(self, context: ssl.SSLContext, settings: TlsSettings) -> None:
        """Reads certificate, key and authorities into a context."""
        try:
            context.load_cert_chain(settings.certificate, settings.key)
            if settings.client_ca:
                context.load_verify_locations(settings.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"tls: {settings.certificate}: {error}") from error


def _take_one(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
