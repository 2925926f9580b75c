"""The gateway's end of relay links: `GatewayTunnels`, its users, and `GatewayLink`, one connection.

A user's connection has one tunnel to each service that it uses. A tunnel is bound to one link of
its service, chosen round robin among the open ones. When that link is lost, the tunnel is switched
to another; without one it waits for the next link of the service that opens (§6 of the tny rules).

`connect` and `relay` return the result code for the user: SUCCESS, or NO_LINK (225), with which the
shell answers the request; that code then closes the user's connection. `ReconnectSchedule` has the
delays between attempts to connect.
"""

from __future__ import annotations

from typing import ClassVar

from ..sansio import CLOSED, Role, SessionError, Side, Table
from .layout import (
    LinkOpen,
    LinkOpened,
    LinkPing,
    Message,
    RelayType,
    TunnelConnect,
    TunnelConnected,
    TunnelDisconnect,
    TunnelRelay,
    TunnelSwitchLink,
)
from .limits import GATEWAY_TUNNELS, RECONNECT_DELAYS_S, GatewayOptions
from .message import ResultCode
from .relay_link import (
    LinkUp,
    Relayed,
    RelayLink,
    TunnelAnswered,
    TunnelClosed,
    TunnelKey,
    TunnelLost,
    TunnelSwitched,
    link_id,
    receives,
)

__all__ = ["GatewayLink", "GatewayTunnels", "ReconnectSchedule"]


class GatewayTunnels:
    """The users' tunnels of one gateway instance. `max_tunnels` bounds them over all links and
    services, because the limit of a link does not count tunnels without a link."""

    def __init__(self, instance_id: int, *, max_tunnels: int = GATEWAY_TUNNELS):
        self.instance_id = instance_id
        self.max_tunnels = max_tunnels
        self._links: dict[str, list[GatewayLink]] = {}
        self._tunnels: dict[TunnelKey, dict[str, GatewayLink | None]] = {}
        self._count = 0
        self._waiting: dict[str, dict[TunnelKey, None]] = {}

    @property
    def tunnel_count(self) -> int:
        """Tunnels to all services, with a link or waiting for one."""
        return self._count

    @property
    def links(self) -> list[GatewayLink]:
        """All links to all services."""
        return [link for links in self._links.values() for link in links]

    def key(self, tunnel_id: int) -> TunnelKey:
        """Return the key of a user's tunnel."""
        return TunnelKey(self.instance_id, tunnel_id)

    def link_of(self, service: str, tunnel_id: int) -> GatewayLink | None:
        """Return the link that carries a tunnel; None without a link or without such a tunnel."""
        return self._tunnels.get(self.key(tunnel_id), {}).get(service)

    def has(self, service: str, key: TunnelKey) -> bool:
        """Return whether such a tunnel exists, with a link or without."""
        return service in self._tunnels.get(key, ())

    # -- the user's side ---------------------------------------------------------------------

    def connect(
        self,
        service: str,
        tunnel_id: int,
        *,
        ip: bytes = b"",
        port: int = 0,
        now: float | None = None,
    ) -> ResultCode:
        """Send TUNNEL_CONNECT for a user on a link of the service, replacing a tunnel of that
        id."""
        key = self.key(tunnel_id)
        if not self.has(service, key) and self._count >= self.max_tunnels:
            raise SessionError("too_busy", f"limit of {self.max_tunnels} tunnels reached")
        link = self.link_of(service, tunnel_id) or self._pick(service)
        if link is None:
            return ResultCode.NO_LINK
        link.send(TunnelConnect(ip=ip, port=port, **key._asdict()), now)
        self._bind(service, key, link)
        return ResultCode.SUCCESS

    def relay(
        self, service: str, tunnel_id: int, message: Message | bytes, now: float | None = None
    ) -> ResultCode:
        """Send a message of the user; there is no need to wait for TUNNEL_CONNECTED."""
        key = self.key(tunnel_id)
        if not self.has(service, key):
            raise SessionError("bad_state", f"no tunnel of user {tunnel_id} to {service}")
        link = self.link_of(service, tunnel_id) or self._rebind(service, key)
        if link is None:
            return ResultCode.NO_LINK
        link.relay(key, message, now)
        return ResultCode.SUCCESS

    def disconnect(self, tunnel_id: int, now: float | None = None) -> None:
        """Send TUNNEL_DISCONNECT to every service of a user that has disconnected."""
        key = self.key(tunnel_id)
        for service, link in tuple(self._tunnels.get(key, {}).items()):
            self._forget(service, key)
            if link is not None:
                link.send(TunnelDisconnect(**key._asdict()), now)

    # -- calls of the links ------------------------------------------------------------------

    def attach(self, link: GatewayLink) -> None:
        """Add a link whose connection is up."""
        self._links.setdefault(link.service, []).append(link)

    def link_up(self, link: GatewayLink) -> None:
        """Give an opened link the tunnels that wait for one."""
        for key in tuple(self._waiting.get(link.service, ())):
            if link.full:
                break
            self._switch(link.service, key, link)

    def link_lost(self, link: GatewayLink) -> None:
        """Move the tunnels of a lost link to others, or let them wait."""
        service = link.service
        links = self._links.get(service, [])
        if link in links:
            links.remove(link)
        if not links:
            self._links.pop(service, None)
        for key in sorted(link.tunnels):
            self._tunnels[key][service] = None
            self._waiting.setdefault(service, {})[key] = None
            if self._rebind(service, key) is None:
                link.report(TunnelLost(key))
        link.tunnels.clear()

    def on_connected(self, link: GatewayLink, found: TunnelConnected) -> None:
        """Handle TUNNEL_CONNECTED. A tunnel that we do not have is closed at the server: the user
        has disconnected, or the original's form of switching has created it again."""
        key = TunnelKey(found.instance_id, found.tunnel_id)
        if link.options.dialect == "auto" and not self.has(link.service, key):
            key = self._in_order(key)
        if not self.has(link.service, key):
            link.fault("unexpected_reply", "tunnel_connected", f"no tunnel {tuple(key)}")
            if found.result:
                link.put(TunnelDisconnect(**key._asdict()))
        elif found.result:
            link.report(TunnelAnswered(key))
        else:
            self._forget(link.service, key)
            link.report(TunnelClosed(key, "refused"))

    def _in_order(self, key: TunnelKey) -> TunnelKey:
        """Return the key with its ids in order: the original swaps them in this packet (§8.7)."""
        swapped = TunnelKey(key.tunnel_id, key.instance_id)
        return swapped if swapped.instance_id == self.instance_id else key

    def on_disconnect(self, link: GatewayLink, found: TunnelDisconnect) -> None:
        """Handle TUNNEL_DISCONNECT: the server closed a tunnel; both ends may have closed it.

        If it arrives over a link that the tunnel has left, the tunnel is also closed on its current
        link, where the original's form of switching may just have created it again.
        """
        key = TunnelKey(found.instance_id, found.tunnel_id)
        if not self.has(link.service, key):
            return
        bound = self._tunnels[key][link.service]
        self._forget(link.service, key)
        link.report(TunnelClosed(key, "disconnected"))
        if bound is not None and bound is not link:
            bound.put(TunnelDisconnect(**key._asdict()))

    def on_relay(self, link: GatewayLink, found: TunnelRelay, raw: bytes) -> None:
        """Handle TUNNEL_RELAY: a message for the user; dropped without such a tunnel."""
        key = TunnelKey(found.instance_id, found.tunnel_id)
        if self.has(link.service, key):
            link.report(Relayed(key, found.message, raw))
            return
        link.fault("bad_state", "tunnel_relay", f"no tunnel {tuple(key)}")
        link.put(TunnelDisconnect(**key._asdict()))

    # -- tunnels -----------------------------------------------------------------------------

    def _pick(self, service: str) -> GatewayLink | None:
        """Return the next link of a service that can take a tunnel, round robin."""
        # Round robin by moving the chosen link to the end: links come and go, so an index into the
        # list would favour some of them.
        links = self._links.get(service, [])
        for index, link in enumerate(links):
            if link.active and not link.full:
                links.append(links.pop(index))
                return link
        return None

    def _rebind(self, service: str, key: TunnelKey) -> GatewayLink | None:
        link = self._pick(service)
        if link is not None:
            self._switch(service, key, link)
        return link

    def _switch(self, service: str, key: TunnelKey, link: GatewayLink) -> None:
        link.put_switch(key)
        self._bind(service, key, link)
        link.report(TunnelSwitched(key))

    def _bind(self, service: str, key: TunnelKey, link: GatewayLink) -> None:
        self._count += not self.has(service, key)
        self._waiting.get(service, {}).pop(key, None)
        self._tunnels.setdefault(key, {})[service] = link
        link.tunnels.add(key)

    def _forget(self, service: str, key: TunnelKey) -> None:
        services = self._tunnels[key]
        link = services.pop(service)
        if not services:
            del self._tunnels[key]
        self._count -= 1
        self._waiting.get(service, {}).pop(key, None)
        if link is not None:
            link.tunnels.discard(key)


# -- the link --------------------------------------------------------------------------------------

_GATEWAY_TUNNELS = ("tunnel_connected", "tunnel_disconnect", "tunnel_relay")


class GatewayLink(RelayLink):
    """The gateway's end of one link. It sends LINK_OPEN when it is created: create it when the
    connection is up. `service` is the service at the other end; the key in `opening` is random and
    new for each link."""

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.CLIENT: {
            "new": {"send link_open": "opening"},
            "opening": receives("opening", receive_link_opened="open"),
            "open": receives("open", *_GATEWAY_TUNNELS, send_link_close="closing"),
            "closing": receives("closing", *_GATEWAY_TUNNELS),
            CLOSED: {},
        }
    }
    options: GatewayOptions

    def __init__(
        self,
        tunnels: GatewayTunnels,
        *,
        service: str,
        opening: LinkOpen,
        options: GatewayOptions | None = None,
        epoch_ms: int = 0,
        now: float = 0.0,
    ):
        super().__init__(Role.CLIENT, options or GatewayOptions(), epoch_ms=epoch_ms, now=now)
        self.service = service
        self.link_id = link_id(opening.service, opening.instance, opening.key)
        self.gateway = tunnels
        self._opening = opening
        self._handlers |= {
            LinkOpened: self._on_opened,
            TunnelConnected: lambda found: tunnels.on_connected(self, found),
            TunnelDisconnect: lambda found: tunnels.on_disconnect(self, found),
        }
        self.put(opening)
        self._must("send link_open")
        self.timers.set("open", now + self.options.open_timeout_s)
        tunnels.attach(self)

    def _on_opened(self, found: LinkOpened) -> None:
        if not found.result:
            self._close("refused", Side.REMOTE)
            return
        self._must("receive link_opened")
        self.timers.clear("open")
        self.timers.set("heartbeat", self.now + self.options.heartbeat_s)
        self._seen()
        self._emit(LinkUp(self._opening.service, self._opening.instance))
        self.gateway.link_up(self)

    def _on_relay(self, arguments: TunnelRelay, raw: bytes) -> None:
        self.gateway.on_relay(self, arguments, raw)

    def _lose_tunnels(self) -> None:
        self.gateway.link_lost(self)

    def put_switch(self, key: TunnelKey) -> None:
        """Move a tunnel to this link: TUNNEL_SWITCH_LINK, or in dialect upstream the original's
        form of it, a TUNNEL_CONNECT that has ids only (§8.8)."""
        if self.options.dialect == "upstream":
            ids = self._codec.write_tunnel_switch_link(TunnelSwitchLink(**key._asdict()))
            self.put_raw(RelayType.TUNNEL_CONNECT, ids)
        else:
            self.put(TunnelSwitchLink(**key._asdict()))

    def _timer(self, name: str) -> None:
        if name != "heartbeat":
            super()._timer(name)
            return
        self.put(LinkPing())
        self.timers.set("heartbeat", self.now + self.options.heartbeat_s)


class ReconnectSchedule:
    """The delays between a gateway's attempts to connect, without end.

    Call `succeeded` when the connection is up, whether or not the link then opens.
    """

    __slots__ = ("_attempt",)

    def __init__(self) -> None:
        self._attempt = 0

    def next_delay_s(self) -> int:
        """Return the delay before the next attempt."""
        delay = RECONNECT_DELAYS_S[self._attempt % len(RECONNECT_DELAYS_S)]
        self._attempt += 1
        return delay

    def succeeded(self) -> None:
        """Restart the schedule."""
        self._attempt = 0
