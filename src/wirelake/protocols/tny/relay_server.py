"""The game server's end of relay links: `LinkRegistry`, shared by all, and `ServerLink` (§5, §6).

A tunnel is identified by its `TunnelKey`. It belongs to the gateway instance whose link opened it:
links of that instance may use it and take it over, for others it does not exist. When its link is
lost, it is kept for a while, so that the gateway can switch it to another link. A message for it on
another link switches it too, since packets of two links may overtake each other.

A second TUNNEL_CONNECT with the same key replaces the tunnel. The old one is closed without a
TUNNEL_DISCONNECT: that packet has the same two ids and would close the new one at the gateway.
"""

from __future__ import annotations

from typing import ClassVar

from ..sansio import CLOSED, Event, Role, SessionError, Side, Table
from .layout import (
    LinkOpen,
    LinkOpened,
    Message,
    TunnelConnect,
    TunnelConnected,
    TunnelDisconnect,
    TunnelRelay,
    TunnelSwitchLink,
)
from .limits import RegistryLimits, RelayServerOptions
from .relay_link import (
    LinkUp,
    Relayed,
    RelayLink,
    TunnelClosed,
    TunnelKey,
    TunnelLost,
    TunnelOpened,
    TunnelSwitched,
    link_id,
    receives,
)

__all__ = ["LinkRegistry", "ServerLink", "ServerTunnel"]


class ServerTunnel:
    """A user's tunnel."""

    __slots__ = ("ip", "key", "link", "lost_at", "owner", "port")

    def __init__(self, key: TunnelKey, owner: int, ip: bytes, port: int):
        self.key = key
        self.link: ServerLink | None = None
        self.owner = owner
        self.ip = ip
        self.port = port
        self.lost_at = 0.0


class LinkRegistry:
    """Links by their id, tunnels by their key."""

    def __init__(self, limits: RegistryLimits | None = None):
        self.limits = limits or RegistryLimits()
        self._links: dict[str, ServerLink] = {}
        self._tunnels: dict[TunnelKey, ServerTunnel] = {}
        self._lost: dict[TunnelKey, ServerTunnel] = {}
        self._events: list[Event] = []
        self._now = 0.0

    # -- calls of the shell ------------------------------------------------------------------

    @property
    def links(self) -> dict[str, ServerLink]:
        """The open links."""
        return dict(self._links)

    def tunnel(self, key: TunnelKey) -> ServerTunnel | None:
        """Return a tunnel, with a link or without; None if it does not exist."""
        return self._tunnels.get(key)

    @property
    def tunnel_count(self) -> int:
        """Tunnels, with a link or without."""
        return len(self._tunnels)

    def events(self) -> list[Event]:
        """Return the events of tunnels without a link since the last call."""
        events, self._events = self._events, []
        return events

    def next_timer(self) -> float | None:
        """Return when the first tunnel without a link expires."""
        # `_lost` is in the order of loss, and all tunnels are kept equally long: the first expires
        # first, without a scan or a heap over up to 262,144 tunnels.
        first = next(iter(self._lost.values()), None)
        return first.lost_at + self.limits.keep_s if first is not None else None

    def on_timer(self, now: float) -> None:
        """Close tunnels that have been without a link for too long."""
        self._now = max(self._now, now)
        while (due := self.next_timer()) is not None and due <= now:
            key = next(iter(self._lost))
            self.disconnect(key, now)
            self._events.append(TunnelClosed(key, "expired"))

    def relay(self, key: TunnelKey, message: Message | bytes, now: float | None = None) -> None:
        """Send a message to a tunnel's user; the bytes are in its link's `to_send`."""
        self._carried(key).relay(key, message, now)

    def disconnect(self, key: TunnelKey, now: float | None = None) -> None:
        """Close a tunnel; one without a link is announced on another link of its gateway."""
        tunnel = self._tunnels.get(key)
        if tunnel is None:
            raise SessionError("bad_state", f"no tunnel {tuple(key)}")
        link = tunnel.link or self._link_to(tunnel.owner)
        self._forget(tunnel)
        if link is not None:
            link.send(TunnelDisconnect(**key._asdict()), now)

    def _link_to(self, instance: int) -> ServerLink | None:
        """Return any open link to a gateway, for a tunnel that has lost its own."""
        links = self._links.values()
        return next((link for link in links if link.active and link.instance == instance), None)

    def _carried(self, key: TunnelKey) -> ServerLink:
        tunnel = self._tunnels.get(key)
        if tunnel is None:
            raise SessionError("bad_state", f"no tunnel {tuple(key)}")
        if tunnel.link is None:
            raise SessionError("connection_lost", f"no link for tunnel {tuple(key)}")
        return tunnel.link

    # -- calls of the links ------------------------------------------------------------------

    def claim(self, name: str, link: ServerLink) -> str | None:
        """Register a link; an error code when its id is taken, or there are too many."""
        if name in self._links:
            return "bad_state"
        if len(self._links) >= self.limits.max_links:
            return "too_busy"
        self._links[name] = link
        return None

    def link_lost(self, link: ServerLink) -> None:
        """Remove a lost link; its tunnels are kept."""
        if self._links.get(link.link_id) is link:
            del self._links[link.link_id]
        for key in sorted(link.tunnels):
            self._lose(self._tunnels[key], link)
        link.tunnels.clear()

    def on_connect(self, link: ServerLink, found: TunnelConnect) -> None:
        """Handle TUNNEL_CONNECT: open a tunnel, or replace one."""
        key = TunnelKey(found.instance_id, found.tunnel_id)
        old = self._tunnels.get(key)
        if old is not None and self._is_switch(link, old, found):
            self._switch(link, key)
            return
        problem = self._why_not(link, old)
        if problem:
            link.fault(problem, "tunnel_connect", f"tunnel {tuple(key)} cannot be opened here")
            self._answer(link, key, result=False)
            return
        if old is not None:
            self._forget(old)
            link.report(TunnelClosed(key, "replaced"))
        tunnel = self._tunnels[key] = ServerTunnel(key, link.instance, found.ip, found.port)
        link.report(TunnelOpened(key, found.ip, found.port))
        self._bind(tunnel, link)
        self._answer(link, key, result=True)

    def on_switch(self, link: ServerLink, found: TunnelSwitchLink) -> None:
        """Handle TUNNEL_SWITCH_LINK: move the tunnel to this link."""
        self._switch(link, TunnelKey(found.instance_id, found.tunnel_id))

    def on_disconnect(self, link: ServerLink, found: TunnelDisconnect) -> None:
        """Handle TUNNEL_DISCONNECT: the user has disconnected. An unknown tunnel is no error, since
        both ends may have closed it."""
        key = TunnelKey(found.instance_id, found.tunnel_id)
        tunnel = self._tunnels.get(key)
        if tunnel is None:
            return
        if tunnel.owner != link.instance:
            link.fault("bad_state", "tunnel_disconnect", f"no tunnel {tuple(key)}")
            return
        self._forget(tunnel)
        link.report(TunnelClosed(key, "disconnected"))

    def on_relay(self, link: ServerLink, found: TunnelRelay, raw: bytes) -> None:
        """Handle TUNNEL_RELAY: a message from the user; dropped without such a tunnel."""
        key = TunnelKey(found.instance_id, found.tunnel_id)
        tunnel = self._tunnels.get(key)
        # A tunnel of another gateway is answered like one that does not exist: a gateway must not
        # read or close the tunnels of another, nor learn that they exist.
        if tunnel is None or tunnel.owner != link.instance:
            link.fault("bad_state", "tunnel_relay", f"no tunnel {tuple(key)}")
            link.put(TunnelDisconnect(**key._asdict()))
            return
        if tunnel.link is None and link.active and not link.full:
            self._bind(tunnel, link)  # packets of two links may overtake each other
            link.report(TunnelSwitched(key))
        link.report(Relayed(key, found.message, raw))

    # -- tunnels -----------------------------------------------------------------------------

    def _is_switch(self, link: ServerLink, old: ServerTunnel, found: TunnelConnect) -> bool:
        """Return whether a TUNNEL_CONNECT is the original's form of switching: ids only (§8.8)."""
        ids_only = not found.ip and not found.port
        return ids_only and old.link is not link and link.options.dialect != "seed"

    def _why_not(self, link: ServerLink, old: ServerTunnel | None) -> str | None:
        """Return the error code if a tunnel cannot be opened on a link, else None."""
        if old is not None and old.owner != link.instance:
            return "bad_state"
        if link.full and (old is None or old.link is not link):
            return "too_busy"
        if old is None and len(self._tunnels) >= self.limits.max_tunnels:
            return "too_busy"
        return None

    def _switch(self, link: ServerLink, key: TunnelKey) -> None:
        tunnel = self._tunnels.get(key)
        problem = self._why_not(link, tunnel)
        if tunnel is None or problem:
            detail = f"tunnel {tuple(key)} cannot be switched here"
            link.fault(problem or "bad_state", "tunnel_switch_link", detail)
            self._answer(link, key, result=False)
            return
        link.report(TunnelSwitched(key))
        self._bind(tunnel, link)

    def _bind(self, tunnel: ServerTunnel, link: ServerLink) -> None:
        """Move a tunnel to a link; if that is closing, the gateway switches it immediately."""
        if tunnel.link is not None:
            tunnel.link.tunnels.discard(tunnel.key)
        if not link.active:
            self._lose(tunnel, link)
            return
        self._lost.pop(tunnel.key, None)
        tunnel.link = link
        link.tunnels.add(tunnel.key)

    def _lose(self, tunnel: ServerTunnel, link: ServerLink) -> None:
        self._now = max(self._now, link.now)  # monotonic over all links, so `_lost` stays in order
        tunnel.link, tunnel.lost_at = None, self._now
        self._lost.pop(tunnel.key, None)
        self._lost[tunnel.key] = tunnel
        link.report(TunnelLost(tunnel.key))

    def _forget(self, tunnel: ServerTunnel) -> None:
        del self._tunnels[tunnel.key]
        self._lost.pop(tunnel.key, None)
        if tunnel.link is not None:
            tunnel.link.tunnels.discard(tunnel.key)

    def _answer(self, link: ServerLink, key: TunnelKey, *, result: bool) -> None:
        link.put(TunnelConnected(result=result, **key._asdict()))


# -- the link --------------------------------------------------------------------------------------

_SERVER_TUNNELS = ("tunnel_connect", "tunnel_disconnect", "tunnel_switch_link", "tunnel_relay")


class ServerLink(RelayLink):
    """The game server's end of one link."""

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.SERVER: {
            "new": {"receive link_open": "open", "refuse": CLOSED, "time out": CLOSED},
            "open": receives("open", "link_open", *_SERVER_TUNNELS, send_link_close="closing"),
            "closing": receives("closing", *_SERVER_TUNNELS),
            CLOSED: {},
        }
    }
    options: RelayServerOptions

    def __init__(
        self,
        registry: LinkRegistry,
        options: RelayServerOptions | None = None,
        *,
        epoch_ms: int = 0,
        now: float = 0.0,
    ):
        super().__init__(Role.SERVER, options or RelayServerOptions(), epoch_ms=epoch_ms, now=now)
        self.registry = registry
        self.opening: LinkOpen | None = None
        """LINK_OPEN of the gateway; nothing in it is authenticated."""
        self._handlers |= {
            LinkOpen: self._on_open,
            TunnelConnect: lambda found: registry.on_connect(self, found),
            TunnelDisconnect: lambda found: registry.on_disconnect(self, found),
            TunnelSwitchLink: lambda found: registry.on_switch(self, found),
        }
        self.timers.set("open", now + self.options.open_timeout_s)

    @property
    def instance(self) -> int:
        """The gateway's instance id in LINK_OPEN."""
        return self.opening.instance if self.opening is not None else 0

    def _on_open(self, found: LinkOpen) -> None:
        name = link_id(found.service, found.instance, found.key)
        # A repeated LINK_OPEN with the same id is answered again; another id on an open connection
        # would take its tunnels along, and ends it.
        if self.active:
            if name != self.link_id:
                detail = "this connection already has a link"
                self._fail("bad_state", field="link_open", offset=self._packet_at, detail=detail)
                self._close("bad_state", Side.LOCAL, clean=False)
                return
            self.put(LinkOpened(result=True))
            return
        problem = self.registry.claim(name, self)
        if problem:
            detail = "the link cannot be registered"
            self._fail(problem, field="link_open", offset=self._packet_at, detail=detail)
            self.put(LinkOpened(result=False))
            self._close("refused", Side.LOCAL, clean=False)
            return
        self.link_id, self.opening = name, found
        self._must("receive link_open")
        self.timers.clear("open")
        self._seen()
        self.put(LinkOpened(result=True))
        self._emit(LinkUp(found.service, found.instance))

    def _on_relay(self, arguments: TunnelRelay, raw: bytes) -> None:
        self.registry.on_relay(self, arguments, raw)

    def _lose_tunnels(self) -> None:
        self.registry.link_lost(self)
