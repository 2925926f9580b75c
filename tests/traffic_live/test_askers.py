"""Those who call, on a hub that runs: calls, notifications, tunnels, tickets, and hanging up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.hub.running import Running, running, until

from wirelake.hub.rpc.demo_services import demo_services
from wirelake.protocols.magline.session import ClientKey, Ticket
from wirelake.traffic.live import SimulateError
from wirelake.traffic.live.askers import (
    Asker,
    Device,
    Player,
    Service,
)
from wirelake.traffic.live.connection import dial
from wirelake.traffic.live.gateway import Gateway
from wirelake.traffic.live.journal import Ledger

_KEY = ClientKey(allow_anonymous=True)


def _hub() -> Any:
    return running(clients=["anna"], services=demo_services(), magline={"anonymous": True})


async def _asker(it: Running, ledger: Ledger, protocol: str, ticket: Ticket | None = None) -> Asker:
    makers: dict[str, Callable[[], Asker]] = {
        "esnp": lambda: Service(ledger, random.Random(1)),
        "tny": lambda: Player(ledger, random.Random(1)),
        "magline": lambda: Device(ledger, _KEY, ticket),
    }
    line = await dial(it.address(protocol), makers[protocol])
    if isinstance(line, Device):
        await line.shake_hands()
    return line


@pytest.mark.parametrize("protocol", ["esnp", "tny", "magline"])
def test_calls_and_notifications(protocol: str) -> None:
    async def scene() -> Ledger:
        ledger = Ledger()
        async with _hub() as it:
            line = await _asker(it, ledger, protocol)
            await line.sign_on("anna", it.tokens["anna"])
            calls = [line.post("test/sleep", ms=ms) for ms in (20, 5, 1)]
            assert [found["ms"] for found in await line.all_of(calls)] == [20, 5, 1]
            assert isinstance(await line.ask("test/fail"), str)
            line.acks = True
            await line.must("hub/subscribe", topic="@news", ack=True)
            line.expect((await it.publish("@news")).id)
            await until(lambda: line.calm, "everything has come")
            line.post("test/sleep", ms=60_000)
            line.lose_all()
            await line.hang_up()
        return ledger

    ledger = asyncio.run(scene())
    outcomes = [call.outcome for call in ledger.calls]
    assert outcomes == ["answered"] * 4 + ["failed"] + ["answered"] * 2 + ["lost"]
    assert [call.latency_min_ns for call in ledger.calls[1:4]] == [20_000_000, 5_000_000, 1_000_000]
    for call in ledger.calls[1:4]:
        assert call.latency_max_ns is not None
        assert call.latency_max_ns >= call.at_least_ns - 1_000_000
    contact = ledger.contacts[0]
    assert contact.total(kinds=("request",)) == len(ledger.calls)
    assert contact.total(kinds=("push", "event")) == 1
    assert contact.failures == 1


def test_a_device_comes_back() -> None:
    async def scene() -> Ledger:
        ledger = Ledger()
        async with _hub() as it:
            line = await _asker(it, ledger, "magline")
            await line.sign_on("anna", it.tokens["anna"])
            await line.must("hub/subscribe", topic="@news")
            await line.hang_up()
            await until(lambda: not it.hub.connections, "the hub knows that it is gone")
            waiting = (await it.publish("@news")).id
            again = await _asker(it, ledger, "magline", line.session.ticket)
            again.expect(waiting)
            await until(lambda: again.calm, "what has waited has come")
            assert isinstance(again, Device)
            await again.say_goodbye()
        return ledger

    ledger = asyncio.run(scene())
    first, second = ledger.contacts
    assert (first.resumed, second.resumed) == (None, True)
    assert second.close_reason == "normal"
    assert [second.named(name) for name in ("syn", "ack", "pin", "pon", "psh", "fin")] == [1] * 6


def test_users_of_a_gateway() -> None:
    async def scene() -> Ledger:
        ledger = Ledger()
        async with _hub() as it:
            gateway = await dial(it.address("relay"), lambda: Gateway(ledger, 7, "throw-away"))
            await gateway.open()
            user = await gateway.connect(1)
            await user.sign_on("anna", it.tokens["anna"])
            assert (await user.must("test/add", a=1, b=2))["c"] == 3
            gateway.ping()
            await until(lambda: not gateway.pinged, "the answer")
            user.leave()
            await gateway.close()
        return ledger

    ledger = asyncio.run(scene())
    link, (tunnel,) = ledger.contacts[0], ledger.passages
    assert tunnel.link == link.number
    assert tunnel.total() == 4
    assert link.named("tunnel_relay") == 4
    assert link.named("link_close") == 2
    assert {call.contact for call in ledger.calls} == {tunnel}


def test_a_hub_that_goes_away_is_one_line() -> None:
    async def scene() -> None:
        async with _hub() as it:
            line = await _asker(it, Ledger(), "esnp")
            await line.sign_on("anna", it.tokens["anna"])
            call = line.post("test/sleep", ms=60_000)
            for connection in list(it.hub.connections.values()):
                connection.drop("a test")
            with pytest.raises(SimulateError, match="parted too early") as caught:
                await line.all_of([call])
            assert len(str(caught.value).splitlines()) == 1
            with pytest.raises(SimulateError):
                line.post("test/echo", text="is anybody there?")

    asyncio.run(scene())


def test_nobody_listens() -> None:
    async def scene() -> None:
        async with running(listeners=["esnp"]) as it:
            address = it.address("esnp")
        await dial(address, lambda: Service(Ledger(), random.Random(1)))

    with pytest.raises(SimulateError, match="cannot connect"):
        asyncio.run(scene())
