"""The base class of listeners, and server-side TLS contexts.

A listener has the sockets of one protocol and what its connections share. A subclass sets
`connection` (see `connection.py`) and creates in `__init__` what is created once: session options,
keys, encoders. The admin server uses the same TLS contexts.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from wirelake.protocols.binding import TlsSettings

from ..config import ConfigError
from .connection import Connection
from .context import HubContext

__all__ = [
    "Listener",
    "load_certificates",
    "tls_context",
]

_BACKLOG = 4096
"""Length of the accept queue: after an outage all clients reconnect within a second or two, and a
SYN that finds the queue full is retried only after a second."""


class Listener:
    """Listens for one protocol, on one or more addresses."""

    connection: type[Connection]

    def __init__(self, hub: HubContext, settings: Any):
        self.hub = hub
        self.settings = settings
        self._server: asyncio.Server | None = None
        self._tls: ssl.SSLContext | None = None

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return self.connection.protocol

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses it listens on; empty when it does not."""
        if self._server is None:
            return []
        return [tuple(sock.getsockname()[:2]) for sock in self._server.sockets]

    async def start(self) -> None:
        """Start listening."""
        self._tls = tls_context(self.settings.tls)
        self._server = await self.hub.loop.create_server(
            lambda: self.connection(self),
            self.settings.host,
            self.settings.port,
            ssl=self._tls,
            backlog=_BACKLOG,
        )

    async def stop(self) -> None:
        """Stop listening; connections stay."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def reload_tls(self) -> None:
        """Reload the certificates; open connections keep the old ones."""
        if self._tls is not None:
            load_certificates(self._tls, self.settings.tls)


# -- TLS -----------------------------------------------------------------------------------------


def tls_context(settings: TlsSettings | None) -> ssl.SSLContext | None:
    """Return the context for these settings; None without TLS."""
    if settings is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Explicit, whatever the system's defaults are: TLS 1.0 and 1.1 are deprecated (RFC 8996).
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificates(context, settings)
    return context


def load_certificates(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Load certificate, key and authorities; open connections keep the old ones."""
    # The context is changed in place: the listening server keeps a reference to it, so that new
    # handshakes use the new certificate without a new socket.
    try:
        context.load_cert_chain(settings.certificate, settings.key)
        if settings.client_ca:
            context.load_verify_locations(settings.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED  # client certificates, for relay links
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"tls: {settings.certificate}: {error}") from error
