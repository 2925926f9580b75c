"""A client's end of one TCP connection, and what all clients of a run share.

A `ClientConnection` has a session, a socket and a journal entry; a `RunContext` has the listeners
of the hub, tokens, the journal, and the time.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

from wirelake.protocols.sansio import Closed, Event, Failed

from ..plan import SimulateError
from .hub_address import DEADLINE_S, Admin
from .journal import Journal

__all__ = [
    "ClientConnection",
    "RunContext",
    "connect",
]


_Connection = TypeVar("_Connection", bound="ClientConnection")


class ClientConnection(asyncio.Protocol):
    """Drives a session; a subclass handles the events of its protocol.

    Nobody calls `on_timer`: a client sends only what it decided to send, or its journal would not
    know about heartbeats and timeouts.
    """

    protocol: ClassVar[str]
    """As the table `connections` has it."""

    def __init__(self, journal: Journal, session: Any):
        self.journal = journal
        self.session = session
        self.entry = journal.connection(self.protocol)
        self.read_ns = 0
        """Wall clock after the last read."""
        self.transport: Any = None
        self.loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self.loop.create_future()
        """Done when the socket is closed."""
        self.closing = False
        """Whether the end of the connection is intended."""
        self.close_reason = ""
        """Why the connection ended, where that was not intended."""

    # -- asyncio.Protocol --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record both ends of the connection."""
        self.transport = transport
        # Without it small writes wait for an acknowledgement: p99 of a round trip was 43 ms.
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.entry.address, self.entry.port = transport.get_extra_info("sockname")[:2]
        self.entry.server_port = transport.get_extra_info("peername")[1]

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the session."""
        # Before the session decodes anything: the hub's own time is earlier, so this bounds it.
        self.read_ns = time.time_ns()
        self.entry.bytes_s2c += len(data)
        self.session.receive(data, self.loop.time())
        self.process_events()

    def eof_received(self) -> bool:
        """Pass the end of the stream to the session."""
        self.close_reason = "the hub closed it"
        self.session.receive_eof()
        self.process_events()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Record the end of the connection."""
        self.complete(self.closed)
        if not self.closing:
            self.close_reason = str(exc or self.close_reason or "the hub closed it")
        self.on_disconnect()

    # -- for subclasses ----------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Handle an event of the session, other than `Failed` and `Closed`."""

    def on_failed(self, event: Failed) -> None:
        """Handle a protocol error."""

    def on_closed(self, event: Closed) -> None:
        """Handle the end of the session."""

    def on_disconnect(self) -> None:
        """Handle the end of the connection."""

    # -- sending -----------------------------------------------------------------------------

    def process_events(self) -> None:
        """Handle the events of the session, and write what it has to send."""
        for event in self.session.events():
            if isinstance(event, Failed):
                self.close_reason = self.close_reason or f"{event.code} {event.detail}".strip()
                self.on_failed(event)
            elif isinstance(event, Closed):
                self.on_closed(event)
            else:
                self.on_event(event)
        self.flush()

    def flush(self) -> None:
        """Write what the session has to send."""
        data = self.session.to_send()
        if data:
            self.entry.bytes_c2s += len(data)
            self.transport.write(data)

    def check(self) -> None:
        """Raise SimulateError when the connection ended unexpectedly."""
        if self.close_reason and not self.closing:
            raise self.failure()

    def failure(self) -> SimulateError:
        """Return the error for a connection that ended unexpectedly."""
        who = self.entry.client or f"{self.entry.address}:{self.entry.port}"
        return SimulateError(
            f"connection of {who} ({self.protocol}) ended too early: "
            f"{self.close_reason or 'no response in time'}; see the hub's log"
        )

    async def wait_for(self, future: asyncio.Future[Any]) -> Any:
        """Wait for something that the hub must send."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await future
        except TimeoutError as error:
            raise self.failure() from error

    def complete(self, future: asyncio.Future[None]) -> None:
        """Complete a future, unless its waiter was cancelled, as Ctrl-C does."""
        if not future.done():
            future.set_result(None)

    def fail(self, future: asyncio.Future[Any]) -> None:
        """Fail a future because the connection has ended."""
        if not future.done():
            future.set_exception(self.failure())
            future.exception()  # marks it as retrieved: nobody may be waiting

    async def disconnect(self) -> None:
        """Close the socket after everything is written."""
        self.closing = True
        self.transport.close()
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, by either side."""
        # Shielded: a timeout of one waiter must not cancel the future that the connection
        # completes.
        await self.wait_for(asyncio.shield(self.closed))

    async def send_malformed(self, data: bytes, code: str) -> None:
        """Send bytes that do not decode, and wait until the hub closes the connection."""
        self.entry.faults.append(code)
        self.entry.closed_by, self.entry.close_reason = "server", code
        self.closing = True
        self.transport.write(data)
        await self.wait_closed()

    def abort(self) -> None:
        """Close the socket at once."""
        self.closing = True
        if self.transport is not None:
            self.transport.abort()


async def connect(address: tuple[str, int], make: Callable[[], _Connection]) -> _Connection:
    """Connect to a listener of the hub."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DEADLINE_S):
            _, connection = await loop.create_connection(make, *address)
    except (OSError, TimeoutError) as error:
        raise SimulateError(f"{address[0]}:{address[1]}: cannot connect ({error})") from error
    return connection


# -- what all clients share --------------------------------------------------------------------

_HANDSHAKES: Final = 16
"""Concurrent handshakes: a hub allows twice as many."""
_POLL_S: Final = 0.01


class RunContext:
    """A live run in progress."""

    def __init__(
        self,
        admin: Admin,
        listeners: dict[str, tuple[str, int]],
        tokens: dict[str, str],
        seed: int,
    ):
        self.admin = admin
        self.tokens = tokens
        """By client."""
        self.journal = Journal()
        self.rng = random.Random(f"wirelake live {seed}")
        self.connections: set[ClientConnection] = set()
        """Connections that may be open."""
        self.until = 0.0
        """When, by the loop's clock, nothing new is started."""
        self.handshakes = asyncio.Semaphore(_HANDSHAKES)
        """Held while a client connects and signs on."""
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return self.until - self._loop.time()

    async def pause(self, seconds: float) -> None:
        """Sleep, at most until the end of the run."""
        await asyncio.sleep(max(0.0, min(seconds, self.left_s)))

    async def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that must happen. Raises SimulateError after a deadline."""
        deadline = self._loop.time() + DEADLINE_S
        while not condition():
            if self._loop.time() > deadline:
                raise SimulateError(
                    f"no {what} within {DEADLINE_S:.0f} s; the hub may be overloaded"
                )
            await asyncio.sleep(_POLL_S)

    async def connect(self, listener: str, make: Callable[[], _Connection]) -> _Connection:
        """Connect to a listener of the hub."""
        connection = await connect(self._listeners[listener], make)
        self.connections.add(connection)
        return connection

    async def disconnect(self, connection: ClientConnection) -> None:
        """Disconnect a client."""
        self.connections.discard(connection)
        await connection.disconnect()

    def abort(self) -> None:
        """Close all connections at once: the run has failed."""
        for connection in self.connections:
            connection.abort()

    async def wait_gone(self) -> None:
        """Wait until the hub has noticed that all clients are gone."""
        # A client that has closed its socket knows nothing of the hub's end. Only when the hub
        # lists none of our connections has its recorder written how they closed.
        ours = {f"{each.address}:{each.port}" for each in self.journal.connections}
        deadline = self._loop.time() + DEADLINE_S
        while ours & await self.admin.peers():
            if self._loop.time() > deadline:
                raise SimulateError(
                    f"the hub still has connections {DEADLINE_S:.0f} s after all clients left;"
                    " it may be overloaded"
                )
            await asyncio.sleep(_POLL_S)
