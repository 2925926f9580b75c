"""The URL of a server: `protocol://host:port/target`, with an s after the protocol for TLS.

esnp://127.0.0.1:9600/test/add    tnys://game.example/1002    comet://[::1]:9620
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from wirelake.protocols import registry
from wirelake.protocols.binding import Binding

from .errors import BadCall

__all__ = ["Where", "parse_where"]


class Where(NamedTuple):
    """A server, and a target on it."""

    protocol: str
    tls: bool
    host: str
    port: int
    target: str = ""
    """The path: a service and operation, a number, or nothing."""

    @property
    def place(self) -> str:
        """Host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_where(url: str) -> Where:
    """Parse a URL; BadCall says what is wrong with it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadCall(f"{url}: {error}") from error
    found = _scheme(parts.scheme)
    if found is None:
        bound = registry.all_bindings().items()
        names = [name for name, binding in bound if binding.client is not None]
        expected = ", ".join(f"{name}://, {name}s://" for name in names)
        raise BadCall(f"{url}: expected a URL with one of {expected}")
    if not parts.hostname:
        raise BadCall(f"{url}: the host is missing, as in {parts.scheme}://127.0.0.1:9600")
    if parts.username is not None or parts.password is not None:
        raise BadCall("credentials in a URL are not supported; pass id and token instead")
    protocol, tls, binding = found
    target = unquote(parts.path.strip("/"))
    if parts.query:
        target += f"?{parts.query}"
    usual = binding.settings().port
    return Where(protocol, tls, parts.hostname, usual if port is None else port, target)


def _scheme(scheme: str) -> tuple[str, bool, Binding] | None:
    """Protocol, whether it is inside TLS, and binding: `tny`, or `tnys` for TLS."""
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
