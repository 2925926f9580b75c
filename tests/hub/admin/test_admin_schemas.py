"""The types of answers have every key that a live hub writes, and each says what it means."""

from __future__ import annotations

import asyncio

from tests.hub.admin.described_hub import QUESTIONS, furnished, problems, schema_of
from tools.pages.http import openapi


def test_no_answer_has_a_key_that_is_not_described() -> None:
    asyncio.run(_keys())


async def _keys() -> None:
    async with furnished() as (_, admin):
        document = (await admin.get("/v1/openapi.json")).json
        seen = set()
        for question in QUESTIONS:
            schema = schema_of(document, question)
            if question.method == "POST" or schema is None or "$ref" not in schema:
                continue
            answer = (await admin.get(question.asked)).json
            assert problems(document, schema, answer, strict=True) == [], question
            seen.add(schema["$ref"].rpartition("/")[2])
        dead = (await admin.get("/v1/dead")).json["dead"]
        rows = (await admin.get("/connz")).json
        assert dead
        assert rows["connections"]
        assert rows["closed"]
        assert (await admin.get("/v1/inbox/anna")).json["notifications"]
        assert {"Varz", "Connz", "Topicz", "Clientz", "Inbox", "Dead", "Rows"} <= seen


def test_a_key_that_is_not_described_is_noticed() -> None:
    document = openapi()
    schema = {"$ref": "#/components/schemas/Health"}
    assert problems(document, schema, {"status": "ok"}, strict=True) == []
    assert problems(document, schema, {"status": "ok", "more": 1}, strict=True) != []
    assert problems(document, schema, {"status": "bad"}, strict=False) != []


def test_every_key_has_a_meaning() -> None:
    for name, schema in openapi()["components"]["schemas"].items():
        assert schema["description"], name
        for key, value in schema["properties"].items():
            assert value.get("description"), f"{name}.{key}"
