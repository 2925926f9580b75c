"""The tny relay on the server's side: gateways open links, and their users are tunnels on them.

A link does not authenticate itself. Access is restricted by the listen address, by `relay.allow` or
by client certificates; the configuration requires one of them.

A tunnel is a user of a gateway. To the hub it is a tny connection without a socket: it has a
client, subscriptions and calls like any other, and signs on like any client. Its messages travel
inside the packets of a link. A tunnel without a link is kept for a while (`LinkRegistry`,
`docs/decisions/tny.md`): nothing is pushed to it, and responses are lost, so that the user's call
times out.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from wirelake.protocols.hub_calls import NOTIFY_NUMBER
from wirelake.protocols.sansio import CLOSED, Event, Session, SessionError, Side
from wirelake.protocols.tny.binding import BINDING, RelaySettings
from wirelake.protocols.tny.layout import Message, Mode
from wirelake.protocols.tny.limits import RelayServerOptions
from wirelake.protocols.tny.message import ResultCode, closes, response_to
from wirelake.protocols.tny.relay_link import (
    LinkUp,
    Relayed,
    TunnelClosed,
    TunnelKey,
    TunnelLost,
    TunnelOpened,
    TunnelSwitched,
)
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink
from wirelake.protocols.tny.session import SYSTEM_PROTOCOL

from ..config import ConfigError
from ..errors import HubError
from ..net.acceptor import charged_address
from ..net.connection import Connection
from ..net.listener import Listener
from ..net.outbox import PendingFlush
from ..pubsub.notifications import Notification
from .tny import PushBodies, TnyEndpoint, epoch_ms, refusal_body

if TYPE_CHECKING:
    from ..net.context import HubContext

__all__ = ["LINK_IDLE_S", "RelayConnection", "RelayListener", "Tunnel", "address_text"]


def address_text(ip: bytes) -> str:
    """Return an address of 4 or 16 bytes as text; empty for anything else."""
    try:
        return str(ipaddress.ip_address(ip))
    except ValueError:
        return ""


class _TunnelState:
    """The session of a tunnel: only whether it is closed. The session of its link does the rest."""

    buffered: ClassVar[int] = 0
    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = "open"

    @property
    def closed(self) -> bool:
        """Whether the tunnel is closed."""
        return self.state == CLOSED


class Tunnel(TnyEndpoint):
    """One user behind a gateway."""

    __slots__ = ("_gateway", "_next_id", "key", "link")

    listener: RelayListener

    def __init__(
        self, listener: RelayListener, link: RelayConnection, key: TunnelKey, ip: bytes, port: int
    ):
        super().__init__(listener, listener.calls)
        self.key = key
        self.link: RelayConnection | None = link
        self.peer = (address_text(ip) or link.peer[0], port)
        self._gateway = link.charged_to
        self.charged_to = f"{charged_address(self.peer[0])} behind {self._gateway}"
        self.opened_ns = time.time_ns()
        self.session = _TunnelState()
        self._next_id = 1
        if listener.settings.auth == "token":
            self.sign_on_deadline = self.hub.loop.time() + self.hub.limits.auth_s

    def make_session(self, now: float) -> Session:  # noqa: ARG002
        """Raise: a tunnel uses the session of its link."""
        raise SessionError("bad_state", "a tunnel uses the session of its link")

    @property
    def held_bytes(self) -> int:
        """Bytes in running calls; the link has the others."""
        return self._running_bytes

    @property
    def gateway(self) -> str:
        """The address of the gateway that opened the tunnel."""
        return self._gateway

    def on_event(self, event: Event) -> None:
        """Do nothing: the link passes messages and changes to the methods below."""

    # -- called by the link ------------------------------------------------------------------

    def handle_message(self, message: Message, size: int) -> None:
        """Handle a message of the user; `size` is that of its packet."""
        self.in_bytes += size
        held = self._held_events
        if held is None:
            self._handle_message(message)
        elif len(held) < self.hub.limits.calls:
            # The link goes on for other users. It has been charged for the packet only until now.
            held.append(partial(self._handle_held, message, size))
            self._running_bytes += size
            self._charge_held()
        elif message.mode == Mode.REQUEST:
            refusal = HubError("too_busy", "too many requests behind a sign-on")
            self.answer(message, BINDING.error_number(refusal.code), refusal_body(refusal))

    def _handle_held(self, message: Message, size: int) -> None:
        self._running_bytes -= size
        self._charge_held()
        self._handle_message(message)

    def _handle_message(self, message: Message) -> None:
        if message.mode == Mode.REQUEST:
            self.handle_request(message)
        elif message.mode == Mode.PUSH:
            self.handle_push(message)

    def attach_link(self, link: RelayConnection) -> None:
        """Continue on this link."""
        # The new link may be slow, or the tunnel may have been held without one: delivery looks at
        # `may_receive` again, and pushes what was published meanwhile.
        self.link = link
        self.paused_since = link.paused_since
        self.hub.topics.regroup(self)

    def detach_link(self) -> None:
        """Continue without a link: it was lost."""
        self.link = None
        self.hub.topics.regroup(self)

    def on_closed_tunnel(self, reason: str, side: Side = Side.REMOTE) -> None:
        """Remove the tunnel from the hub."""
        if self.session.closed:
            return
        self.session.state = CLOSED
        self.link = None
        if not self.close_reason:
            self.close_reason, self.close_side = reason, side
        self._remove()

    # -- called by the hub -------------------------------------------------------------------

    def answer(
        self,
        request: Message,
        code: int,
        body: bytes | None,
        *,
        late: bool = False,  # noqa: ARG002 - a tunnel reads the clock each time
    ) -> None:
        """Send a response; one that is too large is replaced by an error."""
        error = self._send(self._response(request, code, body))
        if error == "too_large":
            refusal = HubError("too_large", "the response does not fit a packet")
            self._send(
                self._response(request, BINDING.error_number(refusal.code), refusal_body(refusal))
            )

    def refuse(self) -> None:
        """Send code 210, which closes."""
        self._send(self._push(SYSTEM_PROTOCOL, None, ResultCode.AUTH_FAILED))

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Push each as protocol 20."""
        for notification in notifications:
            body = self.listener.bodies.of(notification)
            error = self._send(self._push(NOTIFY_NUMBER, body, ResultCode.SUCCESS))
            if error:
                self.hub.counters.failed("tny", error)

    @property
    def may_receive(self) -> bool:
        """Whether the user has signed on and a link carries the tunnel."""
        return self.client is not None and self.link is not None and not self.paused_since

    def react(self) -> None:
        """Flush the link at the end of the turn: the tunnel has no socket."""
        if self.link is not None:
            self.listener.pending_flush.add(self.link)

    def end(self, reason: str) -> None:
        """Close the tunnel."""
        if self.session.closed:
            return
        self.close_reason, self.close_side = reason, Side.LOCAL
        if reason == "auth_timeout":
            self.refuse()
        else:
            self._disconnect(reason)

    def drop(self, reason: str) -> None:
        """Close the tunnel, and count it as dropped."""
        self.hub.counters.dropped(self.protocol, reason)
        self.close_reason, self.close_side = reason, Side.LOCAL
        self._disconnect(reason)

    def check_deadlines(self, now: float) -> None:
        """Close the tunnel unless its user signed on in time; the link checks other deadlines."""
        if self.client is None and self.sign_on_deadline and now > self.sign_on_deadline:
            self.end("auth_timeout")

    # -- writing -----------------------------------------------------------------------------

    def _response(self, request: Message, code: int, body: bytes | None) -> Message:
        return response_to(
            request,
            id=self._next_id,
            code=code,
            time=_now_ms(),
            upstream=self.listener.settings.dialect == "upstream",
            body=body,
        )

    def _push(self, protocol: int, body: bytes | None, code: int) -> Message:
        return Message(
            id=self._next_id,
            mode=Mode.PUSH,
            protocol=protocol,
            code=code,
            time=_now_ms(),
            body=body,
        )

    def _send(self, message: Message) -> str:
        """Pass a message to the link; return an error code, or an empty string."""
        link = self.link
        if link is None:
            return "connection_lost"
        # Many tunnels share one link, whose session counts the bytes of all.
        before = link.session.sent_bytes
        try:
            self.listener.registry.relay(self.key, message, self.hub.loop.time())
        except SessionError as error:
            return error.code
        # Message ids are numbered per tunnel, not per link: they go on when the tunnel is switched
        # to another link, and the user sees one sequence.
        self._next_id += 1
        self.out_bytes += link.session.sent_bytes - before
        self.listener.pending_flush.add(link)
        if closes(message.code):
            self._disconnect(f"code_{message.code}")
        return ""

    def _disconnect(self, reason: str) -> None:
        # The link is flushed after the disconnect, and the tunnel removed at once: the registry
        # does not report the end of a tunnel that was closed on this side.
        link = self.link
        with suppress(SessionError):
            self.listener.registry.disconnect(self.key, self.hub.loop.time())
        if link is not None:
            self.listener.pending_flush.add(link)
        self.listener.tunnels.pop(self.key, None)
        self.on_closed_tunnel(reason, Side.LOCAL)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


LINK_IDLE_S: Final = 30.0
"""How long a gateway may be silent: six of its heartbeats. Its tunnels then wait for another
link."""


class RelayConnection(Connection):
    """One link of a gateway."""

    protocol: ClassVar[str] = "relay"

    __slots__ = ()

    listener: RelayListener
    session: ServerLink

    def make_session(self, now: float) -> Session:
        """Return the server's end of the link."""
        return ServerLink(
            self.listener.registry, self.listener.options, epoch_ms=epoch_ms(now), now=now
        )

    def on_event(self, event: Event) -> None:
        """Open, switch and close tunnels, and pass their messages to them."""
        if isinstance(event, LinkUp):
            self.hub.table.end_half_open(self)
        elif isinstance(event, TunnelOpened):
            self._opened(event)
        elif isinstance(event, TunnelClosed):
            self.listener.closed(event)
        elif isinstance(event, Relayed | TunnelLost | TunnelSwitched):
            tunnel = self.listener.tunnels.get(event.key)
            if tunnel is not None:
                try:
                    self._pass_event(tunnel, event)
                except Exception:  # the link has the tunnels of other users
                    tunnel.failed()

    def _pass_event(self, tunnel: Tunnel, event: Relayed | TunnelLost | TunnelSwitched) -> None:
        if isinstance(event, Relayed):
            tunnel.handle_message(event.message, len(event.raw))
        elif isinstance(event, TunnelLost):
            tunnel.detach_link()
        else:
            tunnel.attach_link(self)

    def _opened(self, event: TunnelOpened) -> None:
        tunnel = Tunnel(self.listener, self, event.key, event.ip, event.port)
        # A tunnel counts as a connection from the address of its user behind this gateway: limits
        # per address hold there, too, and no gateway can use up those of other peers.
        if not self.hub.table.admit(tunnel):
            with suppress(SessionError):
                self.listener.registry.disconnect(event.key)
            return
        self.listener.tunnels[event.key] = tunnel
        if self.listener.settings.auth == "none":
            self.hub.authority.anonymous(tunnel)

    def _tunnels(self) -> list[Tunnel]:
        tunnels = self.listener.tunnels
        return [tunnels[key] for key in self.session.tunnels if key in tunnels]

    def pause_writing(self) -> None:
        """Stop pushing to the gateway's users while it reads too slowly."""
        # All tunnels of a link share its socket, so they are slow together.
        super().pause_writing()
        for tunnel in self._tunnels():
            tunnel.paused_since = self.paused_since
            self.hub.topics.fell_behind(tunnel)

    def resume_writing(self) -> None:
        """Resume pushing to the gateway's users when it has caught up."""
        super().resume_writing()
        for tunnel in self._tunnels():
            tunnel.paused_since = 0.0
            self.hub.topics.caught_up(tunnel)

    def close_session(self, reason: str) -> None:
        """Close only the link: the gateway switches its tunnels to another one."""
        self.session.close(reason, self.hub.loop.time())

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Do nothing: a link has no client, only its tunnels have."""

    @property
    def may_receive(self) -> bool:
        """Always false."""
        return False


class RelayListener(Listener):
    """The relay listener."""

    connection: type[Connection] = RelayConnection
    settings: RelaySettings

    def __init__(self, hub: HubContext, settings: RelaySettings):
        super().__init__(hub, settings)
        self.id = hub.table.new_id()
        """Its id in the deadline scan, which expires tunnels without a link."""
        self.options = RelayServerOptions(dialect=settings.dialect, idle_limit_s=LINK_IDLE_S)
        self.registry = LinkRegistry()
        self.tunnels: dict[TunnelKey, Tunnel] = {}
        self.calls = hub.calls
        self.bodies = PushBodies()
        self.pending_flush = PendingFlush(hub.outbox)
        self._allowed = _networks(settings.allow)

    def allows(self, address: str) -> bool:
        """Return whether gateways may connect from an address."""
        if not self._allowed:
            return True
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        # A socket that listens on both families reports IPv4 peers as ::ffff:a.b.c.d.
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in network for network in self._allowed)

    def accept(self, address: str) -> asyncio.Protocol | None:
        """Accept a gateway; refuse addresses that are not allowed, before a TLS handshake."""
        if not self.allows(address):
            self.hub.counters.refused["not_allowed"] += 1
            return None
        return super().accept(address)

    async def start(self) -> None:
        """Listen, and expire tunnels without a link."""
        await super().start()
        self.hub.deadlines.add(self)

    async def stop(self) -> None:
        """Stop listening; links stay open."""
        self.hub.deadlines.remove(self)
        await super().stop()

    def check_deadlines(self, now: float) -> None:
        """Expire tunnels without a link."""
        # The registry is shared by all links, so no connection's scan runs its timers.
        due = self.registry.next_timer()
        if due is None or due > now:
            return
        self.registry.on_timer(now)
        for event in self.registry.events():
            if isinstance(event, TunnelClosed):
                self.closed(event)

    def closed(self, event: TunnelClosed) -> None:
        """Remove a closed tunnel."""
        tunnel = self.tunnels.pop(event.key, None)
        if tunnel is not None:
            tunnel.on_closed_tunnel(event.reason)


def _networks(allow: Sequence[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    try:
        return [ipaddress.ip_network(each, strict=False) for each in allow]
    except ValueError as error:
        raise ConfigError(f"relay.allow: {error}; expected addresses or networks") from error
