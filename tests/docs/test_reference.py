"""The reference in docs/reference is what the code gives, page by page, and lists every page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.pages import __main__ as reference

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_every_page_is_up_to_date() -> None:
    assert sorted(reference.stale(REFERENCE)) == [], "run: make pages"


def test_no_stale_page_remains() -> None:
    there = {str(path.relative_to(REFERENCE)) for path in REFERENCE.rglob("*") if path.is_file()}
    assert there == {"index.md", *reference.pages()}


def test_index_links_every_page() -> None:
    text = (REFERENCE / "index.md").read_text(encoding="utf-8")
    tops = [name for name in reference.pages() if "/" not in name]
    assert [name for name in tops if f"]({name})" not in text] == []


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main([str(tmp_path), "--check"]) == 1
    assert not any(tmp_path.iterdir())
    assert reference.main([str(tmp_path)]) == 0
    assert reference.main([str(tmp_path), "--check"]) == 0
    (tmp_path / "tables" / "calls.md").write_text("old", encoding="utf-8")
    capsys.readouterr()
    assert reference.main([str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().out == "tables/calls.md is out of date\n"
