"""The pages of tables are those that the schemas give."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.records.page_texts import (
    EXAMPLES,
    MADE,
    NOTES,
    ROWS,
)
from wirelake.records.pages import main, pages
from wirelake.records.schema import (
    COMMON,
    TABLES,
    schema,
)

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
NAMES = ["messages", *TABLES]


@pytest.mark.parametrize("name", list(pages()))
def test_each_page_is_up_to_date(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == pages()[name]


def test_no_page_is_left_over() -> None:
    there = {f"tables/{path.name}" for path in (REFERENCE / "tables").iterdir()}
    assert there == set(pages()) - {"tables.md"}


def test_every_table_has_a_page_and_a_question() -> None:
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


def test_every_column_has_a_meaning() -> None:
    for columns in (COMMON, *TABLES.values()):
        for field in columns:
            assert (field.metadata or {}).get(b"doc"), field.name


def test_pages_that_are_out_of_date_are_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "--check"]) == 1
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
    (tmp_path / "tables" / "calls.md").write_text("old", encoding="utf-8")
    capsys.readouterr()
    assert main([str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().out == "tables/calls.md is out of date\n"
