"""Connections that the hub dials, and dials again."""

from __future__ import annotations

import asyncio
import socket

import pytest

from wirelake.hub.net.dialer import Dialer, dial


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


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", "a\0b"])
def test_what_is_no_host_cannot_be_reached(host: str) -> None:
    """An exception would end the task that dials, without a word."""
    assert asyncio.run(dial(asyncio.Protocol, host, 9, None)) is None
