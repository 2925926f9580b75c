"""The guide on captures has every table. (tests/docs runs its commands.)"""

from __future__ import annotations

from pathlib import Path

from wirelake.cli.read.options import TABLES

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "captures.md"


def test_every_table_is_there() -> None:
    text = GUIDE.read_text("utf-8")
    assert [table for table in TABLES if f"| `{table}` |" not in text] == []
