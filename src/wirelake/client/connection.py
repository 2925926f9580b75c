"""One connection of a client: a session driven over a transport, and who waits for which answer.

A protocol's line (`esnp.py`, `tny.py`, ...) makes the session, acts on its events and says what
the client wants said. What is here is the same for all:

- What is said in one turn of the loop leaves in one write.
- The session's timers are looked after; its answers go to the futures that wait for them.
- When more notifications wait than may, and no answer is awaited, the socket is not read; saying
  something, and a timer, read on, so that heartbeats are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Protocol, cast

from wirelake.protocols.sansio import (
    Closed,
    Event,
    Failed,
    Session,
    SessionError,
)

from .errors import (
    BadCall,
    ClientError,
    ConnectionLost,
    Unsupported,
    session_error,
)
from .settings import Settings
from .values import (
    Notification,
    Published,
    Result,
)

__all__ = ["Line", "Owner"]

_KEEPALIVE_S: Final = 60
"""An idle connection is asked after as often, so that one whose other end is gone is noticed."""
_LINGER_S: Final = 1.0
"""How long a peer may take to read what was written before the end."""


class Owner(Protocol):
    """Whom a line belongs to."""

    @property
    def full(self) -> bool:
        """Whether more notifications wait than may."""

    def notified(self, notification: Notification) -> None:
        """A notification came."""


class Line(asyncio.Protocol, ABC):
    """One connection, from dialling to its end."""

    protocol: ClassVar[str]
    fetches: ClassVar[bool] = False
    """Whether what waited must be fetched, as comet has it; elsewhere it is pushed."""

    def __init__(self, settings: Settings, owner: Owner, previous: Line | None = None):
        self.loop = asyncio.get_running_loop()
        self.settings = settings
        self.owner = owner
        self.reason = ""
        """Why the connection ended."""
        self.lost: asyncio.Future[ConnectionLost] = self.loop.create_future()
        """Done when the transport is closed."""
        try:
            self.session: Any = self.make_session(self.loop.time(), previous)
        except SessionError as error:
            raise BadCall(str(error)) from error
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[Any, asyncio.Future[Any]] = {}
        self._flush_soon = False
        self._paused = False
        self._wake: asyncio.TimerHandle | None = None

    # -- what a protocol gives ---------------------------------------------------------------

    @abstractmethod
    def make_session(self, now: float, previous: Line | None) -> Session:
        """The client's end; `previous` is the line before, whose session this one may go on."""

    @abstractmethod
    async def sign_on(self) -> None:
        """Shakes hands and proves who we are; ClientError when the server does not have it."""

    @abstractmethod
    def on_event(self, event: Event) -> None:
        """Acts on an event of the session, other than `Failed` and `Closed`."""

    @property
    @abstractmethod
    def awaits(self) -> bool:
        """Whether the peer owes us an answer, a heartbeat's included."""

    @abstractmethod
    async def ping(self) -> float:
        """Asks whether the peer is there; how long the answer took, in seconds."""

    def begin(self) -> None:
        """The transport is there: says what comes first."""

    def start_call(
        self,
        target: Any,  # noqa: ARG002
        arguments: Any,  # noqa: ARG002
        timeout_s: float,  # noqa: ARG002
        options: dict[str, Any],  # noqa: ARG002
    ) -> asyncio.Future[Result]:
        """Sends a call; the future is its answer."""
        raise Unsupported(f"{self.protocol} has no calls")

    async def subscribe(self, topics: Sequence[str], ack: bool, timeout_s: float) -> None:
        """Subscribes to topics."""
        await self.hub_call("subscribe", {"topics": list(topics), "ack": ack}, timeout_s)

    async def unsubscribe(self, topics: Sequence[str], timeout_s: float) -> None:
        """Ends subscriptions."""
        await self.hub_call("unsubscribe", {"topics": list(topics)}, timeout_s)

    async def ack(self, ids: Sequence[str], timeout_s: float) -> None:
        """Acknowledges notifications."""
        await self.hub_call("ack", {"ids": list(ids)}, timeout_s)

    async def publish(self, arguments: dict[str, Any], timeout_s: float) -> Published:
        """Publishes."""
        found = await self.hub_call("publish", arguments, timeout_s)
        return Published(str(found.get("id", "")), int(found.get("audience", 0)))

    async def fetch(self) -> list[Notification]:
        """What waits for an acknowledgement, oldest first, as much as one answer holds."""
        raise Unsupported(f"{self.protocol} pushes what waited: there is nothing to fetch")

    async def hub_call(
        self,
        name: str,
        arguments: dict[str, Any],  # noqa: ARG002
        timeout_s: float,  # noqa: ARG002
    ) -> dict[str, Any]:
        """A call of the hub itself: auth, subscribe, unsubscribe, publish, ack."""
        raise Unsupported(f"{self.protocol} has no {name}")

    # -- what asyncio calls ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The server has taken the connection."""
        self._transport = cast(asyncio.Transport, transport)
        sock: socket.socket | None = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
        self.begin()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self.session.receive(data, self.loop.time())
        self._flush()
        if self.owner.full and not self.awaits and not self._paused and self.open:
            assert self._transport is not None
            self._transport.pause_reading()
            self._paused = True

    def eof_received(self) -> bool:
        """The server will say no more."""
        self.session.receive_eof()
        self._flush()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is closed, for whatever reason."""
        if not self.session.closed:
            if exc is not None:
                self.reason = self.reason or str(exc)
            self.session.receive_eof()
        self._events()
        if self._wake is not None:
            self._wake.cancel()
        self._transport = None
        error = self.end_error()
        self.fail_waiting(error)
        if not self.lost.done():
            self.lost.set_result(error)

    # -- the session -------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether something may still be said."""
        return self._transport is not None and not self.session.closed

    @property
    def busy(self) -> int:
        """How many answers are awaited."""
        return len(self._waiting)

    def say(self) -> Any:
        """The session, told the time, to say something with; what it says leaves this turn."""
        if not self.open:
            raise ConnectionLost(f"the connection is closed: {self.reason or 'lost'}")
        self.session.on_timer(self.loop.time())
        if not self._flush_soon:
            self._flush_soon = True
            self.loop.call_soon(self._flush)
        return self.session

    def wait_for(self, key: Any) -> asyncio.Future[Any]:
        """A future that `answer` or `fail` ends."""
        future: asyncio.Future[Any] = self.loop.create_future()
        self._waiting[key] = future
        return future

    def answer(self, key: Any, value: Any) -> None:
        """Gives an answer to who waits for it, if anybody does."""
        future = self._waiting.pop(key, None)
        if future is not None and not future.done():
            future.set_result(value)

    def fail(self, key: Any, error: ClientError) -> None:
        """Tells who waits that there is no answer."""
        future = self._waiting.pop(key, None)
        if future is not None and not future.done():
            future.set_exception(error)

    def fail_waiting(self, error: ClientError) -> None:
        """Tells all who wait that there is no answer."""
        for key in tuple(self._waiting):
            self.fail(key, error)

    def refused(self, error: SessionError) -> ClientError:
        """What the session would not do."""
        return session_error(error, closed=self.session.closed)

    def end_error(self) -> ConnectionLost:
        """Why nothing more can be said."""
        return ConnectionLost(f"the connection ended: {self.reason or 'closed'}")

    def _events(self) -> None:
        while events := self.session.events():
            for event in events:
                if isinstance(event, Closed):
                    self.reason = self.reason or event.reason
                elif isinstance(event, Failed):
                    if event.fatal:
                        self.reason = event.code + (f": {event.detail}" if event.detail else "")
                else:
                    self.on_event(event)

    def _flush(self) -> None:
        """Acts on events, writes what the session has to say, and sets the alarm."""
        self._flush_soon = False
        transport = self._transport
        if transport is None:
            return
        self._events()
        data = self.session.to_send()
        if data:
            transport.write(data)
            self.read_on()
        if self.session.closed:
            self._close(transport)
        else:
            self._set_alarm()

    def _close(self, transport: asyncio.Transport) -> None:
        """Closes when everything is written, but does not wait for ever for that."""
        if not transport.is_closing():
            transport.close()
            if self._wake is not None:
                self._wake.cancel()
            self._wake = self.loop.call_later(_LINGER_S, transport.abort)

    def read_on(self) -> None:
        """Reads again, if reading was stopped."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused = False

    def _set_alarm(self) -> None:
        """An alarm that comes early does no harm, so it is moved only when it would be late."""
        due = self.session.next_timer()
        if due is None:
            return
        if self._wake is not None:
            if self._wake.when() <= due:
                return
            self._wake.cancel()
        self._wake = self.loop.call_at(due, self._alarm)

    def _alarm(self) -> None:
        self._wake = None
        if self.open:
            self.session.on_timer(self.loop.time())
            self.read_on()
            self._flush()

    # -- the end -----------------------------------------------------------------------------

    async def hang_up(self) -> None:
        """Says goodbye as the protocol has it, and waits until the transport is closed."""
        transport = self._transport
        if transport is None:
            return
        with contextlib.suppress(SessionError):
            self.goodbye()
        self._flush()
        self._close(transport)
        await asyncio.shield(self.lost)

    def goodbye(self) -> None:
        """Ends the session in the protocol's own words."""
        self.session.close()

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()
