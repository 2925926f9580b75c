"""The connection of a client: dialled, signed on, prepared, and replaced when it is lost.

`Client` (`client.py`) adds the calls. Requests wait for a connection, and for a place if too many
are pending, until their deadline; which of them are sent again on the next connection is decided
there.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

from wirelake.wire.errors import invalid

from .addresses import Addresses
from .call_queue import CallQueue
from .connection import ClientConnection, Notification, Push
from .dial import dial
from .errors import (
    AllFailed,
    AuthFailed,
    BadCall,
    Busy,
    ClientError,
    ConnectionLost,
    NotConnected,
    Timeout,
    failures_text,
)
from .settings import Settings, Where

__all__ = ["ReconnectingClient"]

_log = logging.getLogger(__name__)
T = TypeVar("T")


class ReconnectingClient(ABC):
    """A client that keeps a connection open."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.connects = 0
        """The number of connections made so far."""
        self._addresses = Addresses(settings)
        self._queue = CallQueue(self._room, settings.max_queued_calls)
        self._most = settings.max_calls
        self._connection: ClientConnection | None = None
        self._last: ClientConnection | None = None
        self._finished: ClientError | None = None
        self._changed = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- provided by the client --------------------------------------------------------------

    @abstractmethod
    async def prepare(self, connection: ClientConnection) -> None:
        """Restore on a new connection what the client needs (subscriptions)."""

    @abstractmethod
    def on_dialled(self, connection: ClientConnection) -> None:
        """Called when a connection is dialled, before it signs on."""

    @abstractmethod
    def on_ready(self, connection: ClientConnection) -> None:
        """Called when a connection is ready."""

    @abstractmethod
    def on_finished(self, error: ClientError | None) -> None:
        """Called at the end: with the error, or None when the client was closed."""

    @property
    @abstractmethod
    def full(self) -> bool:
        """Whether more notifications wait than allowed."""

    @abstractmethod
    def notified(self, notification: Notification) -> None:
        """Queue a notification."""

    @abstractmethod
    def pushed(self, push: Push) -> None:
        """Queue a push."""

    # -- the connection ----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def connected(self) -> bool:
        """Whether there is a connection, signed on and subscribed."""
        return self._connection is not None and self._connection.open

    @property
    def silent(self) -> bool:
        """Whether nothing has arrived from the server on the last connection."""
        return self._last is None or not self._last.first_bytes

    @property
    def address(self) -> Where:
        """The server that the client is connected to, or was the last time."""
        return self._addresses.current

    @property
    def busy(self) -> int:
        """The number of pending calls, those that wait to be sent included."""
        connection = self._connection
        return len(self._queue) + (connection.busy if connection is not None else 0)

    @property
    def resumed(self) -> bool:
        """Whether the connection resumed the session of the one before (magline)."""
        return bool(getattr(self._connection, "resumed", False))

    async def open(self) -> None:
        """Connect and sign on, with one attempt at each address; ClientError when all fail."""
        if self._supervisor is not None:
            raise BadCall("the client is already open")
        connection = await self._connect_first()
        self._supervisor = asyncio.create_task(self._keep(connection))

    async def _connect_first(self) -> ClientConnection:
        addresses = self._addresses
        addresses.start_round()
        for _ in range(len(addresses)):
            where, _ = addresses.next()
            try:
                return await self._connect(where)
            except (AuthFailed, BadCall):  # it would be the same everywhere
                raise
            except ClientError as error:
                addresses.failed(error)
        failures = addresses.failures
        if len(failures) == 1:
            raise next(iter(failures.values()))
        raise AllFailed(failures.items())

    async def close(self) -> None:
        """Close the connection; pending calls fail."""
        # Requests that wait for a connection fail first, then the tasks end, then the connection.
        supervisor = self._supervisor
        self._finish(ConnectionLost("the client is closed"), report=False)
        tasks = [*self._tasks, *([supervisor] if supervisor is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._last is not None:
            await self._last.close()

    async def _connect(self, where: Where) -> ClientConnection:
        """Make one attempt, until the connection is ready for use."""
        # The last connection is kept also if its sign-on fails: the next one resumes its session,
        # or continues its message ids.
        connection = await dial(self.settings.at(where), self, self._last)
        self._last = connection
        self.on_dialled(connection)
        try:
            async with asyncio.timeout(self.settings.sign_on_timeout_s):
                await connection.sign_on()
                await self.prepare(connection)
        except TimeoutError as error:
            connection.abort()
            raise ConnectionLost(f"{where.place}: sign-on timed out") from error
        except BaseException:
            connection.abort()
            raise
        if not connection.open:
            raise connection.end_error()
        self.connects += 1
        self._addresses.connected()
        limit = connection.request_limit
        self._most = min(self.settings.max_calls, limit or self.settings.max_calls)
        self._connection = connection
        self.on_ready(connection)
        self._changed.set()
        self._queue.wake()
        return connection

    async def _keep(self, connection: ClientConnection) -> None:
        """Replace the connection whenever it is lost."""
        while True:
            began = connection.loop.time()
            lost = await asyncio.shield(connection.lost)
            self._connection = None
            self._changed.clear()
            if not self.settings.reconnect:
                self._finish(lost)
                return
            self._addresses.lost(connection.loop.time() - began)
            found = await self._connect_again()
            if found is None:
                return
            connection = found

    async def _connect_again(self) -> ClientConnection | None:
        addresses = self._addresses
        while True:
            resumes = self._last is not None and _resumes(self._last)
            where, delay_s = addresses.next()
            await asyncio.sleep(delay_s)
            try:
                return await self._connect(where)
            except (AuthFailed, BadCall) as error:  # it would fail again with every attempt
                self._finish(error)
                return None
            except ClientError as error:
                _log.info("%s: %s", where.place, error)
                addresses.failed(error)
                if resumes and self._last is not None and not _resumes(self._last):
                    addresses.repeat()  # the server does not know the session: connect without it

    def _finish(self, error: ClientError, *, report: bool = True) -> None:
        self._finished = self._finished or error
        self._connection = None
        self.on_finished(error if report else None)
        self._changed.set()
        self._queue.fail(self._finished)

    async def _ready(self, deadline: float) -> ClientConnection:
        """Return the connection, or the next one if it is made before the deadline."""
        while True:
            if self._finished is not None:
                raise self._finished
            connection = self._connection
            if connection is not None and connection.open:
                return connection
            if self._supervisor is None:
                raise BadCall("open the client first: async with connect(...) as c")
            try:
                async with asyncio.timeout_at(deadline):
                    # `shield`: the future belongs to the connection, and others wait for it, too.
                    # After it the supervisor needs a turn to replace the connection.
                    if connection is not None:  # it is closing: wait for the end
                        await asyncio.shield(connection.lost)
                        await asyncio.sleep(0)
                    else:
                        await self._changed.wait()
            except TimeoutError:
                raise self._not_connected() from None

    def _not_connected(self) -> NotConnected:
        failures = self._addresses.failures
        why = f": {failures_text(failures.items())}" if failures else ""
        return NotConnected(f"{self._addresses.places}: not connected{why}")

    # -- requests ----------------------------------------------------------------------------

    def _room(self) -> int:
        """Return how many more requests can be sent on the connection."""
        connection = self._connection
        if connection is None or not connection.open:
            return 0
        return self._most - connection.busy

    def replied(self) -> None:
        """Send what waits, now that a request is no longer pending."""
        if self._queue:
            self._queue.wake()

    async def _turn(self, deadline: float) -> ClientConnection:
        """Return the connection when it can take another request.

        The caller sends it before it awaits anything else.
        """
        while True:
            connection = await self._ready(deadline)
            if self._queue.admits:
                return connection
            try:
                await self._queue.wait(deadline)
            except TimeoutError:
                raise self._never_sent() from None
            if self._connection is not None and self._connection.open:
                return self._connection

    def _never_sent(self) -> ClientError:
        if not self.connected:
            return self._not_connected()
        text = f"{self._most} requests are without a reply; nothing was sent"
        return Busy("too_busy", text)

    def _limit(self, timeout_s: float | None) -> float:
        if timeout_s is None:
            return self.settings.timeout_s
        if not timeout_s > 0:
            raise BadCall(invalid("timeout_s", timeout_s, "more than 0"))
        return timeout_s

    async def _request_once(
        self, timeout_s: float | None, request: Callable[[ClientConnection, float], Awaitable[T]]
    ) -> T:
        """Make one attempt."""
        deadline = asyncio.get_running_loop().time() + self._limit(timeout_s)
        connection = await self._turn(deadline)
        left = max(deadline - connection.loop.time(), 0.001)
        return await _within(deadline, request(connection, left))

    async def _retry(
        self,
        request: Callable[[ClientConnection, float], Awaitable[T]],
        timeout_s: float | None = None,
    ) -> T:
        """Repeat an idempotent request until there is a reply."""
        deadline = asyncio.get_running_loop().time() + self._limit(timeout_s)
        while True:
            connection = await self._turn(deadline)
            left = max(deadline - connection.loop.time(), 0.001)
            try:
                return await _within(deadline, request(connection, left))
            except ConnectionLost:
                if not self.settings.reconnect or self._finished is not None:
                    raise

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _within(deadline: float, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout_at(deadline):
            return await work
    except TimeoutError as error:
        if isinstance(error, Timeout):
            raise
        raise Timeout("no reply in time") from None


def _resumes(connection: ClientConnection) -> bool:
    return getattr(connection.session, "ticket", None) is not None
