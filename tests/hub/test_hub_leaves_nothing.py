"""A connection that is over is gone at once, without a look for cycles."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.hub.certificates import Certificate, make_certificate
from tests.hub.running import running, until

from wirelake.client import connect
from wirelake.hub.net.connection import Connection
from wirelake.hub.rpc.demo_services import demo_services

pytestmark = pytest.mark.slow

_TARGETS = {"esnp": "test/echo", "tny": 1001, "magline": 0x1001}


def _left() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, Connection)]


@pytest.mark.parametrize("protocol", ["comet", "esnp", "tny", "magline"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("secure", [False, True])
def test_nothing_holds_on_to_it(
    protocol: str, secure: bool, loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    made = make_certificate(tmp_path) if secure else None
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_come_and_go(protocol, made))


async def _come_and_go(protocol: str, made: Certificate | None) -> None:
    tables = {"magline": {"anonymous": True}}
    if made is not None:
        tables[protocol] = {**tables.get(protocol, {}), "tls": made.settings}
    tls = None if made is None else made.trusting()
    async with running(
        clients=["anna"], listeners=[protocol], services=demo_services(), **tables
    ) as it:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await _visit(protocol, it.address(protocol), it.tokens["anna"], tls)
            await until(lambda: not it.hub.connections and not it.hub.table.lingering)
            await until(lambda: _left() == [])  # transports are released in later turns
        finally:
            gc.enable()


async def _visit(
    protocol: str, address: tuple[str, int], token: str, tls: ssl.SSLContext | None
) -> None:
    options: dict[str, Any] = {"anonymous": True} if protocol == "magline" else {}
    scheme = protocol if tls is None else f"{protocol}s"
    url = f"{scheme}://localhost:{address[1]}"
    options |= {"id": "anna", "token": token, "reconnect": False, "tls": tls}
    async with connect(url, **options) as client:
        await client.subscribe("@news")
        if protocol == "comet":
            return
        for _ in range(4):
            await client.call(_TARGETS[protocol], b"hello")
            await client.publish("hello", topic="@news", ttl_s=0)
            await client.publish("hello", topic="@news")
