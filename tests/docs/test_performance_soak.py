"""The soaks on the page on performance: less than asked for, and wrong, are seen."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.performance_pages import ROOT
from benchmarks.performance_soak import asked, soaks


def test_requested_counts_come_from_the_makefile() -> None:
    found = asked(ROOT / "Makefile")
    assert found["SOAK_HUB_KILLS"] == 100
    assert asked(ROOT / "nowhere") == {}


def test_shortfalls_and_problems_are_reported(tmp_path: Path) -> None:
    (tmp_path / "soak").mkdir()
    (tmp_path / "Makefile").write_text("SOAK_CUTS ?= 200\nSOAK_KILLS ?= 50\n", encoding="utf-8")
    record = {"cuts": 40, "kills": 52, "problems": ["a row is missing"]}
    (tmp_path / "soak" / "lake.json").write_text(json.dumps(record), encoding="utf-8")
    text = "\n".join(soaks(tmp_path))
    assert "| splits of its input | 200 | 40 (**fewer**) | 1 |" in text
    assert "| kills of a lake's run | 50 | 52 | 1 |" in text


def test_every_record_is_on_the_page() -> None:
    text = "\n".join(soaks(ROOT))
    for path in (ROOT / "soak").glob("*.json"):
        assert f"`soak/{path.name}`" in text
