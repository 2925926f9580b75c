"""A listener: where connections of one protocol come in. Listeners start and stop by themselves."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from .connection import Connection
from .context import HubContext
from .tls import load_certificates, tls_context

__all__ = ["Listener"]

_BACKLOG = 4096
"""Peers that wait to be accepted: a storm of reconnects comes within a second."""


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
        """What is spoken here."""
        return self.connection.protocol

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens; empty while it does not."""
        if self._server is None:
            return []
        return [tuple(sock.getsockname()[:2]) for sock in self._server.sockets]

    async def start(self) -> None:
        """Begins to listen."""
        self._tls = tls_context(self.settings.tls)
        self._server = await self.hub.loop.create_server(
            lambda: self.connection(self),
            self.settings.host,
            self.settings.port,
            ssl=self._tls,
            backlog=_BACKLOG,
        )

    async def stop(self) -> None:
        """Listens no more; connections stay."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def reload_tls(self) -> None:
        """Reads the certificates again; connections that are open keep the old ones."""
        if self._tls is not None:
            load_certificates(self._tls, self.settings.tls)
