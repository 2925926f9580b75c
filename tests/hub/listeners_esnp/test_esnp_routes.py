"""Calls of ESNP clients that another server answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.running import Running, running, until

from wirelake.client import CallFailed, Client, connect
from wirelake.hub.config import ClientRights, ConfigError, make_config
from wirelake.hub.listeners.esnp import EsnpListener
from wirelake.hub.listeners.esnp_routes import Route
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Call, Services
from wirelake.protocols.esnp.layout import SessionInfo
from wirelake.protocols.esnp.values import values_of


class Seen(NamedTuple):
    """What a service got."""

    body: bytes
    rows: tuple[Any, ...]
    client: str


def far_services() -> tuple[Services, list[Seen]]:
    services = Services()
    seen: list[Seen] = []

    @services.service("far", "look")
    def look(call: Call) -> dict[str, int]:
        # Not the call itself: it is untracked by the collector and holds its connection.
        assert call.client is not None
        seen.append(Seen(call.body, call.rows, call.client.id))
        return {"seen": len(seen)}

    @services.service("far", "count")
    async def count(to: int) -> AsyncIterator[dict[str, int]]:
        for n in range(to):
            yield {"n": n}

    @services.service("far", "sleep")
    async def sleep(ms: int) -> dict[str, int]:
        await asyncio.sleep(ms / 1000)
        return {"slept": ms}

    return services, seen


@asynccontextmanager
async def two_hubs(
    services: Services, far: dict[str, Any] | None = None, **route: Any
) -> AsyncIterator[tuple[Running, Running]]:
    """A hub with a route, and the one it leads to."""
    async with running(
        clients=["gate"], listeners=["esnp"], services=services, esnp=far or {"auth": "none"}
    ) as back:
        server = "{}:{}".format(*back.address("esnp"))
        routes = [{"server": server, "service": "far*", **route}]
        async with running(
            listeners=["esnp"],
            services=demo_services(),
            esnp={"auth": "none", "routes": routes},
        ) as front:
            await until(lambda: routed(front), "the route is up")
            yield front, back


def routed(front: Running) -> bool:
    listener = front.hub.listeners["esnp"]
    assert isinstance(listener, EsnpListener)
    return all(route.connections for route in listener.routes)


def route_of(front: Running) -> Route:
    listener = front.hub.listeners["esnp"]
    assert isinstance(listener, EsnpListener)
    return listener.routes[0]


def client_of(it: Running) -> Client:
    return connect("esnp://{}:{}".format(*it.address("esnp")))


def test_calls_streams_infos_and_errors_cross_a_route() -> None:
    async def story() -> None:
        services, seen = far_services()
        async with two_hubs(services) as (front, _), client_of(front) as c:
            assert (await c.call("far/look", b"body", session_info={"mine": 1})).data == {"seen": 1}
            assert (await c.info("far/look")).data == {"seen": 2}
            assert [p.data["n"] async for p in c.stream("far/count", {"to": 5})] == [0, 1, 2, 3, 4]
            with pytest.raises(CallFailed, match="far/nothing"):
                await c.call("far/nothing")
            with pytest.raises(CallFailed, match="other/thing"):
                await c.call("other/thing")
            assert (await c.call("test/add", {"a": 1, "b": 2})).data == {"c": 3}
            traced = await c.call("far/look", trace=True)
            assert len(traced.traces) == 2
            await c.announce("far/look", b"event")
            await until(lambda: len(seen) == 4)
        assert seen[0].body == b"body"
        # The caller's own SESSION_INFO is carried; the row of the route is for the route alone.
        info = values_of(seen[0].rows, SessionInfo)
        assert info.pop("mine") == 1
        assert len(info) == 1

    asyncio.run(story())


def test_calls_behind_a_route_need_the_right_to_call() -> None:
    async def story() -> None:
        services, seen = far_services()
        async with two_hubs(services) as (front, _), client_of(front) as c:
            front.hub.authority.set_rights([ClientRights(ids=("~**",), call=("far/sleep",))])
            await c.call("far/sleep", {"ms": 0})
            with pytest.raises(CallFailed, match="no right to call 'far/look'"):
                await c.call("far/look")
            await c.announce("far/look", b"event")
            refused = front.hub.counters.calls
            await until(lambda: refused["esnp", "forbidden"] == 2)
            await c.call("far/sleep", {"ms": 0})
            assert seen == []

    asyncio.run(story())


def test_a_reply_has_the_callers_session_info_and_not_the_routes() -> None:
    async def story() -> None:
        services, _ = far_services()
        async with two_hubs(services) as (front, _), client_of(front) as c:
            result = await c.call("far/look", session_info={"mine": 7})
            assert values_of(result.message.rows, SessionInfo) == {"mine": 7}

    asyncio.run(story())


def test_many_callers_get_their_own_replies() -> None:
    async def story() -> None:
        services, _ = far_services()
        async with two_hubs(services) as (front, _):
            clients = [client_of(front) for _ in range(4)]
            for client in clients:
                await client.open()
            waits = [
                client.call("far/sleep", {"ms": 10 * n + m})
                for m, client in enumerate(clients)
                for n in range(4)
            ]
            found = [result.data["slept"] for result in await asyncio.gather(*waits)]
            for client in clients:
                await client.close()
        assert found == [10 * n + m for m in range(4) for n in range(4)]

    asyncio.run(story())


def test_a_lost_server_fails_calls_at_once_and_is_dialled_again() -> None:
    async def story() -> None:
        services, _ = far_services()
        async with two_hubs(services) as (front, back), client_of(front) as c:
            pending = asyncio.ensure_future(c.call("far/sleep", {"ms": 60_000}, timeout_s=60))
            await until(lambda: back.hub.services.running == 1)
            for connection in tuple(back.hub.connections.values()):
                connection.drop("cut by the test")
            with pytest.raises(CallFailed, match="lost"):
                await pending
            assert (await c.call("far/look")).data == {"seen": 1}

    asyncio.run(story())


def test_a_server_that_does_not_answer_is_a_timeout() -> None:
    async def story() -> None:
        services, _ = far_services()
        async with two_hubs(services, timeout_s=0.05) as (front, _), client_of(front) as c:
            with pytest.raises(CallFailed, match="no reply in time"):
                await c.call("far/sleep", {"ms": 60_000}, timeout_s=30)
            assert (await c.call("far/look")).data == {"seen": 1}

    asyncio.run(story())


def test_a_route_signs_on(tmp_path: Path) -> None:
    async def story() -> None:
        services, seen = far_services()
        async with running(clients=["gate"], listeners=["esnp"], services=services) as back:
            token = tmp_path / "gate.token"
            token.write_text(back.tokens["gate"])
            server = "{}:{}".format(*back.address("esnp"))
            route = {"server": server, "id": "gate", "token_file": str(token)}
            async with running(
                listeners=["esnp"], esnp={"auth": "none", "routes": [route]}
            ) as front:
                await until(lambda: routed(front), "the route is up")
                async with client_of(front) as c:
                    assert (await c.call("far/look")).data == {"seen": 1}
                    assert seen[0].client == "gate"

    asyncio.run(story())


def test_routes_are_chosen_by_host_and_group() -> None:
    async def story() -> None:
        services, seen = far_services()
        async with (
            two_hubs(services, host="10.*", group="blue") as (front, _),
            client_of(front) as c,
        ):
            assert (await c.call("esnp://10.0.0.7:9/far/look?g=blue")).data == {"seen": 1}
            for target in ("esnp://11.0.0.7:9/far/look?g=blue", "esnp://10.0.0.7:9/far/look?g=red"):
                with pytest.raises(CallFailed, match="far/look"):
                    await c.call(target)
        assert len(seen) == 1

    asyncio.run(story())


def test_a_route_verifies_the_certificate_of_its_server(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)

    async def story() -> None:
        services, _ = far_services()
        far = {"auth": "none", "tls": made.settings}
        tls = {"tls": True, "ca": str(made.certificate)}
        async with two_hubs(services, far, **tls) as (front, _), client_of(front) as c:
            assert (await c.call("far/look")).data == {"seen": 1}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        ({"server": "nowhere"}, "host:port"),
        ({"server": "h:70000"}, "host:port"),
        ({"server": "h:1", "id": "x"}, "token_file"),
        ({"server": "h:1", "timeout_s": 0}, "timeout_s"),
        ({"server": "h:1", "connections": 0}, "connections"),
        ({"server": "h:1", "connections": 1_025}, "connections"),
        ({"server": "h:1", "queue": 0}, "queue"),
        ({"server": "h:1", "speed": 1}, "speed"),
    ],
)
def test_routes_are_checked(route: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make_config({"esnp": {"routes": [route]}})


def test_calls_of_a_caller_that_left_are_forgotten() -> None:
    async def story() -> None:
        services, _ = far_services()
        async with two_hubs(services, timeout_s=300.0, connections=1) as (front, back):
            route = route_of(front)
            client = client_of(front)
            await client.__aenter__()
            call = asyncio.ensure_future(client.call("far/sleep", {"ms": 300_000}))
            await until(lambda: route.unanswered == 1)
            await client.close()
            await asyncio.gather(call, return_exceptions=True)
            await until(lambda: route.unanswered == 0)
            # The connection that would get the reply is closed: it does not hold up others.
            async with client_of(front) as other:
                assert (await other.call("far/look")).data == {"seen": 1}
            assert len(back.hub.connections) == 1

    asyncio.run(story())


def test_a_connection_whose_server_reads_too_slowly_takes_no_more() -> None:
    async def story() -> None:
        services, seen = far_services()
        async with two_hubs(services, connections=2) as (front, _), client_of(front) as c:
            route = route_of(front)
            connection = route.connections[0]
            connection.pause_writing()
            await c.announce("far/look")
            failures = front.hub.counters.failures
            await until(lambda: failures["esnp", "route_down"] == 1)
            await c.call("far/look")
            assert len(seen) == 1
            assert connection.out_bytes == 0
            assert len(route.connections) == 2
            for each in route.connections:
                each.pause_writing()
            waits = asyncio.ensure_future(c.call("far/look"))
            await until(lambda: route.unanswered == 1)
            route.connections[0].resume_writing()
            await waits
            assert len(seen) == 2

    asyncio.run(story())
