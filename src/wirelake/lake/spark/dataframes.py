"""Files of a lake as DataFrames, and DataFrames as files of a lake."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from wirelake.records.cross_connection import CROSSING
from wirelake.records.schema import schema
from wirelake.tables.entries import AddedFile
from wirelake.tables.parquet import stats

from .schemas import spark_schema

__all__ = ["added", "no_rows", "read", "table_columns", "write", "write_table"]


def table_columns(table: str, columns: Sequence[str] | None = None) -> StructType:
    """The columns of a table, or some of them, as Spark has them."""
    whole = spark_schema(CROSSING[table] if table in CROSSING else schema(table))
    if columns is None:
        return whole
    return StructType([whole[name] for name in columns])


def no_rows(spark: SparkSession, columns: StructType) -> DataFrame:
    """An empty frame that costs nothing: no worker is asked for its rows."""
    return spark.range(0).select(
        *(f.lit(None).cast(each.dataType).alias(each.name) for each in columns)
    )


def read(
    spark: SparkSession,
    files: Iterable[AddedFile],
    table: str,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of files of a table; an empty frame without files."""
    wanted = table_columns(table, columns)
    paths = [f"file://{file.path}" for file in files]
    if not paths:
        return no_rows(spark, wanted)
    return spark.read.schema(wanted).parquet(*paths)


def write(frame: DataFrame, folder: str, by: str | None = None) -> dict[str, list[Path]]:
    """Writes a frame; gives the files, by the value of the column `by`, which they do not hold."""
    writer = frame.write.mode("overwrite").option(
        "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
    )
    if by is not None:
        writer = writer.partitionBy(by)
    shutil.rmtree(folder, ignore_errors=True)
    writer.parquet(f"file://{folder}")
    found: dict[str, list[Path]] = {}
    for path in sorted(Path(folder).rglob("*.parquet")):
        value = path.parent.name.partition("=")[2] if by is not None else ""
        found.setdefault(value, []).append(path)
    return found


def added(path: Path, table: str) -> AddedFile:
    """A file of a table, as the log has it."""
    known = stats(path)
    return AddedFile(
        table=table,
        path=str(path),
        rows=known.rows,
        bytes=known.bytes,
        min_ns=known.min_ns,
        max_ns=known.max_ns,
    )


def write_table(
    frame: DataFrame, folder: str, table: str, by: str | None = None
) -> dict[str, list[AddedFile]]:
    """Writes rows of a table; gives its files that have any, by the value of the column `by`."""
    found: dict[str, list[AddedFile]] = {}
    for value, paths in write(frame, folder, by).items():
        files = [added(path, table) for path in paths]
        found[value] = [file for file in files if file.rows]
    return found
