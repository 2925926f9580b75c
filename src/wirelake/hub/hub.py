"""The hub: builds its parts, connects them, starts and stops them.

    hub = Hub(config, data="hub-data")
    await hub.start()          all listeners are open
    await hub.serve()          until `hub.request_stop()`, which signal handlers call
    await hub.stop()

Everything runs in one event loop; only the store's writer has its own thread. The parts get what
they need as arguments and do not know the hub.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from wirelake.wire.paths import local_path

from .auth import Authority
from .config import ActiveLimits, Config, Limits, restart_keys, with_reloaded
from .errors import HubError
from .listeners import make_listeners
from .net.budget import BufferBudget
from .net.context import HubContext
from .net.listener import Listener
from .net.memory import MemoryRelease
from .net.outbox import Outbox
from .net.table import ConnectionTable, DeadlineScan, TrackedConnection
from .observe.counters import Counters
from .observe.tap import Tap
from .pubsub.topics import Topics
from .rpc.hub_calls import HubCalls
from .rpc.offers import Offers
from .rpc.services import Services
from .store import Store, StoreError, database_path, open_store, shown

__all__ = ["Hub", "Reloadable"]

_log = logging.getLogger(__name__)
_CLOSE_S: Final = 1.0
"""How long peers may take to read the closing message of a drain."""
_ABORT_S: Final = 1.0
"""How long aborted transports may take to report that they are closed; they need a turn or two."""


class Reloadable(Protocol):
    """A server beside the hub that uses its configuration."""

    def prepare_reload(self, config: Config) -> Callable[[], None]:
        """Check a new configuration; return the function that applies it. ConfigError."""


class Hub:
    """One live server."""

    loop: asyncio.AbstractEventLoop
    store: Store
    tap: Tap
    topics: Topics
    authority: Authority
    offers: Offers
    table: ConnectionTable
    context: HubContext

    def __init__(self, config: Config, data: str | Path, services: Services | None = None):
        self.config = config
        self.data = local_path(data)
        self.services = services or Services()
        self.service = self.services.service
        """Decorator that makes a function a service: `@hub.service("test", "add", tny=1002)`."""
        self.counters = Counters()
        self.connections: dict[int, TrackedConnection] = {}
        self.listeners: dict[str, Listener] = {}
        self.started = False
        """Whether all listeners are open."""
        self.started_ns = 0
        self._limits = ActiveLimits(config.limits, config.listeners)
        self._stop_requested = asyncio.Event()

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._limits.current

    @property
    def draining(self) -> bool:
        """Whether the hub is shutting down."""
        return self.table.draining

    async def start(self) -> None:
        """Open the store, then the listeners."""
        # Listeners come last: a connection that is accepted finds all topics and clients loaded.
        self.loop = asyncio.get_running_loop()
        self.started_ns = time.time_ns()
        created = not self.data.exists()
        self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self.context = self._build()
        except StoreError:
            if created:  # a start that fails leaves nothing behind
                with suppress(OSError):
                    self.data.rmdir()
            raise
        await self._load()
        try:
            self.authority.prepare_reload(self.config.auth)()
            self.authority.set_rights(self.config.rights.clients)
            self._start_observers()
            self.context.deadlines.add(self.authority)
            self.context.deadlines.start()
            self.listeners = make_listeners(self.context)
            for listener in self.listeners.values():
                await listener.start()
        except BaseException:
            await self.stop()
            raise
        self.started = True

    async def _load(self) -> None:
        try:
            await self.topics.load()
        except HubError as error:
            await self.store.abandon()
            path = shown(database_path(self.config.store.path, self.data))
            raise StoreError(f"{path}: {error}; restore a backup") from error

    def _build(self) -> HubContext:
        loop, limits, counters, connections = (
            self.loop,
            self._limits,
            self.counters,
            self.connections,
        )
        # From the bottom up; `connections` is the one dict that the table fills and others read.
        outbox, deadlines = Outbox(loop), DeadlineScan(loop)
        self.store = open_store(self.config.store, self.data, loop)
        self.tap = Tap(loop, connections)
        self.topics = Topics(
            self.store,
            loop,
            limits,
            counters,
            self.tap,
            connections,
            outbox.before_flush,
            server=self.config.store.server,
        )
        cluster = self.store.cluster
        self.table = ConnectionTable(
            connections,
            loop,
            limits,
            counters,
            self.tap,
            self.topics,
            deadlines,
            0 if cluster is None else cluster.epoch,
        )
        deadlines.add(MemoryRelease(self.table.new_id(), lambda: self.table.count))
        self.offers = Offers(self.services, limits)
        self.authority = Authority(
            self.store, self.topics, counters, connections, loop.time, self.table.signed_on
        )
        return HubContext(
            config=self.config,
            data=self.data,
            loop=loop,
            active_limits=limits,
            counters=counters,
            store=self.store,
            outbox=outbox,
            deadlines=deadlines,
            tap=self.tap,
            topics=self.topics,
            services=self.services,
            calls=HubCalls(self.topics, self.authority, self.services, self.offers, counters),
            authority=self.authority,
            connections=connections,
            table=self.table,
            budget=BufferBudget(limits),
        )

    def _start_observers(self) -> None:
        """Record and decode as configured; both need pyarrow, so they are imported here."""
        settings = self.config.record
        if settings.folder:
            from .observe.recording import Recording

            self.tap.add(Recording(settings))
        if settings.tables:
            from .observe.live_decoder import LiveDecoder, LiveTables

            self.tap.add(LiveDecoder(LiveTables()))

    async def serve(self) -> None:
        """Wait for `request_stop`."""
        await self._stop_requested.wait()

    def request_stop(self) -> None:
        """Let `serve` return."""
        self._stop_requested.set()

    async def drain(self) -> None:
        """Accept no connections, let running calls finish, then close all connections."""
        self.table.draining = True
        self.topics.close()
        for listener in self.listeners.values():
            await listener.stop()
        # Connections stay open while calls run: their answers, and confirmations of publishes that
        # wait for the disk, still have to be written.
        deadline = self.loop.time() + self.limits.drain_s
        while self._running and self.loop.time() < deadline:
            await asyncio.sleep(0.02)
        for connection in tuple(self.connections.values()):
            connection.end("shutdown")
        deadline = self.loop.time() + _CLOSE_S
        while (self.connections or self.table.lingering) and self.loop.time() < deadline:
            await asyncio.sleep(0.01)

    @property
    def _running(self) -> int:
        """The number of calls without an answer: of this hub's services, and of other servers."""
        return self.services.running + sum(each.running for each in self.listeners.values())

    async def stop(self) -> None:
        """Drain, abort what is left, and close the store: what was confirmed is on disk."""
        await self.drain()
        for connection in tuple(self.connections.values()):
            connection.drop("shutdown")
        deadline = self.loop.time() + _ABORT_S
        for connection in tuple(self.table.lingering):
            connection.transport.abort()
        while (self.connections or self.table.lingering) and self.loop.time() < deadline:
            await asyncio.sleep(0)  # transports report that they are closed
        # The store before the tap: its last batch may confirm publishes, which are recorded.
        self.context.deadlines.stop()
        await self.authority.issuers.stop()
        await self.store.close()
        await self.topics.stop()
        self.tap.stop()

    async def reload(self, config: Config, *servers: Reloadable) -> None:
        """Apply limits, certificates, issuers, clients and their rights: all of them, or nothing.

        `servers` are reloaded with the hub. ConfigError when a certificate cannot be used, HubError
        when the store cannot be read. Other settings stay until a restart; the log names those that
        differ.
        """
        # Whatever can fail comes first. From the first assignment on, nothing can.
        ignored = restart_keys(self.config, config)
        config = with_reloaded(self.config, config)
        changes = [server.prepare_reload(config) for server in (*self.listeners.values(), *servers)]
        changes.append(self.authority.prepare_reload(config.auth))
        ids = self.authority.known()
        clients = await self.store.clients_with(ids)
        # The parts share one ActiveLimits, so limits need not be passed on.
        self.config = self.context.config = config
        self._limits.current = config.limits
        for apply in changes:
            apply()
        self.authority.recheck(ids, clients)
        self.authority.set_rights(config.rights.clients)
        if ignored:
            _log.warning("changed settings need a restart: %s", ", ".join(ignored))
