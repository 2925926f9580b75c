"""Outgoing connections of a hub: dialled, and dialled again when they are lost.

The relay's links to backends and ESNP routes use it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar, cast

__all__ = ["DIAL_S", "Dialer", "Dialled"]

DIAL_S: Final = 5.0
"""How long dialling may take (`docs/decisions/tny.md`: the original has 5 s to connect)."""


class Dialled(Protocol):
    """A connection that the hub dials."""

    ended: asyncio.Future[None]
    """Done when the connection is closed."""


D = TypeVar("D", bound=Dialled)


class Delays(Protocol):
    """The waits between attempts."""

    def succeeded(self) -> None:
        """Start again with the first delay."""

    def next_delay_s(self) -> float:
        """Return the next delay."""


class Dialer(Generic[D]):
    """Keeps one connection open."""

    def __init__(
        self,
        connect: Callable[[], D],
        host: str,
        port: int,
        *,
        delays: Delays,
        tls: ssl.SSLContext | None = None,
        on_end: Callable[[D | None], None] = lambda _: None,
    ):
        self._connect = connect
        self._host, self._port = host, port
        self._delays = delays
        self._tls = tls
        self._on_end = on_end
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start dialling."""
        self._task = asyncio.ensure_future(self._keep_open())

    async def stop(self) -> None:
        """Stop dialling; an open connection stays."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_open(self) -> None:
        while True:
            connection = await self._dial()
            if connection is not None:
                self._delays.succeeded()
                await connection.ended
            self._on_end(connection)
            await asyncio.sleep(self._delays.next_delay_s())

    async def _dial(self) -> D | None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_S):
                _, made = await loop.create_connection(
                    lambda: cast(asyncio.BaseProtocol, self._connect()),
                    self._host,
                    self._port,
                    ssl=self._tls,
                )
        except (OSError, TimeoutError):
            return None
        return cast(D, made)
