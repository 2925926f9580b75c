"""The base class of listeners, and server-side TLS contexts.

A listener has the sockets of one protocol (`acceptor.py`) and what its connections share. A
subclass sets `connection` (see `connection.py`) and creates in `__init__` what is created once:
session options, keys, encoders. The admin server uses the same TLS contexts.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wirelake.protocols.binding import TlsSettings

from ..auth import warn_if_readable
from ..config import Config, ConfigError
from .acceptor import Acceptor, charged_address
from .connection import Connection
from .context import HubContext

__all__ = [
    "Listener",
    "ServerContext",
    "tls_context",
]


class Listener:
    """Listens for one protocol, on one or more addresses."""

    connection: type[Connection]

    def __init__(self, hub: HubContext, settings: Any):
        self.hub = hub
        self.settings = settings
        self._acceptor: Acceptor | None = None
        self._tls: ServerContext | None = None

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return self.connection.protocol

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses it listens on; empty when it does not."""
        return [] if self._acceptor is None else self._acceptor.addresses

    @property
    def running(self) -> int:
        """The number of calls that another server has to answer; a drain waits until it is 0."""
        return 0

    async def start(self) -> None:
        """Start listening."""
        self._tls = tls_context(self.settings.tls)
        hub = self.hub
        acceptor = Acceptor(self.protocol, self, hub.loop, hub.active_limits, hub.counters)
        await acceptor.open(self.settings.host, self.settings.port, self._tls)
        self._acceptor = acceptor

    async def stop(self) -> None:
        """Stop listening; connections stay."""
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            acceptor.close()

    # -- called by the acceptor --------------------------------------------------------------

    def accept(self, address: str) -> asyncio.Protocol | None:
        """Count a connection and return it; None when a limit is reached."""
        charged_to = charged_address(address)
        if not self.hub.table.reserve(charged_to):
            return None
        connection = self.connection(self)
        connection.charged_to, connection.reserved = charged_to, True
        return connection

    def settled(self, protocol: asyncio.Protocol) -> bool:
        """Return whether a connection was added; otherwise stop counting it."""
        assert isinstance(protocol, Connection)
        added = not protocol.reserved
        self.hub.table.release(protocol)
        return added

    def prepare_reload(self, config: Config) -> Callable[[], None]:
        """Read the certificates again; return the function that applies the reload.

        ConfigError when they cannot be used: nothing is changed.
        """
        tls = config.listeners[self.protocol].tls
        replace = None if self._tls is None or tls is None else self._tls.prepare(tls)

        def apply() -> None:
            if replace is not None:
                replace()
            self.limits_changed()

        return apply

    def limits_changed(self) -> None:
        """Update what was made from `Limits`, for new connections."""


# -- TLS -----------------------------------------------------------------------------------------


class ServerContext(ssl.SSLContext):
    """The context of a listening server; its certificates can be replaced.

    A server keeps the context that it was started with. This one passes each handshake on to
    `current`, so that a reload replaces certificate, key and authorities in one assignment. A
    context that is changed in place keeps every authority it ever had, and is left with a
    certificate without its key when the second file cannot be used.
    """

    current: ssl.SSLContext
    """The context of new handshakes."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a handshake; asyncio and uvloop call this for every connection."""
        return self.current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def prepare(self, settings: TlsSettings) -> Callable[[], None]:
        """Read certificates; return the function that makes them those of new connections."""
        context = _read_certificates(settings)

        def apply() -> None:
            self.current = context

        return apply


def tls_context(settings: TlsSettings | None) -> ServerContext | None:
    """Return the context for these settings; None without TLS."""
    if settings is None:
        return None
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.current = _read_certificates(settings)
    return context


def _read_certificates(settings: TlsSettings) -> ssl.SSLContext:
    """Return a new context with certificate, key and authorities; ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Explicit, whatever the system's defaults are: TLS 1.0 and 1.1 are deprecated (RFC 8996).
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        warn_if_readable(settings.key, os.stat(settings.key))
        context.load_cert_chain(settings.certificate, settings.key)
        if settings.client_ca:
            context.load_verify_locations(settings.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED  # client certificates, for relay links
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"tls: {_certificate_problem(settings, error)}") from error
    return context


def _certificate_problem(settings: TlsSettings, error: OSError) -> str:
    """Return what is wrong with the files of a listener: OpenSSL does not name the file."""
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"{settings.key} is not the private key of {settings.certificate}"
    for file, kind in (
        (settings.certificate, b"CERTIFICATE-----"),
        (settings.key, b"PRIVATE KEY-----"),
        (settings.client_ca, b"CERTIFICATE-----"),
    ):
        try:
            if file and kind not in Path(file).read_bytes():
                noun = "certificate" if kind.startswith(b"C") else "private key"
                return f"{file}: not a PEM {noun}"
        except OSError as unreadable:
            return f"{file}: {os.strerror(unreadable.errno or 0).lower()}"
    return f"{settings.certificate}: {error}"
