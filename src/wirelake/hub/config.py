"""The hub's configuration: one struct for each table of `hub.toml`, unknown keys refused.

The tables of a protocol are declared in its binding (`wirelake.protocols.binding.Binding`:
`settings` of its listener, and `tables`); those below are the hub's own. Each field's docstring is
its comment in the file that `wirelake hub init` writes, so the two cannot disagree.
Each limit has the reason for its default; limits of a protocol are in its package. Annotations
bound what would stop the hub or overflow; `Config` checks them, so that a configuration made in
Python is as safe as a file.

The file is read once: changed limits, rights, issuers and certificates are applied on SIGHUP
(`Hub.reload`), other changes need a restart.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import msgspec

from wirelake.protocols import registry
from wirelake.protocols.binding import (
    TLS_EXAMPLE,
    ListenerSettings,
    Table,
    TlsSettings,
    is_loopback,
)
from wirelake.protocols.hub_calls import ADMIN_PORT, is_client_topic
from wirelake.wire.errors import invalid, unknown

__all__ = [
    "ActiveLimits",
    "AdminSettings",
    "AuthSettings",
    "ClientRights",
    "Config",
    "ConfigError",
    "Issuer",
    "Limits",
    "RecordSettings",
    "RightsSettings",
    "StoreSettings",
    "bounds_text",
    "config_text",
    "inner_table",
    "load_config",
    "make_config",
    "meanings",
    "restart_keys",
    "tables",
    "with_reloaded",
]


_MAX_COUNT: Final = (1 << 31) - 1
"""The largest count and buffer size: both event loops pass some of them to C as an int."""
_MAX_PORT: Final = 0xFFFF
_MAX_SECONDS: Final = 1e9
"""The longest time: 31 years. A timer of an infinite one would overflow."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_MAX_COUNT)]
"""How many of something that the hub cannot do without."""
CountOrNone: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)]
"""How many of something that 0 turns off."""
PerSecond: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""A rate that 0 turns off."""
ByteCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1 << 50)]
"""How many bytes of memory or disk."""
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=_MAX_SECONDS)]
"""A time."""


class ConfigError(Exception):
    """An invalid configuration; the message names the key and what is expected."""


class AdminSettings(Table, frozen=True, kw_only=True):
    """The HTTP server: publish, health, metrics, monitoring."""

    examples: ClassVar[Mapping[str, str]] = TLS_EXAMPLE

    enabled: bool = True
    """Whether to listen."""
    host: str = "127.0.0.1"
    """Where to listen."""
    port: int = ADMIN_PORT
    """Which port; 0 takes any that is free."""
    hosts: tuple[str, ...] = ()
    """Names in the Host header of requests, in addition to localhost and addresses. Empty: on a
    loopback address no other name, elsewhere any name."""
    tls: TlsSettings | None = None
    """Certificates, to serve HTTPS."""
    connections: Count = 256
    """Open connections. For a further one, the hub closes one that waits for its peer, of the
    address with most. When all are in use, only health probes are answered."""
    request_s: Seconds = 10.0
    """How long the head of a request may take, and how long its body."""


class StoreSettings(Table, frozen=True, kw_only=True):
    """The database."""

    path: str = ""
    """The database: a SQLite file, or the URL of a PostgreSQL database, as in
    `postgresql://wirelake_hub@db.example.com/wirelake?sslmode=verify-full`. By default
    `hub.sqlite3` in the data directory. `--store` overrides it."""
    synchronous: Literal["full", "normal"] = "full"
    """`full`: a confirmed publish survives a power failure. `normal`: it survives kill -9; a power
    failure may lose the last moments. Only for SQLite."""
    check_s: Annotated[float, msgspec.Meta(ge=0, le=_MAX_SECONDS)] = 5.0
    """Maximum duration of the check of a SQLite database at the start; 0 for none. A gigabyte takes
    two to four seconds."""
    server: Annotated[int, msgspec.Meta(ge=0, le=0xFF)] = 0
    """A number from 0 to 255 that is part of every id; different for hubs that share clients."""


class RecordSettings(Table, frozen=True, kw_only=True):
    """Recording of the hub's traffic."""

    folder: str = ""
    """The folder of recordings; empty: no recording. `--record` overrides it."""
    source: str = "hub"
    """The name of this hub in recordings."""
    keys: bool = False
    """Also record the keys of connections, so that sealed contents can be read."""
    rotate_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 50)] = 64 << 20
    """Maximum size of a file."""
    rotate_s: Seconds = 300.0
    """Maximum duration of a file."""
    tables: bool = False
    """Keep live tables of calls, deliveries and connections; every message is decoded for them."""


class ClientRights(Table, frozen=True, kw_only=True):
    """Rights and rates of a group of clients. In patterns, `*` stands for any characters but `/`,
    and `**` for any characters."""

    ids: tuple[str, ...]
    """Patterns of client ids; `~**` for connections without sign-on."""
    publish: tuple[str, ...] = ("**",)
    """Patterns of topics that they may publish to."""
    publish_to: tuple[str, ...] = ("**",)
    """Patterns of ids of clients that they may publish to."""
    subscribe: tuple[str, ...] = ("**",)
    """Patterns of topics that they may subscribe to. Other subscriptions end, with their
    backlog."""
    call: tuple[str, ...] = ("**",)
    """Patterns of services that they may call, such as `test/*`."""
    serve: tuple[str, ...] = ()
    """Patterns of services that they may offer from processes of their own. Clients that no entry
    matches may offer none."""
    publishes_per_s: PerSecond = 0.0
    """Publishes of each client per second on average; bursts may be twice that. 0: any number."""
    calls_per_s: PerSecond = 0.0
    """Calls of services and changes of subscriptions, in the same way."""

    def check(self, key: str) -> None:
        """Raise ConfigError for a pattern that can match nothing."""
        for name in ("ids", "publish", "publish_to", "subscribe", "call", "serve"):
            for number, pattern in enumerate(getattr(self, name)):
                if not _is_pattern(name, pattern):
                    expected = _PATTERNS.get(name, "text that is not empty")
                    place = f"{key}.{name}[{number}]"
                    raise ConfigError(f"{place}: {invalid('pattern', pattern, expected)}")


_PATTERNS: Final = {
    "publish": "a topic that begins with @, with * or **",
    "subscribe": "a topic that begins with @, with * or **",
    "call": "service/op with * or **",
    "serve": "service/op with * or **",
}


def _is_pattern(name: str, pattern: str) -> bool:
    if name in ("publish", "subscribe"):
        # A wildcard at the beginning may stand for the @ of every topic.
        return is_client_topic(re.sub(r"^\*+", "@x", pattern).replace("*", "x"))
    if name in ("call", "serve"):
        return "/" in pattern or "**" in pattern
    return bool(pattern)


class RightsSettings(Table, frozen=True, kw_only=True):
    """Rights."""

    examples: ClassVar[Mapping[str, str]] = {
        "clients": '[{ ids = ["sensor-*"], publish = ["@measured/**"], call = [] }]'
    }

    clients: tuple[ClientRights, ...] = ()
    """Rights of clients: the first entry whose `ids` match applies. A client that no entry matches
    may do everything but offer services."""


SignatureAlgorithm: TypeAlias = Literal[
    "EdDSA", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512",
    "RS256", "RS384", "RS512", "HS256", "HS384", "HS512",
]  # fmt: skip
"""An algorithm of signed tokens. There is no `none`."""


class Issuer(Table, frozen=True, kw_only=True):
    """Who signs tokens (JWT), and how they are checked."""

    issuer: str
    """The claim `iss` of its tokens; each issuer once."""
    audience: str
    """What the claim `aud` must contain: tokens for other services are refused."""
    keys: str = ""
    """Public keys: a file in PEM, a file with a JWKS, or the https:// address of a JWKS."""
    secret: str = ""
    """In place of `keys`: a file with the secret of HS256, HS384 or HS512, which must be random."""
    algorithms: tuple[SignatureAlgorithm, ...] = ("EdDSA", "ES256", "RS256")
    """Accepted algorithms: with `keys` all but HS256, HS384 and HS512, with `secret` only these."""
    ca: str = ""
    """A file with the authorities of that address, PEM; empty: those of the system."""
    refresh_s: Annotated[float, msgspec.Meta(ge=60, le=_MAX_SECONDS)] = 3_600.0
    """How often the address is read."""
    retry_s: Annotated[float, msgspec.Meta(ge=1, le=_MAX_SECONDS)] = 60.0
    """How soon it may be read again: after a failure, or for a token with an unknown key."""
    leeway_s: Annotated[float, msgspec.Meta(ge=0, le=300)] = 10.0
    """How much the clocks may differ; a token is accepted that much longer."""
    id_claim: str = "sub"
    """The claim with the id of the client."""
    rights_claim: str = "wirelake"
    """The claim with rights: a token can only restrict those of `[[rights.clients]]`."""
    role_claim: str = ""
    """The claim with a role for the HTTP API; empty: tokens of this issuer are refused there."""
    store_clients: bool = False
    """Whether they are also accepted for clients of `wirelake client add`."""

    def check(self, key: str) -> None:
        """Raise ConfigError for settings that are incomplete or unsafe."""
        for name in ("issuer", "audience", "id_claim", "rights_claim"):
            if not getattr(self, name):
                raise ConfigError(f"{key}.{name}: expected text that is not empty")
        if bool(self.keys) == bool(self.secret):
            raise ConfigError(f"{key}: expected either keys or secret")
        if not self.algorithms:
            raise ConfigError(f"{key}.algorithms: expected one at least")
        # A public key must never be accepted as the secret of an HMAC: everybody has it.
        wrong = [each for each in self.algorithms if each.startswith("HS") is not bool(self.secret)]
        if wrong:
            given, other = ("secret", "keys") if self.secret else ("keys", "secret")
            raise ConfigError(f"{key}.algorithms: {wrong[0]} needs {other}, not {given}")
        if "://" in self.keys:
            self._check_address(f"{key}.keys")

    def _check_address(self, key: str) -> None:
        expected = "an https:// address, or http:// on a loopback address, without a password"
        try:
            address = urlsplit(self.keys)
            host, _ = address.hostname, address.port
        except ValueError:
            raise ConfigError(f"{key}: invalid address; expected {expected}") from None
        safe = address.scheme == "https" or (
            address.scheme == "http" and host is not None and is_loopback(host)
        )
        printable = self.keys.isascii() and self.keys.isprintable() and " " not in self.keys
        if not safe or not host or "@" in address.netloc or address.fragment or not printable:
            # Without the address: it may contain a password.
            raise ConfigError(f"{key}: invalid address; expected {expected}")


class AuthSettings(Table, frozen=True, kw_only=True):
    """Sign-on with tokens that others sign. Tokens of `wirelake client add` need no settings."""

    examples: ClassVar[Mapping[str, str]] = {
        "issuers": '[{ issuer = "https://id.example.com", audience = "wirelake", keys = "id.pub" }]'
    }

    issuers: tuple[Issuer, ...] = ()
    """Issuers whose signed tokens (JWT) are accepted."""
    signed_clients: CountOrNone = 100_000
    """Clients that signed tokens may add to the store, each at its first sign-on."""


class Limits(Table, frozen=True, kw_only=True):
    """Limits per hub, address, connection and client."""

    connections: Count = 100_000
    """Open connections on all listeners: 400 MB when they are idle."""
    connections_per_address: Count = 20_000
    """Open connections from one address: a carrier's gateway has thousands of phones behind one."""
    half_open_per_address: Count = 256
    """Connections from one address that have not signed on."""
    half_open: Count = 16_384
    """Connections from all addresses that have not signed on."""
    connects_per_s: Annotated[float, msgspec.Meta(ge=1, le=1e9)] = 5_000.0
    """Connections accepted per second on average; bursts may be twice that."""
    handshake_s: Seconds = 10.0
    """Time for a TLS handshake: several round trips of a phone with bad reception."""
    keepalive_s: Annotated[float, msgspec.Meta(ge=1, le=32_767)] = 60.0
    """Silence after which TCP keepalive probes a peer; one that has vanished is closed after twice
    that. It is the only way to notice with protocols that have no heartbeat."""
    bytes_per_turn: Count = 16_384
    """Received bytes of one connection that are processed in one turn of the loop: five thousand
    of the smallest frames, about twenty milliseconds."""
    write_buffer: Count = 1 << 20
    """Unread bytes after which a peer counts as slow: several seconds for a phone."""
    slow_reader_s: Seconds = 30.0
    """How long a peer may be slow before it is disconnected."""
    frame_s: Seconds = 10.0
    """Time after which the rate of an incomplete frame is checked, over the last `frame_s`
    seconds."""
    frame_bytes_per_s: Annotated[float, msgspec.Meta(gt=0, le=1e12)] = 1_024.0
    """Minimum rate at which a frame may arrive."""
    frame_total_s: Seconds = 300.0
    """How long a frame may take in all: 10 MB at 35 KB/s."""
    buffered_bytes: ByteCount = 512 << 20
    """Bytes in memory for all peers: incomplete messages, running calls, what peers have not
    read. Beyond it, connections with the most are closed."""
    buffered_bytes_per_address: ByteCount = 128 << 20
    """The same for the connections of one address; beyond it, the one that grows is closed."""
    buffered_bytes_per_client: ByteCount = 64 << 20
    """The same for the connections of one client: six of the largest messages."""
    auth_s: Seconds = 10.0
    """Time to sign on, where the protocol has no limit of its own."""
    auth_attempts: Count = 3
    """Failed sign-ons on one connection."""
    in_flight: Count = 256
    """Unacknowledged notifications pushed to one client; further ones wait."""
    calls: Count = 256
    """Running calls of one connection, those of events included."""
    offered_services: CountOrNone = 4_096
    """Services that processes offer, all of them together: 3 KB each, for their latencies. Those
    that no process offers any more are forgotten first."""
    service_calls: Annotated[int, msgspec.Meta(ge=1, le=1_024)] = 256
    """Calls under way in one process that offers services; it may ask for fewer. Beyond it, calls
    are refused (`too_busy`) unless another process offers the service."""
    service_s: Seconds = 30.0
    """How long such a process may take to answer a call, and between two parts of a stream."""
    subscriptions: CountOrNone = 127
    """Topics of one client: as many as fit one comet topic_list."""
    topics: CountOrNone = 200_000
    """Topics with subscribers on this hub: 220 MB."""
    content_bytes: Count = 16_384
    """Content of one notification: half a comet frame (comet rule 8)."""
    inbox: Count = 10_000
    """Backlog of one client; beyond that the oldest become dead letters, a 64th of it at a time."""
    keys_per_client: CountOrNone = 1_000_000
    """Idempotency keys of one client that are kept, each for a day at least: twelve publishes per
    second. Beyond it, publishes with a new key are refused (`too_busy`); no key is forgotten
    early, because a repeated publish would then arrive twice. 300 MB on disk."""
    keys: CountOrNone = 10_000_000
    """Idempotency keys of all clients and of the HTTP API, in the same way."""
    ttl_s: Annotated[int, msgspec.Meta(ge=0, le=int(_MAX_SECONDS))] = 7 * 86_400
    """Default time to live of a notification."""
    tail_watchers: CountOrNone = 16
    """Readers of `/v1/tail` at the same time; the filter of each is applied to every message."""
    drain_s: Annotated[float, msgspec.Meta(ge=0, le=_MAX_SECONDS)] = 5.0
    """How long running calls may take when the hub shuts down."""


class ActiveLimits:
    """The limits in force: those of the configuration, and those of the protocols' frames.

    Parts of the hub share one object; a reload replaces `current`. A client may connect with any
    protocol, so what a notification or a list of topics must fit is what every protocol can send:
    the built-in ones, and those of other packages that have a listener.
    """

    __slots__ = ("_frame_content_bytes", "_topic_checks", "current")

    def __init__(self, current: Limits, protocols: Iterable[str] = tuple(registry.BUILT_IN)):
        self.current = current
        bindings = [registry.binding(name) for name in protocols]
        sizes = (each.max_content_bytes for each in bindings)
        self._frame_content_bytes = min(
            (size for size in sizes if size is not None), default=sys.maxsize
        )
        checks = (each.topics_fit for each in bindings)
        self._topic_checks = [check for check in checks if check is not None]

    @property
    def max_content_bytes(self) -> int:
        """The largest content of a notification: no more than fits the frames of every client."""
        return min(self.current.content_bytes, self._frame_content_bytes)

    def topics_fit(self, topics: Sequence[str]) -> bool:
        """Return whether a client can have these topics, whatever protocol it connects with."""
        return all(fits(topics) for fits in self._topic_checks)


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a hub: one listener table per protocol, and the hub's own tables.

    `Config()` has every built-in protocol with its defaults. A protocol of another package listens
    only when it is named, in the file or in `listeners`.
    """

    listeners: dict[str, ListenerSettings] = msgspec.field(default_factory=dict)
    """Settings of the listeners by protocol; built-in protocols not named here have defaults."""
    protocol_tables: dict[str, Table] = msgspec.field(default_factory=dict)
    """Further tables of these protocols (`Binding.tables`); those not named here have defaults."""
    admin: AdminSettings = AdminSettings()
    """The HTTP server."""
    store: StoreSettings = StoreSettings()
    """The database."""
    record: RecordSettings = RecordSettings()
    """Recording."""
    auth: AuthSettings = AuthSettings()
    """Issuers of signed tokens."""
    rights: RightsSettings = RightsSettings()
    """Rights of clients."""
    limits: Limits = Limits()
    """Limits."""

    def __post_init__(self) -> None:
        # A protocol of another package listens only if it is configured: installing one must not
        # open a port.
        defaults = {name: registry.binding(name).settings() for name in registry.BUILT_IN}
        msgspec.structs.force_setattr(self, "listeners", {**defaults, **self.listeners})
        further = {name: kind() for name, kind in _protocol_tables(self.listeners).items()}
        msgspec.structs.force_setattr(self, "protocol_tables", {**further, **self.protocol_tables})
        for name in self.names:
            kind: type = type(self.table(name))
            problem = _problem(name, self.table(name), _type_info(kind))
            if problem is not None:
                raise ConfigError(problem)
        # Here and not in `ListenerSettings.check`: a protocol of another package may override it.
        for name, port in self.ports.items():
            _check_port(f"{name}.port", port, 0)
        for name, table in (*self.listeners.items(), *self.protocol_tables.items()):
            try:
                table.check(name)
            except ValueError as error:
                raise ConfigError(str(error)) from error
        for name, listener in self.listeners.items():
            # Here and not in the listener, so that it holds for a reload, too. The default is
            # lowered where frames are smaller (`ActiveLimits`): a protocol of another package must
            # not need a change of the limits. A value that somebody chose has to hold.
            most = registry.binding(name).max_content_bytes
            chosen = self.limits.content_bytes != Limits().content_bytes
            too_large = most is not None and self.limits.content_bytes > most
            if listener.enabled and chosen and too_large:
                raise ConfigError(
                    f"limits.content_bytes: a {name} frame holds at most {most} bytes"
                )
        for number, rights in enumerate(self.rights.clients):
            rights.check(f"rights.clients[{number}]")
        names = [each.issuer for each in self.auth.issuers]
        for number, issuer in enumerate(self.auth.issuers):
            issuer.check(f"auth.issuers[{number}]")
            if issuer.issuer in names[:number]:
                raise ConfigError(f"auth.issuers[{number}].issuer: this issuer is already listed")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tables, in the order of the file."""
        return (*self.listeners, *self.protocol_tables, *_OWN_TABLES)

    def table(self, name: str) -> Any:
        """Return a table by its name in the file: one of a protocol, or one of the hub's."""
        for tables in (self.listeners, self.protocol_tables):
            if name in tables:
                return tables[name]
        return getattr(self, name)

    @property
    def ports(self) -> dict[str, int]:
        """The configured port of every listener and of the HTTP server, by table."""
        found = {name: settings.port for name, settings in self.listeners.items()}
        return {**found, "admin": self.admin.port}

    def with_listener(self, name: str, **changes: Any) -> Config:
        """Return a copy with changed settings of one listener."""
        changed = msgspec.structs.replace(self.listeners[name], **changes)
        return msgspec.structs.replace(self, listeners={**self.listeners, name: changed})


_OWN_TABLES: Final = {
    field.name: field.type
    for field in msgspec.structs.fields(Config)
    if field.name not in ("listeners", "protocol_tables")
}
"""Tables of the file that belong to the hub itself."""
_RELOADED: Final = frozenset({"limits", "auth", "rights", "admin.hosts"})
"""Tables and keys that a reload applies."""


def _protocol_tables(protocols: Iterable[str]) -> dict[str, type[Table]]:
    """Return the further tables of protocols, by name."""
    bindings = map(registry.binding, protocols)
    return {name: kind for each in bindings for name, kind in each.tables.items()}


def make_config(data: Mapping[str, Any]) -> Config:
    """Return the configuration of decoded TOML; ConfigError names the table and the key."""
    further = _protocol_tables(registry.all_bindings()[0])
    listeners: dict[str, ListenerSettings] = {}
    protocol_tables: dict[str, Table] = {}
    own: dict[str, Any] = {}
    if isinstance(data.get("store"), str):  # store = "postgresql://…", for short
        data = {**data, "store": {"path": data["store"]}}
    for name, values in data.items():
        kind: Any = _OWN_TABLES.get(name) or further.get(name) or _listener_table(name)
        try:
            settings = msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            problem = _problem(name, values, _type_info(kind))
            raise ConfigError(problem or f"[{name}]: {error}") from error
        if name in _OWN_TABLES:
            own[name] = settings
        else:
            (protocol_tables if name in further else listeners)[name] = settings
    return Config(listeners=listeners, protocol_tables=protocol_tables, **own)


def _listener_table(name: str) -> type[ListenerSettings]:
    try:
        return registry.binding(name).settings
    except registry.BrokenProtocolError as error:
        raise ConfigError(f"[{name}]: {error}") from error
    except registry.RegistryError:
        known = tables(registry.all_bindings()[0])
        raise ConfigError(unknown("table", name, known)) from None


def load_config(path: str | Path | None) -> Config:
    """Read a file, or return the defaults; ConfigError names the invalid key."""
    if path is None:
        return Config()
    try:
        with Path(path).open("rb") as file:
            data = tomllib.load(file)
        return make_config(data)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from error


def restart_keys(old: Config, new: Config) -> list[str]:
    """Return the keys, as `table.key`, that differ and that a reload does not apply."""
    found: list[str] = []
    for name in dict.fromkeys((*old.names, *new.names)):
        if name in _RELOADED:
            continue
        before, after = _table_or_none(old, name), _table_or_none(new, name)
        if before is None or after is None:
            found.append(name)
            continue
        for field in msgspec.structs.fields(type(before)):
            changed = getattr(before, field.name) != getattr(after, field.name)
            if changed and not _is_reloaded(name, field.name, before, after):
                found.append(f"{name}.{field.name}")
    return found


def with_reloaded(old: Config, new: Config) -> Config:
    """Return the old configuration with the settings of the new one that a reload applies.

    ConfigError when they do not fit what stays.
    """
    changes: dict[str, Any] = {}
    for name in old.names:
        after = _table_or_none(new, name)
        if after is None:
            continue
        if name in _RELOADED:
            changes[name] = after
            continue
        before = old.table(name)
        reloaded = {
            field.name: getattr(after, field.name)
            for field in msgspec.structs.fields(type(before))
            if _is_reloaded(name, field.name, before, after)
        }
        changes[name] = msgspec.structs.replace(before, **reloaded)
    for group in ("listeners", "protocol_tables"):
        kept = getattr(old, group)
        changes[group] = {name: changes.pop(name, before) for name, before in kept.items()}
    return msgspec.structs.replace(old, **changes)


def _is_reloaded(name: str, field: str, before: Any, after: Any) -> bool:
    """Return whether a reload applies a field of a table."""
    # Other files of certificates are read; a listener with TLS cannot become one without.
    tls = field == "tls" and None not in (before.tls, after.tls)
    return tls or f"{name}.{field}" in _RELOADED


def _table_or_none(config: Config, name: str) -> Any:
    return config.table(name) if name in config.names else None


# -- what is wrong with a value ------------------------------------------------------------------

# msgspec decides whether a file is valid; these functions explain it in the terms of TOML, and
# check values that were never decoded. msgspec's own texts name Python types and JSON paths.

_TOML_TYPES: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    tuple: "an array",
    dict: "a table",
}


def _check_port(key: str, port: int, lowest: int) -> None:
    # The operating system takes a port modulo 65536, or reports an error that names no key.
    if not lowest <= port <= _MAX_PORT:
        raise ConfigError(f"{key}: {invalid('port', port, f'{lowest}-{_MAX_PORT}')}")


@cache
def _type_info(kind: type) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(kind)


def _problem(key: str, value: Any, kind: msgspec.inspect.Type) -> str | None:
    """Return what is wrong with a value, decoded or as a struct; None when nothing is found."""
    types = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    if not all(isinstance(each, tuple(_PYTHON_TYPES)) for each in types):
        return None  # a type that only another package's settings have
    accepted = [each for each in types if _has_type(value, each)]
    if not accepted:
        # None cannot be written in TOML: a key that is left out has it.
        expected = " or ".join(
            _TOML_TYPES[_PYTHON_TYPES[type(each)][0]]
            for each in types
            if not isinstance(each, msgspec.inspect.NoneType)
        )
        return f"{key}: expected {expected}, got {_TOML_TYPES.get(type(value), 'a date or time')}"
    match accepted[0]:
        case msgspec.inspect.StructType() as table:
            return _table_problem(key, value, table)
        case msgspec.inspect.VarTupleType(item_type=item):
            found = (_problem(f"{key}[{n}]", each, item) for n, each in enumerate(value))
            return next(filter(None, found), None)
        case msgspec.inspect.LiteralType(values=values) if value not in values:
            expected = f"one of {', '.join(map(str, values))}"
            return f"{key}: {invalid('value', value, expected)}"
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType() as number:
            if not _in_bounds(value, number):
                return f"{key}: {invalid('value', value, bounds_text(number))}"
    return None


def _table_problem(name: str, value: Any, kind: msgspec.inspect.StructType) -> str | None:
    names = [field.name for field in kind.fields]
    if isinstance(value, Mapping):
        for key in value:
            if key not in names:
                return f"[{name}]: {unknown('key', key, names)}"
        for field in kind.fields:
            if field.required and field.name not in value:
                return f"[{name}]: missing key {field.name!r}"
    else:
        value = {key: getattr(value, key) for key in names}
    found = (
        _problem(f"{name}.{field.name}", value[field.name], field.type)
        for field in kind.fields
        if field.name in value
    )
    return next(filter(None, found), None)


_PYTHON_TYPES: Final[dict[type[msgspec.inspect.Type], tuple[type, ...]]] = {
    msgspec.inspect.BoolType: (bool,),
    msgspec.inspect.IntType: (int,),
    msgspec.inspect.FloatType: (float, int),
    msgspec.inspect.StrType: (str,),
    msgspec.inspect.LiteralType: (str,),
    msgspec.inspect.NoneType: (type(None),),
    msgspec.inspect.StructType: (dict, msgspec.Struct),
    msgspec.inspect.VarTupleType: (list, tuple),
}
"""Types of the settings, and the Python types of their values."""


def _has_type(value: Any, kind: msgspec.inspect.Type) -> bool:
    if isinstance(value, bool):  # an int in Python, but not in TOML
        return isinstance(kind, msgspec.inspect.BoolType)
    return isinstance(value, _PYTHON_TYPES[type(kind)])


def _in_bounds(value: float, kind: msgspec.inspect.IntType | msgspec.inspect.FloatType) -> bool:
    # Written so that NaN, for which every comparison is false, is out of bounds.
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
    )


def bounds_text(kind: msgspec.inspect.IntType | msgspec.inspect.FloatType) -> str:
    """Return the values that a number may have; empty when it has no bounds."""
    if kind.ge is not None and kind.le is not None:
        return f"{kind.ge:.0f}-{kind.le:.0f}"
    parts = [
        f"{words} {bound:.0f}"
        for words, bound in (("at least", kind.ge), ("more than", kind.gt), ("at most", kind.le))
        if bound is not None
    ]
    return ", ".join(parts)


# -- the configuration as a commented file -------------------------------------------------------

_WIDTH: Final = 96
_HEAD: Final = """\
Configuration of a Wirelake hub: wirelake hub --config FILE --data DIR

All keys with their meanings and defaults. Remove the # to change one. Unknown keys are refused.
Limits, rights of clients, issuers and certificates are reloaded on SIGHUP; other changes need a
restart.
"""


def tables(protocols: Iterable[str]) -> dict[str, type[Table]]:
    """Return the tables of the file in order: those of the protocols, then the hub's own."""
    listeners = {name: registry.binding(name).settings for name in protocols}
    return {**listeners, **_protocol_tables(listeners), **_OWN_TABLES}


def inner_table(kind: Any) -> type[Table] | None:
    """Return the class of the tables that a key of this type has; None for other values."""
    for each in (kind, *get_args(kind)):
        if inspect.isclass(each) and issubclass(each, Table):
            return each
    return None


def config_text() -> str:
    """Return the commented file that `wirelake hub init` writes."""
    # Tables of other packages' protocols are commented out twice: naming one opens its listener.
    parts = [_comment(_HEAD)]
    built_in = tables(registry.BUILT_IN)
    for name, kind in tables(registry.all_bindings()[0]).items():
        optional = name not in built_in
        parts.append(_table(name, kind(), "#" if optional else ""))
    return "\n".join(parts)


def meanings(kind: type) -> dict[str, str]:
    """Return the docstring of each field, inherited ones included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not each.__module__.startswith(("builtins", "msgspec")):
            found |= _documented(each)
    names = getattr(kind, "__struct_fields__", found)
    return {name: found[name] for name in names if name in found}


@cache
def _documented(kind: type) -> dict[str, str]:
    """Return the docstrings of the fields in the source of one class."""
    # Python keeps no docstrings of fields, so they are read from the source.
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            name, value = field.target, text.value
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                found[name.id] = " ".join(str(value.value).split())
    return found


def _table(name: str, defaults: Table, mark: str) -> str:
    kind = type(defaults)
    texts = meanings(kind)
    lines = [_comment(inspect.cleandoc(kind.__doc__ or "")), f"{mark}[{name}]\n"]
    for field in msgspec.structs.fields(kind):
        lines.append("\n")
        lines.append(_comment(texts[field.name]))
        if (inner := inner_table(field.type)) is not None:
            lines += [_comment(f"  {key}: {text}") for key, text in meanings(inner).items()]
        value = kind.examples.get(field.name) or _value(getattr(defaults, field.name))
        lines.append(f"{mark}#{field.name} = {value}\n")
    return "".join(lines)


def _value(value: Any) -> str:
    """Return a default in TOML; JSON writes these values the same way."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _comment(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        indent = "  " if line.startswith("  ") else ""
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent=indent * 2) or [""]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)
