"""A protocol that raises where it should not: other connections, a drain and the scan go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.hub.listeners_tny.tny_client import tny_client
from tests.hub.relay.gateway_hubs import backend, gateway, links_up, port_of, who
from tests.hub.running import LISTENERS, Running, running, until

from wirelake.hub.listeners.relay import Tunnel
from wirelake.hub.listeners.tny_gateway import User

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


@pytest.mark.parametrize("protocol", ALL)
@pytest.mark.parametrize("step", ["exchange", "events"])
def test_its_session_ends_it(protocol: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with _two(protocol) as (it, first, second):
            whole = getattr(type(first.session), step)

            def fail(session: Any, *given: Any) -> Any:
                if session is first.session:
                    raise RuntimeError("a defect of the protocol")
                return whole(session, *given)

            monkeypatch.setattr(type(first.session), step, fail)
            for each in (first, second):
                if step == "exchange":
                    each.data_received(b"")
                else:
                    each.react()
            await until(lambda: list(it.hub.connections.values()) == [second])
            assert it.hub.counters.drops == {(protocol, "internal"): 1}

    asyncio.run(go())


def test_a_tunnel_ends_without_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_once(monkeypatch, Tunnel, "handle_message")

    async def go() -> None:
        async with (
            backend("one") as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as first,
            tny_client(gate.address("tny")) as second,
        ):
            asked = first.ask(2000, {})
            await first.ended()
            asked.cancel()
            assert (await who(second))["name"] == "one"
            assert one.hub.counters.drops == {("tny", "internal"): 1}
            assert links_up(gate) == 1

    asyncio.run(go())


def test_a_user_of_a_gateway_ends_without_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_once(monkeypatch, User, "handle_reply")

    async def go() -> None:
        async with (
            backend("one") as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as first,
            tny_client(gate.address("tny")) as second,
        ):
            asked = first.ask(2000, {})
            await first.ended()
            asked.cancel()
            assert (await who(second))["name"] == "one"
            assert gate.hub.counters.drops == {("tny", "internal"): 1}
            assert links_up(gate) == 1

    asyncio.run(go())


def _fail_once(monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str) -> None:
    whole = getattr(owner, name)
    failed: list[Any] = []

    def fail(connection: Any, *given: Any) -> Any:
        if not failed:
            failed.append(connection)
            raise RuntimeError("a defect of the protocol")
        return whole(connection, *given)

    monkeypatch.setattr(owner, name, fail)
