"""Peers that are gone before the hub accepts them, while it records."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from pathlib import Path

import pytest
import uvloop
from tests.hub.certificates import make_certificate
from tests.hub.running import LISTENERS, running, until

from wirelake.hub.observe.counters import Counters

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def _connect_and_reset(address: tuple[str, int]) -> None:
    """Complete a handshake and reset the connection, in one turn of the loop."""
    with socket.create_connection(address) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_nothing_is_left_of_them(tmp_path: Path, secured: bool) -> None:
    tls = make_certificate(tmp_path).settings if secured else None
    tables = {name: {"tls": tls} for name in LISTENERS} if secured else {}

    def count(counters: Counters, name: str) -> int:
        """Those that the hub has accepted, or given up in their handshake."""
        failed = sum(n for (each, _), n in counters.handshake_failures.items() if each == name)
        return counters.accepted[name] + failed

    async def go() -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context)
        )
        async with running(clients=["anna"], record={"folder": str(tmp_path)}, **tables) as it:
            names = [name for name in LISTENERS if name in it.hub.listeners]
            counters = it.hub.counters
            # uvloop opens a spare descriptor with its first transport.
            _connect_and_reset(it.address(names[0]))
            await until(lambda: count(counters, names[0]) == 1)
            counters.accepted.clear()
            counters.handshake_failures.clear()
            counters.close_reasons.clear()
            before = len(os.listdir("/proc/self/fd"))
            for name in names:
                for _ in range(20):
                    _connect_and_reset(it.address(name))
            for name in names:
                await until(
                    lambda name=name: count(counters, name) == 20, f"peers of {name} are accepted"
                )
            await until(lambda: not it.hub.connections, "no connection is left")
            await until(
                lambda: len(os.listdir("/proc/self/fd")) <= before, "descriptors are closed"
            )
            if secured:
                assert sum(counters.handshake_failures.values()) == 20 * len(names)
                assert it.hub.table.count == 0
            else:
                assert sum(counters.close_reasons.values()) == 20 * len(names)
                assert {reason for _, reason in counters.close_reasons} >= {"reset"}
        assert failures == []
        assert list(tmp_path.glob("*.open")) == []

    # The loop of `wirelake hub`. asyncio's own keeps the address that accept() returned.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())
