"""Settings of a client, each default with its reason, and the URL of its servers:
`protocol://host:port,host:port/target`, with an s after the protocol for TLS."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from wirelake.protocols import registry
from wirelake.protocols.binding import Binding
from wirelake.wire.errors import did_you_mean, invalid, unknown

from .errors import BadCall, BadOption

__all__ = [
    "Settings",
    "Where",
    "make_settings",
    "parse_addresses",
    "parse_where",
]

_KEY_BYTES: Final = 32
_BOUND: Final = ("pinned", "psk", "anonymous", "allow_plaintext", "dialect")
"""Options that only some protocols have; their bindings list them."""
_NO_OPTIONS: Final = frozenset({"where", "addresses", "extra"})
"""Fields that are not options of `connect`: the URL has them, or the binding."""
_POSITIVE: Final = (
    *("backoff_s", "max_backoff_s", "connect_timeout_s", "sign_on_timeout_s"),
    *("timeout_s", "max_waiting", "max_calls", "max_queued_calls", "heartbeat_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a client connects, and what it does when the connection is lost."""

    where: Where
    """The server; of several, the first."""
    addresses: tuple[Where, ...] = ()
    """All servers of the URL."""
    id: str | None = None
    """The client id; None does not sign on, for hubs with `auth = "none"`."""
    token: str = field(default="", repr=False)
    """The client's token."""
    tls: ssl.SSLContext | None = None
    """How to verify the server; by default with the system's authorities, when the URL has TLS."""
    reconnect: bool = True
    """Whether to connect again when the connection is lost."""
    shuffle: bool = True
    """Whether to try several addresses in random order, so that clients spread over the servers;
    otherwise in the order of the URL."""
    backoff_s: float = 0.1
    """The first delay before reconnecting, after each address was tried once. It doubles, and up to
    half of it is random, so that thousands of clients do not reconnect at once."""
    max_backoff_s: float = 30.0
    """The longest delay: after an outage all clients are back within this time."""
    connect_timeout_s: float = 10.0
    """For the TCP connection, TLS included; for each address."""
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
    max_calls: int = 256
    """Requests without a reply on one connection, as many as a hub accepts (`limits.calls`); more
    wait in order. Protocols with a lower limit of their own keep to that."""
    max_queued_calls: int = 10_000
    """Requests that wait because of `max_calls`; more fail with `Busy`. A program that is this far
    behind cannot catch up within its timeouts, and each takes some 3 KB."""

    def __post_init__(self) -> None:
        if not self.addresses:
            object.__setattr__(self, "addresses", (self.where,))
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

    def at(self, where: Where) -> Self:
        """Return the settings of a connection to one of the addresses."""
        return self if where == self.where else replace(self, where=where)

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
    addresses = parse_addresses(url)
    where = addresses[0]
    own = [each.name for each in fields(Settings) if each.name not in _NO_OPTIONS]
    extra = {name: value for name, value in options.items() if name not in own}
    accepted = registry.binding(where.protocol).client_options
    surplus = sorted(set(extra) - accepted)
    if surplus:
        raise BadCall(unknown("option", surplus[0], [*own, *sorted(accepted - set(own))]))
    given = {name: value for name, value in options.items() if name in own}
    return Settings(where=where, addresses=addresses, extra=extra, **given)


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


_SERVERS: Final = re.compile(r"([^:/?#]*://)([^/?#]*)(.*)", re.DOTALL)
"""Scheme, servers, and the rest of a URL."""


def parse_addresses(url: str) -> tuple[Where, ...]:
    """Parse a URL with one or more servers, as in `esnp://a:9600,b,[::1]:9601/test/add`; BadCall
    for an invalid one.

    A server without a port has the protocol's own. The target is that of all servers.
    """
    # Python's parser knows no lists: it gets a URL of each server.
    found = _SERVERS.fullmatch(url)
    if found is None or "," not in found[2]:
        return (_parse_one(url, url),)
    scheme, servers, rest = found.groups()
    several = tuple(_parse_one(f"{scheme}{each}{rest}", url) for each in servers.split(","))
    return tuple(dict.fromkeys(several))


def parse_where(url: str) -> Where:
    """Parse a URL; of several servers, return the first. BadCall for an invalid URL."""
    return parse_addresses(url)[0]


def _parse_one(one: str, url: str) -> Where:
    """Parse the URL of one server; errors show the whole URL."""
    try:
        parts = urlsplit(one)
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
