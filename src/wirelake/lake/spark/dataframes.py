"""Between a lake's Parquet files and Spark DataFrames, and the schemas of both.

Paths are passed as `file://` URLs: without the scheme Spark would look in the default file system
of a cluster. Schemas are always given, so that Spark never reads a file to infer one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from wirelake.records.cross_connection import CROSSING
from wirelake.records.schema import schema
from wirelake.tables.entries import AddedFile
from wirelake.tables.parquet import stats

__all__ = [
    "added",
    "fitted",
    "no_rows",
    "read",
    "spark_schema",
    "table_columns",
    "write",
    "write_table",
]


def spark_schema(schema: pa.Schema) -> t.StructType:
    """Return the Spark schema of an Arrow schema, doc lines as column comments.

    Types and nullability are the same: Spark rejects batches of a data source that differ in any.
    """
    return t.StructType([_field(each) for each in schema])


def _field(field: pa.Field) -> t.StructField:
    return t.StructField(field.name, _type(field.type), field.nullable, _comment(field))


def _comment(field: pa.Field) -> dict[str, Any] | None:
    doc = (field.metadata or {}).get(b"doc")
    return {"comment": doc.decode()} if doc else None


def _type(kind: pa.DataType) -> t.DataType:
    if pa.types.is_struct(kind):
        return t.StructType([_field(kind.field(place)) for place in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return t.ArrayType(_type(kind.value_type), kind.value_field.nullable)
    return from_arrow_type(kind)


def table_columns(table: str, columns: Sequence[str] | None = None) -> StructType:
    """Return the Spark schema of a table, or of some of its columns."""
    whole = spark_schema(CROSSING[table] if table in CROSSING else schema(table))
    if columns is None:
        return whole
    return StructType([whole[name] for name in columns])


def no_rows(spark: SparkSession, columns: StructType) -> DataFrame:
    """Return an empty DataFrame that starts no Python worker."""
    return spark.range(0).select(
        *(f.lit(None).cast(each.dataType).alias(each.name) for each in columns)
    )


def fitted(rows: DataFrame, table: str) -> DataFrame:
    """Return rows with the columns of a table, in order; missing columns are null."""
    return rows.to(table_columns(table))


def read(
    spark: SparkSession,
    files: Iterable[AddedFile],
    table: str,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Read files of a table; without files, return an empty DataFrame."""
    wanted = table_columns(table, columns)
    paths = [f"file://{file.path}" for file in files]
    if not paths:
        return no_rows(spark, wanted)
    return spark.read.schema(wanted).parquet(*paths)


def write(rows: DataFrame, folder: str, by: str | None = None) -> dict[str, list[Path]]:
    """Write rows. Returns the files by the value of the column `by`, which they do not contain."""
    writer = rows.write.mode("overwrite").option(
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
    """Return the log entry of a file."""
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
    rows: DataFrame, folder: str, table: str, by: str | None = None
) -> dict[str, list[AddedFile]]:
    """Write rows of a table. Returns the files that are not empty, by the value of `by`."""
    found: dict[str, list[AddedFile]] = {}
    for value, paths in write(rows, folder, by).items():
        files = [added(path, table) for path in paths]
        found[value] = [file for file in files if file.rows]
    return found
