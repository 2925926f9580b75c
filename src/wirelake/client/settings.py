"""Settings of a client, each default with its reason, and the URL of a server:
`protocol://host:port/target`, with an s after the protocol for TLS."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from wirelake.protocols import registry
from wirelake.protocols.binding import Binding
from wirelake.wire.errors import did_you_mean, invalid, unknown

from .errors import BadCall, BadOption

__all__ = [
    "Settings",
    "Where",
    "make_settings",
    "parse_where",
]

_KEY_BYTES: Final = 32
_BOUND: Final = ("pinned", "psk", "anonymous", "allow_plaintext", "dialect")
"""Options that only some protocols have; their bindings list them."""
_POSITIVE: Final = (
    *("backoff_s", "max_backoff_s", "connect_timeout_s", "sign_on_timeout_s"),
    *("timeout_s", "max_waiting", "heartbeat_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a client connects, and what it does when the connection is lost."""

    where: Where
    """The server."""
    id: str | None = None
    """The client id; None does not sign on, for hubs with `auth = "none"`."""
    token: str = field(default="", repr=False)
    """The client's token."""
    tls: ssl.SSLContext | None = None
    """How to verify the server; by default with the system's authorities, when the URL has TLS."""
    reconnect: bool = True
    """Whether to connect again when the connection is lost."""
    backoff_s: float = 0.1
    """The first delay before reconnecting. It doubles, and up to half of it is random, so that
    thousands of clients do not reconnect at once."""
    max_backoff_s: float = 30.0
    """The longest delay: after an outage all clients are back within this time."""
    connect_timeout_s: float = 10.0
    """For the TCP connection, TLS included."""
    sign_on_timeout_s: float = 15.0
    """For handshake and sign-on; a hub delays addresses with failures by up to four seconds."""
    timeout_s: float = 10.0
    """For a reply, and for a connection to send on, unless a call has its own."""
    heartbeat_s: float | None = None
    """Heartbeat interval; None is the protocol's own. ESNP has no heartbeat."""
    dialect: str | None = None
    """The protocol's dialect; None is the document's."""
    pinned: bytes | None = None
    """The server's public key, 32 bytes or 64 hex digits: magline and comet."""
    psk: bytes | None = field(default=None, repr=False)
    """A pre-shared key, 32 bytes or 64 hex digits: magline."""
    anonymous: bool = False
    """Accept any magline server: protects from eavesdroppers, not from a man in the middle."""
    allow_plaintext: bool | None = None
    """Accept a comet server without a key. None accepts it inside TLS only."""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)  # keys may be among them
    """Options that the protocol's binding names and that are not fields here."""
    max_waiting: int = 1_000
    """Queued notifications beyond which the socket is not read."""

    def __post_init__(self) -> None:
        for name in ("pinned", "psk"):
            value = _key(name, getattr(self, name))
            object.__setattr__(self, name, value)
        for name in _POSITIVE:
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise _not_positive(name, getattr(self, name))
        self._check_protocol()
        if self.pinned is not None and self.allow_plaintext:
            raise BadOption(
                lambda name: f"{name('pinned')} conflicts with {name('allow_plaintext')}"
            )
        if self.where.tls and self.tls is None:
            object.__setattr__(self, "tls", ssl.create_default_context())

    def _check_protocol(self) -> None:
        """Raise BadCall for options that the protocol does not have."""
        # Ignoring one could be dangerous: `pinned` with a protocol that has no keys would look like
        # a verified server.
        protocol = self.where.protocol
        accepted = registry.binding(protocol).client_options
        for name in (*_BOUND, *self.extra):
            given = name in self.extra or getattr(self, name) not in (None, False)
            if given and name not in accepted:
                raise _unknown_option(name, protocol, sorted(accepted))

    @property
    def plaintext(self) -> bool:
        """Whether contents may arrive unsealed (comet)."""
        if self.allow_plaintext is not None:
            return self.allow_plaintext
        return self.tls is not None and self.pinned is None


def make_settings(url: str, **options: Any) -> Settings:
    """Return the settings of a URL and options; BadCall for an unknown option."""
    where = parse_where(url)
    own = [each.name for each in fields(Settings) if each.name not in ("where", "extra")]
    extra = {name: value for name, value in options.items() if name not in own}
    accepted = registry.binding(where.protocol).client_options
    surplus = sorted(set(extra) - accepted)
    if surplus:
        raise BadCall(unknown("option", surplus[0], [*own, *sorted(accepted - set(own))]))
    given = {name: value for name, value in options.items() if name in own}
    return Settings(where=where, extra=extra, **given)


def _not_positive(option: str, value: object) -> BadOption:
    return BadOption(lambda name: invalid(name(option), value, "more than 0"))


def _unknown_option(option: str, protocol: str, accepted: list[str]) -> BadOption:
    return BadOption(lambda name: unknown("option", name(option), map(name, accepted), of=protocol))


def _key(option: str, value: bytes | str | None) -> bytes | None:
    """Return a key, given as bytes or as hexadecimal text."""
    if value is None:
        return None
    try:
        key = bytes.fromhex(value.strip()) if isinstance(value, str) else bytes(value)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        expected = f"expected {_KEY_BYTES} bytes or {2 * _KEY_BYTES} hexadecimal digits"
        raise BadOption(lambda name: f"{name(option)}: {expected}")
    return key


# -- URLs ----------------------------------------------------------------------------------------


class Where(NamedTuple):
    """A server, and a target on it."""

    protocol: str
    tls: bool
    host: str
    port: int
    target: str = ""
    """Path and query as written: a service and operation, a number, or nothing."""

    @property
    def place(self) -> str:
        """Host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_where(url: str) -> Where:
    """Parse a URL; BadCall for an invalid one."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadCall(f"{url}: invalid port or address; expected PROTOCOL://HOST:PORT") from error
    found = _scheme(parts.scheme)
    if found is None:
        bound = registry.all_bindings()[0].items()
        names = [name for name, binding in bound if binding.client is not None]
        expected = ", ".join(f"{name}://, {name}s://" for name in names)
        similar = did_you_mean(parts.scheme, names) if parts.scheme else ""
        raise BadCall(f"{url}: expected a URL with one of {expected}{similar}")
    if port == 0:
        raise BadCall(f"{url}: {invalid('port', port, '1-65535')}")
    if not parts.hostname:
        raise BadCall(f"{url}: missing host; expected {parts.scheme}://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        # They would end up in logs and in the list of processes.
        raise BadOption(
            lambda name: (
                f"credentials in a URL are not supported; use {name('id')} and {name('token')}"
            )
        )
    protocol, tls, binding = found
    # As written: the protocol decodes its own targets, and a second decoding would change them.
    target = parts.path.strip("/") + (f"?{parts.query}" if parts.query else "")
    default = binding.settings().port
    return Where(protocol, tls, parts.hostname, default if port is None else port, target)


def _scheme(scheme: str) -> tuple[str, bool, Binding] | None:
    """Return protocol, TLS and binding of a scheme: `tny`, or `tnys` for TLS."""
    for name, tls in ((scheme, False), (scheme.removesuffix("s"), True)):
        if name in registry.names():
            try:
                binding = registry.binding(name)
            except registry.BrokenProtocolError as error:
                raise BadCall(str(error)) from error
            except registry.RegistryError:
                continue
            if binding.client is not None:
                return name, tls, binding
    return None
