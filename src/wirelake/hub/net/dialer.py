"""Outgoing connections of a hub: dialled, and dialled again when they are lost.

The relay's links to backends and ESNP routes use it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar, cast

__all__ = ["DIAL_S", "Dialer", "Dialled", "dial"]

DIAL_S: Final = 5.0
"""How long dialling may take (`docs/decisions/tny.md`: the original has 5 s to connect)."""


class Dialled(Protocol):
    """A connection that the hub dials."""

    ended: asyncio.Future[None]
    """Done when the connection is closed."""


C = TypeVar("C")
D = TypeVar("D", bound=Dialled)


class Delays(Protocol):
    """The waits between attempts."""

    def succeeded(self) -> None:
        """Start again with the first delay."""

    def next_delay_s(self) -> float:
        """Return the next delay."""


async def dial(
    connect: Callable[[], C], host: str, port: int, tls: ssl.SSLContext | None
) -> C | None:
    """Return a new connection; None when there is none after `DIAL_S`, or when it is closed again.

    A connection that is reset before it is accepted has no session, and would never say that it has
    ended.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DIAL_S):
            transport, made = await loop.create_connection(
                lambda: cast(asyncio.BaseProtocol, connect()), host, port, ssl=tls
            )
    except (OSError, TimeoutError, ValueError):
        # ValueError: no name of a host, such as `a..b`; there is nobody to raise it to.
        return None
    return None if transport.is_closing() else cast(C, made)


class Dialer(Generic[D]):
    """Keeps one connection open.

    `tls` returns the context of the next connection: a reload may replace it.
    """

    def __init__(
        self,
        connect: Callable[[], D],
        host: str,
        port: int,
        *,
        delays: Delays,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
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
            connection = await dial(self._connect, self._host, self._port, self._tls())
            if connection is not None:
                self._delays.succeeded()
                await connection.ended
            self._on_end(connection)
            await asyncio.sleep(self._delays.next_delay_s())
