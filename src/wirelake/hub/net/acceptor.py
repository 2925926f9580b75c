"""Accepts connections: limits, socket options and TLS handshakes, the same for every listener.

The hub calls `accept` itself. `loop.create_server` creates a transport and, with TLS, an OpenSSL
session of 50 KB before any code of the hub runs: 4,000 silent TLS connections of one address were
counted by no limit. Here a connection is counted when it is accepted, and one that a limit refuses
costs an `accept` and a `close`.

Without free descriptors `accept` fails, and the socket stays readable: a loop that goes on would
use the whole core. The acceptor then logs it, counts it, and pauses. Before that, connections are
refused while the last descriptors are left, so that HTTP probes, the store and recordings still
get some.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import resource
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from ..config import ActiveLimits
from ..observe.counters import Counters

__all__ = ["SHUTDOWN_S", "SPARE_DESCRIPTORS", "Acceptor", "Owner", "charged_address", "tune"]

_log = logging.getLogger(__name__)
_BACKLOG: Final = 4096
"""Length of the accept queue: after an outage all clients reconnect within a second or two, and a
SYN that finds the queue full is retried only after a second."""
_PER_TURN: Final = 64
"""Connections accepted in one turn of the loop: about five milliseconds."""
_PAUSE_S: Final = 0.5
"""How long nothing is accepted after `accept` found no descriptor or no memory."""
_LOG_EVERY_S: Final = 60.0
"""How often a lack of descriptors is logged."""
SPARE_DESCRIPTORS: Final = 128
"""Descriptors that connections of protocols leave to HTTP, the store and recordings."""
SHUTDOWN_S: Final = 2.0
"""How long a peer may take to answer the close of a TLS connection."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PROBES: Final = 4
"""Keepalive probes without an answer after which a peer is dead."""
_MAX_KEEPALIVE_S: Final = 32_767
"""The largest TCP_KEEPIDLE of Linux."""
_NETWORK_BITS: Final = 64
"""The prefix of IPv6 addresses that one subscriber has at least (RFC 6177)."""


class Owner(Protocol):
    """Whose connections they are: a listener, or the HTTP server."""

    def accept(self, address: str) -> asyncio.Protocol | None:
        """Count a connection and return its protocol; None to refuse it."""

    def settled(self, protocol: asyncio.Protocol) -> bool:
        """Return whether `connection_made` was called; otherwise stop counting the connection."""


class Acceptor:
    """The listening sockets of one listener."""

    def __init__(
        self,
        name: str,
        owner: Owner,
        loop: asyncio.AbstractEventLoop,
        limits: ActiveLimits,
        counters: Counters,
        *,
        spare: int = SPARE_DESCRIPTORS,
        per_turn: int = _PER_TURN,
    ):
        self._name = name
        self._owner = owner
        self._loop = loop
        self._limits = limits
        self._counters = counters
        self._spare = spare
        self._per_turn = per_turn
        self._tls: ssl.SSLContext | None = None
        self._sockets: list[socket.socket] = []
        self._connecting: dict[asyncio.Protocol, asyncio.Task[str]] = {}
        self._paused: asyncio.TimerHandle | None = None
        self._logged_at = -_LOG_EVERY_S

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses it listens on."""
        return [tuple(each.getsockname()[:2]) for each in self._sockets]

    async def open(self, hosts: str | Iterable[str], port: int, tls: ssl.SSLContext | None) -> None:
        """Listen on these addresses; OSError names the one that cannot be used."""
        self._tls = tls
        try:
            for host in (hosts,) if isinstance(hosts, str) else hosts:
                self._sockets += await self._listen(host, port)
        except BaseException:
            self.close()
            raise
        self._resume()

    async def _listen(self, host: str, port: int) -> list[socket.socket]:
        """Return a listening socket for each address of a host."""
        try:
            found = await self._loop.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            return [_bound(info[0], info[4]) for info in dict.fromkeys(found)]
        except OSError as error:
            text = f"{error.strerror}: {self._name} on {host}:{port}"
            raise OSError(error.errno, text) from error

    def close(self) -> None:
        """Stop listening, and end TLS handshakes; other connections stay."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            self._loop.remove_reader(each.fileno())
            each.close()
        for protocol in tuple(self._connecting):
            self.cancel(protocol)

    def cancel(self, protocol: asyncio.Protocol) -> None:
        """End a connection before its TLS handshake is complete; its owner refuses others."""
        # Without TLS it is connected in this turn of the loop. If the task is cancelled then,
        # uvloop closes the socket and never reports the end of the connection.
        task = self._connecting.get(protocol)
        if task is not None and self._tls is not None:
            task.cancel()

    # -- accepting ---------------------------------------------------------------------------

    def _resume(self) -> None:
        self._paused = None
        for each in self._sockets:
            self._loop.add_reader(each.fileno(), self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._per_turn):
            try:
                sock, peer = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    continue  # the peer was gone, or its network: the next one is another peer
                self._exhausted(error)
                return
            if self._few_descriptors(sock):
                sock.close()
                continue
            protocol = self._owner.accept(str(peer[0]))
            if protocol is None:
                sock.close()
                continue
            tune(sock, self._limits.current.keepalive_s)
            task = self._loop.create_task(self._connect(protocol, sock))
            self._connecting[protocol] = task
            task.add_done_callback(partial(self._connected, protocol, sock))

    async def _connect(self, protocol: asyncio.Protocol, sock: socket.socket) -> str:
        """Create the transport of a connection, after its TLS handshake; return why it failed."""
        tls = self._tls
        sock.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                sock,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self._limits.current.handshake_s,
                ssl_shutdown_timeout=None if tls is None else SHUTDOWN_S,
            )
        except asyncio.CancelledError:
            return "cancelled"
        except OSError as error:  # SSLError and the time-out of a handshake are OSErrors
            return _reason(error)
        return ""

    def _connected(
        self, protocol: asyncio.Protocol, sock: socket.socket, task: asyncio.Task[str]
    ) -> None:
        del self._connecting[protocol]
        reason = "cancelled"
        if task.cancelled():  # before it began: no transport owns the socket
            sock.close()
        elif (error := task.exception()) is not None:
            _log.error("%s: a connection failed", self._name, exc_info=error)
            reason = "error"
        else:
            reason = task.result() or "lost"  # no error when the peer closes in a handshake
        if not self._owner.settled(protocol):
            self._counters.handshake_failures[self._name, reason] += 1

    # -- descriptors -------------------------------------------------------------------------

    def _few_descriptors(self, sock: socket.socket) -> bool:
        """Return whether a connection has to be refused, to leave descriptors for the rest."""
        # The kernel assigns the lowest number that is free, so a high one means that nearly all are
        # in use. With a limit as low as the spare ones, half of them is left.
        if not self._spare:
            return False
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return False
        if sock.fileno() < max(soft - self._spare, soft // 2):
            return False
        self._counters.refused["descriptors"] += 1
        self._log_rarely("connections are refused: nearly all %d descriptors are in use", soft)
        return True

    def _exhausted(self, error: OSError) -> None:
        """Pause accepting: the listening sockets stay readable, and every `accept` would fail."""
        self._counters.accept_errors[self._name, errno.errorcode[error.errno or 0]] += 1
        self._log_rarely("connections wait: %s", error.strerror)
        for each in self._sockets:
            self._loop.remove_reader(each.fileno())
        self._paused = self._loop.call_later(_PAUSE_S, self._resume)

    def _log_rarely(self, text: str, value: object) -> None:
        now = self._loop.time()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            _log.error(
                f"%s: {text}; raise the limit of open files (LimitNOFILE)", self._name, value
            )


def _reason(error: OSError) -> str:
    """Return the label of a failed handshake."""
    if isinstance(error, ssl.SSLError):
        return "tls"
    # Both loops report the time-out of a handshake as ConnectionAbortedError.
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return "timeout"
    return "lost"


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    """Return a listening socket."""
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def charged_address(host: str) -> str:
    """Return what limits per address count for: an IPv4 address, or an IPv6 network."""
    # A subscriber chooses among 2^64 addresses of IPv6: limits of each would limit nobody. On the
    # link itself, every host has an address of the same network.
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback or address.is_link_local:
        return host
    return str(ipaddress.ip_network((address, _NETWORK_BITS), strict=False))


def tune(sock: socket.socket, keepalive_s: float) -> None:
    """Set the options of a connection: no delay of small writes, and keepalive.

    A peer that vanished without a FIN is detected after twice `keepalive_s`, whether the connection
    is idle or has unacknowledged bytes.
    """
    # With Nagle's algorithm p99 of a call was 43 ms. Coalescing is done by the outbox.
    idle_s = min(max(1, round(keepalive_s)), _MAX_KEEPALIVE_S)
    options = {
        "TCP_NODELAY": 1,
        "TCP_KEEPIDLE": idle_s,
        "TCP_KEEPINTVL": max(1, idle_s // _PROBES),
        "TCP_KEEPCNT": _PROBES,
        "TCP_USER_TIMEOUT": 2 * idle_s * 1_000,
    }
    with suppress(OSError):  # the peer has disconnected
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            if hasattr(socket, name):  # not every system has all of them
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
