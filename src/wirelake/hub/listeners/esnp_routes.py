"""Calls of ESNP clients that other ESNP servers answer: the routes of `hub.toml`.

A request whose service this hub does not have goes to the first route that matches its address,
with its bytes unchanged but for one SESSION_INFO row (`wirelake.protocols.esnp.routing`). The row
carries the number of the call, so that its replies, parts and trace reports find the caller
whatever ids two callers chose. The request stays open in the caller's session until its last reply:
order, limits and timeouts are those of a call of this hub. Events are forwarded and have no reply.

    client ── request ──▶ hub ── the same bytes + SESSION_INFO ──▶ the server of the route
    client ◀── reply ──── hub ◀── reply with that row ────────────
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

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
from wirelake.protocols.esnp.session import Call, EsnpSession, Passed
from wirelake.protocols.esnp.values import data_rows
from wirelake.protocols.hub_calls import AUTH, HUB_SERVICE
from wirelake.protocols.sansio import Event, Role, SessionError
from wirelake.wire.errors import DecodeError

from ..auth import read_secret
from ..config import ConfigError
from ..errors import HubError
from ..net.connection import Connection
from ..net.dialer import Dialer
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


class _Routed(NamedTuple):
    caller: _Caller
    call: Call
    timer: asyncio.TimerHandle


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
    """One route: its pattern, its connection, and the calls that wait for replies."""

    def __init__(self, listener: _Listener, settings: EsnpRoute):
        self.listener = listener
        self.settings = settings
        # A name that no other hub and no client has: rows with our name are removed from requests.
        self.router = Router(f"wirelake-{secrets.token_hex(8)}")
        self.connection: RouteConnection | None = None
        """The connection, once it has signed on."""
        self._calls: dict[int, _Routed] = {}
        self._next = 0
        self._dialer = self._make_dialer()

    def _make_dialer(self) -> Dialer[RouteConnection]:
        host, port = self.settings.address
        tls: ssl.SSLContext | None = None
        try:
            if self.settings.tls:
                tls = ssl.create_default_context(cafile=self.settings.ca or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"esnp.routes: {self.settings.ca}: {error}") from error
        return Dialer(
            lambda: RouteConnection(self.listener, self), host, port, delays=_Doubling(), tls=tls
        )

    def start(self) -> None:
        """Start dialling."""
        self._dialer.start()

    async def stop(self) -> None:
        """Stop dialling; an open connection stays until the hub closes it."""
        await self._dialer.stop()

    def matches(self, rows: Sequence[Row]) -> bool:
        """Return whether a request with these rows takes this route."""
        where = address_from_pairs((row.kind, row.value) for row in rows if type(row) is Address)
        wanted = self.settings
        return (
            fnmatchcase(where.service or "", wanted.service)
            and fnmatchcase(where.host or "", wanted.host)
            and fnmatchcase(where.group or "", wanted.group)
        )

    def forward_call(self, caller: _Caller, call: Call) -> HubError | None:
        """Send a call; return why it cannot be sent."""
        connection = self.connection
        if connection is None or not connection.open:
            return HubError("failed", f"{self.settings.server} is not reachable")
        number = self._number()
        try:
            parts = [self.router.forward_request(raw, number) for raw in call.raw]
            connection.forward(parts)
        except (DecodeError, SessionError) as error:
            return HubError("failed", f"cannot be forwarded: {error}")
        timer = self.listener.hub.loop.call_later(
            self.settings.timeout_s, self._end, number, HubError("failed", "no reply in time")
        )
        self._calls[number] = _Routed(caller, call, timer)
        return None

    def forward_event(self, raw: bytes) -> None:
        """Send an event, if the server is reachable."""
        connection = self.connection
        if connection is None or not connection.open:
            self.listener.hub.counters.failed("esnp", "route_down")
            return
        try:
            connection.forward([self.router.forward_request(raw, self._number())])
        except (DecodeError, SessionError):
            self.listener.hub.counters.failed("esnp", "not_forwarded")

    def reply(self, message: Message, raw: bytes) -> None:
        """Pass a reply of the server to the caller."""
        try:
            number, inner = self.router.forward_response(raw)
        except DecodeError:
            number = None
        found = None if number is None else self._calls.get(number)
        if found is None or number is None:
            self.listener.hub.counters.failed("esnp", "unexpected_reply")
            return
        summary = summarize(message, self.listener.options.revision)
        seq = summary.seq
        last = summary.kind != "TRACE_INFO" and (summary.failed or seq is None or seq[0] == seq[1])
        if last:
            self._forget(number)
        found.caller.answer_routed(found.call, inner, last=last, failed=summary.failed)

    def lost(self, connection: RouteConnection) -> None:
        """Answer all calls with an error: their replies are lost with the connection."""
        if connection is not self.connection:
            return
        self.connection = None
        error = HubError("failed", f"{self.settings.server}: the connection was lost")
        for number in tuple(self._calls):
            self._end(number, error)

    def _end(self, number: int, error: HubError) -> None:
        found = self._forget(number)
        if found is not None:
            found.caller.answer(found.call, error)

    def _forget(self, number: int) -> _Routed | None:
        found = self._calls.pop(number, None)
        if found is not None:
            found.timer.cancel()
        return found

    def _number(self) -> int:
        while True:
            self._next = self._next % _MAX_CALL + 1
            if self._next not in self._calls:
                return self._next


class RouteConnection(Connection):
    """The connection to the server of a route."""

    protocol: ClassVar[str] = "esnp"
    shares_sessions: ClassVar[bool] = True
    direction_in: ClassVar[Direction] = "s2c"
    direction_out: ClassVar[Direction] = "c2s"

    __slots__ = ("_auth_id", "ended", "route")

    listener: _Listener
    session: EsnpSession

    def __init__(self, listener: _Listener, route: Route):
        super().__init__(listener)
        self.route = route
        self.ended: asyncio.Future[None] = self.hub.loop.create_future()
        """Done when the connection is closed."""
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
        settings = self.route.settings
        if not self.open:
            return
        self.hub.table.end_half_open(self)
        if not settings.id:
            self.route.connection = self
            return
        self._auth_id = 1 + secrets.randbits(62)
        self.session.forward(self.session.encoded(_sign_on(settings, self._auth_id)))
        self.react()

    def forward(self, messages: Sequence[bytes]) -> None:
        """Send messages unchanged."""
        for each in messages:
            self.session.forward(each)
        self.react()

    def on_event(self, event: Event) -> None:
        """Pass a reply to its caller."""
        if not isinstance(event, Passed):
            return
        if self._auth_id and self.route.connection is not self:
            self._signed_on(event.message)
        else:
            self.route.reply(event.message, event.raw)

    def _signed_on(self, message: Message) -> None:
        error = error_text(message)
        if error is None:
            self.route.connection = self
            return
        _log.error("route to %s: sign-on failed: %s", self.route.settings.server, error)
        self.session.close("auth_failed")

    def on_closed(self) -> None:
        """Fail the calls in flight, and let the dialler try again."""
        self.route.lost(self)
        if not self.ended.done():
            self.ended.set_result(None)

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
