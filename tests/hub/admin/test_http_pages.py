"""The pages on HTTP and metrics say what a hub serves."""

from __future__ import annotations

import asyncio
import json

from prometheus_client.parser import text_string_to_metric_families
from tests.hub.admin.described_hub import furnished
from tools.pages.http import families, openapi, pages

from wirelake.hub.admin.endpoints import ENDPOINTS


def test_every_address_argument_and_body_is_on_the_page() -> None:
    text = pages()["http.md"]
    for each in ENDPOINTS:
        section = text.partition(f"\n## {each.method} {each.path}\n")[2].partition("\n## ")[0]
        assert each.summary in section
        assert [query.name for query in each.queries if f"| `{query.name}` |" not in section] == []
        on_loopback = "; no token on loopback" if each.open else ""
        assert f"- Role: `{each.role.label}`{on_loopback}\n" in section
    for name in openapi()["components"]["schemas"]:
        assert f"\n### {name}\n" in text


def test_the_file_is_the_description() -> None:
    assert json.loads(pages()["openapi.json"]) == openapi()


def test_every_series_has_a_meaning_and_is_on_the_page() -> None:
    text = pages()["metrics.md"]
    for each in families():
        assert each.documentation, each.name
        assert f"| `{each.name}" in text


def test_every_series_of_a_live_hub_is_on_the_page() -> None:
    text = pages()["metrics.md"]
    served = list(text_string_to_metric_families(asyncio.run(_served())))
    assert len(served) > 20
    assert [each.name for each in served if f"| `{each.name}" not in text] == []
    for family in served:
        row = next(line for line in text.splitlines() if line.startswith(f"| `{family.name}"))
        labels = {name for each in family.samples for name in each.labels} - {"le"}
        assert {name for name in labels if f"`{name}`" not in row} == set(), family.name


async def _served() -> str:
    async with furnished() as (_, admin):
        return (await admin.get("/metrics")).body.decode()
