"""Topics by tny: protocols 11 to 14, pushes of protocol 20, acknowledgements; TLS and IPv6."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.hub.certificates import make_certificate
from tests.hub.listeners_tny.tny_client import body_of, tny_client
from tests.hub.running import DEADLINE_S, running, until

from wirelake.hub.rpc.demo_services import demo_services

OPEN = {"auth": "none"}


def test_what_is_published_is_pushed() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], tny=OPEN) as it,
            tny_client(it.address("tny")) as listener,
            tny_client(it.address("tny")) as speaker,
        ):
            answer = await listener.call(11, {"topics": ["@news", "@weather"]})
            assert (answer.code, body_of(answer)) == (100, {"topics": 2})
            published = await speaker.call(13, {"topic": "@news", "content": "héllo", "type": 3})
            assert published.code == 100
            push = await listener.next_push()
            body = body_of(push)
            assert (push.protocol, push.code, push.to_message) == (20, 100, 0)
            assert body["ts"] > 1_700_000_000_000
            del body["ts"]
            assert body == {
                "id": body_of(published)["id"],
                "topic": "@news",
                "content": "héllo",
                "type": 3,
            }
            assert (await listener.call(12, {"topic": "@news"})).code == 100
            await speaker.call(13, {"topic": "@news", "content": "not heard"})
            await speaker.call(13, {"topic": "@weather", "content_base64": "/wA=", "ttl_s": 0})
            assert body_of(await listener.next_push())["content_base64"] == "/wA="

    asyncio.run(go())


def test_unacknowledged_notifications_are_sent_again() -> None:
    async def go() -> None:
        async with running(listeners=["tny"], clients=["alice"]) as it:
            token = it.tokens["alice"]
            async with tny_client(it.address("tny")) as client:
                await client.sign_on("alice", token)
                await client.call(11, {"topic": "@news", "ack": True})
                for n in range(3):
                    await it.publish("@news", f"{n}".encode())
                found = [body_of(await client.next_push()) for _ in range(3)]
                assert [each["content"] for each in found] == ["0", "1", "2"]
                answer = await client.call(14, {"ids": [found[0]["id"], "unknown"]})
                assert body_of(answer) == {"acked": 1}
            await until(lambda: not it.hub.connections)
            await it.publish("@news", b"3")
            async with tny_client(it.address("tny")) as client:
                await client.sign_on("alice", token)
                await client.call(11, {"topic": "@news", "ack": True})
                again = [body_of(await client.next_push())["content"] for _ in range(3)]
                assert again == ["1", "2", "3"]

    asyncio.run(go())


def test_many_connections_share_the_body_of_a_push() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], tny=OPEN) as it,
            tny_client(it.address("tny")) as first,
            tny_client(it.address("tny")) as second,
        ):
            for client in (first, second):
                await client.call(11, {"topic": "@news"})
            await first.call(1999)  # so that numbers and ids differ
            for n in range(600):  # more than bodies are kept
                await it.publish("@news", f"{n}".encode(), ttl_s=0)
            for client in (first, second):
                found = [body_of(await client.next_push())["content"] for _ in range(600)]
                assert found == [str(n) for n in range(600)]

    asyncio.run(go())


def test_tls(tmp_path: Path) -> None:
    async def go() -> None:
        certificate = make_certificate(tmp_path)
        tny = {**OPEN, "tls": certificate.settings}
        async with (
            running(listeners=["tny"], services=demo_services(), tny=tny) as it,
            tny_client(it.address("tny"), tls=certificate.trusting()) as client,
        ):
            assert body_of(await client.call(1002, {"a": 1, "b": 2})) == {"c": 3}
            await client.ping()

    asyncio.run(go())


def test_both_families_of_addresses() -> None:
    async def go() -> None:
        tny = {**OPEN, "host": ["127.0.0.1", "::1"]}
        async with running(listeners=["tny"], services=demo_services(), tny=tny) as it:
            addresses = it.hub.listeners["tny"].addresses
            assert sorted(host for host, _ in addresses) == ["127.0.0.1", "::1"]
            for address in addresses:
                async with tny_client(address) as client:
                    assert body_of(await client.call(1002, {"a": 1, "b": 2})) == {"c": 3}

    asyncio.run(go())


def test_calls_in_flight_finish_when_the_hub_stops() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], services=demo_services(), tny=OPEN) as it,
            tny_client(it.address("tny")) as client,
        ):
            slow = client.ask(1003, {"ms": 200})
            await until(lambda: it.hub.services.running == 1)
            await it.hub.drain()
            assert (await asyncio.wait_for(slow, 20)).code == 100
            await client.ended()
            client.writer.close()
            await until(lambda: it.hub.counters.close_reasons["tny", "shutdown"] == 1)

    asyncio.run(go())


def test_many_publishes_are_in_flight_at_a_time() -> None:
    async def go() -> None:
        async with running(listeners=["tny"], clients=["alice"], tny={"auth": "token"}) as it:
            async with tny_client(it.address("tny")) as client:
                await client.sign_on("alice", it.tokens["alice"])
                await client.call(11, {"topic": "@news", "ack": True})
                for _ in range(3):  # what is asked again and again is known then
                    await client.call(13, {"topic": "@news", "content": "first"})
                answers = [
                    client.ask(13, {"topic": "@news", "content": str(n)} if n % 10 else {"n": n})
                    for n in range(200)
                ]
                found = await asyncio.wait_for(asyncio.gather(*answers), DEADLINE_S)
                pushes = [body_of(await client.next_push()) for _ in range(183)]
            ids = [body_of(each)["id"] for n, each in enumerate(found) if n % 10]
            assert [each["id"] for each in pushes[3:]] == ids
            assert [each["content"] for each in pushes[3:]] == [
                str(n) for n in range(200) if n % 10
            ]
            assert {body_of(each)["code"] for each in found[::10]} == {"bad_arguments"}
            assert it.hub.counters.calls["tny", "bad_arguments"] == 20
            assert it.hub.services.running == 0

    asyncio.run(go())
