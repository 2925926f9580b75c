"""The clients with a real hub: every protocol, TLS, IPv6, restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.running import Running, running

from wirelake.client import (
    AuthFailed,
    CallFailed,
    Client,
    ConnectionLost,
    Refused,
    RpcPool,
    connect,
)
from wirelake.hub.rpc.demo_services import demo_services

from .session_servers import take, until

CALLING = ("esnp", "tny", "magline")
EVERY = (*CALLING, "comet")
ADD: dict[str, Any] = {"esnp": "test/add", "tny": 1002, "magline": 0x1002}
FAIL: dict[str, Any] = {"esnp": "test/fail", "tny": 1004, "magline": 0x1004}
SLEEP: dict[str, Any] = {"esnp": "test/sleep", "tny": 1003, "magline": 0x1003}


def url_of(it: Running, protocol: str, tls: str = "") -> str:
    """Where a listener of the hub is."""
    host, port = it.address(protocol)
    return f"{protocol}{tls}://{f'[{host}]' if ':' in host else host}:{port}"


def client_of(it: Running, protocol: str, name: str = "alice", **options: Any) -> Client:
    """A client of the hub."""
    given = {"id": name, "token": it.tokens.get(name, "none"), "backoff_s": 0.01, **options}
    if protocol == "magline":
        given["pinned"] = (it.data / "magline.pub").read_text()
    return connect(url_of(it, protocol), **given)


@pytest.mark.parametrize("protocol", CALLING)
def test_calls(protocol: str) -> None:
    async def story() -> None:
        async with (
            running(clients=["alice"], listeners=[protocol], services=demo_services()) as it,
            client_of(it, protocol) as c,
        ):
            assert (await c.call(ADD[protocol], {"a": 1, "b": 2.5})).data == {"c": 3.5}
            slow = c.call(SLEEP[protocol], {"ms": 30})
            fast = c.call(ADD[protocol], {"a": 1, "b": 2})
            assert (await asyncio.gather(slow, fast))[1].data == {"c": 3}
            with pytest.raises(CallFailed) as failed:
                await c.call(FAIL[protocol])
            assert failed.value.code == {"esnp": "error", "tny": 500, "magline": 15}[protocol]
            assert await c.ping() >= 0

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_wrong_tokens_and_unknown_ids(protocol: str) -> None:
    async def story() -> None:
        async with running(clients=["alice"], listeners=[protocol]) as it:
            for name, token in (("alice", "wrong"), ("nobody", it.tokens["alice"])):
                with pytest.raises(AuthFailed):
                    async with client_of(it, protocol, name, token=token):
                        pass

    asyncio.run(story())


@pytest.mark.parametrize("publisher", CALLING)
@pytest.mark.parametrize("protocol", EVERY)
def test_from_any_protocol_to_any(protocol: str, publisher: str) -> None:
    async def story() -> None:
        async with (
            running(clients=["alice", "bob"], listeners={protocol, publisher}) as it,
            client_of(it, protocol) as c,
            client_of(it, publisher, "bob") as p,
        ):
            await c.subscribe("@news")
            one = await p.publish("first", topic="@news", type=7)
            two = await p.publish(b"\xff\x00", client="alice")
            assert one.audience == 1
            found = []
            async for each in c.notifications():
                found.append(each)
                await c.ack(each)
                if len(found) == 2:
                    break
            assert [(each.id, each.content) for each in found] == [
                (one.id, b"first"),
                (two.id, b"\xff\x00"),
            ]
            assert found[0].type == 7
            assert found[0].ts_ms > 1_700_000_000_000
            again = await p.publish("key", topic="@news", id="once")
            assert await p.publish("key", topic="@news", id="once") == again
            (third,) = await take(c, 1)
            assert third.content == b"key"
            await c.unsubscribe("@news")
            assert (await p.publish("nobody", topic="@news")).audience == 0

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_what_was_not_acknowledged_waits_for_the_next_client(protocol: str) -> None:
    async def story() -> None:
        async with running(clients=["alice"], listeners=[protocol]) as it:
            async with client_of(it, protocol) as c:
                await c.subscribe("@news")
                for number in range(4):
                    await it.publish("@news", b"%d" % number)
                first, second, *_ = await take(c, 4)
                await c.ack(first, second)
            async with client_of(it, protocol) as c:
                await c.subscribe("@news")
                await it.publish("@news", b"4")
                found = []
                async for each in c.notifications():
                    found.append(each.content)
                    await c.ack(each)
                    if each.content == b"4":
                        break
                assert found == [b"2", b"3", b"4"]

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_a_hub_that_is_restarted(protocol: str, tmp_path: Path) -> None:
    async def story() -> None:
        common: dict[str, Any] = {"listeners": [protocol], "services": demo_services()}
        async with running(clients=["alice"], data=tmp_path, **common) as it:
            port = it.address(protocol)[1]
            c = client_of(it, protocol)
            await c.open()
            await c.subscribe("@news")
            await it.publish("@news", b"before")
            await take(c, 1)
        try:
            await until(lambda: not c.connected)
            common[protocol] = {"port": port}
            async with running(data=tmp_path, **common) as it:
                await until(lambda: c.connected, "it connects again")
                await it.publish("@news", b"after")
                found = await take(c, 1)
                assert [each.content for each in found] == [b"after"]
                if protocol != "comet":
                    assert (await c.call(ADD[protocol], {"a": 1, "b": 2})).data == {"c": 3}
                assert c.connects == 2
                await c.close()
        finally:
            await c.close()

    asyncio.run(story())


def test_magline_resumes_and_its_pushes_go_on() -> None:
    async def story() -> None:
        async with (
            running(clients=["alice"], listeners=["magline"]) as it,
            client_of(it, "magline") as c,
        ):
            await c.subscribe("@news")
            for connection in tuple(it.hub.connections.values()):
                connection.drop("cut by the test")
            await until(lambda: not c.connected)
            await until(lambda: c.connected)
            assert c.resumed
            await it.publish("@news", b"on and on")
            assert [each.content for each in await take(c, 1)] == [b"on and on"]

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_tls_and_ipv6(protocol: str, tmp_path: Path) -> None:
    async def story() -> None:
        certificate = make_certificate(tmp_path)
        tables: dict[str, Any] = {protocol: {"tls": certificate.settings, "host": "::1"}}
        async with running(clients=["alice"], listeners=[protocol], **tables) as it:
            options: dict[str, Any] = {"id": "alice", "token": it.tokens["alice"]}
            if protocol == "magline":
                options["pinned"] = (it.data / "magline.pub").read_text()
            url = url_of(it, protocol, "s")
            async with connect(url, tls=certificate.trusting(), **options) as c:
                await c.subscribe("@news")
                await it.publish("@news", b"sealed")
                assert [each.content for each in await take(c, 1)] == [b"sealed"]
            with pytest.raises(Refused, match="certificate"):
                async with connect(url, **options):
                    pass

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_without_an_id(protocol: str) -> None:
    async def story() -> None:
        tables: dict[str, Any] = {protocol: {"auth": "none"}}
        async with running(listeners=[protocol], services=demo_services(), **tables) as it:
            key = {}
            if protocol == "magline":
                key["pinned"] = (it.data / "magline.pub").read_text()
            async with connect(url_of(it, protocol), **key) as c:
                assert (await c.call(ADD[protocol], {"a": 1, "b": 2})).data == {"c": 3}
                await c.subscribe("@news", ack=False)
                await it.publish("@news", b"hello")
                assert [each.content for each in await take(c, 1)] == [b"hello"]

    asyncio.run(story())


def test_without_signing_on() -> None:
    async def story() -> None:
        async with running(listeners=["esnp", "tny"], services=demo_services()) as it:
            async with connect(url_of(it, "esnp")) as c:
                assert await c.ping() >= 0
                with pytest.raises(CallFailed, match="auth required"):
                    await c.call("test/add", {"a": 1, "b": 2})
            async with connect(url_of(it, "tny"), reconnect=False) as c:
                assert await c.ping() >= 0
                with pytest.raises((CallFailed, ConnectionLost)):
                    await c.call(1002, {"a": 1, "b": 2})

    asyncio.run(story())


def test_a_pool_while_connections_are_cut() -> None:
    async def story() -> None:
        async with running(clients=["alice"], listeners=["tny"], services=demo_services()) as it:
            options = {"id": "alice", "token": it.tokens["alice"], "backoff_s": 0.01}
            async with RpcPool(url_of(it, "tny"), size=3, **options) as pool:
                good = lost = 0
                for number in range(300):
                    if number % 100 == 50:
                        next(iter(it.hub.connections.values())).drop("cut by the test")
                    try:
                        found = await pool.call(1002, {"a": number, "b": 1})
                    except ConnectionLost:
                        lost += 1
                    else:
                        assert found.data == {"c": number + 1}
                        good += 1
                assert good + lost == 300
                assert lost <= 3
                await until(lambda: pool.connected == 3)

    asyncio.run(story())
