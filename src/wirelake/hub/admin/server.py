"""The listener of the HTTP side: uvicorn, in the hub's own loop, without signals of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette

from ..net.tls import load_certificates, tls_context
from .app import make_app
from .token import admin_token

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["AdminServer"]

_CONCURRENT: Final = 256
"""Requests and open streams at a time; more are answered with 503."""
_GOODBYE_S: Final = 1
"""How long requests under way may take when the hub goes down."""


class _Server(uvicorn.Server):
    """The hub decides when it ends, so signals are not its business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AdminServer:
    """Serves the admin pages of a hub."""

    def __init__(self, hub: Hub):
        self._hub = hub
        self._settings = hub.config.admin
        self._app: Starlette
        self._server: _Server | None = None
        self._tls: ssl.SSLContext | None = None
        self._task: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens; empty while it does not."""
        if self._listener is None:
            return []
        host, port = self._listener.getsockname()[:2]
        return [(str(host), int(port))]

    async def start(self) -> None:
        """Begins to listen, if the configuration wants it."""
        if not self._settings.enabled:
            return
        self._app = make_app(self._hub, admin_token(self._hub.data))
        self._listener = _listen(self._settings.host, self._settings.port)
        config = uvicorn.Config(
            self._app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_CONCURRENT,
            timeout_graceful_shutdown=_GOODBYE_S,
        )
        config.load()
        config.ssl = self._tls = tls_context(self._settings.tls)
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve([self._listener]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0)
        if self._task.done():
            await self._task

    async def stop(self) -> None:
        """Listens no more, and ends what is still being answered."""
        if self._server is None or self._task is None:
            return
        for reader in tuple(self._app.state.readers):
            reader.end()
        self._server.should_exit = True
        await self._task
        self._server = self._task = self._listener = None

    def reload_tls(self) -> None:
        """Reads the certificates again."""
        if self._tls is not None and self._settings.tls is not None:
            load_certificates(self._tls, self._settings.tls)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Its protocol is named, or asyncio would not switch delays off."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(128)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{error.strerror}: admin on {host}:{port}") from error
    return listener
