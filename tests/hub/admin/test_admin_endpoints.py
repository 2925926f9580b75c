"""Each address of a live hub answers as it is described: status, kind and body."""

from __future__ import annotations

import asyncio

from tests.hub.admin.admin_client import tailing
from tests.hub.admin.described_hub import QUESTIONS, furnished, problems, schema_of

from wirelake.hub.admin.endpoints import ENDPOINTS
from wirelake.hub.errors import ERRORS

STREAM = "/v1/tail"
UNASKED = {429, 503, 507}
"""What a hub answers when it is overloaded, going down or out of disk; other tests see to it."""


def test_each_answer_is_as_described() -> None:
    asyncio.run(_answers())


async def _answers() -> None:
    async with furnished() as (_, admin):
        document = (await admin.get("/v1/openapi.json")).json
        for question in QUESTIONS:
            if question.method == "POST":
                answer = await admin.post(question.asked, question.body)
            else:
                answer = await admin.get(question.asked)
            assert answer.status == question.status, (question, answer.body)
            operation = document["paths"][question.path][question.method.lower()]
            kinds = list(operation["responses"][str(question.status)]["content"])
            assert [answer.headers["content-type"].partition(";")[0]] == kinds, question
            schema = schema_of(document, question)
            if schema is not None:
                assert problems(document, schema, answer.json, strict=False) == [], question


def test_each_address_and_each_status_is_asked_for() -> None:
    asked = {(each.method, each.path, each.status) for each in QUESTIONS}
    for each in ENDPOINTS:
        statuses = {200, *(ERRORS[code].http for code in each.refusals)} - UNASKED
        if each.path == STREAM:
            statuses -= {200}
        for status in statuses:
            assert (each.method, each.path, status) in asked, (each.path, status)


def test_access_is_as_described() -> None:
    asyncio.run(_who())


async def _who() -> None:
    async with furnished() as (_, admin):
        for each in ENDPOINTS:
            path = each.path.replace("{client}", "anna").replace("{table}", "calls")
            if each.method == "POST":
                status = (await admin.post(path, {}, token=None)).status
            else:
                status = (await admin.get(path, token=None)).status
            assert status == (200 if each.open else 401), each.path


def test_the_stream_is_as_described() -> None:
    asyncio.run(_stream())


async def _stream() -> None:
    async with (
        furnished() as (it, admin),
        tailing(admin, "?filter=protocol%20%3D%20'comet'") as it_,
    ):
        await admin.post("/v1/publish", {"topic": "@news", "content": "a message to see"})
        kind, row = await it_.next()
        assert (kind, row["protocol"]) == ("message", "comet")
        assert it.hub.counters.published
