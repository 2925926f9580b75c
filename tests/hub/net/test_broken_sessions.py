"""A protocol that raises where it should not: other connections, a drain and the scan go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.hub.running import LISTENERS, Running, running, until

ALL = [*LISTENERS, "parcel"]


@asynccontextmanager
async def _two(protocol: str) -> AsyncIterator[tuple[Running, Any, Any]]:
    """A hub with two connections."""
    async with running(listeners=[protocol], **{protocol: {"port": 0}}) as it:
        writers = []
        for count in (1, 2):
            writers.append((await asyncio.open_connection(*it.address(protocol)))[1])
            await until(lambda count=count: len(it.hub.connections) == count)  # type: ignore[misc]
        first, second = it.hub.connections.values()
        yield it, first, second
        for writer in writers:
            writer.transport.abort()


@pytest.mark.parametrize("protocol", ALL)
def test_a_drain_ends_the_others(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with _two(protocol) as (it, first, second):
            close_session = type(first).close_session

            def close(self: Any, reason: str) -> None:
                if self is first:
                    raise RuntimeError("a defect of the protocol")
                close_session(self, reason)

            monkeypatch.setattr(type(first), "close_session", close)
            await it.hub.drain()
            await until(lambda: not it.hub.connections)
            assert (first.close_reason, second.close_reason) == ("internal", "shutdown")

    asyncio.run(go())


@pytest.mark.parametrize("protocol", ALL)
def test_its_deadlines_end_it(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("a defect of the protocol")

    async def go() -> None:
        async with _two(protocol) as (it, first, second):
            with monkeypatch.context() as patch:
                patch.setattr(type(first.session), "next_timer", fail)
                first.check_deadlines(it.hub.loop.time())
            await until(lambda: list(it.hub.connections.values()) == [second])
            assert it.hub.counters.drops == {(protocol, "internal"): 1}

    asyncio.run(go())
