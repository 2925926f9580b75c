"""The binding of ESNP: its table of hub.toml, its listener and client connection.

ESNP sends the text of an error; it has no error numbers.
"""

from __future__ import annotations

from typing import Final, Literal

from ..binding import Auth, Binding, IdleSeconds, ListenerSettings
from .layout import Dialect
from .protocol import PROTOCOL

__all__ = ["BINDING", "EsnpSettings"]


class EsnpSettings(ListenerSettings, frozen=True, kw_only=True):
    """ESNP, both revisions."""

    port: int = PROTOCOL.port or 0
    auth: Auth = "token"
    """`token`: a connection must call hub/auth first. `none`: no sign-on; loopback only."""
    dialect: Dialect = "seed"
    """How Map and List count their items; `go` for the original's Go programs."""
    revision: Literal["lines", "frames"] = "lines"
    """The revision of the document: row order, and the flag ASYNC."""
    strict: bool = False
    """Refuse messages that otherwise only cause warnings."""
    idle_s: IdleSeconds = 0.0
    """Close after this time without a message; 0: never (the protocol has no heartbeat)."""


BINDING: Final = Binding(
    settings=EsnpSettings,
    listener="wirelake.hub.listeners.esnp:EsnpListener",
    client="wirelake.client.esnp:EsnpConnection",
    client_options=frozenset({"dialect"}),
    addressing="names",
)
"""The binding of ESNP."""
