"""What the parts of this package share: columns in their order, times that go together."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from wirelake.lake.schemas import spark_schema
from wirelake.records.crossing import CROSSING
from wirelake.records.schema import schema

__all__ = ["DAY_NS", "MINUTE_NS", "fitted", "minute_of", "pair"]

MINUTE_NS: Final = 60_000_000_000
DAY_NS: Final = 24 * 60 * MINUTE_NS
"""Times in nanoseconds."""


def fitted(frame: DataFrame, table: str) -> DataFrame:
    """The rows of a table with its columns, in their order; those that are missing are null."""
    return frame.to(spark_schema(CROSSING[table] if table in CROSSING else schema(table)))


def minute_of(ts_ns: Column) -> Column:
    """Beginning of the minute of a time; null where it would be less than an int64 can hold."""
    return f.try_subtract(ts_ns, f.pmod(ts_ns, f.lit(MINUTE_NS)))


def pair(ts_ns: str, connection: str) -> Column:
    """A time with its connection, to find the first or the last of; null without a time."""
    both = f.struct(f.col(ts_ns).alias("ts_ns"), f.col(connection).alias("connection"))
    return f.when(f.col(ts_ns).isNotNull(), both)
