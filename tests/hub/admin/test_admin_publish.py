"""`POST /v1/publish`, inboxes and dead letters over HTTP."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from tests.hub.admin.admin_client import admin_client
from tests.hub.listeners_comet.phones import contents, phone
from tests.hub.running import running, until

from wirelake.protocols.comet.layout import GetMessageList


def test_what_is_published_arrives() -> None:
    asyncio.run(_arrives())


async def _arrives() -> None:
    async with (
        running(clients=["anna", "ben"], listeners=["comet"]) as it,
        admin_client(it.hub) as admin,
    ):
        async with phone(it, "anna") as made:
            await made.subscribe("@news")
            first = await admin.post("/v1/publish", {"topic": "@news", "content": "grüße"})
            assert first.status == 200
            assert first.json["audience"] == 1
            assert await made.content() == "grüße".encode()
            raw = base64.b64encode(b"\xff\x00").decode()
            second = await admin.post("/v1/publish", {"client": "anna", "content_base64": raw})
            assert second.status == 200
            assert await made.content() == b"\xff\x00"
            assert second.json["id"] != first.json["id"]
        away = await admin.post("/v1/publish", {"client": "ben", "content": "later"})
        assert away.status == 200
        async with phone(it, "ben") as made:
            assert contents(await made.ask(GetMessageList())) == [b"later"]


def test_the_same_key_publishes_once() -> None:
    asyncio.run(_once())


async def _once() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        wanted = {"client": "anna", "content": "once", "id": "order-7"}
        first, second = [await admin.post("/v1/publish", wanted) for _ in range(2)]
        assert first.status == second.status == 200
        assert first.json == second.json
        found = (await admin.get("/v1/inbox/anna")).json
        assert [each["content"] for each in found["notifications"]] == ["once"]


BAD: list[tuple[Any, int, str]] = [
    (b"{", 400, "bad_arguments"),
    (b"[]", 400, "bad_arguments"),
    (b'{"topic": ' + b"[" * 50_000, 400, "bad_arguments"),
    ({"topic": "@a", "content": "b", "more": 1}, 400, "bad_arguments"),
    ({"topic": "@a"}, 400, "bad_arguments"),
    ({"content": "b"}, 400, "bad_arguments"),
    ({"topic": "@a", "client": "anna", "content": "b"}, 400, "bad_arguments"),
    ({"topic": "@a", "content": "b", "content_base64": "Yg=="}, 400, "bad_arguments"),
    ({"topic": "@a", "content_base64": "Y"}, 400, "bad_arguments"),
    ({"topic": "no spaces", "content": "b"}, 400, "bad_arguments"),
    ({"topic": "@a", "content": 7}, 400, "bad_arguments"),
    ({"topic": "@a", "content": "b", "type": 256}, 400, "bad_arguments"),
    ({"topic": "@a", "content": "b", "ttl_s": -1}, 400, "bad_arguments"),
    (b'{"topic": "@a", "content": "\\ud800"}', 400, "bad_arguments"),
    ({"client": "nobody", "content": "b"}, 404, "not_found"),
    ({"topic": "@a", "content": "b" * 20_000}, 413, "too_large"),
    ({"topic": "@a", "content": "b" * 200_000}, 413, "too_large"),
]


@pytest.mark.parametrize(("body", "status", "code"), BAD)
def test_invalid_requests_are_reported(body: Any, status: int, code: str) -> None:
    asyncio.run(_wrong(body, status, code))


async def _wrong(body: Any, status: int, code: str) -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        answer = await admin.post("/v1/publish", body)
        assert (answer.status, answer.json["error"]) == (status, code)
        assert answer.json["message"]
        assert it.hub.counters.published == 0


def test_other_methods_are_refused() -> None:
    asyncio.run(_methods())


async def _methods() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        assert (await admin.get("/v1/publish")).status == 405
        assert (await admin.post("/connz", {})).status == 405


def test_dead_letters_can_be_given_another_chance() -> None:
    asyncio.run(_dead())


async def _dead() -> None:
    limits = {"inbox": 2}
    async with (
        running(clients=["anna"], listeners=["comet"], limits=limits) as it,
        admin_client(it.hub) as admin,
    ):
        for number in range(3):
            wanted = {"client": "anna", "content": f"number {number}"}
            assert (await admin.post("/v1/publish", wanted)).status == 200
        await until(lambda: it.hub.counters.dead["quota"] == 1, "one is a dead letter")
        found = (await admin.get("/v1/dead?client=anna")).json["dead"]
        assert [(each["content"], each["reason"]) for each in found] == [("number 0", "quota")]
        assert (await admin.get("/v1/dead?client=ben")).status == 404
        for bad in ({}, {"ids": ["x"], "client": "anna"}, {"all": True}):
            assert (await admin.post("/v1/dead/redrive", bad)).status == 400
        answer = await admin.post("/v1/dead/redrive", {"ids": [found[0]["id"]]})
        assert (answer.status, answer.json) == (200, {"redriven": 1})


def test_the_inbox_of_an_unknown_client_is_not_found() -> None:
    asyncio.run(_nobody())


async def _nobody() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        assert (await admin.get("/v1/inbox/nobody")).status == 404
        assert (await admin.get("/v1/inbox/anna")).json["notifications"] == []
