"""Connections that the hub dials, and dials again."""

from __future__ import annotations

import asyncio
import socket

from wirelake.hub.net.dialer import Dialer


class _Delays:
    def succeeded(self) -> None:
        """Nothing to forget."""

    def next_delay_s(self) -> float:
        return 0.0


class _Aborted(asyncio.Protocol):
    """A connection that was reset before it was accepted: it does not say that it has ended."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


def test_a_connection_that_is_closed_at_once_is_dialled_again() -> None:
    async def check() -> None:
        host, port = listening.getsockname()
        ended: asyncio.Queue[_Aborted | None] = asyncio.Queue()
        dialer = Dialer(_Aborted, host, port, delays=_Delays(), on_end=ended.put_nowait)
        dialer.start()
        async with asyncio.timeout(20):
            assert [await ended.get() for _ in range(2)] == [None, None]
        await dialer.stop()

    # Nobody accepts: the system completes the handshakes of a queue.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asyncio.run(check())
