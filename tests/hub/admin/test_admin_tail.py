"""`GET /v1/tail`: what crosses the hub, as it crosses, without what is secret."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.hub.admin.admin_client import admin_client, tailing
from tests.hub.listeners_comet.phones import phone
from tests.hub.listeners_magline.nodes import node
from tests.hub.observe.recorded_run import Caller, publish
from tests.hub.running import DEADLINE_S, running, until
from tests.hub.session_client import dial

from wirelake.hub.admin.live import QUEUE, TailReader
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.protocols.esnp.session import EsnpSession
from wirelake.protocols.sansio import Role

ROW = {
    "protocol": "comet",
    "connection": 7,
    "target": None,
    "body": b"hello",
    "file": "live",
    "offset": 0,
}


def test_messages_are_decoded_also_sealed_ones() -> None:
    asyncio.run(_decoded())


async def _decoded() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        assert not it.hub.tap.active
        async with tailing(admin) as events, phone(it, "anna") as made:
            await made.exchange_key()
            await made.subscribe("@news")
            await publish(it, topic="@news", content=b"for your eyes")
            assert await made.content() == b"for your eyes"
            found: list[dict[str, Any]] = []
            while not found or found[-1]["kind"] != "push":
                name, row = await events.next()
                assert name == "message"
                found.append(row)
        names = [row["name"] for row in found]
        assert names[:3] == ["auth", "auth_success", "exchange_key"]
        assert found[-1]["body"] == "for your eyes"
        assert found[0]["client"] == "anna"
        assert it.tokens["anna"] not in json.dumps(found)
        await until(lambda: not it.hub.tap.active, "nobody decodes when nobody looks")


def test_the_arguments_of_signing_on_are_masked_everywhere() -> None:
    asyncio.run(_masked())


async def _masked() -> None:
    async with (
        running(
            clients=["anna", "ben"],
            listeners=["esnp", "magline"],
            services=demo_services(),
            magline={"anonymous": True},
        ) as it,
        admin_client(it.hub) as admin,
        tailing(admin, "?filter=kind%20%3D%3D%20%22request%22") as events,
    ):
        reader, writer = await dial(it.address("esnp"))
        caller = Caller(EsnpSession(Role.CLIENT, now=it.hub.loop.time()), reader, writer)
        await caller.call("hub", "auth", id="anna", token=it.tokens["anna"])
        await caller.call("test", "add", a=1, b=2)
        async with node(it, "ben") as made:
            await made.ask(0x1002, {"a": 1, "b": 2})
        found = [(await events.next())[1] for _ in range(4)]
        await caller.hang_up()
    assert [row["target"] for row in found] == ["hub/auth", "test/add", "10", "4098"]
    assert [row.get("masked", False) for row in found] == [True, False, True, False]
    said = json.dumps(found)
    assert it.tokens["anna"] not in said
    assert it.tokens["ben"] not in said
    assert json.loads(found[3]["body"]) == {"a": 1, "b": 2}


def test_a_connection_that_was_open_before_is_followed_from_here_on() -> None:
    asyncio.run(_joined())


async def _joined() -> None:
    async with (
        running(clients=["anna"], listeners=["comet"]) as it,
        admin_client(it.hub) as admin,
        phone(it, "anna") as made,
    ):
        await made.exchange_key()
        async with tailing(admin) as events:
            await made.subscribe("@news")
            assert (await events.next())[1]["name"] == "subscribe"
            await publish(it, topic="@news", content=b"with the key of before")
            while (row := (await events.next())[1])["kind"] != "push":
                pass
            assert row["body"] == "with the key of before"


def test_a_filter_that_is_none_is_refused() -> None:
    asyncio.run(_bad_filter())


async def _bad_filter() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        for text in ("kind%20%3D", "nothing%20%3D%3D%201", "x" * 3000):
            answer = await admin.get(f"/v1/tail?filter={text}")
            assert (answer.status, answer.json["error"]) == (400, "bad_arguments")
        assert not it.hub.tap.active


def test_head_has_an_end() -> None:
    asyncio.run(_head())


async def _head() -> None:
    async with running() as it, admin_client(it.hub) as admin:
        reader, writer = await asyncio.open_connection(*admin.address)
        common = f"HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin.token}\r\n"
        writer.write(f"HEAD /v1/tail {common}\r\n".encode())
        # Answered when the first one is over.
        writer.write(f"GET /healthz {common}Connection: close\r\n\r\n".encode())
        async with asyncio.timeout(DEADLINE_S):
            answers = await reader.read()
        assert answers.count(b"HTTP/1.1 200 OK") == 2
        assert b"text/event-stream" in answers
        writer.close()


def test_readers_are_few() -> None:
    asyncio.run(_few())


async def _few() -> None:
    limits = {"tail_watchers": 1}
    async with running(listeners=["comet"], limits=limits) as it, admin_client(it.hub) as admin:
        async with tailing(admin):
            answer = await admin.get("/v1/tail")
            assert (answer.status, answer.json["error"]) == (429, "too_busy")
        await until(lambda: not it.hub.tap.active)
        async with tailing(admin):
            pass


def test_readers_that_come_together_are_few() -> None:
    asyncio.run(_together())


async def _together() -> None:
    async with (
        running(listeners=["comet"], limits={"tail_watchers": 2}) as it,
        admin_client(it.hub) as admin,
    ):
        lines = [await asyncio.open_connection(*admin.address) for _ in range(8)]
        token = f"Authorization: Bearer {admin.token}\r\n"
        request = f"GET /v1/tail HTTP/1.1\r\nHost: localhost\r\n{token}\r\n".encode()
        for _, writer in lines:
            writer.write(request)
        first = [await asyncio.wait_for(reader.readline(), DEADLINE_S) for reader, _ in lines]
        assert sorted(each.split()[1] for each in first) == [b"200"] * 2 + [b"429"] * 6
        for _, writer in lines:
            writer.transport.abort()
        await until(lambda: not it.hub.tap.active)
        async with tailing(admin):
            pass


def test_streams_end_with_the_hub() -> None:
    asyncio.run(_ends())


async def _ends() -> None:
    async with (
        running(listeners=["comet"]) as it,
        admin_client(it.hub) as admin,
        tailing(admin) as events,
    ):
        await admin.server.stop()
        assert await events.rest() == b""


def test_a_slow_reader_gets_the_number_of_missed_messages() -> None:
    asyncio.run(_slow())


async def _slow() -> None:
    reader = TailReader(None)
    for _ in range(QUEUE + 7):
        reader.message(ROW)
    found = b""
    while b"event: dropped" not in found:
        found += await reader.next()
    assert found.count(b"event: message") == QUEUE
    assert b'event: dropped\ndata: {"count":7}' in found
    reader.end()
    assert await reader.next() == b""


@pytest.mark.parametrize(("body", "key"), [(b"text", "body"), (b"\xff", "body_base64")])
def test_bodies_are_text_or_base64(body: bytes, key: str) -> None:
    asyncio.run(_body(body, key))


async def _body(body: bytes, key: str) -> None:
    reader = TailReader(None)
    reader.message({**ROW, "body": body})
    data = json.loads((await reader.next()).split(b"data: ")[1])
    assert key in data
    assert "file" not in data
