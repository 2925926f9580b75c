"""The binding of ESNP: its table of hub.toml, its listener and client connection.

ESNP sends the text of an error; it has no error numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

import msgspec

from wirelake.wire.errors import invalid

from ..binding import TLS_EXAMPLE, Auth, Binding, IdleSeconds, ListenerSettings, Table
from .layout import Dialect
from .protocol import PROTOCOL

__all__ = ["BINDING", "EsnpRoute", "EsnpSettings"]


class EsnpRoute(Table, frozen=True, kw_only=True):
    """Another ESNP server, and the calls that it answers; `*` in a pattern matches anything."""

    server: str
    """Its address, as `host:port`."""
    service: str = "*"
    """Pattern of the SERVICE of calls; services of this hub come first."""
    host: str = "*"
    """Pattern of the HOST that calls name."""
    group: str = "*"
    """Pattern of the GROUP that calls name."""
    tls: bool = False
    """Whether to connect with TLS."""
    ca: str = ""
    """A file with the authorities of its certificate, PEM; by default the system's."""
    id: str = ""
    """The client id to sign on with; empty: do not sign on."""
    token_file: str = ""
    """A file with the token of that client."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 30.0
    """How long a call may take, with the time that it waits, before its caller gets an error."""
    connections: Annotated[int, msgspec.Meta(ge=1, le=1_024)] = 64
    """Maximum number of connections to it, dialled when calls need them. Each has one call at a
    time, so as many calls run at once; one caller gets at most half of several connections."""
    queue: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 256
    """Maximum number of calls that wait for a connection; one caller gets at most half of several
    places. Further calls are refused (`too_busy`)."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; ValueError for anything else."""
        host, separator, port = self.server.rpartition(":")
        if not separator or not host or not port.isdecimal() or not 0 < int(port) <= 0xFFFF:
            raise ValueError(invalid("server", self.server, "host:port"))
        return host.strip("[]"), int(port)


class EsnpSettings(ListenerSettings, frozen=True, kw_only=True):
    """ESNP, both revisions."""

    examples: ClassVar[Mapping[str, str]] = {
        **TLS_EXAMPLE,
        "routes": '[{ server = "10.0.0.8:9600", service = "billing" }]',
    }

    port: int = PROTOCOL.port or 0
    auth: Auth = "token"
    """`token`: a connection must call hub/auth first. `none`: no sign-on; loopback only."""
    dialect: Dialect = "seed"
    """How Map and List count their items; `go` for the original's Go programs."""
    revision: Literal["lines", "frames"] = "lines"
    """The revision of the document: row order, and the flag ASYNC."""
    strict: bool = False
    """Refuse messages that otherwise only cause warnings."""
    require_major: Annotated[int, msgspec.Meta(ge=-1, le=0xFF)] = -1
    """Answer ERROR to messages without a VERSION row of this major number; -1: accept all."""
    legacy_rows: bool = False
    """Read the cancelled rows TRACE, TRACE_RESP and MESSAGE_KIND as the flags that replaced them;
    with revision frames only."""
    idle_s: IdleSeconds = 0.0
    """Close after this time without a message; 0: never. The protocol has no heartbeat, so a
    silent subscriber is normal; `limits.keepalive_s` detects peers that have vanished."""
    routes: tuple[EsnpRoute, ...] = ()
    """Other servers for calls of services that this hub does not have: `[[esnp.routes]]`."""

    def check(self, table: str) -> None:
        """Check the settings; `legacy_rows` requires revision frames, and routes must be valid."""
        ListenerSettings.check(self, table)
        if self.legacy_rows and self.revision != "frames":
            raise ValueError(f'{table}.legacy_rows: requires {table}.revision = "frames"')
        for number, route in enumerate(self.routes):
            name = f"{table}.routes[{number}]"
            try:
                _ = route.address
            except ValueError as error:
                raise ValueError(f"{name}.server: {error}") from error
            if bool(route.id) != bool(route.token_file):
                raise ValueError(f"{name}: id and token_file belong together")


BINDING: Final = Binding(
    settings=EsnpSettings,
    listener="wirelake.hub.listeners.esnp:EsnpListener",
    client="wirelake.client.esnp:EsnpConnection",
    client_options=frozenset({"dialect", "revision", "strict", "version", "legacy_rows"}),
    addressing="names",
    serves=True,
)
"""The binding of ESNP."""
