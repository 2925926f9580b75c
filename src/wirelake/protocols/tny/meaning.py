"""What tny messages and relay packets mean."""

from __future__ import annotations

from wirelake.wire.meaning import (
    At,
    First,
    If,
    Is,
    Join,
    Meaning,
    Name,
    Named,
    Text,
    Values,
)

__all__ = ["MEANING", "RELAY_MEANING"]

_MODE = Values(At("message.mode"), {0: "request", 1: "response", 2: "push"})
_IS_RESPONSE = Is(At("message.mode"), 1)
_SUCCESS = 100

MEANING = Meaning(
    kind=First(
        _MODE,
        Named({"ping": "heartbeat", "pong": "heartbeat"}, "sealed"),
    ),
    name=First(_MODE, Name()),
    message_id=At("message.id"),
    reply_to=If(_IS_RESPONSE, At("message.to_message")),
    target=Text(At("message.protocol")),
    status=If(
        _IS_RESPONSE,
        Values(At("message.code"), {_SUCCESS: "ok"}, digits=True),
    ),
    body=("message.body",),
    transformed=("waste", "encrypt", "verify"),
)
"""How the columns of `messages` are found, for packets and for messages in tunnels."""

_TUNNELS = (
    "tunnel_connect",
    "tunnel_connected",
    "tunnel_disconnect",
    "tunnel_switch_link",
    "tunnel_relay",
)

RELAY_MEANING = Meaning(
    kind=Named(
        {"link_ping": "heartbeat", "link_pong": "heartbeat", "tunnel_relay": "relay"}, "control"
    ),
    message_id=At("id"),
    target=First(
        *(
            Join("/", Text(At(f"{name}.instance_id")), Text(At(f"{name}.tunnel_id")))
            for name in _TUNNELS
        )
    ),
    inner=("tunnel_relay.message", "tny"),
)
"""How the columns of `messages` are found, for packets of a link."""
