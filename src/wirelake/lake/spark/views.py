"""The tables of a lake in Spark: as DataFrames, and as views for SQL.

create_views(spark, "lake")
spark.sql("SELECT target, count(*) FROM calls GROUP BY target").show()
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

from wirelake.records.schema import schema
from wirelake.tables.errors import LakeError
from wirelake.tables.log import Log
from wirelake.tables.paths import PUBLIC_TABLES
from wirelake.tables.snapshot import Snapshot

from .dataframes import no_rows
from .functions import register
from .schemas import spark_schema

__all__ = ["create_views", "table"]


def table(
    spark: SparkSession, lake: str | os.PathLike[str], name: str, commit: int | None = None
) -> DataFrame:
    """A table of a lake, as of its last commit or of another one. Raises LakeError."""
    if name not in PUBLIC_TABLES:
        raise LakeError(f"no table {name!r}; there are {', '.join(PUBLIC_TABLES)}")
    log = Log(lake)
    return _frame(spark, log, log.snapshot(commit), name)


def create_views(
    spark: SparkSession, lake: str | os.PathLike[str], commit: int | None = None
) -> None:
    """Makes a temporary view for each table, and the functions for people. Raises LakeError."""
    log = Log(lake)
    snapshot = log.snapshot(commit)
    register(spark)
    for name in PUBLIC_TABLES:
        _frame(spark, log, snapshot, name).createOrReplaceTempView(name)


def _frame(spark: SparkSession, log: Log, snapshot: Snapshot, name: str) -> DataFrame:
    columns = spark_schema(schema(name))
    files = snapshot.files(name)
    if not files:
        return no_rows(spark, columns)
    paths = [f"file://{log.layout.resolve(each.path, snapshot)}" for each in files]
    return spark.read.schema(columns).parquet(*paths)
