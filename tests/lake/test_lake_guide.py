"""The guide on Spark names every table and every option. (tests/docs runs its examples.)"""

from __future__ import annotations

import re
from pathlib import Path

from wirelake.columnar.read.reader import TABLES
from wirelake.lake.datasource.options import FILES, OPTIONS

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "spark.md").read_text("utf-8")


def test_every_table_and_option_is_described() -> None:
    described = set(re.findall(r"^\| `(\w+)`", GUIDE, re.MULTILINE))
    assert described == {*TABLES, FILES, *OPTIONS} - {"path"}
