"""The HTTP server of the hub: uvicorn in the hub's event loop, and the administrator's token."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette

from ..auth import warn_if_readable
from ..config import Config, ConfigError
from ..net.listener import ServerContext, tls_context
from .app import make_app

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["TOKEN_FILE", "AdminServer", "admin_token"]

TOKEN_FILE: Final = "admin.token"
"""The file with the administrator's token, in the data directory."""
_MIN_TOKEN: Final = 16
"""Minimum length of a token that was chosen by hand."""
_CONCURRENT: Final = 256
"""Concurrent requests and streams; further ones get 503."""
_SHUTDOWN_S: Final = 1
"""How long running requests may take when the hub shuts down."""


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: the hub stops it."""

    # uvicorn would replace the handlers of `hub.run`, and stop without a drain.

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AdminServer:
    """Serves the HTTP endpoints of a hub."""

    def __init__(self, hub: Hub, *, access_log: bool = False):
        self._hub = hub
        self._access_log = access_log
        self._settings = hub.config.admin
        self._app: Starlette
        self._server: _Server | None = None
        self._tls: ServerContext | None = None
        self._task: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses it listens on; empty while it does not."""
        if self._listener is None:
            return []
        host, port = self._listener.getsockname()[:2]
        return [(str(host), int(port))]

    async def start(self) -> None:
        """Start listening, unless `admin.enabled` is false."""
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
            access_log=self._access_log,
            server_header=False,
            proxy_headers=False,  # a header must not choose the address that delays are counted for
            limit_concurrency=_CONCURRENT,
            timeout_graceful_shutdown=_SHUTDOWN_S,
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
        """Stop listening and end open streams."""
        if self._server is None or self._task is None:
            return
        for reader in tuple(self._app.state.readers):
            reader.end()
        self._server.should_exit = True
        await self._task
        self._server = self._task = self._listener = None

    def prepare_reload(self, config: Config) -> Callable[[], None]:
        """Read the certificates; return the function that applies the reload. ConfigError."""
        if self._tls is None:
            return lambda: None
        return self._tls.prepare(config.admin.tls)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    # The protocol is explicit: otherwise asyncio does not set TCP_NODELAY on accepted sockets.
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


def admin_token(data: Path) -> str:
    """Return the token of a data directory; create it if it is missing."""
    path = data / TOKEN_FILE
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_token(path)
    token = "a" + secrets.token_urlsafe(32)  # never starts with "-", so it is safe as an argument
    with open(handle, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token


def _read_token(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        warn_if_readable(path, os.fstat(file.fileno()))
        token = file.read().strip()
    if len(token) < _MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"{path}: invalid token; expected {_MIN_TOKEN} or more printable ASCII characters; "
            "remove the file to get a new one"
        )
    return token
