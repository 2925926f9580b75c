"""comet connections, both roles: the names that applications use (seed 004).

    server = ServerSession(server_key=X25519ServerKey(os.urandom(32)), now=now)
    client = ClientSession(now=now)
    client.send(Auth(client_id=..., token=...))

Every command has one reply; notifications come in between. State tables are in `server.py` and
`client.py`, what both ends share is in `endpoint.py`. The application checks tokens, knows topics
and inboxes, and decides when a notification is sent again: it gets `AuthRequested`, `Requested` and
`HeartbeatAnswered`.
"""

from __future__ import annotations

from .client import ClientSession
from .endpoint import (
    ANSWERS,
    REASONS,
    Authenticated,
    AuthRequested,
    HeartbeatAnswered,
    KeyExchanged,
    Notified,
    Replied,
    Requested,
)
from .server import ServerSession

__all__ = [
    "ANSWERS",
    "REASONS",
    "AuthRequested",
    "Authenticated",
    "ClientSession",
    "HeartbeatAnswered",
    "KeyExchanged",
    "Notified",
    "Replied",
    "Requested",
    "ServerSession",
]
