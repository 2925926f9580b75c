"""A hub with something on every page, and a question for each address that is described."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from tests.hub.admin.admin_client import AdminClient, admin_client
from tests.hub.listeners_comet.phones import phone
from tests.hub.running import Running, running, until

LIVE = {"tables": True}


class Question(NamedTuple):
    """What to ask, and the status that the description promises for it."""

    method: str
    path: str
    """As it is described."""
    asked: str
    """As it is asked for."""
    body: Any = None
    status: int = 200


QUESTIONS = (
    Question("GET", "/healthz", "/healthz"),
    Question("GET", "/readyz", "/readyz"),
    Question("GET", "/varz", "/varz"),
    Question("GET", "/metrics", "/metrics"),
    Question("GET", "/v1/openapi.json", "/v1/openapi.json"),
    Question("GET", "/connz", "/connz?limit=5&offset=0&protocol=comet&client=anna"),
    Question("GET", "/connz", "/connz?protocol=nothing", status=400),
    Question("GET", "/topicz", "/topicz?limit=5&offset=0"),
    Question("GET", "/topicz", "/topicz?client=anna", status=400),
    Question("GET", "/clientz", "/clientz?limit=5&offset=0"),
    Question("GET", "/clientz", "/clientz?limit=1001", status=400),
    Question("GET", "/v1/services", "/v1/services?limit=5&offset=0"),
    Question("GET", "/v1/services", "/v1/services?client=anna", status=400),
    Question("GET", "/v1/top", "/v1/top?limit=5"),
    Question("GET", "/v1/top", "/v1/top?limit=1001", status=400),
    Question("POST", "/v1/publish", "/v1/publish", {"topic": "@news", "content": "x", "type": 7}),
    Question("POST", "/v1/publish", "/v1/publish", {"client": "bert", "content_base64": "gA=="}),
    Question("POST", "/v1/publish", "/v1/publish", {"topic": "@news"}, 400),
    Question("POST", "/v1/publish", "/v1/publish", {"client": "no", "content": "x"}, 404),
    Question("POST", "/v1/publish", "/v1/publish", {"topic": "@n", "content": "x" * 20_000}, 413),
    Question("GET", "/v1/inbox/{client}", "/v1/inbox/anna?limit=5"),
    Question("GET", "/v1/inbox/{client}", "/v1/inbox/bert"),
    Question("GET", "/v1/inbox/{client}", "/v1/inbox/nobody", status=404),
    Question("GET", "/v1/inbox/{client}", "/v1/inbox/anna?limit=x", status=400),
    Question("GET", "/v1/dead", "/v1/dead?limit=5&client=anna"),
    Question("GET", "/v1/dead", "/v1/dead?client=nobody", status=404),
    Question("GET", "/v1/dead", "/v1/dead?limit=-1", status=400),
    Question("POST", "/v1/dead/redrive", "/v1/dead/redrive", {"client": "anna"}),
    Question("POST", "/v1/dead/redrive", "/v1/dead/redrive", {}, 400),
    Question("POST", "/v1/dead/redrive", "/v1/dead/redrive", {"client": "nobody"}, 404),
    Question("POST", "/v1/dead/redrive", "/v1/dead/redrive", {"ids": ["x" * 70_000]}, 413),
    Question("GET", "/v1/tables/{table}", "/v1/tables/calls?limit=5"),
    Question("GET", "/v1/tables/{table}", "/v1/tables/nothing", status=404),
    Question("GET", "/v1/tables/{table}", "/v1/tables/calls?limit=10001", status=400),
    Question("GET", "/v1/tail", "/v1/tail?filter=nothing%20%3E%201", status=400),
)
"""The stream of /v1/tail has no end, and a test of its own."""


@asynccontextmanager
async def furnished(**tables: Any) -> AsyncIterator[tuple[Running, AdminClient]]:
    """A hub with a client that is here and owes acknowledgements, a connection that is over, and
    one dead letter of each kind of content."""
    limits = {"inbox": 2}
    async with (
        running(
            clients=["anna", "bert"], listeners=["comet"], record=LIVE, limits=limits, **tables
        ) as it,
        admin_client(it.hub) as admin,
    ):
        async with phone(it):
            pass
        async with phone(it, "anna") as made:
            await made.subscribe("@news")
        await until(lambda: not it.hub.connections)
        for content in ("first", "second", "third", "fourth"):
            answer = await admin.post("/v1/publish", {"topic": "@news", "content": content})
            assert answer.status == 200, answer.body
        async with phone(it, "anna"):
            async with asyncio.timeout(20):
                while not (await admin.get("/v1/dead")).json["dead"]:
                    await asyncio.sleep(0.01)
            yield it, admin


def schema_of(document: dict[str, Any], question: Question) -> Any:
    """The schema of the answer that is described for this question; None when it is no JSON."""
    operation = document["paths"][question.path][question.method.lower()]
    content = operation["responses"][str(question.status)]["content"]
    return content["application/json"]["schema"] if "application/json" in content else None


def problems(document: dict[str, Any], schema: Any, answer: Any, *, strict: bool) -> list[str]:
    """Where an answer is not what its schema says; `strict` allows no key that is not there."""
    components = copy.deepcopy(document["components"])
    if strict:
        for each in components["schemas"].values():
            each["additionalProperties"] = False
    checker = Draft202012Validator({**schema, "components": components})
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(answer)]
