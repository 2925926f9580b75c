"""The HTTP server of the hub: uvicorn in the hub's event loop, and the administrator's token.

uvicorn parses requests and calls the application. The hub accepts the connections, with the same
code as for its other listeners (`hub.net.acceptor`), and limits their number and their time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import secrets
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..auth import read_secret
from ..config import Config, ConfigError
from ..net.acceptor import Acceptor, charged_address
from ..net.listener import ServerContext, tls_context
from .app import make_app
from .http import JsonResponse

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["TOKEN_FILE", "AdminServer", "admin_token"]

TOKEN_FILE: Final = "admin.token"
"""The file with the administrator's token, in the data directory."""
_MIN_TOKEN: Final = 16
"""Minimum length of a token that was chosen by hand."""
_RESERVE: Final = 16
"""Connections beyond `admin.connections`, for health probes only."""
_OTHER_DESCRIPTORS: Final = 64
"""Descriptors that are not of connections: listening sockets, the store, recordings, and those of
connections that were just closed. A hub has 27 without any connection."""
_PER_TURN: Final = 8
"""Connections accepted in one turn of the loop: the descriptors of those that are closed for them
are free only some turns later."""
_TURN_BYTES: Final = 2_048
"""Received bytes that are parsed in one turn of the loop, of all HTTP connections together: chunks
of one byte take 18 microseconds each, so this is about six milliseconds."""
_HEAD_BYTES: Final = 16_384
"""Maximum size of the head of a request: a filter of 2,000 characters may be 6,000 when escaped."""
_PROBES: Final = frozenset({"/healthz", "/readyz"})
_log = logging.getLogger("uvicorn.error.requests")
_log.setLevel(logging.ERROR)
"""Without a warning for each request that is not HTTP: a peer could fill the disk with them. They
are counted."""
_SHUTDOWN_S: Final = 1
"""How long running requests may take, and peers to read and to close, when the hub shuts down."""


class _Server(uvicorn.Server):
    """uvicorn without signal handlers and sockets: the hub stops it and accepts connections."""

    # uvicorn would replace the handlers of `hub.run`, and stop without a drain.

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Start without a socket."""
        await self.lifespan.startup()
        self.servers = []
        self.started = True


class _HttpConnection(H11Protocol):
    """An HTTP connection whose peer has to send and to read in time."""

    # uvicorn has a deadline for the next request of a connection, which a single byte ends, and
    # none for the first one: a peer could keep a connection for ever.

    def __init__(self, server: AdminServer, address: str, uvicorn_server: uvicorn.Server):
        super().__init__(
            config=uvicorn_server.config,
            server_state=uvicorn_server.server_state,
            app_state=uvicorn_server.lifespan.state,
        )
        self.id = server.hub.table.new_id()
        """Its id in the deadline scan."""
        self.address = address
        self.since = self.loop.time()
        """Since when the peer has to send a request, or the body of one."""
        self.made = False
        """Whether `connection_made` was called."""
        self._server = server
        self._paused_since = 0.0
        self._unparsed = b""
        self.logger = _log

    @property
    def awaits_bytes(self) -> bool:
        """Whether the peer has to send something: a request, or the rest of one."""
        cycle = self.cycle
        return not self.made or cycle is None or cycle.response_complete or cycle.more_body

    @property
    def awaits_peer(self) -> bool:
        """Whether the peer has to send or to read something."""
        return self.awaits_bytes or bool(self._paused_since)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timeout of the first request."""
        if not self._server.counts(self):
            # Closed for another one while it was being accepted. uvloop reports no end of such a
            # connection, so uvicorn would keep it, and wait for it when the hub stops.
            self.transport = transport  # type: ignore[assignment]
            self.transport.abort()
            return
        self.made = True
        self.since = self.loop.time()
        super().connection_made(transport)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection."""
        self._server.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes when it is this connection's turn: now, if no other one had it."""
        waits = bool(self._unparsed)
        self._unparsed += data
        self.transport.pause_reading()
        if not waits:
            self._server.take_turn(self)

    def parse_some(self) -> bool:
        """Parse some bytes; return whether there are more.

        The time for the body begins with the end of the head.
        """
        if self.transport.is_closing():
            return False
        before = self.cycle
        data, self._unparsed = self._unparsed[:_TURN_BYTES], self._unparsed[_TURN_BYTES:]
        super().data_received(data)
        if self.cycle is not before:
            self.since = self.loop.time()
        if not self._unparsed and not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()
        return bool(self._unparsed)

    def on_response_complete(self) -> None:
        """Start the timeout of the next request."""
        self.since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, and count it."""
        self._server.hub.counters.failed("admin", "bad_request")
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Pause responses while the peer reads too slowly."""
        self._paused_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Resume responses."""
        self._paused_since = 0.0
        super().resume_writing()

    def check_deadlines(self, now: float) -> None:
        """Close a connection whose peer takes too long."""
        if not self.made:
            return  # the acceptor has the deadline of handshakes
        if self._paused_since and now - self._paused_since > self._server.hub.limits.slow_reader_s:
            self._server.drop(self, "slow_reader")
        elif self.awaits_bytes and now - self.since > self._server.settings.request_s:
            self._server.drop(self, "too_slow")


class AdminServer:
    """Serves the HTTP endpoints of a hub.

    A liveness probe must always get an answer: without one the hub is restarted. So HTTP
    connections have limits of their own, which floods on other listeners do not use up, and idle
    ones make room for new ones.
    """

    def __init__(self, hub: Hub, *, access_log: bool = False):
        self.hub = hub
        self.settings = hub.config.admin
        self._access_log = access_log
        self._app: Starlette
        self._server: _Server | None = None
        self._tls: ServerContext | None = None
        self._task: asyncio.Task[None] | None = None
        self._acceptor: Acceptor | None = None
        self._connections: dict[_HttpConnection, None] = {}
        """Connections, also those in a TLS handshake."""
        self._turns: deque[_HttpConnection] = deque()
        """Connections with bytes that are not parsed, the next one first."""
        self._turn_taken = False

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses it listens on; empty while it does not."""
        return [] if self._acceptor is None else self._acceptor.addresses

    async def start(self) -> None:
        """Start listening, unless `admin.enabled` is false."""
        if not self.settings.enabled:
            return
        self._app = make_app(self.hub, admin_token(self.hub.data))
        self._tls = tls_context(self.settings.tls)
        config = uvicorn.Config(
            self._answer,
            http="h11",
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=self._access_log,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            server_header=False,
            proxy_headers=False,  # a header must not choose the address that delays are counted for
            timeout_graceful_shutdown=2 * _SHUTDOWN_S,  # not reached: see `stop`
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0)
        if self._task.done():
            await self._task
        # No spare descriptors: those that other listeners leave are for this one.
        context = self.hub.context
        self._acceptor = Acceptor(
            "admin",
            self,
            context.loop,
            context.active_limits,
            context.counters,
            spare=0,
            per_turn=_PER_TURN,
        )
        try:
            await self._acceptor.open(self.settings.host, self.settings.port, self._tls)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening and end open streams."""
        if self._server is None or self._task is None:
            return
        if self._acceptor is not None:
            self._acceptor.close()
        for reader in tuple(self._app.state.readers):
            reader.end()
        self._server.should_exit = True
        # uvicorn would cancel requests whose bodies never end, and log a traceback for each.
        late = self.hub.loop.call_later(_SHUTDOWN_S, self._drop_all)
        await self._task
        late.cancel()
        self._server = self._task = self._acceptor = None

    def _drop_all(self) -> None:
        for each in tuple(self._connections):
            self.drop(each, "shutdown")

    def prepare_reload(self, config: Config) -> Callable[[], None]:
        """Read the certificates; return the function that applies the reload. ConfigError."""
        if self._tls is None or config.admin.tls is None:
            return lambda: None
        return self._tls.prepare(config.admin.tls)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; only health probes on the last connections."""
        if len(self._connections) > self.settings.connections and scope["path"] not in _PROBES:
            busy = {"error": "too_busy", "message": "all connections are in use"}
            await JsonResponse(busy, status_code=503)(scope, receive, send)
            return
        # uvicorn logs the scope that it has: without the query, which may have a token in it.
        request = dict(scope)
        scope["query_string"] = b""
        await self._app(request, receive, send)

    # -- connections -------------------------------------------------------------------------

    def accept(self, address: str) -> asyncio.Protocol | None:
        """Return a new connection, for which another may be closed; None when all are in use."""
        if len(self._connections) >= self._most:
            self._close_idle()
        if self._server is None or len(self._connections) >= self.settings.connections + _RESERVE:
            self.hub.counters.refused["admin_connections"] += 1
            return None
        connection = _HttpConnection(self, charged_address(address), self._server)
        self._connections[connection] = None
        self.hub.context.deadlines.add(connection)
        return connection

    def settled(self, protocol: asyncio.Protocol) -> bool:
        """Return whether a connection was made; otherwise stop counting it."""
        assert isinstance(protocol, _HttpConnection)
        if not protocol.made:
            self.forget(protocol)
        return protocol.made

    def take_turn(self, connection: _HttpConnection) -> None:
        """Parse bytes of a connection now, or when the turns of others are over."""
        # One turn for all in each iteration of the loop. uvicorn parses at once whatever was read:
        # 64 KB in tiny chunks, from a peer without a token, delayed all clients by 0.2 s.
        if self._turn_taken:
            self._turns.append(connection)
            return
        self._turn_taken = True
        self._turn(connection)

    def _turn(self, connection: _HttpConnection) -> None:
        self.hub.loop.call_soon(self._next_turn)
        if connection.parse_some():
            self._turns.append(connection)

    def _next_turn(self) -> None:
        if self._turns:
            self._turn(self._turns.popleft())
        else:
            self._turn_taken = False

    def counts(self, connection: _HttpConnection) -> bool:
        """Return whether a connection is counted: it was not closed to make room."""
        return connection in self._connections

    @property
    def _most(self) -> int:
        """How many connections there may be before idle ones are closed."""
        # Fewer than configured when descriptors are few: without one, nothing is accepted, and a
        # probe would wait behind a flood until its connections are too slow.
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        table = self.hub.table
        used = table.count + len(table.lingering) + _OTHER_DESCRIPTORS
        free = soft - used if soft != resource.RLIM_INFINITY else self.settings.connections
        return min(self.settings.connections, max(free, 1))

    def _close_idle(self) -> None:
        """Close the oldest connection that waits for its peer, of the address with most."""
        # By address: a probe that comes from elsewhere than a flood is never closed for it.
        waiting = [each for each in self._connections if each.awaits_peer]
        if waiting:
            count = Counter(each.address for each in self._connections)
            found = min(waiting, key=lambda each: (-count[each.address], each.since))
            self.drop(found, "admin_connections")

    def drop(self, connection: _HttpConnection, reason: str) -> None:
        """Abort a connection, and count it as dropped."""
        self.hub.counters.dropped("admin", reason)
        self.forget(connection)
        if connection.made:
            connection.transport.abort()
        elif self._acceptor is not None:
            self._acceptor.cancel(connection)

    def forget(self, connection: _HttpConnection) -> None:
        """Stop counting a connection."""
        self._connections.pop(connection, None)
        self.hub.context.deadlines.remove(connection)


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
    token = read_secret(path).decode("utf-8", "replace").strip()
    if len(token) < _MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"{path}: invalid token; expected {_MIN_TOKEN} or more printable ASCII characters; "
            "remove the file to get a new one"
        )
    return token
