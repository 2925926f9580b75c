"""Clients with several servers: which one is used, and what a loss leaves undone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.running import Running, running

from wirelake.client import (
    AuthFailed,
    BadCall,
    Client,
    ConnectionLost,
    NotConnected,
    Notification,
    RpcPool,
    connect,
)
from wirelake.client.errors import AllFailed, Refused, Unreachable, failures_text

from .session_servers import PINNED, TOKEN, Stand, standing, take, until
from .test_client_calls import CALLING, EVERY, TARGETS


@asynccontextmanager
async def stands(protocol: str, count: int = 2) -> AsyncIterator[list[Stand]]:
    """So many servers."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(standing(protocol)) for _ in range(count)]


def client_of(*servers: Stand, **options: Any) -> Client:
    """A client of all servers, in this order."""
    protocol = servers[0].protocol
    key = {"pinned": PINNED} if protocol == "magline" else {}
    given = {"id": "alice", "token": TOKEN, "backoff_s": 0.01, "shuffle": False, **key, **options}
    return connect(url_of(*servers), **given)


def url_of(*servers: Stand) -> str:
    return f"{servers[0].protocol}://" + ",".join(f"127.0.0.1:{each.port}" for each in servers)


@pytest.mark.parametrize("protocol", EVERY)
def test_the_first_server_that_can_be_connected_to(protocol: str) -> None:
    async def story() -> None:
        async with stands(protocol, 3) as (down, mute, up):
            await down.stop()
            mute.mute = True
            waits = {"connect_timeout_s": 5.0, "sign_on_timeout_s": 0.3}
            async with client_of(down, mute, up, **waits) as c:
                assert c.address.port == up.port
                assert await c.ping() >= 0
            await down.start()

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_a_lost_server_is_left_at_once(protocol: str) -> None:
    async def story() -> None:
        long = {"backoff_s": 60.0, "max_backoff_s": 60.0}  # longer than the test may last
        async with stands(protocol) as (one, other), client_of(one, other, **long) as c:
            await c.subscribe("@news")
            assert (len(one.peers), len(other.peers)) == (1, 0)
            one.cut()
            await until(lambda: len(other.peers) == 1 and c.connected)
            assert c.address.port == other.port
            assert "subscribe" in other.names()
            other.notify(b"from the other one")
            assert [each.content for each in await take(c, 1)] == [b"from the other one"]

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_a_busy_server_is_left_for_another(protocol: str) -> None:
    async def story() -> None:
        async with stands(protocol) as (one, other):
            one.busy = "too_busy"
            async with client_of(one, other) as c:
                assert c.address.port == other.port
            async with client_of(other, one) as c:
                other.cut()
                await until(lambda: c.connects == 2)
                assert c.address.port == other.port

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_a_server_too_busy_to_subscribe_at_is_left_for_another(protocol: str) -> None:
    async def story() -> None:
        async with stands(protocol, 3) as (one, busy, other), client_of(one, busy, other) as c:
            await c.subscribe("@news")
            busy.busy, busy.busy_calls = "too_busy", {"subscribe"}
            one.cut()
            await until(lambda: c.connects == 2)
            assert c.address.port == other.port
            assert [each.names().count("subscribe") for each in (one, busy, other)] == [1, 1, 1]

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_the_only_server_is_too_busy_to_subscribe_at(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            await c.subscribe("@news")
            stand.busy, stand.busy_calls = "too_busy", {"subscribe"}
            stand.cut()
            await until(lambda: c.connects == 2)
            if protocol != "comet":
                added = await c.call(TARGETS[protocol]["add"], {"a": 1, "b": 2})
                assert added.data == {"c": 3}
            await until(lambda: stand.names().count("subscribe") > 3, "it tries again")
            stand.busy = ""
            tried = stand.names().count("subscribe")
            await until(lambda: stand.names().count("subscribe") == tried + 1, "and gets it")
            await c.ping()
            assert c.connects == 2
            stand.notify(b"rain")
            assert [each.content for each in await take(c, 1)] == [b"rain"]

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_no_notification_is_lost_between_servers(protocol: str) -> None:
    async def story() -> None:
        async with stands(protocol) as (one, other):
            other.waiting = one.waiting  # servers with one store
            async with client_of(one, other) as c:
                await c.subscribe("@news")
                first, second = one.notify(b"first"), one.notify(b"second")
                found = await take(c, 1)
                one.cut()  # `first` is not acknowledged, `second` was never taken
                await until(lambda: c.connects == 2)
                other._count = one._count
                if protocol != "comet":  # a hub sends again what waits; comet has a list of it
                    for each in tuple(other.waiting.values()):
                        other.peers[0].push(each)
                third = other.notify(b"third")
                await c.ack(*found)
                async for each in c.notifications():
                    found.append(each)
                    await c.ack(each)
                    if each.id == third:
                        break
                assert [each.id for each in found] == [first, second, third]
                assert not other.waiting

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_calls_and_publishes_at_a_loss(protocol: str) -> None:
    async def story() -> None:
        async with stands(protocol) as (one, other), client_of(one, other) as c:
            slow = asyncio.create_task(c.call(TARGETS[protocol]["silence"]))
            await until(lambda: "silence" in one.names())
            one.mute = True  # what follows is sent, and not heard
            keyed = asyncio.create_task(c.publish("hi", topic="@news", id="key-1"))
            plain = asyncio.create_task(c.publish("hi", topic="@news"))
            safe = asyncio.create_task(
                c.call(TARGETS[protocol]["add"], {"a": 1, "b": 2}, idempotent=True)
            )
            await asyncio.sleep(0)
            await until(lambda: c.busy == 4)
            one.cut()
            assert (await keyed).audience == 3
            assert (await safe).data == {"c": 3}
            for each in (slow, plain):
                with pytest.raises(ConnectionLost) as lost:
                    await each
                assert not isinstance(lost.value, NotConnected)
            assert sorted(set(other.names()) - {"id", "auth"}) == ["add", "publish"]
            assert other.names().count("publish") == 1

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_all_failures_are_in_the_message(protocol: str) -> None:
    async def story() -> None:
        async with stands(protocol) as (one, other):
            c = client_of(one, other)
            await one.stop()
            other.mute = True
            slow = client_of(one, other, sign_on_timeout_s=0.1)
            with pytest.raises(AllFailed) as failed:
                await slow.open()
            text = str(failed.value)
            assert f"127.0.0.1:{one.port}: connection refused" in text
            assert f"127.0.0.1:{other.port}: sign-on timed out" in text
            other.mute = False
            async with c:
                await other.stop()
                await until(lambda: not c.connected)
                with pytest.raises(NotConnected) as missing:
                    await c.subscribe("@news") if protocol == "comet" else await c.call(
                        TARGETS[protocol]["add"], timeout_s=0.5
                    )
                for each in (one, other):
                    assert f"127.0.0.1:{each.port}: connection refused" in str(missing.value)
                assert "not connected" in str(missing.value)
            for each in (one, other):
                await each.start()

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_a_wrong_token_is_not_tried_everywhere(protocol: str) -> None:
    async def story() -> None:
        async with stands(protocol) as (one, other):
            with pytest.raises(AuthFailed):
                await client_of(one, other, token="wrong").open()
            assert not other.heard

    asyncio.run(story())


def test_the_servers_of_a_pool() -> None:
    async def story() -> None:
        async with stands("tny", 3) as servers:
            options = {"id": "alice", "token": TOKEN, "backoff_s": 0.01}
            async with RpcPool(url_of(*servers), size=60, **options) as pool:
                assert all(each.peers for each in servers), "shuffled, so each has some"
                servers[0].cut()
                await servers[0].stop()
                await until(lambda: pool.connected == 60)
                assert (await pool.call(2, {"a": 1, "b": 2})).data == {"c": 3}
                await servers[0].start()

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_each_server_is_verified_by_its_own_name(protocol: str, tmp_path: Path) -> None:
    async def story() -> None:
        certificate = make_certificate(tmp_path)  # for localhost, 127.0.0.1 and ::1
        tables: dict[str, Any] = {protocol: {"tls": certificate.settings, "host": "0.0.0.0"}}
        async with running(clients=["alice"], listeners=[protocol], **tables) as it:
            port = it.address(protocol)[1]
            given = {"id": "alice", "token": it.tokens["alice"], "tls": certificate.trusting()}
            if protocol == "magline":
                given["pinned"] = (it.data / "magline.pub").read_text()
            with pytest.raises(Refused, match="untrusted certificate"):
                await connect(f"{protocol}s://127.0.0.2:{port}", **given).open()
            url = f"{protocol}s://127.0.0.2:{port},localhost:{port}"
            async with connect(url, shuffle=False, **given) as c:
                assert c.address.host == "localhost"
            with pytest.raises(AllFailed, match=r"127.0.0.2.*untrusted.*127.0.0.3.*untrusted"):
                await connect(url.replace("localhost", "127.0.0.3"), **given, shuffle=False).open()

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_a_hub_that_drains_is_left_for_another(protocol: str) -> None:
    async def story() -> None:
        # Hubs of one service have one key; here the client accepts any.
        key = {"anonymous": True} if protocol == "magline" else {}
        tables: dict[str, Any] = {"listeners": [protocol], protocol: {"auth": "none", **key}}
        async with running(**tables) as one, running(**tables) as other:
            ports = [it.address(protocol)[1] for it in (one, other)]
            url = f"{protocol}://" + ",".join(f"127.0.0.1:{port}" for port in ports)
            given: dict[str, Any] = {
                "shuffle": False,
                "backoff_s": 60.0,
                "max_backoff_s": 60.0,
                **key,
            }
            async with connect(url, **given) as c:
                await c.subscribe("@news", ack=False)
                await one.hub.drain()
                await until(lambda: c.connected and c.address.port == ports[1])
                await other.publish("@news", b"from the other hub")
                assert [each.content for each in await take(c, 1)] == [b"from the other hub"]

    asyncio.run(story())


class Forward(asyncio.Protocol):
    """Half of a forwarded connection; the first half opens the other to the hub."""

    def __init__(self, to: int, ends: list[asyncio.Transport], other: Forward | None = None):
        self.to, self.ends, self.other = to, ends, other
        self.early: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport: asyncio.Transport = transport
        self.ends.append(transport)
        if self.other is None:
            self.opening = asyncio.ensure_future(self.open())
        else:
            self.other.other = self
            transport.write(b"".join(self.other.early))

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        make = partial(Forward, self.to, self.ends, self)
        await loop.create_connection(make, "127.0.0.1", self.to)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.ends.remove(self.transport)
        if self.other is not None:
            self.other.transport.abort()


@pytest.mark.parametrize("protocol", EVERY)
def test_every_notification_arrives_while_servers_come_and_go(protocol: str) -> None:
    """Two addresses of one hub, of which now one and now the other cuts its connections."""

    async def story() -> None:
        async with running(clients=["alice"], listeners=[protocol]) as it:
            loop = asyncio.get_running_loop()
            ends: list[asyncio.Transport] = []
            make = partial(Forward, it.address(protocol)[1], ends)
            servers = [await loop.create_server(make, "127.0.0.1", 0) for _ in range(2)]
            places = [f"127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in servers]
            given: dict[str, Any] = {"id": "alice", "token": it.tokens["alice"]}
            if protocol == "magline":
                given["pinned"] = (it.data / "magline.pub").read_text()
            waits = {"backoff_s": 0.01, "max_backoff_s": 0.05}
            try:
                async with connect(f"{protocol}://{','.join(places)}", **given, **waits) as c:
                    await c.subscribe("@news")
                    sent = asyncio.ensure_future(publish_and_cut(it, c, ends))
                    found = [each.content async for each in acknowledged(c, 100)]
                    await sent
                    assert found == [b"%d" % number for number in range(100)]
                    assert c.connects > 3
            finally:
                for each in servers:
                    each.close()
                for end in tuple(ends):
                    end.abort()
                await until(lambda: not ends)

    asyncio.run(story())


async def publish_and_cut(it: Running, c: Client, ends: list[asyncio.Transport]) -> None:
    """Publishes numbers, and cuts all connections after each twenty."""
    for number in range(100):
        await it.publish("@news", b"%d" % number)
        if number % 20 == 10:
            for end in tuple(ends):
                end.abort()
        if number % 20 == 15:
            await until(lambda: c.connected)


async def acknowledged(c: Client, count: int) -> AsyncIterator[Notification]:
    """So many notifications, each acknowledged before the next."""
    async for each in c.notifications():
        await c.ack(each)
        yield each
        count -= 1
        if not count:
            return


def test_texts_of_several_failures() -> None:
    refused = Refused("tls", lambda name: f"give {name('tls')}")
    failed = AllFailed([("a:1", Unreachable("a:1: no")), ("b:2", refused)])
    assert str(failed) == "no server can be connected to: a:1: no | b:2: give tls (tls)"
    assert failed.named({"tls": "--ca"}).endswith("b:2: give --ca (tls)")
    assert failures_text([]) == ""
    with pytest.raises(BadCall, match="missing host"):
        connect("tny://a,,b")
