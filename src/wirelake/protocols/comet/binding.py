"""The binding of comet: its table of hub.toml, its listener, client connection and error codes.

comet has no calls: it has its own commands for sign-on, topics and acknowledgements.
"""

from __future__ import annotations

from typing import Final, Literal

from ..binding import Binding, ListenerSettings
from ..hub_calls import NOTIFICATION_ID_BYTES
from .layout import ErrorCode
from .limits import Dialect, OnDuplicate, PushAfter, content_limit, topics_fit
from .protocol import PROTOCOL

__all__ = ["BINDING", "CometSettings"]


class CometSettings(ListenerSettings, frozen=True, kw_only=True):
    """comet."""

    port: int = PROTOCOL.port or 0
    dialect: Dialect = "seed"
    """The layout of notifications."""
    key: Literal["x25519", "rsa", "none"] = "x25519"
    """The key offered to clients, so that contents are sealed. `rsa` is for clients without X25519
    and has no forward secrecy."""
    static_key: str = ""
    """A file with a static X25519 key, 64 hex digits, that clients may pin."""
    rsa_key: str = ""
    """A file with the RSA private key of `key = "rsa"`: PKCS#8, PEM, 2048 bits or more."""
    legacy_hipush: bool = False
    """Offer the original's RSA-512 and DES, which protect nothing: for its own clients alone, with
    dialect hipush and an `rsa_key` of 512 bits."""
    require_encryption: bool = False
    """Refuse lists, and push nothing, before a key exchange."""
    push_after: PushAfter = "auth"
    """When pushes begin: after sign-on, or after the first list, like the original."""
    on_duplicate: OnDuplicate = "replace"
    """What happens when a client signs on a second time."""

    def check(self, table: str) -> None:
        """Check the settings; the key suites have requirements of their own."""
        ListenerSettings.check(self, table)
        if (self.key == "rsa") != bool(self.rsa_key):
            raise ValueError(f'{table}.rsa_key: expected a file with {table}.key = "rsa", only')
        if self.legacy_hipush and not (self.dialect == "hipush" and self.key == "rsa"):
            raise ValueError(
                f'{table}.legacy_hipush: requires dialect = "hipush" and key = "rsa" in [{table}]'
            )
        if self.require_encryption and self.key == "none":
            raise ValueError(f"{table}.require_encryption: requires {table}.key other than none")


BINDING: Final = Binding(
    settings=CometSettings,
    listener="wirelake.hub.listeners.comet:CometListener",
    client="wirelake.client.comet:CometConnection",
    client_options=frozenset({"dialect", "pinned", "allow_plaintext", "legacy_hipush"}),
    addressing="none",
    errors={
        "auth_required": int(ErrorCode.AUTH_REQUIRED),
        "auth_failed": int(ErrorCode.TOKEN_ILLEGAL),
        "bad_arguments": int(ErrorCode.BAD_ARGUMENTS),
        "conflict": int(ErrorCode.BAD_ARGUMENTS),
        "not_found": int(ErrorCode.BAD_ARGUMENTS),
        "forbidden": int(ErrorCode.BAD_ARGUMENTS),
        "too_large": int(ErrorCode.BAD_ARGUMENTS),
        "too_busy": int(ErrorCode.TOO_BUSY),
        "storage_full": int(ErrorCode.TOO_BUSY),
        "storage_failed": int(ErrorCode.SERVER_ERROR),
        "unavailable": int(ErrorCode.SERVER_ERROR),
        "lost": int(ErrorCode.SERVER_ERROR),
        "timeout": int(ErrorCode.SERVER_ERROR),
        "closing": int(ErrorCode.TOO_BUSY),
        "failed": int(ErrorCode.SERVER_ERROR),
        "internal": int(ErrorCode.SERVER_ERROR),
    },
    inbox=True,
    max_content_bytes=content_limit(NOTIFICATION_ID_BYTES, sealed=True, dialect="hipush"),
    topics_fit=topics_fit,
)
"""The binding of comet. Error codes are those of the document and of rule 22."""
