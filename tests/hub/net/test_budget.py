"""Bytes in memory for each client, each address and the hub; frames that arrive too slowly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from parcel_courier.protocol import PROTOCOL, Ask, Frame
from tests.hub.certificates import make_certificate
from tests.hub.running import DEADLINE_S, LISTENERS, Running, running, until
from tests.hub.session_client import dial
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
_CLIENTS = ("anna", "bert", "carl")


def _hub(protocol: str, *, gateway: dict[str, Any] | None = None, **limits: Any) -> Any:
    settings: dict[str, Any] = {"port": 0}
    if protocol in _NO_AUTH:
        settings["auth"] = "none"
    tables = {} if gateway is None else {"gateway": gateway}
    return running(
        clients=_CLIENTS, listeners=[protocol], limits=limits, **{protocol: settings}, **tables
    )


async def _unfinished(it: Running, protocol: str, size: int) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection(*it.address(protocol))
    # What is not signed on may not send as much.
    if protocol == "comet":
        name = _CLIENTS[len(it.hub.connections) % len(_CLIENTS)]
        writer.write(comet.frame(comet.AUTH, comet.text(name) + comet.text(it.tokens[name])))
        await asyncio.wait_for(reader.readexactly(3), DEADLINE_S)
    elif protocol == "relay":
        instance = relay.fixed64(2, len(it.hub.connections))
        writer.write(relay.pack(1, relay.LINK_OPEN, 1, b"\x0a\x04game" + instance + b"\x1a\x01k"))
        await asyncio.wait_for(reader.readexactly(3), DEADLINE_S)
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


_BY_HEAD = ("comet", "esnp", "magline", "tny")
"""Their sessions know the limit, and refuse a large frame by its first bytes."""


@pytest.mark.parametrize(
    ("protocol", "sent"),
    [*((each, 30_000) for each in (*LISTENERS, "parcel")), *((each, 64) for each in _BY_HEAD)],
)
def test_what_is_not_signed_on_sends_no_large_frame(protocol: str, sent: int) -> None:
    frame = _FRAMES.get(protocol, lambda: bytes.fromhex("7f66000100000000 00000001 0000ffff"))()

    async def go() -> None:
        async with running(listeners=[protocol], **{protocol: {"port": 0}}) as it:
            reader, writer = await asyncio.open_connection(*it.address(protocol))
            writer.write(frame[:sent])
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), DEADLINE_S)
            await until(lambda: not it.hub.connections)
            assert it.hub.context.budget.total == 0
            (found,) = it.hub.table.closed_connections
            assert (found.side, found.reason) == ("hub", "too_large") or found.reason in _REFUSED
            writer.close()

    asyncio.run(go())


_REFUSED = {"too_large", "length_overrun", "bad_length"}
"""Codes of sessions that refuse such a frame by its head."""


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


# -- what peers do not read ----------------------------------------------------------------------

_UNREAD = 16 << 20
"""Much more than the kernel takes for a peer that does not read."""


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("protocol", [*LISTENERS, "parcel"])
def test_unread_bytes_count_before_writing_is_paused(
    protocol: str, secured: bool, tmp_path: Path
) -> None:
    made = make_certificate(tmp_path) if secured else None
    settings = {"port": 0} if made is None else {"port": 0, "tls": made.settings}
    limits = {"write_buffer": 4 * _UNREAD}

    async def go() -> None:
        async with running(listeners=[protocol], limits=limits, **{protocol: settings}) as it:
            tls = None if made is None else made.trusting()
            _, writer = await dial(it.address(protocol), tls)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: it.hub.connections)
            (connection,) = it.hub.connections.values()
            assert isinstance(connection, Connection)
            connection.write(bytes(_UNREAD))
            budget = it.hub.context.budget
            await until(lambda: budget.total >= _UNREAD // 4)
            assert not connection.paused_since
            before = budget.total
            for _ in range(16):  # small writes are counted by the next scan
                connection.write(bytes(60_000))
                connection.flush()
            connection.check_deadlines(it.hub.loop.time())
            assert budget.total >= before + 16 * 60_000
            writer.transport.abort()
            await until(lambda: budget.total == 0)

    asyncio.run(go())


def test_requests_of_a_peer_that_does_not_read_wait() -> None:
    services = Services()
    calls = 0

    @services.service("test", "large")
    def large() -> dict[str, str]:
        nonlocal calls
        calls += 1
        return {"text": "x" * 500_000}

    async def go() -> None:
        limits = {"bytes_per_turn": 100, "write_buffer": 10_000}
        async with running(
            listeners=["esnp"], services=services, esnp={"auth": "none"}, limits=limits
        ) as it:
            count = 100
            numbers = range(1, count + 1)
            requests = (esnp.encoded(esnp.call_rows(n, "test", "large", {})) for n in numbers)
            reader, writer = await asyncio.open_connection(*it.address("esnp"))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"".join(requests))  # in one read of the hub
            await until(lambda: calls)
            (connection,) = it.hub.connections.values()
            await until(lambda: connection.paused_since)
            before = calls
            assert before < count
            for _ in range(2 * count):
                await asyncio.sleep(0)
            assert calls == before
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            received = 0
            while received < count * 500_000:
                received += len(await asyncio.wait_for(reader.read(1 << 20), DEADLINE_S))
            assert calls == count
            writer.close()

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


def test_the_sign_on_that_a_gateway_keeps_counts() -> None:
    async def go() -> None:
        async with running(clients=["anna"], listeners=["relay"]) as backend:
            host, port = backend.address("relay")
            gateway = {"enabled": True, "backends": [{"host": host, "port": port}]}
            async with running(listeners=["tny"], gateway=gateway) as it:
                await until(lambda: len(it.hub.connections) == 1)  # the link
                reader, writer = await asyncio.open_connection(*it.address("tny"))
                body = json.dumps({"id": "anna", "token": backend.tokens["anna"]}).encode()
                message = tny.TnyMessage(1, 0, 10, body=body + b" " * _LARGE)
                writer.write(tny.packet(1, 1, tny.message_bytes(message)))
                assert b"anna" in await asyncio.wait_for(reader.read(1_000), DEADLINE_S)
                budget = it.hub.context.budget
                await until(lambda: _LARGE <= budget.total < 2 * _LARGE)
                writer.transport.abort()
                await until(lambda: budget.total == 0)

    asyncio.run(go())


def test_what_a_phone_reports_counts() -> None:
    report = comet.text("phone") + bytes([1]) + comet.text("x" * 20_000)

    async def go() -> None:
        async with _hub("comet") as it:
            writer = await _unfinished(it, "comet", 0)
            for _ in range(2):  # the second replaces the first
                writer.write(comet.frame(8, bytes(2) + report))
            budget = it.hub.context.budget
            await until(lambda: 20_000 <= budget.total < 40_000)
            writer.transport.abort()
            await until(lambda: budget.total == 0)

    asyncio.run(go())
