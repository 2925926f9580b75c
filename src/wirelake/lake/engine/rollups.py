"""Roll-ups by minute (the tables `*_minutes`), counted by Spark.

Each is a plain aggregate of other tables, so the minutes that a step touches are counted again from
their rows. All roll-ups of a step are counted in one Spark job: a job costs mostly its planning and
start, whatever it counts. The result is small and is written here, one file for each hour, together
with the minutes of that hour which the step did not touch.

`wirelake.records.rollups` is the plain definition; `tests/lake/test_rollups_in_spark.py` compares
the two, and so does `lake verify`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from wirelake.records.rollups import INPUTS, MINUTE_NS, OUTCOMES, TALKERS
from wirelake.records.schema import schema
from wirelake.tables.parquet import ParquetOut
from wirelake.tables.snapshot import AddedFile

from ..spark.dataframes import added, fitted, read, write
from .step import Step, overlaps

__all__ = ["delivery", "errors", "latency", "roll_up", "talkers", "traffic"]

_HOUR_NS: Final = 60 * MINUTE_NS
_ERRORS: Final = "error_minutes"
_TABLE: Final = "roll_up"
"""The column that tells rows of different roll-ups apart."""
_MOST_NS: Final = (1 << 63) - 1


def traffic(messages: DataFrame) -> DataFrame:
    """Return rows of `traffic_minutes`."""
    by = (_minute(f.col("ts_ns")).alias("minute_ns"), "protocol", "direction", "kind")
    found = messages.groupBy(*by).agg(
        _count().alias("messages"), _total("size_bytes").alias("bytes")
    )
    return fitted(found, "traffic_minutes")


def latency(calls: DataFrame) -> DataFrame:
    """Return rows of `latency_minutes`; `wirelake.records.rollups` defines the buckets."""
    by = (_minute(f.col("response_ns")).alias("minute_ns"), "protocol", "target")
    bucket = _bucket_of(f.col("latency_ns")).alias("bucket")
    found = calls.where(f.col("latency_ns").isNotNull()).groupBy(*by, bucket).agg(
        _count().alias("calls"), _total("latency_ns").alias("latency_ns")
    )  # fmt: skip
    from_ns, below_ns = _bounds(f.col("bucket"))
    return fitted(found.withColumns({"from_ns": from_ns, "below_ns": below_ns}), "latency_minutes")


def delivery(deliveries: DataFrame) -> DataFrame:
    """Return rows of `delivery_minutes`."""
    when = f.coalesce(f.col("published_ns"), f.col("first_sent_ns"), f.col("acked_ns"))
    found = deliveries.groupBy(_minute(when).alias("minute_ns"), "protocol", "topic").agg(
        _count().alias("deliveries"),
        _count(f.col("first_sent_ns").isNotNull()).alias("sent"),
        *(_count(f.col("outcome") == each).alias(name) for each, name in OUTCOMES.items()),
        _total("sends").alias("sends"),
        _total("latency_ns").alias("latency_ns"),
    )
    return fitted(found, "delivery_minutes")


def errors(calls: DataFrame, faults: DataFrame) -> DataFrame:
    """Return rows of `error_minutes`: failed, lost and unknown calls, and faults."""
    failed = f.col("outcome") == "failed"
    of_calls = calls.where(f.col("outcome").isin("failed", "lost", "unknown")).select(
        _minute(f.when(failed, f.col("response_ns")).otherwise(f.col("request_ns"))).alias(
            "minute_ns"
        ),
        f.col("outcome").alias("what"),
        "protocol",
        "target",
        f.when(failed, f.col("status")).otherwise(f.col("cause")).alias("code"),
    )
    of_faults = faults.select(
        _minute(f.col("ts_ns")).alias("minute_ns"),
        f.lit("fault").alias("what"),
        "protocol",
        f.lit(None).cast("string").alias("target"),
        "code",
    )
    found = of_calls.unionByName(of_faults)
    by = found.groupBy("minute_ns", "what", "protocol", "target", "code")
    return fitted(by.agg(_count().alias("errors")), "error_minutes")


def talkers(messages: DataFrame, limit: int = TALKERS) -> DataFrame:
    """Return rows of `talker_minutes`: the connections with the most bytes of each minute."""
    by = (_minute(f.col("ts_ns")).alias("minute_ns"), "protocol", "connection")
    found = messages.groupBy(*by).agg(
        _count().alias("messages"), _total("size_bytes").alias("bytes")
    )
    order = Window.partitionBy("minute_ns").orderBy(f.desc("bytes"), "connection", "protocol")
    ranked = found.withColumn("place", f.row_number().over(order)).where(f.col("place") <= limit)
    rank = f.when(f.col("messages") > 0, f.col("place"))  # nullable, like all other columns
    return fitted(ranked.withColumn("rank", rank), "talker_minutes")


def _minute(ts_ns: Column) -> Column:
    """Return the beginning of a minute; null where it would not fit an int64."""
    return f.try_subtract(ts_ns, f.pmod(ts_ns, f.lit(MINUTE_NS)))


# -- columns ---------------------------------------------------------------------------------


def _count(condition: Column | None = None) -> Column:
    """Count rows. A sum, since Spark writes a count as a column that is not nullable."""
    one, none = f.lit(1).cast("long"), f.lit(0).cast("long")
    return f.sum(one if condition is None else f.when(condition, one).otherwise(none))


def _total(name: str) -> Column:
    """Return the sum; 0 without values, null if it does not fit an int64."""
    return f.try_sum(f.coalesce(f.col(name), f.lit(0).cast("long")))


def _bucket_of(latency_ns: Column) -> Column:
    """Return `wirelake.records.rollups.bucket_of` as an expression."""
    n = f.greatest(latency_ns, f.lit(0).cast("long"))
    doublings = f.length(f.bin(n)) - 1
    eighth = f.call_function("shiftright", n, doublings - 3).bitwiseAND(f.lit(7))
    return f.when(n < 8, n).when(n >= 8, (doublings - 2) * 8 + eighth).cast("int")


def _bounds(bucket: Column) -> tuple[Column, Column]:
    """Return `wirelake.records.rollups.bounds` as expressions."""
    small, large, shift = bucket < 8, bucket >= 8, f.shiftright(bucket, 3) - 1
    eighths = bucket.bitwiseAND(f.lit(7)).cast("long") + 8
    from_ns = f.when(small, bucket).when(large, f.call_function("shiftleft", eighths, shift))
    next_ns = f.call_function("shiftleft", eighths + 1, shift)
    below_ns = f.when(small, bucket + 1).when(next_ns < 0, _MOST_NS).when(large, next_ns)
    return from_ns, below_ns


_ROLLUPS: Final[dict[str, Callable[..., DataFrame]]] = {
    "traffic_minutes": traffic,
    "talker_minutes": talkers,
    "latency_minutes": latency,
    _ERRORS: errors,
    "delivery_minutes": delivery,
}


class _Span(NamedTuple):
    """The first and the last minute that a step touches; the last is smaller if there is none."""

    first_ns: int
    last_ns: int


def roll_up(
    spark: SparkSession, step: Step, tables: Iterable[str]
) -> tuple[list[AddedFile], list[AddedFile]]:
    """Return the files that some roll-ups gain and lose in a step."""
    spans = {table: span for table in tables if (span := _touched(step, table)) is not None}
    if not spans:
        return [], []
    parts = [
        _counted(spark, step, table, span).withColumn(_TABLE, f.lit(table))
        for table, span in spans.items()
    ]
    every = functools.reduce(_union, parts).repartition(1)
    found = write(every, step.work("-".join(spans)), _TABLE)
    add: list[AddedFile] = []
    remove: list[AddedFile] = []
    for table, span in spans.items():
        before = _before(step, table, span)
        add += _written(step.work(table), table, span, found.get(table, []), before)
        remove += before
    return add, remove


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


# -- counting ------------------------------------------------------------------------------


def _touched(step: Step, table: str) -> _Span | None:
    """Return the minutes of a roll-up that a step touches; None if it touches no input."""
    files = [file for name in INPUTS[table] for file in step.touched(name)]
    if not files:
        return None
    first = [file.min_ns for file in files if file.min_ns is not None]
    last = [file.max_ns for file in files if file.max_ns is not None]
    if not first or not last:
        return _Span(0, -1)
    return _Span(min(first) - min(first) % MINUTE_NS, max(last) - max(last) % MINUTE_NS)


def _counted(spark: SparkSession, step: Step, table: str, span: _Span) -> DataFrame:
    """Return the rows of the touched minutes."""
    inputs = [
        read(spark, _overlapping(step, name, span), name, columns)
        for name, columns in INPUTS[table].items()
    ]
    rows = _ROLLUPS[table](*inputs).where(f.col("minute_ns").between(*span))
    if table != _ERRORS:
        return rows
    return rows.unionByName(_without_time(spark, step))


def _overlapping(step: Step, table: str, span: _Span) -> list[AddedFile]:
    last_ns = span.last_ns + MINUTE_NS - 1
    return [file for file in step.files(table) if overlaps(file, span.first_ns, last_ns)]


def _without_time(spark: SparkSession, step: Step) -> DataFrame:
    """Count the new faults of files, which have no time and never change."""
    columns = INPUTS[_ERRORS]
    new = read(spark, step.new("faults", provisional=False), "faults", columns["faults"])
    calls = read(spark, [], "calls", columns["calls"])
    return errors(calls, new.where(f.col("ts_ns").isNull()))


# -- files -----------------------------------------------------------------------------------


def _before(step: Step, table: str, span: _Span) -> list[AddedFile]:
    """Return files of a roll-up with touched hours, or with the minute null."""
    first_ns = span.first_ns - span.first_ns % _HOUR_NS
    last_ns = span.last_ns - span.last_ns % _HOUR_NS + _HOUR_NS - 1
    return [
        file
        for file in step.kept(table)
        if file.min_ns is None or overlaps(file, first_ns, last_ns)
    ]


def _written(
    folder: str, table: str, span: _Span, counted: Sequence[Path], before: Sequence[AddedFile]
) -> Iterator[AddedFile]:
    """Write the touched hours of a roll-up: what was counted, and what is left of before."""
    columns = schema(table)
    new = _rows(counted, columns)
    old = _rows([Path(file.path) for file in before], columns)
    minute = old["minute_ns"]
    touched = pc.and_(pc.greater_equal(minute, span.first_ns), pc.less_equal(minute, span.last_ns))
    untouched = old.filter(pc.invert(touched))  # drops the rows whose minute is null
    rows = pa.concat_tables([new.filter(pc.is_valid(new["minute_ns"])), untouched])
    hours = rows["minute_ns"].to_numpy() // _HOUR_NS
    for hour in np.unique(hours):
        yield _file(folder, table, f"{hour}", rows.filter(pa.array(hours == hour)))
    timeless = [each.filter(pc.is_null(each["minute_ns"])) for each in (old, new)]
    if sum(each.num_rows for each in timeless):
        yield _file(folder, table, "timeless", _summed(pa.concat_tables(timeless)))


def _rows(paths: Iterable[Path], columns: pa.Schema) -> pa.Table:
    found = [pq.read_table(path, columns=columns.names).cast(columns) for path in paths]
    return pa.concat_tables(found) if found else columns.empty_table()


def _summed(errors: pa.Table) -> pa.Table:
    """Merge rows of `error_minutes` that differ only in their count."""
    keys = [name for name in errors.schema.names if name != "errors"]
    found = errors.group_by(keys).aggregate([("errors", "sum")])
    return found.rename_columns([*keys, "errors"]).select(errors.schema.names).cast(errors.schema)


def _file(folder: str, table: str, name: str, rows: pa.Table) -> AddedFile:
    path = Path(folder) / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    with ParquetOut(path, rows.schema) as out:
        for batch in rows.to_batches():
            out.write(batch)
    return added(path, table)
