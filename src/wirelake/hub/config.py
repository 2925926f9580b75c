"""The hub's configuration: one struct for each table of `hub.toml`, unknown keys refused.

Each field's docstring is its comment in the file that `wirelake hub init` writes
(`config_text.py`), so the two cannot disagree.
"""

from __future__ import annotations

import ast
import inspect
import ipaddress
import json
import sys
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from .limits import Limits

__all__ = [
    "AdminSettings",
    "Backend",
    "CometSettings",
    "Config",
    "ConfigError",
    "EsnpSettings",
    "GatewaySettings",
    "ListenerSettings",
    "MaglineSettings",
    "RecordSettings",
    "RelaySettings",
    "StoreSettings",
    "TlsSettings",
    "TnySettings",
    "config_text",
    "is_loopback",
    "load_config",
    "meanings",
]


class ConfigError(Exception):
    """The configuration cannot work; the message says which key, and what is wanted."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class TlsSettings(_Table, frozen=True, kw_only=True):
    """Where the certificates are; read again on SIGHUP."""

    certificate: str
    """A file with the certificate and its chain, PEM."""
    key: str
    """A file with the private key, PEM."""
    client_ca: str = ""
    """A file with the authorities whose clients may come in; empty asks for no certificate."""


class ListenerSettings(_Table, frozen=True, kw_only=True):
    """What every listener has."""

    enabled: bool = True
    """Whether the listener is open."""
    host: str | tuple[str, ...] = "127.0.0.1"
    """Where to listen: an address, or several, of either family."""
    port: int = 0
    """Which port; 0 takes any that is free."""
    tls: TlsSettings | None = None
    """Certificates, to speak the protocol inside TLS."""


Auth = Literal["token", "none"]


class EsnpSettings(ListenerSettings, frozen=True, kw_only=True):
    """ESNP, both revisions."""

    port: int = 9600
    auth: Auth = "token"
    """`token`: a connection must call hub/auth first. `none`: anybody may do anything; on
    loopback only."""
    dialect: Literal["seed", "go"] = "seed"
    """How Map and List count their items; `go` for the original's Go programs."""
    revision: Literal["lines", "frames"] = "lines"
    """Which document is followed: row order, and the flag ASYNC."""
    strict: bool = False
    """Refuse what the rules merely warn of."""
    idle_s: float = 0.0
    """Close when nothing is heard for so long; 0 never does: the protocol has no heartbeat."""


class TnySettings(ListenerSettings, frozen=True, kw_only=True):
    """tny, for clients."""

    port: int = 9610
    auth: Auth = "token"
    """`token`: a connection must ask protocol 10 first. `none`: anybody may do anything; on
    loopback only."""
    dialect: Literal["seed", "upstream", "auto"] = "seed"
    """Which form ticks, headers, check codes and waste bytes have."""
    idle_s: float = 180.0
    """Close when nothing is heard for so long; 0 never does."""
    security_keys: tuple[str, ...] = ()
    """Keys of the security options."""
    verify: bool = False
    """Demand and write check codes."""
    encrypt: bool = False
    """Demand and write obscured messages; needs keys. It hides nothing from who has read the
    document."""
    waste: bool = False
    """Demand and write waste bytes."""


class RelaySettings(ListenerSettings, frozen=True, kw_only=True):
    """The tny relay: links of gateways come in here, and their tunnels are clients."""

    port: int = 9611
    auth: Auth = "token"
    """What a tunnel must do before anything else, as for a client of its own."""
    dialect: Literal["seed", "upstream", "auto"] = "seed"
    """Which form packets have."""
    allow: tuple[str, ...] = ()
    """Addresses or networks of gateways. A link proves nothing of itself, so off loopback either
    this or tls.client_ca is needed."""


class MaglineSettings(ListenerSettings, frozen=True, kw_only=True):
    """magline."""

    port: int = 9757
    auth: Auth = "token"
    """`token`: business command 10 comes first. `none`: anybody may do anything; on loopback
    only."""
    anonymous: bool = False
    """Let clients in that do not know the server's key: no protection from a man in the middle."""
    static_key: str = ""
    """A file with the server's X25519 key, 64 hex digits; by default `magline.key` in the data
    directory, made when it is not there. Its public half is in `magline.pub`."""
    psk: tuple[str, ...] = ()
    """Files with shared keys, 64 hex digits each."""


class CometSettings(ListenerSettings, frozen=True, kw_only=True):
    """comet."""

    port: int = 9620
    dialect: Literal["seed", "hipush"] = "seed"
    """Which layout a notification has."""
    key: Literal["x25519", "none"] = "x25519"
    """Whether clients are offered to have contents sealed."""
    static_key: str = ""
    """A file with a static X25519 key, 64 hex digits, that clients may pin."""
    require_encryption: bool = False
    """Refuse lists, and push nothing, before a key exchange."""
    push_after: Literal["auth", "list"] = "auth"
    """When pushes begin: after signing on, or after the first list, like the original."""
    on_duplicate: Literal["replace", "reject"] = "replace"
    """What becomes of a client that comes a second time."""


class AdminSettings(_Table, frozen=True, kw_only=True):
    """The HTTP side: publish, health, metrics, a look inside."""

    enabled: bool = True
    """Whether it is there."""
    host: str = "127.0.0.1"
    """Where to listen."""
    port: int = 9680
    """Which port; 0 takes any that is free."""
    tls: TlsSettings | None = None
    """Certificates, to speak HTTPS."""


class Backend(_Table, frozen=True, kw_only=True):
    """A relay to dial."""

    host: str
    """Its address."""
    port: int = 9611
    """Its port."""
    tls: bool = False
    """Whether to speak TLS to it."""


class GatewaySettings(_Table, frozen=True, kw_only=True):
    """Be a tny gateway: what comes in at the tny listener goes through tunnels to backends."""

    enabled: bool = False
    """Whether this hub is a gateway; the tny listener then relays, and serves nothing itself."""
    service: str = "game"
    """The name of the service that the links lead to."""
    name: str = "gateway"
    """Who this gateway says it is when it opens a link."""
    instance: int = 1
    """A number that no other gateway of these backends has."""
    backends: tuple[Backend, ...] = ()
    """Where to dial."""
    links: int = 1
    """Links to each backend."""
    dialect: Literal["seed", "upstream", "auto"] = "seed"
    """Which form packets have."""


class StoreSettings(_Table, frozen=True, kw_only=True):
    """What survives."""

    path: str = ""
    """The database; by default `hub.sqlite3` in the data directory."""
    synchronous: Literal["full", "normal"] = "full"
    """`full`: what is confirmed survives a power cut. `normal`: it survives kill -9, and a power
    cut may take the last moments back."""
    server: int = 0
    """A number from 0 to 255 that is part of every id; hubs that share clients need different
    ones."""


class RecordSettings(_Table, frozen=True, kw_only=True):
    """Recording of what crosses the hub."""

    folder: str = ""
    """Where recordings go; empty records nothing. `--record` says the same."""
    source: str = "hub"
    """The name of this hub in them."""
    keys: bool = False
    """Write the keys of connections too, so that sealed contents can be read."""
    rotate_bytes: int = 64 << 20
    """When the next file begins."""
    rotate_s: float = 300.0
    """The same, in seconds."""
    tables: bool = False
    """Keep calls, deliveries and connections up to date while traffic flows; costs a decoding."""


class Config(_Table, frozen=True, kw_only=True):
    """Everything."""

    esnp: EsnpSettings = EsnpSettings()
    tny: TnySettings = TnySettings()
    relay: RelaySettings = RelaySettings()
    magline: MaglineSettings = MaglineSettings()
    comet: CometSettings = CometSettings()
    admin: AdminSettings = AdminSettings()
    gateway: GatewaySettings = GatewaySettings()
    store: StoreSettings = StoreSettings()
    record: RecordSettings = RecordSettings()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        for name in ("esnp", "tny", "relay", "magline"):
            listener = getattr(self, name)
            if listener.enabled and listener.auth == "none" and not is_loopback(listener.host):
                raise ConfigError(
                    f'{name}.auth: "none" is for loopback addresses only; '
                    f'set auth = "token", or host = "127.0.0.1"'
                )
        self._check_relay()
        if self.gateway.enabled and not self.gateway.backends:
            raise ConfigError("gateway.backends: a gateway needs at least one backend")
        if not 0 <= self.store.server <= 0xFF:
            raise ConfigError("store.server: wanted 0 to 255")

    def _check_relay(self) -> None:
        relay = self.relay
        known = relay.allow or (relay.tls is not None and relay.tls.client_ca)
        if relay.enabled and not known and not is_loopback(relay.host):
            raise ConfigError(
                "relay.host: a link proves nothing of itself; off loopback set relay.allow "
                "to the addresses of your gateways, or relay.tls.client_ca"
            )


def is_loopback(host: str | tuple[str, ...]) -> bool:
    """Whether these addresses can be reached from this machine alone."""
    for each in (host,) if isinstance(host, str) else host:
        try:
            if not ipaddress.ip_address(each).is_loopback:
                return False
        except ValueError:
            if each != "localhost":
                return False
    return True


def load_config(path: str | Path | None) -> Config:
    """Reads a file; ConfigError names the key that is wrong."""
    if path is None:
        return Config()
    try:
        with Path(path).open("rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


# The configuration as a commented file, made from the structs of `config.py`.


_WIDTH: Final = 96
_HEAD: Final = """\
Configuration of a Wirelake hub: wirelake hub --config FILE --data DIR

Every key is here with its meaning and its default. Take the # away to change one. Unknown keys
are refused. Limits and certificates are read again on SIGHUP; the rest needs a restart.
"""
_EXAMPLES: Final = {
    "tls": ('{ certificate = "cert.pem", key = "key.pem" }', "TlsSettings"),
    "backends": ('[{ host = "10.0.0.7", port = 9611 }]', "Backend"),
}
"""Keys that hold tables: how one is written, and what the tables are made of."""


def config_text() -> str:
    """The whole file."""
    parts = [_comment(_HEAD)]
    parts += [_table(field.name, field.default) for field in msgspec.structs.fields(Config)]
    return "\n".join(parts)


def meanings(kind: type) -> dict[str, str]:
    """By key: what its docstring says, inherited ones included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("wirelake."):
            found |= _documented(each)
    return found


@cache
def _documented(kind: type) -> dict[str, str]:
    """The texts behind the fields in the source of one class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            name, value = field.target, text.value
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                found[name.id] = " ".join(str(value.value).split())
    return found


def _table(name: str, defaults: Any) -> str:
    kind = type(defaults)
    texts = meanings(kind)
    lines = [_comment(inspect.cleandoc(kind.__doc__ or "")), f"[{name}]\n"]
    for field in msgspec.structs.fields(kind):
        lines.append("\n")
        lines.append(_comment(texts[field.name]))
        lines.append(_key(field.name, getattr(defaults, field.name)))
    return "".join(lines)


def _key(name: str, default: Any) -> str:
    if name not in _EXAMPLES:
        return f"#{name} = {_value(default)}\n"
    example, kind = _EXAMPLES[name]
    texts = meanings(getattr(sys.modules[Config.__module__], kind))
    inner = "".join(_comment(f"  {key}: {text}") for key, text in texts.items())
    return f"{inner}#{name} = {example}\n"


def _value(value: Any) -> str:
    """As TOML has it; JSON writes these the same way."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _comment(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        indent = "  " if line.startswith("  ") else ""
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent=indent * 2) or [""]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)
