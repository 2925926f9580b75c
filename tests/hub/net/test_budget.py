"""Bytes in memory for each client, each address and the hub; frames that arrive too slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from parcel_courier.protocol import PROTOCOL, Ask, Frame
from tests.hub.running import DEADLINE_S, Running, running, until
from tests.hub_raw import raw_comet as comet
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw import raw_relay as relay
from tests.hub_raw import raw_tny as tny

from wirelake.client import connect
from wirelake.hub.config import ActiveLimits, Limits
from wirelake.hub.listeners.tny_gateway import User
from wirelake.hub.net.budget import BufferBudget
from wirelake.hub.net.connection import Connection
from wirelake.hub.rpc.services import Services

# -- adding up -----------------------------------------------------------------------------------


class _Client:
    def __init__(self, id: str):  # noqa: A002
        self.id = id


class _Peer:
    def __init__(self, number: int, client: str = "", address: str = "10.0.0.1"):
        self.id = number
        self.client: Any = _Client(client) if client else None
        self.charged_to = address
        self.dropped = ""

    def drop(self, reason: str) -> None:
        self.dropped = reason


def _budget(**limits: int) -> BufferBudget:
    return BufferBudget(ActiveLimits(Limits(**limits)))


def test_connections_of_a_client_share_its_limit() -> None:
    budget = _budget(buffered_bytes_per_client=100)
    peers = [_Peer(number, "anna", f"10.0.0.{number}") for number in range(3)]
    other = _Peer(9, "bert")
    budget.charge(other, 90)
    for peer in peers:
        budget.charge(peer, 50)
    assert [each.dropped for each in (*peers, other)] == ["", "", "buffered_bytes_per_client", ""]
    assert budget.total == 190
    budget.charge(peers[0], 0)
    budget.charge(peers[1], 100)
    assert peers[1].dropped == ""


def test_connections_of_an_address_share_its_limit() -> None:
    budget = _budget(buffered_bytes_per_address=100)
    first, second, other = _Peer(1), _Peer(2, "anna"), _Peer(3, address="10.0.0.2")
    for peer in (first, other, second):
        budget.charge(peer, 60)
    assert [each.dropped for each in (first, second, other)] == [
        "",
        "buffered_bytes_per_address",
        "",
    ]


def test_a_full_hub_closes_those_that_keep_most() -> None:
    budget = _budget(buffered_bytes=1_000)
    large = [_Peer(number, address=f"10.0.0.{number}") for number in range(3)]
    for peer in large:
        budget.charge(peer, 300 + peer.id)
    small = _Peer(9, address="10.0.1.1")
    budget.charge(small, 98)
    assert [each.dropped for each in (*large, small)] == ["", "", "buffered_bytes", ""]
    assert budget.total == 300 + 301 + 98


def test_what_was_kept_before_a_sign_on_moves_to_the_client() -> None:
    budget = _budget(buffered_bytes_per_client=100)
    peer = _Peer(1)
    budget.charge(peer, 150)
    assert peer.dropped == ""
    peer.client = _Client("anna")
    budget.charge(peer, 160)
    assert peer.dropped == "buffered_bytes_per_client"
    assert budget.total == 0


# -- every listener ------------------------------------------------------------------------------

_LARGE = 40_000


def _esnp() -> bytes:
    return esnp.encoded(esnp.call_rows(1, "test", "echo", {}, (esnp.PAYLOAD, bytes(_LARGE))))


def _tny() -> bytes:
    return tny.packet(1, 1, tny.message_bytes(tny.TnyMessage(1, 0, 1001, body=bytes(_LARGE))))


_FRAMES: dict[str, Callable[[], bytes]] = {
    "esnp": _esnp,
    "tny": _tny,
    "comet": lambda: comet.frame(comet.AUTH, bytes(_LARGE)),
    "relay": lambda: relay.pack(1, relay.LINK_OPEN, 1, bytes(_LARGE)),
    "parcel": lambda: PROTOCOL.encode(Frame(1, Ask("test/echo", bytes(_LARGE)))),
}
_NO_AUTH = ("esnp", "tny", "parcel")


def _hub(protocol: str, *, gateway: dict[str, Any] | None = None, **limits: Any) -> Any:
    settings: dict[str, Any] = {"port": 0}
    if protocol in _NO_AUTH:
        settings["auth"] = "none"
    tables = {} if gateway is None else {"gateway": gateway}
    return running(listeners=[protocol], limits=limits, **{protocol: settings}, **tables)


async def _unfinished(it: Running, protocol: str, size: int) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(*it.address(protocol))
    writer.write(_FRAMES[protocol]()[:size])
    return writer


async def _share(it: Running, protocol: str) -> None:
    """Of three connections with unfinished frames, the limit leaves one."""
    counters = it.hub.counters
    writers = [await _unfinished(it, protocol, 30_000) for _ in range(3)]
    await until(lambda: counters.drops[protocol, "buffered_bytes_per_address"] == 2)
    await until(lambda: 0 < it.hub.context.budget.total < 50_000)
    for writer in writers:
        writer.transport.abort()
    await until(lambda: it.hub.context.budget.total == 0)


@pytest.mark.parametrize("protocol", sorted(_FRAMES))
def test_unfinished_frames_of_one_address(protocol: str) -> None:
    async def go() -> None:
        async with _hub(protocol, buffered_bytes_per_address=50_000) as it:
            await _share(it, protocol)

    asyncio.run(go())


def test_unfinished_frames_at_a_gateway() -> None:
    async def go() -> None:
        async with running(listeners=["relay"]) as backend:
            host, port = backend.address("relay")
            gateway = {"enabled": True, "backends": [{"host": host, "port": port}]}
            async with _hub("tny", gateway=gateway, buffered_bytes_per_address=50_000) as it:
                await _share(it, "tny")

    asyncio.run(go())


@pytest.mark.parametrize("protocol", ["esnp", "tny", "parcel"])
def test_bodies_of_running_calls_count(protocol: str) -> None:
    services = Services()
    over = asyncio.Event()

    @services.service("test", "wait", tny=1001)
    async def wait(body: str) -> None:  # noqa: ARG001
        await over.wait()

    async def go() -> None:
        settings = {"port": 0, "auth": "none"}
        async with running(
            listeners=[protocol], services=services, limits={}, **{protocol: settings}
        ) as it:
            url = "{}://{}:{}".format(protocol, *it.address(protocol))
            async with connect(url, reconnect=False) as client:
                target = 1001 if protocol == "tny" else "test/wait"
                call = asyncio.ensure_future(client.call(target, {"body": "x" * 20_000}))
                await until(lambda: it.hub.context.budget.total >= 20_000)
                over.set()
                await call
                await until(lambda: it.hub.context.budget.total == 0)

    asyncio.run(go())


# -- slow senders --------------------------------------------------------------------------------


async def _connection(it: Running, received: int) -> Connection:
    await until(lambda: any(each.in_bytes >= received for each in it.hub.connections.values()))
    (found,) = it.hub.connections.values()
    assert isinstance(found, Connection)
    found.frame_started = 0.0  # the scan may have seen the frame: times of the test begin anew
    return found


@pytest.mark.parametrize("protocol", sorted(_FRAMES))
def test_a_large_frame_buys_no_silence(protocol: str) -> None:
    async def go() -> None:
        async with _hub(protocol, frame_s=5.0, frame_bytes_per_s=1_000.0) as it:
            writer = await _unfinished(it, protocol, 30_000)
            connection = await _connection(it, 30_000)
            now = it.hub.loop.time() + 1.0
            connection.check_deadlines(now)
            connection.check_deadlines(now + 5.0)
            assert not it.hub.counters.drops
            connection.check_deadlines(now + 6.5)
            assert it.hub.counters.drops == {(protocol, "too_slow"): 1}
            writer.close()

    asyncio.run(go())


def test_the_rate_is_that_of_the_last_seconds() -> None:
    frame = _esnp()

    async def go() -> None:
        async with _hub("esnp", frame_s=5.0, frame_bytes_per_s=1_000.0, frame_total_s=20.0) as it:
            writer = await _unfinished(it, "esnp", 1_000)
            connection = await _connection(it, 1_000)
            start = it.hub.loop.time() + 1.0
            connection.check_deadlines(start)
            for step in (1, 2):  # fast enough
                writer.write(frame[1_000 + 7_000 * (step - 1) : 1_000 + 7_000 * step])
                await until(lambda step=step: connection.in_bytes == 1_000 + 7_000 * step)
                connection.check_deadlines(start + 6.0 * step)
            assert not it.hub.counters.drops
            writer.write(frame[15_000:38_000])
            await until(lambda: connection.in_bytes == 38_000)
            connection.check_deadlines(start + 20.5)  # fast, but too long in all
            assert it.hub.counters.drops == {("esnp", "too_slow"): 1}
            writer.close()

    asyncio.run(go())


def test_a_new_frame_has_its_own_time() -> None:
    async def go() -> None:
        async with _hub("esnp", frame_s=5.0) as it:
            writer = await _unfinished(it, "esnp", 30_000)
            connection = await _connection(it, 30_000)
            now = it.hub.loop.time() + 1.0
            connection.check_deadlines(now)
            frame = _esnp()
            writer.write(frame[30_000:] + frame[:100])
            await until(lambda: connection.in_bytes == len(frame) + 100)
            connection.check_deadlines(now + 9.0)
            assert not it.hub.counters.drops
            writer.close()
            with suppress(ConnectionError):
                await asyncio.wait_for(writer.wait_closed(), DEADLINE_S)

    asyncio.run(go())


# -- what sessions and gateways keep besides -----------------------------------------------------


def test_parts_of_a_request_count() -> None:
    payload = (esnp.PAYLOAD, bytes(_LARGE))
    part = esnp.encoded(esnp.call_rows(7, "test", "echo", {}, esnp.seq(1, 2), payload))

    async def go() -> None:
        async with _hub("esnp") as it:
            _, writer = await asyncio.open_connection(*it.address("esnp"))
            writer.write(part)
            connection = await _connection(it, len(part))
            assert connection.session.buffered == 0
            assert it.hub.context.budget.total == connection.held_bytes >= _LARGE
            writer.transport.abort()
            await until(lambda: it.hub.context.budget.total == 0)

    asyncio.run(go())


def test_messages_that_wait_for_a_link_count() -> None:
    packet = _tny()

    async def go() -> None:
        async with running(listeners=["relay"], relay={"auth": "none"}) as backend:
            host, port = backend.address("relay")
            gateway = {"enabled": True, "backends": [{"host": host, "port": port}]}
            async with _hub("tny", gateway=gateway) as it:
                await until(lambda: len(it.hub.connections) == 1)  # the link
                _, writer = await asyncio.open_connection(*it.address("tny"))
                await until(lambda: len(it.hub.connections) == 2)
                user = next(each for each in it.hub.connections.values() if isinstance(each, User))
                user.pause()
                writer.write(packet)
                await until(lambda: it.hub.context.budget.total >= _LARGE)
                user.resume()
                user.react()
                await until(lambda: user.held_bytes == it.hub.context.budget.total == 0)
                writer.transport.abort()

    asyncio.run(go())
