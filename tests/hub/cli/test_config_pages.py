"""The pages of the configuration and of refusals: every key, every code."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
import pytest
from tools.pages.config import pages, type_text

from wirelake.hub.config import ClientRights, Config, tables
from wirelake.hub.errors import ERRORS
from wirelake.protocols import registry
from wirelake.protocols.binding import TlsSettings
from wirelake.protocols.esnp.binding import EsnpRoute
from wirelake.protocols.tny.binding import Backend


def test_every_key_is_in_the_section_of_its_table() -> None:
    text = pages()["config.md"]
    for name, kind in tables(registry.BUILT_IN).items():
        section = text.partition(f"\n## [{name}]\n")[2].partition("\n## ")[0]
        for field in msgspec.structs.fields(kind):
            row = re.search(rf"^\| `{field.name}` \|(.*)\|$", section, re.MULTILINE)
            assert row is not None, f"{name}.{field.name}"
            assert row[1].rpartition("|")[2].strip(), f"{name}.{field.name}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tls", TlsSettings),
        ("routes", EsnpRoute),
        ("backends", Backend),
        ("clients", ClientRights),
    ],
)
def test_every_key_of_a_table_in_a_table_is_there(name: str, kind: type[msgspec.Struct]) -> None:
    section = pages()["config.md"].partition(f"\n## {name} = ")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert tuple(rows) == kind.__struct_fields__


def test_defaults_are_those_of_the_hub() -> None:
    text = pages()["config.md"]
    assert "| `port` | whole number | `9680` |" in text
    assert f"| `inbox` | whole number, 1-2147483647 | `{Config().limits.inbox}` |" in text
    assert "| `certificate` | text | *required* |" in text


def test_types_are_described() -> None:
    assert type_text(str | tuple[str, ...]) == "text or list of text"
    assert type_text(Literal["a", "b"]) == '`"a"`, `"b"`'
    assert type_text(bool) == "true or false"
    assert type_text(Config | None) == "table"


def test_every_refusal_is_there_with_its_answers() -> None:
    text = pages()["hub-errors.md"]
    assert "| code | meaning | tny | magline | comet | HTTP |" in text
    assert "| `not_found` | no such service, client or notification | 205 | 14 | 4 | 404 |" in text
    for code, error in ERRORS.items():
        assert f"| `{code}` | {error.meaning} |" in text


@pytest.mark.parametrize("name", ["tny", "magline", "comet"])
def test_every_error_has_a_number_in_protocols_with_numbers(name: str) -> None:
    assert set(registry.binding(name).errors) == set(ERRORS)
