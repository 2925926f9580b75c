"""The tny relay, the game server's side: gateways dial in, and their users are tunnels.

A link does not authenticate itself. Access is restricted by the listen address, by `relay.allow` or
by client certificates; the configuration requires one of them. A tunnel signs on like any client
(`relay_tunnel.py`).
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from wirelake.protocols.sansio import (
    Event,
    Session,
    SessionError,
)
from wirelake.protocols.tny.binding import RelaySettings
from wirelake.protocols.tny.limits import RelayServerOptions
from wirelake.protocols.tny.relay import (
    LinkRegistry,
    LinkUp,
    Relayed,
    ServerLink,
    TunnelClosed,
    TunnelKey,
    TunnelLost,
    TunnelOpened,
    TunnelSwitched,
)

from ..config import ConfigError
from ..net.connection import Connection
from ..net.listener import Listener
from ..pubsub.notifications import Notification
from .gateway.pending_flush import PendingFlush
from .relay_tunnel import Tunnel
from .tny import PushBodies, epoch_ms

if TYPE_CHECKING:
    from ..net.context import HubContext

__all__ = ["LINK_IDLE_S", "RelayConnection", "RelayListener"]

LINK_IDLE_S: Final = 30.0
"""How long a gateway may send no heartbeat: six of them. Its tunnels then wait for another link."""


class RelayConnection(Connection):
    """One gateway's link."""

    protocol: ClassVar[str] = "relay"

    __slots__ = ()

    listener: RelayListener
    session: ServerLink

    def make_session(self, now: float) -> Session:
        """The server's end of the link."""
        return ServerLink(
            self.listener.registry, self.listener.options, epoch_ms=epoch_ms(now), now=now
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A gateway has come, or somebody who is none of ours."""
        super().connection_made(transport)
        if self.id in self.hub.connections and not self.listener.allows(self.peer[0]):
            self.drop("not_allowed")

    def on_event(self, event: Event) -> None:
        """Opens, feeds, moves and closes tunnels."""
        if isinstance(event, LinkUp):
            self.hub.table.known(self)
        elif isinstance(event, TunnelOpened):
            self._opened(event)
        elif isinstance(event, TunnelClosed):
            self.listener.closed(event)
        elif isinstance(event, Relayed | TunnelLost | TunnelSwitched):
            tunnel = self.listener.tunnels.get(event.key)
            if tunnel is not None:
                self._tell(tunnel, event)

    def _tell(self, tunnel: Tunnel, event: Relayed | TunnelLost | TunnelSwitched) -> None:
        if isinstance(event, Relayed):
            tunnel.take(event.message, len(event.raw))
        elif isinstance(event, TunnelLost):
            tunnel.lost()
        else:
            tunnel.bound(self)

    def _opened(self, event: TunnelOpened) -> None:
        tunnel = Tunnel(self.listener, self, event.key, event.ip, event.port)
        if not self.hub.table.admit(tunnel):
            with suppress(SessionError):
                self.listener.registry.disconnect(event.key)
            return
        self.listener.tunnels[event.key] = tunnel
        if self.listener.settings.auth == "none":
            self.hub.authority.anonymous(tunnel)

    def _carried(self) -> list[Tunnel]:
        tunnels = self.listener.tunnels
        return [tunnels[key] for key in self.session.tunnels if key in tunnels]

    def pause_writing(self) -> None:
        """The gateway reads too slowly: none of its users is pushed anything."""
        super().pause_writing()
        for tunnel in self._carried():
            tunnel.paused_since = self.paused_since
            self.hub.topics.fell_behind(tunnel)

    def resume_writing(self) -> None:
        """The gateway has caught up."""
        super().resume_writing()
        for tunnel in self._carried():
            tunnel.paused_since = 0.0
            self.hub.topics.caught_up(tunnel)

    def say_goodbye(self, reason: str) -> None:
        """Closes the link alone: the gateway takes its users elsewhere."""
        self.session.close(reason, self.hub.loop.time())

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Nothing: a link is nobody's, its tunnels are."""

    @property
    def may_receive(self) -> bool:
        """Never."""
        return False


class RelayListener(Listener):
    """Where gateways come in."""

    connection: type[Connection] = RelayConnection
    settings: RelaySettings

    def __init__(self, hub: HubContext, settings: RelaySettings):
        super().__init__(hub, settings)
        self.id = hub.table.new_id()
        """For the deadline scan: tunnels without a link are given up in time."""
        self.options = RelayServerOptions(dialect=settings.dialect, idle_limit_s=LINK_IDLE_S)
        self.registry = LinkRegistry()
        self.tunnels: dict[TunnelKey, Tunnel] = {}
        self.calls = hub.calls
        self.bodies = PushBodies()
        self.pending_flush = PendingFlush(hub.outbox)
        self._allowed = _networks(settings.allow)

    def allows(self, address: str) -> bool:
        """Whether a gateway may come from an address."""
        if not self._allowed:
            return True
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in network for network in self._allowed)

    async def start(self) -> None:
        """Begins to listen, and to look for tunnels that nobody wants any more."""
        await super().start()
        self.hub.deadlines.add(self)

    async def stop(self) -> None:
        """Listens no more; links stay."""
        self.hub.deadlines.remove(self)
        await super().stop()

    def check_deadlines(self, now: float) -> None:
        """Gives up tunnels that no link came for."""
        due = self.registry.next_timer()
        if due is None or due > now:
            return
        self.registry.on_timer(now)
        for event in self.registry.events():
            if isinstance(event, TunnelClosed):
                self.closed(event)

    def closed(self, event: TunnelClosed) -> None:
        """A tunnel is over."""
        tunnel = self.tunnels.pop(event.key, None)
        if tunnel is not None:
            tunnel.over(event.reason)


def _networks(allow: Sequence[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    try:
        return [ipaddress.ip_network(each, strict=False) for each in allow]
    except ValueError as error:
        raise ConfigError(f"relay.allow: {error}; wanted addresses or networks") from error
