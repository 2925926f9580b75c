"""The hub as a tny gateway, its backends in the same loop: what users see as links come and go."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.hub.listeners_tny.tny_client import body_of, tny_client
from tests.hub.relay.gateway_hubs import (
    OPEN,
    backend,
    cut,
    gateway,
    kill,
    links_up,
    listener_of,
    port_of,
    who,
)
from tests.hub.running import running, until
from tests.hub.stores import copied, database_of

from wirelake.client import CallFailed, connect
from wirelake.hub.listeners.tny_gateway import LinkConnection
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Call
from wirelake.hub.store import add_client, remove_client

pytestmark = pytest.mark.slow


def test_calls_go_through_a_tunnel() -> None:
    async def go() -> None:
        async with (
            backend("one") as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            assert body_of(await client.call(1002, {"a": 1, "b": 2})) == {"c": 3}
            large = bytes(range(256)) * 1_000
            assert (await client.call(1001, large)).body == large
            assert (await client.call(1999)).code == 205
            assert (await client.call(1004)).code == 500
            assert await who(client) == {"name": "one", "asked": 1, "peer": "127.0.0.1"}
            await client.ping()
            answers = [client.ask(1002, {"a": n, "b": 0}) for n in range(500)]
            found = await asyncio.wait_for(asyncio.gather(*answers), 20)
            assert [body_of(each)["c"] for each in found] == list(range(500))

    asyncio.run(go())


def test_users_are_spread_and_stay() -> None:
    async def go() -> None:
        async with (
            backend("one") as one,
            backend("two") as two,
            gateway(port_of(one), port_of(two)) as gate,
            tny_client(gate.address("tny")) as first,
            tny_client(gate.address("tny")) as second,
        ):
            names = {(await who(each))["name"] for each in (first, second)}
            assert names == {"one", "two"}
            name = (await who(first))["name"]
            again = await who(first)
            assert (again["name"], again["asked"]) == (name, 3)

    asyncio.run(go())


def test_the_end_of_a_user_is_the_end_of_its_tunnel() -> None:
    async def go() -> None:
        async with backend("one") as one, gateway(port_of(one)) as gate:
            async with tny_client(gate.address("tny")) as client:
                await who(client)
            await until(lambda: one.hub.counters.close_reasons["tny", "disconnected"] == 1)
            assert not listener_of(gate).users
            assert listener_of(gate).tunnels.tunnel_count == 0

    asyncio.run(go())


def test_a_backend_that_closes_a_tunnel_closes_the_user() -> None:
    async def go() -> None:
        async with (
            backend("one", relay={"auth": "token"}, clients=["alice"]) as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            assert (await client.sign_on("alice", "t-wrong")).code == 210
            assert await client.ended() == "code_210"

    asyncio.run(go())


def test_without_a_backend_the_answer_is_225() -> None:
    async def go() -> None:
        async with backend("one") as one:
            port = port_of(one)
        async with gateway(port) as gate, tny_client(gate.address("tny")) as client:
            assert (await client.call(1001, b"x")).code == 225
            assert await client.ended() == "code_225"

    asyncio.run(go())


def test_a_lost_link_is_replaced_by_another_of_the_same_backend() -> None:
    async def go() -> None:
        async with (
            backend("one") as one,
            backend("two") as two,
            gateway(port_of(one), port_of(two), links=2) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            listener = listener_of(gate)
            await until(lambda: links_up(gate) == 4)
            before = await who(client)
            (user,) = listener.users.values()
            assert user.backend is not None
            session = listener.tunnels.link_of(user.backend.name, user.tunnel_id)
            assert session is not None
            listener.links[session].drop("cut by the test")
            after = await who(client)
            assert (after["name"], after["asked"]) == (before["name"], 2)
            await until(lambda: links_up(gate) == 4, "a redial")

    asyncio.run(go())


def test_a_backend_that_reconnects_in_time_keeps_its_users() -> None:
    async def go() -> None:
        async with (
            backend("one") as one,
            backend("two") as two,
            gateway(port_of(one), port_of(two)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            before = await who(client)
            cut({"one": one, "two": two}[before["name"]])
            await until(lambda: links_up(gate) == 1)
            after = await who(client)  # it is held until the backend is dialled again
            assert (after["name"], after["asked"]) == (before["name"], 2)

    asyncio.run(go())


def test_users_of_a_dead_backend_go_on_at_another() -> None:
    async def go() -> None:
        async with (
            backend("two") as two,
            backend("one") as one,
            gateway(port_of(one), port_of(two)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            assert (await who(client))["name"] == "one"
            lost = client.ask(1003, {"ms": 60_000})
            await until(lambda: one.hub.services.running == 1)
            await kill(one, gate)
            after = await who(client)
            assert (after["name"], after["asked"]) == ("two", 1)
            assert (await asyncio.wait_for(lost, 20)).code == 200

    asyncio.run(go())


def same_clients(folder: Path) -> tuple[dict[str, Path], str]:
    """Data folders of two backends that know the same client, and its token."""
    folders = {name: folder / name for name in ("one", "two")}
    folders["one"].mkdir()
    token = add_client(database_of(folders["one"]), "alice")
    copied(folders["one"], folders["two"])
    return folders, token


def test_a_user_is_signed_on_at_the_new_backend(tmp_path: Path) -> None:
    async def go() -> None:
        folders, token = same_clients(tmp_path)
        relay = {"auth": "token"}
        async with (
            backend("two", relay=relay, data=folders["two"]) as two,
            backend("one", relay=relay, data=folders["one"]) as one,
            gateway(port_of(one), port_of(two)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            assert (await client.sign_on("alice", token)).code == 100
            assert (await who(client))["name"] == "one"
            await kill(one, gate)
            assert (await who(client))["name"] == "two"
            assert client.pushes.empty()

    asyncio.run(go())


def test_a_user_unknown_to_the_new_backend_is_disconnected() -> None:
    async def go() -> None:
        relay = {"auth": "token"}
        async with (
            backend("two", relay=relay) as two,
            backend("one", relay=relay, clients=["alice"]) as one,
            gateway(port_of(one), port_of(two)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            assert (await client.sign_on("alice", one.tokens["alice"])).code == 100
            assert (await who(client))["name"] == "one"
            await kill(one, gate)
            assert (await client.next_push()).code == 210
            assert await client.ended() == "code_210"

    asyncio.run(go())


def test_a_user_that_has_subscribed_must_come_again(tmp_path: Path) -> None:
    async def go() -> None:
        folders, token = same_clients(tmp_path)
        relay = {"auth": "token"}
        async with (
            backend("two", relay=relay, data=folders["two"]) as two,
            backend("one", relay=relay, data=folders["one"]) as one,
            gateway(port_of(one), port_of(two)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            await client.sign_on("alice", token)
            assert (await client.call(11, {"topic": "@news"})).code == 100
            published = await client.call(13, {"topic": "@news", "content": "hello"})
            assert body_of(published)["audience"] == 1
            push = await client.next_push()
            assert (push.protocol, body_of(push)["content"]) == (20, "hello")
            await kill(one, gate)
            assert (await client.next_push()).code == 216
            assert await client.ended() == "code_216"

    asyncio.run(go())


def test_a_new_process_at_the_same_address_takes_the_users() -> None:
    async def go() -> None:
        async with backend("other") as other, backend("one") as one:
            port = port_of(one)
            async with (
                gateway(port, port_of(other)) as gate,
                tny_client(gate.address("tny")) as client,
            ):
                assert (await who(client))["name"] == "one"
                await kill(one, gate)
                async with backend("new", port) as new:
                    answer = await who(client)
                    assert answer["asked"] == 1
                    assert answer["name"] in {"new", "other"}
                    await until(lambda: links_up(gate) == 2)
                    assert new.hub.counters.failures["relay", "bad_state"] == 1

    asyncio.run(go())


def test_links_of_a_gateway_are_connections_too() -> None:
    async def go() -> None:
        async with backend("one") as one, gateway(port_of(one)) as gate:
            links = [e for e in gate.hub.connections.values() if isinstance(e, LinkConnection)]
            assert [link.peer[1] for link in links] == [port_of(one)]
            assert gate.hub.counters.accepted == {"relay": 1}

    asyncio.run(go())


@pytest.mark.parametrize("links", ["seed", "upstream"])
def test_a_python_client_behind_a_gateway(links: str) -> None:
    """Calls, fields of messages, events and notifications of a client go through its tunnel."""

    async def story() -> None:
        relay = {"auth": "token", "dialect": links}
        async with (
            backend("one", relay=relay, clients=["alice"]) as one,
            gateway(port_of(one), dialect=links) as front,
        ):
            url = "tny://{}:{}".format(*front.address("tny"))
            await until(lambda: links_up(front) == 1)
            async with connect(url, id="alice", token=one.tokens["alice"]) as c:
                result = await c.call(2000, {}, line=5, forward_header=b"\x01")
                assert (result.data["name"], result.data["peer"]) == ("one", "127.0.0.1")
                assert (result.message.line, result.message.forward_header) == (5, b"\x01")
                with pytest.raises(CallFailed) as failed:
                    await c.call(1999)
                assert failed.value.code == 205
                await c.subscribe("@news")
                await one.publish("@news", b"down the tunnel")
                async for notification in c.notifications():
                    assert notification.content == b"down the tunnel"
                    await c.ack(notification)
                    break
            await until(lambda: len(one.hub.connections) == 1, "the tunnel ends with its user")

    asyncio.run(story())


@pytest.mark.parametrize("service_type", [0, 7])
def test_a_link_names_its_gateway(service_type: int) -> None:
    """LINK_OPEN has the name, the instance and the kind of a gateway, and a key of its own."""

    async def story() -> None:
        named = {"name": "gate", "instance": 9, "service_type": service_type, "service": "game"}
        async with backend("one") as back, gateway(port_of(back), links=2, gateway=named) as front:
            await until(lambda: len(back.hub.connections) == 2)
            sessions = [each.session for each in back.hub.connections.values()]
            await until(lambda: all(each.opening is not None for each in sessions))
            found = [each.opening for each in sessions]
            assert {(each.service, each.instance) for each in found} == {("gate", 9)}
            assert {each.service_type for each in found} == {service_type or None}
            assert len({each.key for each in found}) == 2
            assert front.hub.config.table("gateway").service == "game"

    asyncio.run(story())


@pytest.mark.parametrize("change", ["expires", "removed"])
def test_a_user_is_disconnected_with_its_token(change: str) -> None:
    """By the backend, which closes its tunnel: when the token expires, or with a reload."""

    async def go() -> None:
        async with (
            backend("one", relay={"auth": "token"}) as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            path = one.database
            token = add_client(path, "alice", lifetime_s=3600)
            assert (await client.sign_on("alice", token)).code == 100
            assert (await client.call(11, {"topic": "@news"})).code == 100
            if change == "expires":
                later = time.time() + 3601
                one.hub.topics._clock = lambda: later
            else:
                remove_client(path, "alice")
                await one.hub.reload(one.hub.config)
            await client.ended()
            reasons = [each.reason for each in one.hub.table.closed_connections]
            assert reasons == ["token_expired" if change == "expires" else "revoked"]
            async with tny_client(gate.address("tny")) as again:
                assert (await again.sign_on("alice", token)).code == 210

    asyncio.run(go())


def test_headers_of_pending_requests_count_for_their_user() -> None:
    """The gateway keeps them until the backend answers, which may take as long as it likes."""

    async def go() -> None:
        services = demo_services()
        answered = asyncio.Event()

        @services.service("test", "wait", tny=2002)
        async def wait(call: Call) -> None:  # noqa: ARG001
            await answered.wait()

        async with (
            running(listeners=["relay"], services=services, relay=OPEN) as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            answers = [client.ask(2002, forward_header=bytes(10_000)) for _ in range(20)]
            budget = gate.hub.context.budget
            await until(lambda: budget.total >= 200_000, "they are counted")
            answered.set()
            await asyncio.wait_for(asyncio.gather(*answers), 20)
            await until(lambda: budget.total == 0, "they are answered")

    asyncio.run(go())
