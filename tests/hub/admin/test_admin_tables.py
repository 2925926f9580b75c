"""`GET /v1/tables/{table}`: what the engines of a running hub have made so far."""

from __future__ import annotations

import asyncio

from tests.hub.admin.admin_client import admin_client
from tests.hub.listeners_comet.phones import phone
from tests.hub.observe.recorded_run import publish
from tests.hub.running import running, until

RECORD = {"tables": True}


def test_rows_come_when_they_are_final() -> None:
    asyncio.run(_rows())


async def _rows() -> None:
    async with (
        running(clients=["anna"], listeners=["comet"], record=RECORD) as it,
        admin_client(it.hub) as admin,
    ):
        assert (await admin.get("/v1/tables/connections")).json == {"count": 0, "rows": []}
        async with phone(it, "anna") as made:
            await made.subscribe("@news")
            found = await publish(it, topic="@news", content=b"hello")
            await made.content()
            await made.ack(found)
        await until(lambda: not it.hub.connections)
        (row,) = (await admin.get("/v1/tables/connections")).json["rows"]
        assert (row["client"], row["close_reason"], row["closed_by"]) == ("anna", "eof", "client")
        calls = (await admin.get("/v1/tables/calls")).json
        targets = [each["target"] for each in calls["rows"]]
        assert targets == ["auth", "subscribe", "message_ack"]
        last = (await admin.get("/v1/tables/calls?limit=1")).json
        assert (last["count"], last["rows"]) == (3, calls["rows"][-1:])
        assert (await admin.get("/v1/tables/calls?limit=0")).json["rows"] == []
        assert (await admin.get("/v1/tables/messages")).status == 404


def test_there_are_none_by_default() -> None:
    asyncio.run(_none())


async def _none() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        answer = await admin.get("/v1/tables/calls")
        assert answer.status == 404
        assert "record.tables" in answer.json["message"]
