"""The pages of tables are those that the schemas give."""

from __future__ import annotations

import pytest
from tools.pages.table_texts import EXAMPLES, MADE, NOTES, ROWS
from tools.pages.tables import pages

from wirelake.records.schema import COMMON, TABLES, schema

NAMES = ["messages", *TABLES]


def test_every_table_has_a_page_and_an_example() -> None:
    assert set(pages()) == {"tables.md", *(f"tables/{name}.md" for name in NAMES)}
    assert set(EXAMPLES) == set(ROWS) == set(NAMES)
    assert set(NOTES) <= set(NAMES)
    assert set(MADE) == {name for name in NAMES if name.endswith("_minutes")}
    assert all(f"](tables/{name}.md)" in pages()["tables.md"] for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_on_its_page(name: str) -> None:
    text = pages()[f"tables/{name}.md"]
    columns = COMMON if name == "messages" else schema(name)
    assert [each.name for each in columns if f"| `{each.name}` |" not in text] == []


def test_every_column_is_documented() -> None:
    for columns in (COMMON, *TABLES.values()):
        for field in columns:
            assert (field.metadata or {}).get(b"doc"), field.name
