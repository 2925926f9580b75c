"""The protocols `tny` and `relay`: layout, meaning, dialects and port of each.

The meaning is what tables, filters and the hub know about a message. All numbers in it come from
the layout.
"""

from __future__ import annotations

from typing import get_args

from wirelake.wire import Protocol
from wirelake.wire.meaning import (
    At,
    First,
    If,
    Is,
    Join,
    Meaning,
    Name,
    Named,
    SignOn,
    TargetNames,
    Text,
    Tunnels,
    Values,
)

from ..hub_calls import AUTH, TARGET_NAMES, hub_arguments
from .layout import (
    SUCCESS,
    Dialect,
    ForwardHeader,
    Message,
    Mode,
    OriginalMessageIdHeader,
    Packet,
    RelayPacket,
    TracingHeader,
)

__all__ = [
    "MEANING",
    "PROTOCOL",
    "RELAY",
    "RELAY_MEANING",
]


# -- meaning ---------------------------------------------------------------------------------------


_MODE = Values(At("message.mode"), {int(each): each.name.lower() for each in Mode})
_IS_RESPONSE = Is(At("message.mode"), int(Mode.RESPONSE))

MEANING = Meaning(
    kind=First(
        _MODE,
        Named({"ping": "heartbeat", "pong": "heartbeat"}, "sealed"),
    ),
    name=First(_MODE, Name()),
    message_id=At("message.id"),
    reply_to=If(_IS_RESPONSE, At("message.to_message")),
    target=Text(At("message.protocol")),
    target_names=TargetNames(TARGET_NAMES),
    status=If(
        _IS_RESPONSE,
        Values(At("message.code"), {SUCCESS: "ok"}, digits=True),
    ),
    body=("message.body",),
    transformed=("waste", "encrypt", "verify"),
    sign_on=SignOn(targets=(str(AUTH.number),)),
    arguments=hub_arguments("numbers"),
    heartbeats=("ping",),
)
"""The meaning of packets, and of messages in tunnels."""

_TUNNELS = Tunnels(
    protocol="tny",
    carrier="tunnel_relay",
    message="message",
    instance_id="instance_id",
    tunnel_id="tunnel_id",
    connect="tunnel_connect",
    connected="tunnel_connected",
    disconnect="tunnel_disconnect",
    others=("tunnel_switch_link",),
    address="tunnel_connect.ip",
    port="tunnel_connect.port",
    accepted="tunnel_connected.result",
)

RELAY_MEANING = Meaning(
    kind=Named(
        {"link_ping": "heartbeat", "link_pong": "heartbeat", _TUNNELS.carrier: "relay"}, "control"
    ),
    message_id=At("id"),
    target=First(
        *(
            Join(
                "/",
                Text(At(f"{name}.{_TUNNELS.instance_id}")),
                Text(At(f"{name}.{_TUNNELS.tunnel_id}")),
            )
            for name in sorted(_TUNNELS.messages)
        )
    ),
    heartbeats=("link_ping",),
    tunnels=_TUNNELS,
)
"""The meaning of packets on a link between a gateway and a server."""


# -- protocols -------------------------------------------------------------------------------------


PROTOCOL = Protocol(
    name="tny",
    title="tny: game server messages",
    frame=Packet,
    more=(Message, ForwardHeader, OriginalMessageIdHeader, TracingHeader),
    dialects=get_args(Dialect),
    port=9610,
    binding="wirelake.protocols.tny.binding:BINDING",
    meaning=MEANING,
    opener="wirelake.protocols.tny.transform:Opener",
)
"""Packets between a user and a server."""

RELAY = Protocol(
    name="relay",
    title="RelayPack: gateway links and tunnels of tny",
    frame=RelayPacket,
    dialects=get_args(Dialect),
    port=9611,
    binding="wirelake.protocols.tny.binding:RELAY_BINDING",
    meaning=RELAY_MEANING,
)
"""Packets between a gateway and a server."""
