"""What joins a protocol to the hub and to the client: its `Binding`.

A `Binding` is data. It names the hub's listener and the client's connection as "module:attribute",
so that a client imports no server and a reader of captures neither. The protocol names its binding
in the same way, and the entry point `wirelake.protocols` names the protocol. No other file refers
to it, so a new protocol changes none of ours.

    # thermo/layout.py
    PROTOCOL = Protocol(name="thermo", ..., binding="thermo.binding:BINDING")

    # thermo/binding.py
    class ThermoSettings(ListenerSettings, frozen=True, kw_only=True):
        port: int = PROTOCOL.port

    BINDING = Binding(
        settings=ThermoSettings,
        listener="thermo.listener:ThermoListener",
        client="thermo.client:ThermoConnection",
        addressing="names",
    )

The hub then reads a table `[thermo]` of hub.toml into `ThermoSettings` and opens the listener; the
client dials `thermo://host:port` and, inside TLS, `thermos://host:port`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from .hub_calls import BUSY_CODES

__all__ = [
    "TLS_EXAMPLE",
    "Addressing",
    "Auth",
    "Binding",
    "IdleSeconds",
    "ListenerSettings",
    "Table",
    "TlsSettings",
    "is_loopback",
]

Auth: TypeAlias = Literal["token", "none"]
"""How a connection authenticates: with a token, or not at all."""
Addressing: TypeAlias = Literal["names", "numbers", "none"]
"""How a call names its service: `service/op`, a number, or not at all (no calls)."""

IdleSeconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""How long a connection may be silent before it is closed; 0: any time."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of hub.toml. A field's docstring is its comment in the file."""

    examples: ClassVar[Mapping[str, str]] = {}
    """Values in TOML of keys whose default shows nothing, for the file of `wirelake hub init`."""

    def check(self, table: str) -> None:
        """Raise ValueError when the settings conflict; `table` is their name in the file."""


class TlsSettings(Table, frozen=True, kw_only=True):
    """Certificate files; read again on SIGHUP."""

    certificate: str
    """A file with the certificate and its chain, PEM."""
    key: str
    """A file with the private key, PEM."""
    client_ca: str = ""
    """A file with the authorities of client certificates; empty requires no client certificate."""


TLS_EXAMPLE: Final[Mapping[str, str]] = {"tls": '{ certificate = "cert.pem", key = "key.pem" }'}
"""The example of a key `tls` (`Table.examples`)."""


class ListenerSettings(Table, frozen=True, kw_only=True):
    """What every listener has; a protocol's own settings derive from it."""

    examples: ClassVar[Mapping[str, str]] = TLS_EXAMPLE

    enabled: bool = True
    """Whether to listen."""
    host: str | tuple[str, ...] = "127.0.0.1"
    """Where to listen: an address or several, IPv4 or IPv6."""
    port: int = 0
    """The port; 0 chooses a free one."""
    tls: TlsSettings | None = None
    """Certificates, to serve the protocol inside TLS."""

    def check(self, table: str) -> None:
        """Raise ValueError when the settings are unsafe; `table` is their name in the file."""
        auth: Auth = getattr(self, "auth", "token")
        if self.enabled and auth == "none" and not is_loopback(self.host):
            raise ValueError(
                f'{table}.auth: "none" is allowed on loopback addresses only; '
                'set auth = "token", or host = "127.0.0.1"'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What hub, client and command line need to know about a protocol."""

    settings: type[ListenerSettings]
    """The table of hub.toml that has the protocol's name. Its default port is the protocol's."""
    listener: str
    """As "module:attribute", the factory of the hub's listener, called with the hub and the
    settings: a subclass of `wirelake.hub.net.listener.Listener`, or a function that returns one."""
    client: str | None = None
    """As "module:attribute", the client's connection, a subclass of
    `wirelake.client.connection.ClientConnection`; None when clients cannot dial the protocol."""
    client_options: frozenset[str] = frozenset()
    """Options of `wirelake.client.connect` that only some protocols have."""
    addressing: Addressing = "names"
    """How a call names its service."""
    max_number: int = (1 << 32) - 1
    """The largest service number, with `addressing="numbers"`."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """The number on the wire of each error code of the hub (`wirelake.hub.errors`), for protocols
    that send a number. What is not listed is sent as `internal`."""
    serves: bool = False
    """Whether a hub can send requests to a peer, so that processes may offer services over it."""
    inbox: bool = False
    """Whether the protocol has acknowledgements and sign-on of its own: every notification is
    acknowledged, and signing on is enough to receive the stored ones (comet)."""
    max_content_bytes: int | None = None
    """The largest content of a notification that fits a frame; None when every content that the hub
    accepts fits. While the hub has a listener of the protocol, larger content is refused when it is
    published, for all clients."""
    topics_fit: Callable[[Sequence[str]], bool] | None = None
    """Returns whether the protocol can send these topics of one client; None when it always can.
    While the hub has a listener of the protocol, other topics are refused for all clients."""
    tables: Mapping[str, type[Table]] = field(default_factory=dict)
    """Further tables of hub.toml, by name. The listener finds one with `Config.table`."""
    demo_number: int | None = None
    """The number of the first service of a demo hub; the others follow."""
    demo_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a demo hub (`wirelake hub --demo`)."""

    def __post_init__(self) -> None:
        if self.errors and "internal" not in self.errors:
            raise ValueError("Binding.errors: 'internal' is missing; it stands for all other codes")

    def error_number(self, code: str) -> int:
        """Return the number on the wire of an error code of the hub."""
        # A code that a newer hub adds is sent as `internal` by protocols that do not list it yet.
        number = self.errors.get(code)
        return self.errors["internal"] if number is None else number

    def is_busy(self, number: int | str) -> bool:
        """Return whether a number on the wire means busy, and nothing else (`BUSY_CODES`)."""
        others = {each for code, each in self.errors.items() if code not in BUSY_CODES}
        return number in {*self.errors.values()} - others


def is_loopback(host: str | tuple[str, ...]) -> bool:
    """Return whether these addresses can be reached from this machine only."""
    # A host name is not resolved: what it resolves to may change after the check. Only the literal
    # `localhost` counts as loopback.
    for each in (host,) if isinstance(host, str) else host:
        try:
            if not ipaddress.ip_address(each).is_loopback:
                return False
        except ValueError:
            if each != "localhost":
                return False
    return True
