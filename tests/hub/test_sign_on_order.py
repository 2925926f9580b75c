"""What a peer sends right behind a sign-on is handled after it, also while the store is read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import ASYNC, REQUEST, connected, error_of, esnp_hub
from tests.hub.listeners_magline.nodes import SUBSCRIBE, node
from tests.hub.listeners_magline.nodes import connected as magline_node
from tests.hub.listeners_tny.tny_client import tny_client
from tests.hub.running import running, until

from wirelake.protocols.magline.session import Established

pytestmark = pytest.mark.both_stores


def test_esnp_requests_and_events_behind_a_sign_on() -> None:
    async def go() -> None:
        async with esnp_hub(clients=["anna"]) as it, connected(it) as peer:
            flags = (REQUEST, ASYNC)
            peer.ask("hub/auth", flags=flags, id="anna", token=it.tokens["anna"])
            peer.tell("test/add", a=1, b=2)
            peer.ask("test/add", flags=flags, a=1, b=2)
            peer.ask("hub/subscribe", flags=flags, topics=["@news"])
            peer.ask("hub/publish", flags=flags, topic="@news", content="x")
            for _ in range(4):
                assert error_of(await peer.message()) is None
            assert not it.hub.counters.failures

    asyncio.run(go())


def test_esnp_attempts_behind_a_refused_one() -> None:
    async def go() -> None:
        async with esnp_hub(clients=["anna"]) as it, connected(it) as peer:
            flags = (REQUEST, ASYNC)
            peer.ask("hub/auth", flags=flags, id="anna", token="wrong")
            peer.ask("test/add", flags=flags, a=1, b=2)
            errors = [error_of(await peer.message()) for _ in range(2)]
            assert all(errors)
            assert "auth required" in str(errors[1])

    asyncio.run(go())


def test_tny_requests_behind_a_sign_on() -> None:
    async def go() -> None:
        async with (
            running(clients=["anna"], listeners=["tny"]) as it,
            tny_client(it.address("tny")) as client,
        ):
            asked = [
                client.ask(10, {"id": "anna", "token": it.tokens["anna"]}),
                client.ask(11, {"topics": ["@news"]}),
                client.ask(13, {"topic": "@news", "content": "x"}),
            ]
            answers: list[Any] = await asyncio.wait_for(asyncio.gather(*asked), 20)
            assert [each.code for each in answers] == [100, 100, 100]

    asyncio.run(go())


def test_magline_requests_behind_a_resumption() -> None:
    async def go() -> None:
        async with running(clients=["anna"], listeners=["magline"]) as it:
            async with node(it, "anna") as first:
                ticket = first.session.ticket
            await until(lambda: not it.hub.connections)
            back = await magline_node(it, ticket=ticket)
            await back.next(Established)
            assert await back.ask(SUBSCRIBE, {"topic": "@news"}) == {"topics": 1}
            await back.hang_up()

    asyncio.run(go())
