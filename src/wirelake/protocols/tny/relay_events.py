"""What happens on relay links and their tunnels, as events of the link's session (§5).

Which service a gateway's tunnel belongs to is the link's to say (`GatewayLink.service`).
"""

from __future__ import annotations

from typing import NamedTuple

from ..sansio import Event
from .layout import Message

__all__ = [
    "LinkPinged",
    "LinkPonged",
    "LinkUp",
    "Relayed",
    "TunnelAnswered",
    "TunnelClosed",
    "TunnelKey",
    "TunnelLost",
    "TunnelOpened",
    "TunnelSwitched",
]


class TunnelKey(NamedTuple):
    """What identifies a tunnel: the gateway's instance, and its id of the user's connection."""

    instance_id: int
    tunnel_id: int


class LinkUp(Event, frozen=True, gc=False):
    """The link of this gateway is open for tunnels. The event does not contain the link's key."""

    service: str
    instance: int


class LinkPinged(Event, frozen=True, gc=False):
    """A LINK_PING came, and was answered."""


class LinkPonged(Event, frozen=True, gc=False):
    """A LINK_PONG came."""


class TunnelOpened(Event, frozen=True, gc=False):
    """Server: a user's tunnel is open. The address is 4 or 16 bytes, or none."""

    key: TunnelKey
    ip: bytes
    port: int


class TunnelAnswered(Event, frozen=True, gc=False):
    """Gateway: the server has opened the tunnel; messages need not wait for this."""

    key: TunnelKey


class TunnelClosed(Event, frozen=True, gc=False):
    """A tunnel is over: `disconnected` by the other end, `refused` by the server, `replaced` by a
    new one with its key, or `expired`, no link having come for it."""

    key: TunnelKey
    reason: str


class TunnelLost(Event, frozen=True, gc=False):
    """The tunnel's link is gone and no other carries it; it is kept, and may be switched."""

    key: TunnelKey


class TunnelSwitched(Event, frozen=True, gc=False):
    """The tunnel goes on over this link."""

    key: TunnelKey


class Relayed(Event, frozen=True, gc=False):
    """A message of a tunnel. `raw` is it as it came: relay that to hand it on unchanged."""

    key: TunnelKey
    message: Message
    raw: bytes
