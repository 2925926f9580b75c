"""The page on performance is what the records say, and copes with other records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.performance_pages import FILE, ROOT, bound, main, number, page

GUIDES = ROOT / "docs" / "guides"
RESULTS = ROOT / "benchmarks" / "results"


def test_the_page_is_up_to_date() -> None:
    assert (GUIDES / FILE).read_text(encoding="utf-8") == page(), "run: make pages"


def all_rules(found: Any) -> list[dict[str, Any]]:
    """Every required and target value in a record, wherever it is."""
    if isinstance(found, dict):
        own = [found] if {"kind", "what", "wanted", "found", "holds"} <= set(found) else []
        return own + [rule for each in found.values() for rule in all_rules(each)]
    return [rule for each in found for rule in all_rules(each)] if isinstance(found, list) else []


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_missed_requirements_are_listed(path: Path) -> None:
    text = page()
    for rule in all_rules(json.loads(path.read_text(encoding="utf-8"))):
        word = (
            "holds" if rule["holds"] else "**missed**" if rule["kind"] == "required" else "not yet"
        )
        cells = f"{rule['what']} | {bound(rule['wanted'])} | {number(rule['found'])}"
        assert f"| {rule['kind']} | {cells} | {word} |" in text
        assert rule["holds"] or f"| {cells} | `{path.name}` |" in text


def put(root: Path, name: str, record: Any) -> None:
    """Writes a record below a folder."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")


def test_an_unknown_record_gets_tables(tmp_path: Path) -> None:
    rule = {
        "kind": "required",
        "what": "tea: speed",
        "wanted": ">= 2000",
        "found": 1,
        "holds": False,
    }
    figures = [{"what": "cups", "value": 1234.5, "unit": "1/s"}]
    part = {"title": "tea", "figures": figures, "rules": [rule]}
    put(tmp_path, "benchmarks/results/kitchen.json", {"results": {"tea": part}})
    text = page(tmp_path)
    assert "## kitchen\n" in text
    assert "| cups | 1,234 | 1/s |" in text
    assert "| tea: speed | ≥ 2,000 | 1 | `kitchen.json` |" in text
    assert "0 of 1" in text


def test_columns_are_the_union_over_rows(tmp_path: Path) -> None:
    rows = {"small": {"a": 1.0}, "large": {"b": 2_000_000.0}}
    part = {"title": "rows", "unit": "1/s", "rows": rows}
    put(tmp_path, "benchmarks/results/hub.json", {"results": {"x": part}})
    text = page(tmp_path)
    assert "| 1/s | a | b |" in text
    assert "| large |  | 2,000,000 |" in text
    assert "None." not in text  # nothing was judged


def test_missing_records_are_reported(tmp_path: Path) -> None:
    assert page(tmp_path).count("There are no records.") == 2


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--check"]) == 1
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
    assert capsys.readouterr().out == f"{FILE} is out of date\nwrote {FILE}\n"
