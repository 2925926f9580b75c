"""The guide: its examples run, and it names every table and every option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from wirehouse.columnar.read import TABLES
from wirehouse.lake.options import FILES, OPTIONS

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "spark.md").read_text("utf-8")


def code(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_python_runs(
    spark: SparkSession, captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "\n".join(code("python")).replace('"captures/"', repr(str(captures)))
    names: dict[str, object] = {}
    exec(program, names)
    assert names["spark"] is not None
    assert spark.catalog.tableExists("calls")
    out = capsys.readouterr().out
    assert "p99_ms" in out
    assert spark.table("names").count() > 10


def test_sql_runs(spark: SparkSession, captures: Path) -> None:
    for text in "\n".join(code("sql")).replace("captures/", str(captures)).split(";"):
        if text.strip():
            rows = spark.sql(text).collect()
    assert {row.outcome for row in rows} >= {"acked"}


def test_every_table_and_option_is_described() -> None:
    described = set(re.findall(r"^\| `(\w+)`", GUIDE, re.MULTILINE))
    assert described == {*TABLES, FILES, *OPTIONS} - {"path"}
