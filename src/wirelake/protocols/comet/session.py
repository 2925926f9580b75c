"""comet connections, both roles: the names that applications use (seed 004).

    server = ServerSession(server_key=X25519ServerKey(os.urandom(32)), now=now)
    client = ClientSession(now=now)
    client.send(Auth(client_id=..., token=...))

The document's dialogue is one question, one answer; notifications come in between. What each side
may say when is in `server.py` and `client.py`, what both share in `endpoint.py`. Whether a token is
right, which topics exist, what waits in an inbox and when it is sent again is the application's to
say: it gets `AuthRequested`, `Requested` and `Beat`.
"""

from __future__ import annotations

from .client import ClientSession
from .endpoint import (
    ANSWERS,
    REASONS,
    Authenticated,
    AuthRequested,
    Beat,
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
    "Beat",
    "ClientSession",
    "KeyExchanged",
    "Notified",
    "Replied",
    "Requested",
    "ServerSession",
]
