"""Peers that close their side of a connection, and do not read the rest of what was written."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop
from tests.hub.running import LISTENERS, running, until

_UNREAD_BYTES = 600_000
"""More than both buffers of a socket here, and less than the `write_buffer` of the hub (1 MiB),
from which on writing pauses."""
_SOCKET_BYTES = 4_096


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("protocol", [*LISTENERS, "parcel"])
def test_a_half_closed_connection_is_dropped(
    protocol: str, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def go() -> None:
        limits = {"slow_reader_s": 0.1}
        async with running(listeners=[protocol], limits=limits, **{protocol: {"port": 0}}) as it:
            with socket.socket() as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
                peer.connect(it.address(protocol))
                await until(lambda: it.hub.connections)
                [connection] = it.hub.connections.values()
                server = connection.transport.get_extra_info("socket")
                server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
                connection.write(bytes(_UNREAD_BYTES))
                await until(connection.transport.get_write_buffer_size)
                assert not connection.paused_since
                peer.shutdown(socket.SHUT_WR)
                await until(lambda: not it.hub.connections)
            assert it.hub.counters.drops == {(protocol, "slow_reader"): 1}

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(go())
