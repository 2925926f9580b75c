"""The binding of magline: its table of hub.toml, its listener, client and error numbers."""

from __future__ import annotations

from typing import Final, Literal

from ..binding import Auth, Binding, ListenerSettings
from .layout import ErrorNumber
from .protocol import PROTOCOL

__all__ = ["BINDING", "MaglineSettings"]


class MaglineSettings(ListenerSettings, frozen=True, kw_only=True):
    """magline."""

    port: int = PROTOCOL.port or 0
    auth: Auth = "token"
    """`token`: business command 10 comes first. `none`: no sign-on; loopback only."""
    anonymous: bool = False
    """Accept clients that do not know the server's key: no protection from a man in the middle."""
    static_key: str = ""
    """A file with the server's X25519 key, 64 hex digits; by default `magline.key` in the data
    directory, created when missing. Its public half is in `magline.pub`."""
    psk: tuple[str, ...] = ()
    """Files with shared keys, 64 hex digits each."""
    control_auth: Literal["prefer", "require"] = "prefer"
    """`require` refuses the document's PIN, PON and FIN without a tag; for clients that send it."""


BINDING: Final = Binding(
    settings=MaglineSettings,
    listener="wirelake.hub.listeners.magline:MaglineListener",
    client="wirelake.client.magline:MaglineConnection",
    client_options=frozenset({"pinned", "psk", "anonymous", "control_auth"}),
    addressing="numbers",
    errors={
        "auth_required": int(ErrorNumber.AUTH),
        "auth_failed": int(ErrorNumber.AUTH),
        "bad_arguments": int(ErrorNumber.BUSINESS),
        "conflict": int(ErrorNumber.BUSINESS),
        "not_found": int(ErrorNumber.NO_ROUTE),
        "forbidden": int(ErrorNumber.BUSINESS),
        "too_large": int(ErrorNumber.TOO_LARGE),
        "too_busy": int(ErrorNumber.BUSY),
        "storage_full": int(ErrorNumber.BUSY),
        "storage_failed": int(ErrorNumber.INTERNAL),
        "unavailable": int(ErrorNumber.NO_ROUTE),
        "lost": int(ErrorNumber.INTERNAL),
        "timeout": int(ErrorNumber.TIMEOUT),
        "closing": int(ErrorNumber.BUSY),
        "failed": int(ErrorNumber.BUSINESS),
        "internal": int(ErrorNumber.INTERNAL),
    },
    demo_number=0x1001,
    demo_settings={"anonymous": True},
)
"""The binding of magline."""
