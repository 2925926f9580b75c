"""The description of the HTTP side: valid, complete, and served."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.routing import Route
from tests.hub.admin.admin_client import admin_client
from tests.hub.running import free_config, running
from tools.pages.http import openapi

from wirelake.hub.admin.app import addresses, document, make_app
from wirelake.hub.admin.endpoints import ENDPOINTS
from wirelake.hub.hub import Hub


def test_it_is_valid() -> None:
    assert list(OpenAPIV31SpecValidator(openapi()).iter_errors()) == []


def test_a_mistake_would_be_noticed() -> None:
    broken = openapi()
    del broken["paths"]["/healthz"]["get"]["responses"]["200"]["description"]
    assert list(OpenAPIV31SpecValidator(broken).iter_errors())


def test_each_route_is_described_and_nothing_else() -> None:
    described = [(each.method, each.path) for each in ENDPOINTS]
    assert sorted(described) == sorted(asyncio.run(_routes()))
    assert len(set(described)) == len(described)


async def _routes() -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        hub = Hub(free_config(), Path(folder))
        return addresses(make_app(hub, "a throw-away token for a test").routes)


def test_only_what_there_is_is_described() -> None:
    async def page(_: object) -> None: ...

    routes = [Route("/healthz", page), Route("/of/somebody/else", page, methods=["POST"])]
    assert addresses(routes) == [("GET", "/healthz"), ("POST", "/of/somebody/else")]
    assert list(document(addresses(routes))["paths"]) == ["/healthz"]


def test_a_hub_serves_it() -> None:
    assert asyncio.run(_served()) == openapi()


async def _served() -> object:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        return (await admin.get("/v1/openapi.json", token=None)).json
