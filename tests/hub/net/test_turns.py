"""What one connection may have processed in a turn of the loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.hub.net.test_acceptor import ALL
from tests.hub.running import running, until

from wirelake.hub.net.connection import Connection

_HEARTBEATS = b"\x00\x01\x06" * 5_000
"""Of a comet client, which are answered before sign-on, too."""


def _sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the sizes of what is processed."""
    sizes: list[int] = []
    receive = Connection._receive

    def record(connection: Connection, data: bytes) -> None:
        sizes.append(len(data))
        receive(connection, data)

    monkeypatch.setattr(Connection, "_receive", record)
    return sizes


@pytest.mark.parametrize("protocol", ALL)
def test_little_before_sign_on(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = _sizes(monkeypatch)

    async def go() -> None:
        settings: dict[str, Any] = {"port": 0}
        async with running(listeners=[protocol], **{protocol: settings}) as it:
            _, writer = await asyncio.open_connection(*it.address(protocol))
            writer.write(_HEARTBEATS)
            await until(lambda: bool(sizes), "something is processed")
            writer.transport.abort()

    asyncio.run(go())
    assert max(sizes) <= 1_024


def test_more_after_it_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = _sizes(monkeypatch)

    async def go() -> None:
        async with running(listeners=["comet"], clients=["ann"]) as it:
            reader, writer = await asyncio.open_connection(*it.address("comet"))
            token = it.tokens["ann"].encode()
            body = b"\x00\x00\x03ann" + len(token).to_bytes(2, "big") + token
            sign_on = len(body).to_bytes(2, "big") + body
            for data, answers in ((_HEARTBEATS + sign_on, 5_001), (_HEARTBEATS, 5_000)):
                writer.write(data)
                for _ in range(answers):
                    size = int.from_bytes(await reader.readexactly(2), "big")
                    await reader.readexactly(size)
            writer.close()

    asyncio.run(asyncio.wait_for(go(), 60))
    assert max(sizes) > 1_024
    assert max(sizes) <= 16_384
