"""The bindings of tny and its relay: tables of hub.toml, listeners, client, result codes.

The table `[gateway]` is tny's too: a gateway is another listener for the same clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import msgspec

from wirelake.wire.errors import invalid

from ..binding import Auth, Binding, IdleSeconds, ListenerSettings, Table, is_loopback
from .limits import SessionDialect
from .message import ResultCode
from .protocol import PROTOCOL, RELAY

__all__ = [
    "BINDING",
    "GATEWAY",
    "RELAY_BINDING",
    "Backend",
    "GatewaySettings",
    "RelaySettings",
    "TnySettings",
]

GATEWAY: Final = "gateway"
"""The table of hub.toml for `GatewaySettings`."""

_FAILED: Final = 500
"""The result code of errors that no code of the rules describes; it belongs to applications, so it
never closes the connection."""


class TnySettings(ListenerSettings, frozen=True, kw_only=True):
    """tny, for clients."""

    port: int = PROTOCOL.port or 0
    auth: Auth = "token"
    """`token`: a connection must call protocol 10 first. `none`: no sign-on; loopback only."""
    dialect: SessionDialect = "seed"
    """The form of ticks, headers, check codes and waste; `auto` follows the client's ticks."""
    strict: bool = True
    """False accepts what the original accepts: bytes after a message, packets of type 3."""
    idle_s: IdleSeconds = 180.0
    """Close after this time without a packet; 0: never."""
    security_keys: tuple[str, ...] = ()
    """Keys of the security options."""
    verify: bool = False
    """Require and write check codes."""
    encrypt: bool = False
    """Require and write obscured messages; needs keys. Obfuscation only."""
    waste: bool = False
    """Require and write waste bytes."""

    def check(self, table: str) -> None:
        """Check the settings; `encrypt` requires keys."""
        ListenerSettings.check(self, table)
        if not all(self.security_keys):
            raise ValueError(f"{table}.security_keys: expected strings that are not empty")
        if self.encrypt and not self.security_keys:
            raise ValueError(f"{table}.encrypt: needs at least one key in {table}.security_keys")


class RelaySettings(ListenerSettings, frozen=True, kw_only=True):
    """The tny relay: gateways connect here, and their tunnels are clients."""

    port: int = RELAY.port or 0
    auth: Auth = "token"
    """How a tunnel authenticates: like a tny client."""
    dialect: SessionDialect = "seed"
    """The form of packets."""
    allow: tuple[str, ...] = ()
    """Addresses or networks of gateways. A link is not authenticated, so off loopback either this
    or tls.client_ca is required."""

    def check(self, table: str) -> None:
        """Check the settings; off loopback, an allow-list or client certificates are required."""
        ListenerSettings.check(self, table)
        known = self.allow or (self.tls is not None and self.tls.client_ca)
        if self.enabled and not known and not is_loopback(self.host):
            raise ValueError(
                f"{table}.host: a link is not authenticated; off loopback set {table}.allow "
                f"to the addresses of your gateways, or {table}.tls.client_ca"
            )


class Backend(Table, frozen=True, kw_only=True):
    """The relay listener of a backend."""

    host: str
    """Its address."""
    port: int = RELAY.port or 0
    """Its port."""
    tls: bool = False
    """Whether to connect with TLS."""


class GatewaySettings(Table, frozen=True, kw_only=True):
    """A tny gateway: connections of the tny listener go through tunnels to backends."""

    examples: ClassVar[Mapping[str, str]] = {
        "backends": f'[{{ host = "10.0.0.7", port = {RELAY.port} }}]'
    }

    enabled: bool = False
    """Whether this hub is a gateway; its tny listener then relays and serves no calls."""
    service: str = "game"
    """The name of the service behind the links."""
    name: str = "gateway"
    """The name that this gateway sends when it opens a link."""
    instance: int = 1
    """A number that is unique among the gateways of these backends."""
    backends: tuple[Backend, ...] = ()
    """The backends."""
    service_type: Annotated[int, msgspec.Meta(ge=0, le=0x7FFF_FFFF)] = 0
    """The number of this gateway's kind of service, which recent backends of the original require;
    0: not sent."""
    links: int = 1
    """Links to each backend."""
    dialect: SessionDialect = "seed"
    """Which form packets have."""

    def check(self, table: str) -> None:
        """Check the settings; a gateway needs a backend."""
        for number, backend in enumerate(self.backends):
            if not 0 < backend.port <= 0xFFFF:
                key = f"{table}.backends[{number}].port"
                raise ValueError(f"{key}: {invalid('port', backend.port, '1-65535')}")
        if self.enabled and not self.backends:
            raise ValueError(f"{table}.backends: a gateway needs at least one backend")


ERRORS: Final = {
    "auth_required": int(ResultCode.AUTH_FAILED),
    "auth_failed": int(ResultCode.AUTH_FAILED),
    "bad_arguments": _FAILED,
    "conflict": _FAILED,
    "not_found": int(ResultCode.NO_SUCH_PROTOCOL),
    "forbidden": _FAILED,
    "too_large": _FAILED,
    "too_busy": _FAILED,
    "storage_full": _FAILED,
    "storage_failed": _FAILED,
    "unavailable": _FAILED,
    "lost": _FAILED,
    "timeout": _FAILED,
    "closing": _FAILED,
    "failed": _FAILED,
    "internal": _FAILED,
}

BINDING: Final = Binding(
    settings=TnySettings,
    listener="wirelake.hub.listeners.tny_gateway:make_listener",
    client="wirelake.client.tny:TnyConnection",
    client_options=frozenset(
        {"dialect", "strict", "access_id", "security_keys", "verify", "encrypt", "waste"}
    ),
    addressing="numbers",
    max_number=(1 << 31) - 1,
    errors=ERRORS,
    tables={GATEWAY: GatewaySettings},
    demo_number=1001,
)
"""The binding of tny."""

RELAY_BINDING: Final = Binding(
    settings=RelaySettings,
    listener="wirelake.hub.listeners.relay:RelayListener",
    addressing="none",
)
"""The binding of the relay. Gateways connect to it, clients do not: calls in tunnels are tny's."""
