"""Dialling a server by the binding of its protocol, and the backoff between attempts."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from typing import Final

from wirelake.protocols import registry
from wirelake.wire.protocol import load_reference

from .connection import ClientConnection, Owner
from .errors import BadCall, ConnectionLost, Refused
from .settings import Settings

__all__ = ["Backoff", "connection_class", "dial"]

_STEADY_S: Final = 5.0
"""A connection that lasted this long resets the backoff. Two clients with the same id replace each
other's connection; each waits longer every time, instead of reconnecting in a loop."""


class Backoff:
    """Delays that double up to a limit; up to half of each is random."""

    def __init__(self, first_s: float, most_s: float):
        self._first = first_s
        self._most = most_s
        self._attempt = 0
        self._skip = False

    def next(self) -> float:
        """Return the next delay, in seconds."""
        if self._skip:
            self._skip = False
            return 0.0
        # Jitter: after an outage thousands of clients must not reconnect in the same moment.
        wait = min(self._first * 2.0 ** min(self._attempt, 60), self._most)
        self._attempt += 1
        return wait * random.uniform(0.5, 1.0)

    def lasted(self, seconds: float) -> None:
        """Note how long a connection lasted."""
        if seconds >= _STEADY_S:
            self._attempt = 0

    def at_once(self) -> None:
        """Make the next delay 0."""
        self._skip = True


async def dial(
    settings: Settings, owner: Owner, previous: ClientConnection | None
) -> ClientConnection:
    """Connect to the server without signing on; ClientError when it cannot be reached."""
    where = settings.where
    connection = connection_class(where.protocol)(settings, owner, previous)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            await loop.create_connection(
                lambda: connection, where.host, where.port, ssl=settings.tls
            )
    # A wrong certificate is a refusal, not a lost connection; it is a subclass of OSError.
    except ssl.SSLCertVerificationError as error:
        raise Refused("tls", f"{where.place}: {error.verify_message}") from error
    except TimeoutError as error:
        raise ConnectionLost(f"{where.place}: connection timed out") from error
    except OSError as error:
        # asyncio's own text repeats the address, and joins several errors for a host name.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConnectionLost(f"{where.place}: {reason}") from error
    return connection


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
