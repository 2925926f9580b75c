"""Calls of ESNP clients that other ESNP servers answer: the routes of `hub.toml`.

A request whose service this hub does not have goes to the first route that matches its address,
with its bytes unchanged but for one SESSION_INFO row (`wirelake.protocols.esnp.routing`). The row
carries the number of the call. The request stays open in the caller's session until its last reply:
order and limits are those of a call of this hub. Events are forwarded and have no reply.

A route has several connections, and each has one call at a time, until its last reply. A server
handles the requests of one connection in order (those without FLAG_ASYNC) and refuses an id that is
in flight: on a shared connection callers would wait for each other, and two of them could not
choose the same id. FLAG_ASYNC makes no difference, because the connection of a call that gets no
reply in time is closed, and others would be lost with it. When no connection is idle, calls wait;
`timeout_s` counts from the acceptance of a call.

    client ── request ──▶ hub ── the same bytes + SESSION_INFO ──▶ the server of the route
    client ◀── reply ──── hub ◀── reply with that row ────────────
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from wirelake.protocols.esnp.address import address_from_pairs
from wirelake.protocols.esnp.binding import EsnpRoute
from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    Flag,
    FlagType,
    Message,
    MessageId,
    Row,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import error_text, summarize
from wirelake.protocols.esnp.routing import Router
from wirelake.protocols.esnp.session import Call, EsnpSession, Forwarded
from wirelake.protocols.esnp.values import data_rows
from wirelake.protocols.hub_calls import AUTH, HUB_SERVICE
from wirelake.protocols.sansio import Event, Role, SessionError
from wirelake.wire.errors import DecodeError

from ..auth import read_secret
from ..config import ConfigError
from ..errors import HubError
from ..net.connection import Connection
from ..net.dialer import dial
from ..pubsub.notifications import Notification

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

    from ..net.context import HubContext

__all__ = ["Route", "RouteConnection"]

_log = logging.getLogger(__name__)
_FIRST_DELAY_S: Final = 0.5
_LAST_DELAY_S: Final = 30.0
"""Delays between attempts: as long as a client of this project waits."""
_MAX_CALL: Final = (1 << 32) - 1
"""Calls are numbered with a UInt32, as the original numbers its channels."""


class _Listener(Protocol):
    """The listener of the callers."""

    hub: HubContext
    settings: Any
    options: SessionOptions


class _Caller(Protocol):
    """A connection whose calls are forwarded."""

    def answer(self, request: Call, outcome: HubError) -> None:
        """Answer a request with an error."""

    def answer_routed(self, request: Call, raw: bytes, *, last: bool, failed: bool) -> None:
        """Pass on a reply of the server."""


@dataclass(eq=False, slots=True)
class _Routed:
    """A call, from its acceptance to its last reply."""

    number: int
    caller: _Caller
    call: Call
    timer: asyncio.TimerHandle
    connection: RouteConnection | None = None
    """The connection that it went to; None while it waits for one."""


class _Doubling:
    def __init__(self) -> None:
        self._next_s = _FIRST_DELAY_S

    def next_delay_s(self) -> float:
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, _LAST_DELAY_S)
        return delay_s

    def succeeded(self) -> None:
        self._next_s = _FIRST_DELAY_S


class Route:
    """One route: its pattern, its connections, and the calls that wait for one or for replies."""

    def __init__(self, listener: _Listener, settings: EsnpRoute):
        self.listener = listener
        self.settings = settings
        # A name that no other hub and no client has: rows with our name are removed from requests.
        self.router = Router(f"wirelake-{secrets.token_hex(8)}")
        self.connections: list[RouteConnection] = []
        """The connections that have signed on, the oldest first."""
        self._calls: dict[int, _Routed] = {}
        self._queues: dict[_Caller, deque[_Routed]] = {}
        """Calls that wait for a connection. The first caller is the next to get one."""
        self._running: Counter[_Caller] = Counter()
        """How many connections the calls of each caller have."""
        self._next_number = 0
        self.tls = self.read_authorities()
        """The TLS context of the next connection; None without TLS."""
        self._dialling: asyncio.Task[None] | None = None
        self._may_be_short = asyncio.Event()
        """Set when another connection may be needed."""
        self._delays = _Doubling()
        self._retry_at = 0.0
        """Nothing is dialled before this time of the loop."""
        self._dial_failed = False

    def read_authorities(self) -> ssl.SSLContext | None:
        """Return a new TLS context with the authorities of the route; ConfigError."""
        if not self.settings.tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.settings.ca or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"esnp.routes: {self.settings.ca}: {error}") from error

    @property
    def unanswered(self) -> int:
        """The number of calls without a last reply."""
        return len(self._calls)

    def matches(self, rows: Sequence[Row]) -> bool:
        """Return whether a request with these rows takes this route."""
        where = address_from_pairs((row.kind, row.value) for row in rows if type(row) is Address)
        wanted = self.settings
        return (
            fnmatchcase(where.service or "", wanted.service)
            and fnmatchcase(where.host or "", wanted.host)
            and fnmatchcase(where.group or "", wanted.group)
        )

    # -- calls and events of callers ---------------------------------------------------------

    def forward_call(self, caller: _Caller, call: Call) -> HubError | None:
        """Forward a call when it is its turn; return why it is not accepted."""
        if self._dial_failed and not self.connections:
            return self._unreachable_error()
        # The same rule as for connections (`_next`): whoever has filled his part of the queue
        # leaves places to others.
        left = self.settings.queue - (len(self._calls) - self._running.total())
        if len(self._queues.get(caller, ())) >= left:
            return HubError("too_busy", f"too many calls wait for {self.settings.server}")
        number = self._number()
        late = HubError("failed", "no reply in time")
        timer = self.listener.hub.loop.call_later(self.settings.timeout_s, self._end, number, late)
        routed = self._calls[number] = _Routed(number, caller, call, timer)
        self._queues.setdefault(caller, deque()).append(routed)
        self._hand_out()
        return None

    def left(self, caller: _Caller) -> None:
        """Forget the calls of a caller that has disconnected, with their bytes."""
        for number in [each.number for each in self._calls.values() if each.caller is caller]:
            self._forget(number)
        self._hand_out()

    def forward_event(self, raw: bytes) -> None:
        """Send an event, if the server is reachable."""
        # An event has no reply, so it needs no connection of its own. All take the oldest, which
        # keeps their order; calls take it last.
        usable = (each for each in self.connections if each.open and not each.paused_since)
        connection = next(usable, None)
        if connection is None:
            self.listener.hub.counters.failed("esnp", "route_down")
            return
        try:
            connection.forward([self.router.forward_request(raw, self._number())])
        except (DecodeError, SessionError):
            self.listener.hub.counters.failed("esnp", "not_forwarded")

    def _number(self) -> int:
        while True:
            self._next_number = self._next_number % _MAX_CALL + 1
            if self._next_number not in self._calls:
                return self._next_number

    # -- turns -------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Assign waiting calls to idle connections."""
        while (routed := self._next()) is not None:
            connection = self._idle()
            if connection is None:
                self._may_be_short.set()
                return
            self._forward(routed, connection)

    def _next(self) -> _Routed | None:
        """Return the call whose turn it is."""
        # Callers take turns. A caller gets a further connection while it has fewer than are left:
        # at most half of all, the next one half of the rest, so that none can take them all.
        left = self.settings.connections - self._running.total()
        for caller, queue in self._queues.items():
            if self._running[caller] < left:
                return queue[0]
        return None

    def _idle(self) -> RouteConnection | None:
        """Return a connection that can take a call, the youngest first."""
        for each in reversed(self.connections):
            if each.routed is None and each.open and not each.paused_since:
                return each
        return None

    def _forward(self, routed: _Routed, connection: RouteConnection) -> None:
        self._leave_queue(routed)
        if queue := self._queues.pop(routed.caller, None):
            self._queues[routed.caller] = queue  # behind the other callers
        self._running[routed.caller] += 1
        routed.connection, connection.routed = connection, routed
        try:
            connection.forward(
                [self.router.forward_request(raw, routed.number) for raw in routed.call.raw]
            )
        except (DecodeError, SessionError) as error:
            self._end(routed.number, HubError("failed", f"cannot be forwarded: {error}"))

    def _leave_queue(self, routed: _Routed) -> None:
        queue = self._queues[routed.caller]
        queue.remove(routed)
        if not queue:
            del self._queues[routed.caller]

    # -- replies, and ends without one -------------------------------------------------------

    def reply(self, connection: RouteConnection, message: Message, raw: bytes) -> None:
        """Pass a reply of the server to the caller."""
        try:
            number, inner = self.router.forward_response(raw)
        except DecodeError:
            number = None
        routed = connection.routed
        if routed is None or number != routed.number:
            self.listener.hub.counters.failed("esnp", "unexpected_reply")
            return
        summary = summarize(message, self.listener.options.revision)
        seq = summary.seq
        last = summary.kind != "TRACE_INFO" and (summary.failed or seq is None or seq[0] == seq[1])
        if last:
            self._forget(routed.number, answered=True)
            self._hand_out()
        routed.caller.answer_routed(routed.call, inner, last=last, failed=summary.failed)

    def _end(self, number: int, error: HubError) -> None:
        """Answer a call with an error."""
        routed = self._forget(number)
        if routed is not None:
            routed.caller.answer(routed.call, error)
            self._hand_out()

    def _forget(self, number: int, *, answered: bool = False) -> _Routed | None:
        """Remove a call. Unless it is answered, its connection is closed."""
        routed = self._calls.pop(number, None)
        if routed is None:
            return None
        routed.timer.cancel()
        connection = routed.connection
        if connection is None:
            self._leave_queue(routed)
            return routed
        connection.routed = None
        self._running[routed.caller] -= 1
        if not self._running[routed.caller]:
            del self._running[routed.caller]
        if not answered and connection in self.connections:
            # The reply may still come, and the server may handle the next call only after this
            # one (bug 16 of section 7).
            self.connections.remove(connection)
            self._may_be_short.set()
            connection.end("call_abandoned")
        return routed

    # -- connections -------------------------------------------------------------------------

    def start(self) -> None:
        """Start dialling."""
        self._may_be_short.set()
        self._dialling = asyncio.ensure_future(self._dial_when_short())

    async def stop(self) -> None:
        """Stop dialling; open connections stay until the hub closes them."""
        task, self._dialling = self._dialling, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def joined(self, connection: RouteConnection) -> None:
        """Use a connection that has signed on."""
        self._dial_failed = False
        self._delays.succeeded()
        self.connections.append(connection)
        self._hand_out()

    def resumed(self) -> None:
        """Use a connection again whose server has read what was sent."""
        self._hand_out()

    def lost(self, connection: RouteConnection) -> None:
        """Answer the call of a connection that was lost with an error."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self._back_off()
        self._may_be_short.set()
        if connection.routed is not None:
            error = HubError("failed", f"{self.settings.server}: the connection was lost")
            self._end(connection.routed.number, error)

    @property
    def _is_short(self) -> bool:
        """Whether to dial: there is no connection, or a call waits that may have another one."""
        if not self.connections:
            return True
        if len(self.connections) >= self.settings.connections:
            return False
        return self._next() is not None and self._idle() is None

    async def _dial_when_short(self) -> None:
        # One at a time, with delays after failures: a server that refuses connections gets no
        # more attempts when more calls wait.
        loop = self.listener.hub.loop
        while True:
            await self._may_be_short.wait()
            self._may_be_short.clear()
            while self._is_short:
                if (delay_s := self._retry_at - loop.time()) > 0:
                    await asyncio.sleep(delay_s)
                    continue
                made = await dial(
                    lambda: RouteConnection(self.listener, self), *self.settings.address, self.tls
                )
                if made is None or not await made.signed_on:
                    self._unreachable()

    def _unreachable(self) -> None:
        """Wait before the next attempt; without a connection, calls fail at once."""
        self._dial_failed = True
        self._back_off()
        if not self.connections:
            for number in [each.number for queue in self._queues.values() for each in queue]:
                self._end(number, self._unreachable_error())

    def _unreachable_error(self) -> HubError:
        return HubError("failed", f"{self.settings.server} is not reachable")

    def _back_off(self) -> None:
        # Connections that are lost together are one failure.
        now = self.listener.hub.loop.time()
        if now >= self._retry_at:
            self._retry_at = now + self._delays.next_delay_s()


class RouteConnection(Connection):
    """A connection to the server of a route; it has one call at a time."""

    protocol: ClassVar[str] = "esnp"
    shares_sessions: ClassVar[bool] = True
    direction_in: ClassVar[Direction] = "s2c"
    direction_out: ClassVar[Direction] = "c2s"

    __slots__ = ("_auth_id", "route", "routed", "signed_on")

    listener: _Listener
    session: EsnpSession

    def __init__(self, listener: _Listener, route: Route):
        super().__init__(listener)
        self.route = route
        self.routed: _Routed | None = None
        """The call that it has; None while it is idle."""
        self.signed_on: asyncio.Future[bool] = self.hub.loop.create_future()
        """Whether it can be used, once that is known."""
        self._auth_id = 0

    def make_session(self, now: float) -> EsnpSession:
        """Return a session that passes messages on."""
        options = self.listener.options
        kept = SessionOptions(
            revision=options.revision, dialect=options.dialect, routes=True, idle_limit_s=None
        )
        return EsnpSession(Role.CLIENT, kept, now=now)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sign on, if the route has an id."""
        super().connection_made(transport)
        if not self.open or transport.is_closing():
            self._known(usable=False)
            return
        self.hub.table.end_half_open(self)
        settings = self.route.settings
        if not settings.id:
            self._known(usable=True)
            return
        self.sign_on_deadline = self.hub.loop.time() + self.hub.limits.auth_s
        self._auth_id = 1 + secrets.randbits(62)
        self.forward([self.session.encoded(_sign_on(settings, self._auth_id))])

    def _known(self, *, usable: bool) -> None:
        self.sign_on_deadline = 0.0
        if not self.signed_on.done():
            self.signed_on.set_result(usable)
            if usable:
                self.route.joined(self)

    def forward(self, messages: Sequence[bytes]) -> None:
        """Send messages unchanged."""
        for each in messages:
            self.session.forward(each)
        self.write(self.session.to_send())

    def resume_writing(self) -> None:
        """Resume sending when the server has caught up."""
        super().resume_writing()
        self.route.resumed()

    def on_event(self, event: Event) -> None:
        """Pass a reply to its caller."""
        if not isinstance(event, Forwarded):
            return
        if self.signed_on.done():
            self.route.reply(self, event.message, event.raw)
        else:
            self._sign_on_answered(event.message)

    def _sign_on_answered(self, message: Message) -> None:
        error = error_text(message)
        if error is None:
            self._known(usable=True)
            return
        _log.error("route to %s: sign-on failed: %s", self.route.settings.server, error)
        self.session.close("auth_failed")

    def on_closed(self) -> None:
        """Fail the call in flight, and let the route dial again."""
        self._known(usable=False)
        self.route.lost(self)

    def close_session(self, reason: str) -> None:
        """Close the session."""
        self.session.close(reason)

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Do nothing: a route has no client."""

    @property
    def may_receive(self) -> bool:
        """Always false."""
        return False


def _sign_on(settings: EsnpRoute, number: int) -> Message:
    try:
        token = read_secret(settings.token_file).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        _log.error("route to %s: cannot read the token: %s", settings.server, error)
        token = ""
    rows: list[Any] = [
        Flag(value=FlagType.REQUEST),
        MessageId(value=number),
        Address(kind=AddressKind.SERVICE, value=HUB_SERVICE),
        Address(kind=AddressKind.OP, value=AUTH.name),
        *data_rows({"id": settings.id, "token": token}),
    ]
    return Message(rows=tuple(rows))
