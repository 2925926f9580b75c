"""Calling clients on a running hub: calls, notifications, tunnels, tickets, disconnects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.hub.running import Running, running, until

from wirelake.hub.rpc.demo_services import demo_services
from wirelake.protocols.magline.endpoint import Established
from wirelake.protocols.magline.session import ClientKey, Ticket
from wirelake.protocols.tny.relay_link import LinkUp
from wirelake.traffic.live import SimulateError
from wirelake.traffic.live.calling import CallingClient
from wirelake.traffic.live.connection import connect
from wirelake.traffic.live.journal import Journal
from wirelake.traffic.live.protocols.esnp import Service
from wirelake.traffic.live.protocols.magline import Device
from wirelake.traffic.live.protocols.tny import Gateway, Player

_KEY = ClientKey(allow_anonymous=True)


def _hub() -> Any:
    return running(clients=["anna"], services=demo_services(), magline={"anonymous": True})


async def _client(
    it: Running, journal: Journal, protocol: str, ticket: Ticket | None = None
) -> CallingClient:
    makers: dict[str, Callable[[], CallingClient]] = {
        "esnp": lambda: Service(journal, random.Random(1)),
        "tny": lambda: Player(journal, random.Random(1)),
        "magline": lambda: Device(journal, _KEY, ticket),
    }
    client = await connect(it.address(protocol), makers[protocol])
    if isinstance(client, Device):
        await client.handshake()
    return client


@pytest.mark.parametrize("protocol", ["esnp", "tny", "magline"])
def test_calls_and_notifications(protocol: str) -> None:
    async def scene() -> Journal:
        journal = Journal()
        async with _hub() as it:
            client = await _client(it, journal, protocol)
            await client.sign_on("anna", it.tokens["anna"])
            calls = [client.start_call("test/sleep", ms=ms) for ms in (20, 5, 1)]
            assert [found["ms"] for found in await client.wait_all(calls)] == [20, 5, 1]
            assert isinstance(await client.call("test/fail"), str)
            client.acks = True
            await client.must_call("hub/subscribe", topic="@news", ack=True)
            client.expect((await it.publish("@news")).id)
            await until(lambda: client.idle, "everything has come")
            client.start_call("test/sleep", ms=60_000)
            client.drop_calls()
            await client.disconnect()
        return journal

    journal = asyncio.run(scene())
    outcomes = [call.outcome for call in journal.calls]
    assert outcomes == ["answered"] * 4 + ["failed"] + ["answered"] * 2 + ["lost"]
    assert [call.latency_min_ns for call in journal.calls[1:4]] == [
        20_000_000,
        5_000_000,
        1_000_000,
    ]
    for call in journal.calls[1:4]:
        assert call.latency_max_ns is not None
        assert call.latency_max_ns >= call.at_least_ns - 1_000_000
    entry = journal.connections[0]
    assert entry.total(kinds=("request",)) == len(journal.calls)
    assert entry.total(kinds=("push", "event")) == 1
    assert entry.failures == 1


def test_a_device_reconnects() -> None:
    async def scene() -> Journal:
        journal = Journal()
        async with _hub() as it:
            client = await _client(it, journal, "magline")
            await client.sign_on("anna", it.tokens["anna"])
            await client.must_call("hub/subscribe", topic="@news")
            await client.disconnect()
            await until(lambda: not it.hub.connections, "the hub knows that it is gone")
            waiting = (await it.publish("@news")).id
            again = await _client(it, journal, "magline", client.session.ticket)
            again.expect(waiting)
            await until(lambda: again.idle, "what has waited has come")
            assert isinstance(again, Device)
            await again.finish()
        return journal

    journal = asyncio.run(scene())
    first, second = journal.connections
    assert (first.resumed, second.resumed) == (None, True)
    assert second.close_reason == "normal"
    assert [second.named(name) for name in ("syn", "ack", "pin", "pon", "psh", "fin")] == [1] * 6


def test_users_of_a_gateway() -> None:
    async def scene() -> Journal:
        journal = Journal()
        async with _hub() as it:
            gateway = await connect(it.address("relay"), lambda: Gateway(journal, 7, "throw-away"))
            await gateway.open()
            user = await gateway.open_tunnel(1)
            await user.sign_on("anna", it.tokens["anna"])
            assert (await user.must_call("test/add", a=1, b=2))["c"] == 3
            gateway.ping()
            await until(lambda: not gateway.pings, "the answer")
            user.disconnect()
            await gateway.close()
        return journal

    journal = asyncio.run(scene())
    link, (tunnel,) = journal.connections[0], journal.tunnels
    assert tunnel.link == link.number
    assert tunnel.total() == 4
    assert link.named("tunnel_relay") == 4
    assert link.named("link_close") == 2
    assert {call.connection for call in journal.calls} == {tunnel}


def test_a_lost_hub_is_one_line() -> None:
    async def scene() -> None:
        async with _hub() as it:
            client = await _client(it, Journal(), "esnp")
            await client.sign_on("anna", it.tokens["anna"])
            call = client.start_call("test/sleep", ms=60_000)
            for connection in list(it.hub.connections.values()):
                connection.drop("a test")
            with pytest.raises(SimulateError, match="ended too early") as caught:
                await client.wait_all([call])
            assert len(str(caught.value).splitlines()) == 1
            with pytest.raises(SimulateError):
                client.start_call("test/echo", text="is anybody there?")

    asyncio.run(scene())


def test_no_listener() -> None:
    async def scene() -> None:
        async with running(listeners=["esnp"]) as it:
            address = it.address("esnp")
        await connect(address, lambda: Service(Journal(), random.Random(1)))

    with pytest.raises(SimulateError, match="cannot connect"):
        asyncio.run(scene())


def test_responses_after_a_cancelled_wait() -> None:
    async def scene() -> None:
        gateway = Gateway(Journal(), 1, "link key")
        gateway.up.cancel()
        gateway.on_event(LinkUp("game", 1))
        device = Device(Journal(), _KEY)
        device.ready.cancel()
        device.on_event(Established("anonymous", bytes(32)))

    asyncio.run(scene())
