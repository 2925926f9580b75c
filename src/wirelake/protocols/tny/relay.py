"""RelayPack sessions: links between gateways and game servers, and the tunnels on them (seed 002).

The parts, from the bottom up:

    GatewayLink, GatewayTunnels     the gateway's end of one connection, and its users' tunnels
                                    over all of them
    ServerLink, LinkRegistry        the game server's end of one, and all its links and tunnels
    ReconnectSchedule               when a gateway dials again

A packet on one link can touch another: a tunnel that is switched is announced on its new link.
After each call a shell fetches the events and bytes of every link that is `dirty`.

Implements §5, §8.7, §8.8 and the relay's part of §11 of the tny rules (`docs/decisions/tny.md`).
"""

from __future__ import annotations

from .limits import RECONNECT_DELAYS_S, RegistryLimits
from .relay_gateway import GatewayLink, GatewayTunnels
from .relay_link import (
    LinkPinged,
    LinkPonged,
    LinkUp,
    Relayed,
    RelayLink,
    TunnelAnswered,
    TunnelClosed,
    TunnelKey,
    TunnelLost,
    TunnelOpened,
    TunnelSwitched,
    link_id,
)
from .relay_server import LinkRegistry, ServerLink, ServerTunnel

__all__ = [
    "GatewayLink",
    "GatewayTunnels",
    "LinkPinged",
    "LinkPonged",
    "LinkRegistry",
    "LinkUp",
    "ReconnectSchedule",
    "RegistryLimits",
    "RelayLink",
    "Relayed",
    "ServerLink",
    "ServerTunnel",
    "TunnelAnswered",
    "TunnelClosed",
    "TunnelKey",
    "TunnelLost",
    "TunnelOpened",
    "TunnelSwitched",
    "link_id",
]


class ReconnectSchedule:
    """How long a gateway waits before each attempt to dial: on and on, until told to stop.

    Say `succeeded` when the connection is up, whether or not the link then opens.
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
