"""Lakes in folders whose names look like patterns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.tables.made_lakes import commit_calls

from wirelake.lake.spark.dataframes import create_views, table
from wirelake.tables.export.export import export
from wirelake.tables.maintenance import compact
from wirelake.tables.query import open_lake
from wirelake.tables.writer import Writer

NAMES = ["a[b]c", "a{b,c}d", "what?", "all*", "a b%20c", "site=a", "it's", "back\\slash", "#1"]


def made(folder: Path) -> Path:
    with Writer(folder / "lake", create={}) as writer:
        commit_calls(writer, range(5))
        commit_calls(writer, range(5, 9))
    return folder / "lake"


@pytest.mark.parametrize("name", NAMES)
def test_duckdb_and_pyarrow(tmp_path: Path, name: str) -> None:
    lake = made(tmp_path / name)
    with open_lake(lake) as db:
        assert db.sql("select count(*) from calls").fetchall() == [(9,)]
    compact(lake)
    with open_lake(lake) as db:
        assert db.sql("select count(*) from calls").fetchall() == [(9,)]


@pytest.mark.parametrize("name", NAMES)
def test_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    lake = made(tmp_path / name)
    assert table(spark, lake, "calls").count() == 9
    create_views(spark, lake)
    assert spark.sql("select count(*) as n from calls").collect()[0]["n"] == 9


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize("name", ["a[b]c", "a{b,c}d", "a b"])
def test_exports(tmp_path: Path, name: str, form: str) -> None:
    lake = made(tmp_path / name)
    (found,) = export(lake, tmp_path / name / "out", form, ["calls"])  # type: ignore[arg-type]
    assert found.rows == 9
