"""Memory after connections: what is trimmed, and that failed handshakes leave no garbage."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop
from tests.hub.certificates import make_certificate
from tests.hub.running import running, until

from wirelake.hub.net.memory import MemoryRelease


def test_the_heap_is_trimmed_once_after_many_have_gone() -> None:
    counts = [500, 5_000, 4_001, 4_000, 3_500, 2_999, 2_500, 0, 0]
    trims: list[int] = []
    memory = MemoryRelease(1, lambda: counts[0], lambda: trims.append(counts[0]))
    while counts:
        memory.check_deadlines(0.0)
        del counts[0]
    assert trims == [4_000, 2_999, 0]


@contextmanager
def _garbage() -> Iterator[list[object]]:
    """Everything that only a collection of garbage frees."""
    found: list[object] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("times_out", [False, True])
def test_failed_handshakes_leave_no_garbage(times_out: bool, tmp_path: Path) -> None:
    made = make_certificate(tmp_path)

    async def go() -> None:
        limits = {"handshake_s": 0.1 if times_out else 60.0}
        async with running(listeners=["comet"], comet={"tls": made.settings}, limits=limits) as it:
            with _garbage() as left:
                for _ in range(3):
                    with socket.create_connection(it.address("comet")):
                        await until(lambda: it.hub.table.count == 1)
                        if times_out:
                            await until(lambda: it.hub.table.count == 0)
                    await until(lambda: it.hub.table.count == 0)
                for _ in range(3):  # transports are released in later turns
                    await asyncio.sleep(0)
            kinds = {type(each).__name__ for each in left}
            assert not {each for each in kinds if "SSL" in each or "Connection" in each}, kinds

    # The loop of `wirelake hub`.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())
