"""Dialling a server by the binding of its protocol.

`identify` finds out what a server speaks when a first contact fails or stays silent. It opens a few
short connections, so it is for people at a terminal: a client that reconnects does not use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Iterable
from typing import Final, NamedTuple

from wirelake.protocols import registry
from wirelake.wire.protocol import load_reference

from .connection import ClientConnection, Notification, Owner, Push
from .errors import (
    BadCall,
    CallFailed,
    ClientError,
    ConnectionLost,
    Refused,
    Unreachable,
    WrongServer,
)
from .settings import Settings, Where

__all__ = ["Identified", "connection_class", "dial", "identify", "wrong_server"]


async def dial(
    settings: Settings, owner: Owner, previous: ClientConnection | None
) -> ClientConnection:
    """Connect to `settings.where` without signing on; ClientError when it cannot be reached."""
    where = settings.where
    connection = connection_class(where.protocol)(settings, owner, previous)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            await loop.create_connection(
                lambda: connection, where.host, where.port, ssl=settings.tls
            )
    except TimeoutError as error:
        # A server without TLS may wait for the rest of what it takes for a frame.
        plain = f", or use {where.protocol}:// if the server does not use TLS"
        raise Unreachable(
            f"{where.place}: connection timed out; check host, port and firewalls"
            f"{plain if settings.tls is not None else ''}"
        ) from error
    except OSError as error:
        raise _dial_error(where, settings.tls is not None, error) from error
    return connection


_NO_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"}
)
"""OpenSSL's reasons for bytes that are not TLS."""


def _dial_error(where: Where, tls: bool, error: OSError) -> ClientError:
    """Return the client's error for one of the operating system or of TLS."""
    place = where.place
    match error:
        # A wrong certificate is a refusal, not a lost connection; it is a subclass of OSError.
        case ssl.SSLCertVerificationError():
            return _untrusted(place, error.verify_message)
        case ssl.SSLError(reason=str(reason)) if reason not in _NO_TLS:
            words = reason.lower().replace("_", " ")
            return ConnectionLost(f"{place}: TLS handshake failed: {words}")
        # Also a plain end or reset: a server without TLS closes when it reads the handshake.
        case ssl.SSLError() | ConnectionResetError() | ConnectionAbortedError() if tls:
            return WrongServer(
                f"{place}: no TLS handshake; if the server does not use TLS, use "
                f"{where.protocol}://{place}"
            )
        case ConnectionRefusedError():
            return Unreachable(
                f"{place}: connection refused: no server listens at this address; start it, or "
                f"check host and port"
            )
        case socket.gaierror():
            return Unreachable(f"{place}: unknown host {where.host!r}; check its name")
    # asyncio's own text repeats the address, and joins several errors for a host name.
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    return Unreachable(f"{place}: {reason or type(error).__name__}")


def _untrusted(place: str, why: str) -> Refused:
    return Refused(
        "tls",
        lambda name: (
            f"{place}: untrusted certificate: {why}; connect by a name in the certificate, and "
            f"give its authority with {name('tls')}"
        ),
    )


def connection_class(protocol: str) -> type[ClientConnection]:
    """Return the class that the protocol's binding names; imported on first use."""
    reference = registry.binding(protocol).client or ""
    try:
        found = load_reference(reference)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadCall(f"{protocol}: cannot load {reference!r}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, ClientConnection)):
        raise BadCall(f"{protocol}: {reference} is not a ClientConnection")
    return found


# -- what a server speaks ------------------------------------------------------------------------

_PROBE_S = 3.0
"""How long the server may take to answer a probe: a hub answers within milliseconds, and only a
server that answers none of them makes a person wait that long."""
_EXPECTED_S: Final = 1.5
"""The same for what is expected: a wrong server is silent, and a person waits for this, too."""
_HTTP: Final = "http"


class Identified(NamedTuple):
    """The protocol of a server."""

    protocol: str
    """The name of a protocol, or `http`."""
    tls: bool

    @property
    def scheme(self) -> str:
        """The scheme of its URLs."""
        return f"{self.protocol}{'s' * self.tls}"


async def identify(
    host: str, port: int, *, expected: Identified | None = None
) -> Identified | None:
    """Return the protocol of the server at an address; None if its answer is not recognised.

    With `expected`, that is tried first and alone: a server that is only slow must not get bytes of
    other protocols, which it would count and record as faults.
    """
    if expected is not None:
        tls = _unverified() if expected.tls else None
        probe = (
            _http(host, port, tls)
            if expected.protocol == _HTTP
            else _ping(expected.protocol, host, port, tls)
        )
        if (found := await _first([probe], timeout_s=_EXPECTED_S)) is not None:
            return found
    return await _first(
        [_inside_tls(host, port), *_probes(host, port, None)], timeout_s=3 * _PROBE_S
    )


async def wrong_server(where: Where, *, guess: bool = False) -> WrongServer | None:
    """Return the error if the server speaks something else than a URL says; None if it does not,
    or if that cannot be found out.

    `guess` is for a server that has closed the connection: it is not merely slow, and the usual
    port of another protocol is accepted as a hint.
    """
    expected = None if guess else Identified(where.protocol, where.tls)
    found = await identify(where.host, where.port, expected=expected)
    place = where.place
    if found is None and guess:
        return _by_port(where)
    if found is None or found == (where.protocol, where.tls):
        return None
    if found.protocol == where.protocol:
        uses = "uses TLS" if found.tls else "does not use TLS"
        return WrongServer(f"{place}: the server {uses}; use {found.scheme}://{place}")
    if found.protocol == _HTTP:
        return WrongServer(
            f"{place}: this is an HTTP server, such as the admin address of a hub, and not "
            f"{where.protocol}; check the port"
        )
    return WrongServer(
        f"{place}: the server speaks {found.protocol}, not {where.protocol}; check the port, or "
        f"use {found.scheme}://{place}"
    )


def _by_port(where: Where) -> WrongServer | None:
    for name, binding in registry.all_bindings()[0].items():
        if name != where.protocol and binding.settings().port == where.port:
            return WrongServer(
                f"{where.place}: the server does not answer in {where.protocol}; {where.port} is "
                f"the usual port of {name}: check the port"
            )
    return None


async def _first(
    probes: Iterable[Awaitable[Identified | None]], *, timeout_s: float
) -> Identified | None:
    """Return the first answer of several probes, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in probes]
    try:
        for each in asyncio.as_completed(tasks, timeout=timeout_s):
            with contextlib.suppress(TimeoutError):
                if (found := await each) is not None:
                    return found
        return None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _probes(host: str, port: int, tls: ssl.SSLContext | None) -> list[Awaitable[Identified | None]]:
    names = [name for name, each in registry.all_bindings()[0].items() if each.client is not None]
    return [_http(host, port, tls), *(_ping(name, host, port, tls) for name in names)]


def _unverified() -> ssl.SSLContext:
    """Return a context for probes: nothing secret is sent, so the certificate does not matter."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _inside_tls(host: str, port: int) -> Identified | None:
    """Return the protocol of the server inside TLS; None if it does not use TLS."""
    context = _unverified()
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError):
        return None
    writer.transport.abort()
    return await _first(_probes(host, port, context), timeout_s=2 * _PROBE_S)


async def _http(host: str, port: int, tls: ssl.SSLContext | None) -> Identified | None:
    writer = None
    try:
        async with asyncio.timeout(_PROBE_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            reply = await reader.readexactly(5)
        return Identified(_HTTP, tls is not None) if reply == b"HTTP/" else None
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return None
    finally:
        if writer is not None:
            writer.transport.abort()


async def _ping(
    protocol: str, host: str, port: int, tls: ssl.SSLContext | None
) -> Identified | None:
    """Send the heartbeat of a protocol; any valid reply counts, also a refusal."""
    accepted = registry.binding(protocol).client_options
    connection = None
    try:
        settings = Settings(
            where=Where(protocol, tls is not None, host, port),
            tls=tls,
            timeout_s=_PROBE_S,
            connect_timeout_s=_PROBE_S,
            anonymous="anonymous" in accepted,
            allow_plaintext=True if "allow_plaintext" in accepted else None,
        )
        async with asyncio.timeout(_PROBE_S):
            connection = await dial(settings, _NoOwner(), None)
            await connection.sign_on()
            await connection.ping()
    except (Refused, CallFailed):
        pass
    except (ClientError, OSError, TimeoutError):
        return None
    finally:
        if connection is not None:
            connection.abort()
    return Identified(protocol, tls is not None)


class _NoOwner:
    """The owner of a probe's connection, which receives nothing."""

    full = False

    def notified(self, notification: Notification) -> None:
        """Ignore a notification."""

    def pushed(self, push: Push) -> None:
        """Ignore another message of the server."""

    def replied(self) -> None:
        """Ignore the end of a request."""
