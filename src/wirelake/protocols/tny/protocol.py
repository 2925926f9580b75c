"""tny and its RelayPack as tools know them: layouts, meanings, dialects, ports."""

from __future__ import annotations

from wirelake.wire import Protocol

from .layout import (
    ForwardHeader,
    Message,
    OriginalMessageIdHeader,
    Packet,
    RelayPacket,
    TracingHeader,
)
from .meaning import MEANING, RELAY_MEANING

__all__ = ["PROTOCOL", "RELAY"]

PROTOCOL = Protocol(
    name="tny",
    title="tny: game server messages",
    frame=Packet,
    more=(Message, ForwardHeader, OriginalMessageIdHeader, TracingHeader),
    dialects=("seed", "upstream"),
    port=9610,
    binding="wirelake.protocols.tny.binding:BINDING",
    meaning=MEANING,
    opener="wirelake.protocols.tny.decryption:Opener",
)
"""Packets between a user and a server."""

RELAY = Protocol(
    name="relay",
    title="RelayPack: gateway links and tunnels of tny",
    frame=RelayPacket,
    dialects=("seed", "upstream"),
    port=9611,
    binding="wirelake.protocols.tny.binding:RELAY_BINDING",
    meaning=RELAY_MEANING,
)
"""Packets between a gateway and a server."""
