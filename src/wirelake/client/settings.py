"""What can be set when a client connects; each default with its reason."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, fields
from typing import Any, Final

from .address import Where, parse_where
from .errors import BadCall

__all__ = ["Settings", "make_settings"]

_KEY_BYTES: Final = 32
_MEANT_FOR: Final = {
    "pinned": ("magline", "comet"),
    "psk": ("magline",),
    "anonymous": ("magline",),
    "allow_plaintext": ("comet",),
    "dialect": ("esnp", "tny", "comet"),
}
"""Options that only some protocols have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a client connects, and what it does when the connection is lost."""

    where: Where
    """The server."""
    id: str | None = None
    """Who signs on; None does not sign on, for hubs with `auth = "none"`."""
    token: str = field(default="", repr=False)
    """What proves it."""
    tls: ssl.SSLContext | None = None
    """How to check the server's certificate; by default as browsers do, when the URL says TLS."""
    reconnect: bool = True
    """Whether to connect again when the connection is lost."""
    backoff_s: float = 0.1
    """The first wait before connecting again; it doubles, and up to half of it is left to chance,
    so that thousands of clients do not come back at once."""
    max_backoff_s: float = 30.0
    """The longest wait: a server that was away for an hour has its clients back within this."""
    connect_timeout_s: float = 10.0
    """For the connection itself, TLS included."""
    sign_on_timeout_s: float = 15.0
    """For handshake and signing on; a hub lets addresses that failed before wait four seconds."""
    timeout_s: float = 10.0
    """For an answer, and for a connection to ask by, unless a call says otherwise."""
    heartbeat_s: float | None = None
    """How often to say that we are alive; None is the protocol's own time. ESNP has none."""
    dialect: str | None = None
    """The protocol's dialect; None is the document's."""
    pinned: bytes | None = None
    """The server's public key, 32 bytes or 64 hex digits: magline and comet."""
    psk: bytes | None = field(default=None, repr=False)
    """A key that both sides hold, 32 bytes or 64 hex digits: magline."""
    anonymous: bool = False
    """Accept any magline server: stops listeners, not a man in the middle."""
    allow_plaintext: bool | None = None
    """Accept a comet server without a key. None does so inside TLS alone."""
    max_waiting: int = 1_000
    """Notifications that nobody has taken yet; beyond it the server is not read from."""

    def __post_init__(self) -> None:
        for name in ("pinned", "psk"):
            value = _key(name, getattr(self, name))
            object.__setattr__(self, name, value)
        for name in ("backoff_s", "max_backoff_s", "connect_timeout_s", "sign_on_timeout_s"):
            if not getattr(self, name) > 0:
                raise BadCall(f"{name}: wanted more than 0")
        if not self.timeout_s > 0 or self.max_waiting < 1:
            raise BadCall("timeout_s and max_waiting: wanted more than 0")
        if self.heartbeat_s is not None and not self.heartbeat_s > 0:
            raise BadCall("heartbeat_s: wanted more than 0")
        self._check_protocol()
        if self.where.tls and self.tls is None:
            object.__setattr__(self, "tls", ssl.create_default_context())

    def _check_protocol(self) -> None:
        """Refuses what means nothing to the protocol: nobody should rely on it."""
        given = {
            "pinned": self.pinned is not None,
            "psk": self.psk is not None,
            "anonymous": self.anonymous,
            "allow_plaintext": self.allow_plaintext is not None,
            "dialect": self.dialect is not None,
        }
        for name, protocols in _MEANT_FOR.items():
            if given[name] and self.where.protocol not in protocols:
                raise BadCall(f"{name} is for {' and '.join(protocols)} alone")

    @property
    def plaintext(self) -> bool:
        """Whether comet contents may come as they are."""
        if self.allow_plaintext is not None:
            return self.allow_plaintext
        return self.tls is not None and self.pinned is None


def make_settings(url: str, **options: Any) -> Settings:
    """The settings of a URL and options; BadCall names the options that there are."""
    known = [each.name for each in fields(Settings) if each.name != "where"]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise BadCall(f"no option is called {unknown[0]}; there are {', '.join(known)}")
    return Settings(where=parse_where(url), **options)


def _key(name: str, value: bytes | str | None) -> bytes | None:
    """A key, from bytes or from hexadecimal text."""
    if value is None:
        return None
    try:
        key = bytes.fromhex(value.strip()) if isinstance(value, str) else bytes(value)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise BadCall(f"{name}: wanted {_KEY_BYTES} bytes, or {2 * _KEY_BYTES} hexadecimal digits")
    return key
