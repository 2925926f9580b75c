"""The page of tables is the one that the schemas give."""

from __future__ import annotations

from pathlib import Path

from wirehouse.records.pages import main, page
from wirehouse.records.schema import COMMON, TABLES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_page_is_up_to_date() -> None:
    assert (REFERENCE / "tables.md").read_text(encoding="utf-8") == page()


def test_every_column_has_a_meaning() -> None:
    for columns in (COMMON, *TABLES.values()):
        for field in columns:
            assert (field.metadata or {}).get(b"doc"), field.name


def test_a_page_that_is_out_of_date_is_written_anew(tmp_path: Path) -> None:
    assert main([str(tmp_path), "--check"]) == 1
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
