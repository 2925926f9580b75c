"""A connection that is over is gone at once, without a look for cycles."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.hub.running import running, until

from wirelake.client import connect
from wirelake.hub.net.connection import Connection
from wirelake.hub.rpc.demo_services import demo_services

pytestmark = pytest.mark.slow

_TARGETS = {"esnp": "test/echo", "tny": 1001, "magline": 0x1001}


def _left() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, Connection)]


@pytest.mark.parametrize("protocol", ["comet", "esnp", "tny", "magline"])
def test_nothing_holds_on_to_it(protocol: str) -> None:
    asyncio.run(_come_and_go(protocol))


async def _come_and_go(protocol: str) -> None:
    async with running(
        clients=["anna"],
        listeners=[protocol],
        services=demo_services(),
        magline={"anonymous": True},
    ) as it:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await _visit(protocol, it.address(protocol), it.tokens["anna"])
            await until(lambda: not it.hub.connections and not it.hub.table.lingering)
            await until(lambda: _left() == [])  # transports are released in later turns
        finally:
            gc.enable()


async def _visit(protocol: str, address: tuple[str, int], token: str) -> None:
    options = {"anonymous": True} if protocol == "magline" else {}
    url = "{}://{}:{}".format(protocol, *address)
    async with connect(url, id="anna", token=token, reconnect=False, **options) as client:
        await client.subscribe("@news")
        if protocol == "comet":
            return
        for _ in range(4):
            await client.call(_TARGETS[protocol], b"hello")
            await client.publish("hello", topic="@news", ttl_s=0)
            await client.publish("hello", topic="@news")
