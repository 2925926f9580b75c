"""Where a client connects to: `protocol://host:port/target`, with an s after the protocol for TLS.

esnp://127.0.0.1:9600/test/add    tnys://game.example/1002    comet://[::1]:9620
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from .errors import BadCall

__all__ = ["PORTS", "Where", "parse_where"]

PORTS: Final[dict[str, int]] = {"esnp": 9600, "tny": 9610, "magline": 9757, "comet": 9620}
"""The protocols that clients speak, with their usual ports."""


class Where(NamedTuple):
    """A server, and what of it is meant."""

    protocol: str
    tls: bool
    host: str
    port: int
    target: str = ""
    """What comes after the host: an ESNP service and operation, a number, or nothing."""

    @property
    def place(self) -> str:
        """Host and port, as people write them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_where(url: str) -> Where:
    """Reads a URL; BadCall says what is wrong with it."""
    schemes = {name + tls: (name, bool(tls)) for name in PORTS for tls in ("", "s")}
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadCall(f"{url}: {error}") from error
    if parts.scheme not in schemes:
        known = ", ".join(f"{name}://" for name in schemes)
        raise BadCall(f"{url}: wanted a URL that begins with one of {known}")
    if not parts.hostname:
        raise BadCall(f"{url}: the host is missing, as in {parts.scheme}://127.0.0.1:9600")
    if parts.username is not None or parts.password is not None:
        raise BadCall("a URL has no place for a token: give id and token by themselves")
    protocol, tls = schemes[parts.scheme]
    target = unquote(parts.path.strip("/"))
    if parts.query:
        target += f"?{parts.query}"
    return Where(protocol, tls, parts.hostname, PORTS[protocol] if port is None else port, target)
