"""What all clients of a live run share: listeners, tokens, the journal, and the time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final, TypeVar

from ..plan import SimulateError
from .connection import ClientConnection, connect
from .hub_address import DEADLINE_S, Admin
from .journal import Journal

__all__ = ["RunContext"]

_HANDSHAKES: Final = 16
"""Concurrent handshakes: a hub allows twice as many."""
_POLL_S: Final = 0.01
_Connection = TypeVar("_Connection", bound=ClientConnection)


class RunContext:
    """A live run in progress."""

    def __init__(
        self,
        admin: Admin,
        listeners: dict[str, tuple[str, int]],
        tokens: dict[str, str],
        seed: int,
    ):
        self.admin = admin
        self.tokens = tokens
        """By client."""
        self.journal = Journal()
        self.rng = random.Random(f"wirelake live {seed}")
        self.connections: set[ClientConnection] = set()
        """Connections that may be open."""
        self.until = 0.0
        """When, by the loop's clock, nothing new is started."""
        self.handshakes = asyncio.Semaphore(_HANDSHAKES)
        """Held while a client connects and signs on."""
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return self.until - self._loop.time()

    async def pause(self, seconds: float) -> None:
        """Sleep, at most until the end of the run."""
        await asyncio.sleep(max(0.0, min(seconds, self.left_s)))

    async def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that must happen. Raises SimulateError after a deadline."""
        deadline = self._loop.time() + DEADLINE_S
        while not condition():
            if self._loop.time() > deadline:
                raise SimulateError(
                    f"no {what} within {DEADLINE_S:.0f} s; the hub may be overloaded"
                )
            await asyncio.sleep(_POLL_S)

    async def connect(self, listener: str, make: Callable[[], _Connection]) -> _Connection:
        """Connect to a listener of the hub."""
        connection = await connect(self._listeners[listener], make)
        self.connections.add(connection)
        return connection

    async def disconnect(self, connection: ClientConnection) -> None:
        """Disconnect a client."""
        self.connections.discard(connection)
        await connection.disconnect()

    def abort(self) -> None:
        """Close all connections at once: the run has failed."""
        for connection in self.connections:
            connection.abort()

    async def wait_gone(self) -> None:
        """Wait until the hub has noticed that all clients are gone."""
        ours = {f"{each.address}:{each.port}" for each in self.journal.connections}
        deadline = self._loop.time() + DEADLINE_S
        while ours & await self.admin.peers():
            if self._loop.time() > deadline:
                raise SimulateError(
                    f"the hub still has connections {DEADLINE_S:.0f} s after all clients left;"
                    " it may be overloaded"
                )
            await asyncio.sleep(_POLL_S)
