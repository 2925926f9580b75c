"""Roll-ups by minute: the minutes that a step has touched are counted anew from the tables.

Spark counts several roll-ups in one job: what a job costs is mostly that it is planned and started,
whatever it counts. What comes of it is small. It is put into files here, an hour in each, beside
the minutes of that hour which the step did not touch.
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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from wirelake.records.schema import schema
from wirelake.tables.entries import AddedFile
from wirelake.tables.parquet import ParquetOut

from ..spark.dataframes import (
    added,
    read,
    write,
)
from . import rollups
from .cross_connection import MINUTE_NS
from .step import Step, overlaps

__all__ = ["rolled"]

_HOUR_NS: Final = 60 * MINUTE_NS
_MESSAGES: Final = ("ts_ns", "connection", "direction", "protocol", "kind", "size_bytes")
_CALLS: Final = (
    "protocol",
    "target",
    "outcome",
    "cause",
    "request_ns",
    "response_ns",
    "latency_ns",
    "status",
)
_FAULTS: Final = ("ts_ns", "protocol", "code")
_ERRORS: Final = "error_minutes"
_WHICH: Final = "roll_up"
"""The column that tells rows of different roll-ups apart."""


class _Base(NamedTuple):
    """A table that is counted, and what is looked at of it."""

    table: str
    columns: tuple[str, ...] | None = None


class _Rollup(NamedTuple):
    bases: tuple[_Base, ...]
    counted: Callable[..., DataFrame]


_ROLLUPS: Final[dict[str, _Rollup]] = {
    "traffic_minutes": _Rollup((_Base("messages", _MESSAGES),), rollups.traffic),
    "talker_minutes": _Rollup((_Base("messages", _MESSAGES),), rollups.talkers),
    "latency_minutes": _Rollup((_Base("calls", _CALLS),), rollups.latency),
    _ERRORS: _Rollup((_Base("calls", _CALLS), _Base("faults", _FAULTS)), rollups.errors),
    "delivery_minutes": _Rollup((_Base("deliveries"),), rollups.delivery),
}


class _Span(NamedTuple):
    """The first and the last minute that a step has touched; the last is before the first if none
    was."""

    first_ns: int
    last_ns: int


def rolled(
    spark: SparkSession, step: Step, tables: Iterable[str]
) -> tuple[list[AddedFile], list[AddedFile]]:
    """The files of some roll-ups that come with a step, and those that go."""
    spans = {table: span for table in tables if (span := _touched(step, table)) is not None}
    if not spans:
        return [], []
    parts = [
        _counted(spark, step, table, span).withColumn(_WHICH, f.lit(table))
        for table, span in spans.items()
    ]
    every = functools.reduce(_with, parts).repartition(1)
    found = write(every, step.work("-".join(spans)), _WHICH)
    come: list[AddedFile] = []
    go: list[AddedFile] = []
    for table, span in spans.items():
        before = _before(step, table, span)
        come += _written(step.work(table), table, span, found.get(table, []), before)
        go += before
    return come, go


def _with(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


# -- what is counted -------------------------------------------------------------------------


def _touched(step: Step, table: str) -> _Span | None:
    """The minutes of a roll-up that a step touches; None when none of its tables is touched."""
    files = [file for base in _ROLLUPS[table].bases for file in step.touched(base.table)]
    if not files:
        return None
    first = [file.min_ns for file in files if file.min_ns is not None]
    last = [file.max_ns for file in files if file.max_ns is not None]
    if not first or not last:
        return _Span(0, -1)
    return _Span(min(first) - min(first) % MINUTE_NS, max(last) - max(last) % MINUTE_NS)


def _counted(spark: SparkSession, step: Step, table: str, span: _Span) -> DataFrame:
    """The rows of the minutes that were touched."""
    rollup = _ROLLUPS[table]
    bases = [
        read(spark, _overlapping(step, base, span), base.table, base.columns)
        for base in rollup.bases
    ]
    rows = rollup.counted(*bases).where(f.col("minute_ns").between(*span))
    if table != _ERRORS:
        return rows
    return rows.unionByName(_without_time(spark, step))


def _overlapping(step: Step, base: _Base, span: _Span) -> list[AddedFile]:
    last_ns = span.last_ns + MINUTE_NS - 1
    return [file for file in step.files(base.table) if overlaps(file, span.first_ns, last_ns)]


def _without_time(spark: SparkSession, step: Step) -> DataFrame:
    """Faults of files have no time, and are final when they are found: the new ones."""
    fresh = read(spark, step.new("faults", provisional=False), "faults", _FAULTS)
    calls = read(spark, [], "calls", _CALLS)
    return rollups.errors(calls, fresh.where(f.col("ts_ns").isNull()))


# -- files -----------------------------------------------------------------------------------


def _before(step: Step, table: str, span: _Span) -> list[AddedFile]:
    """Files of a roll-up that have hours in which a minute was touched, or minutes of no time."""
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
    """Writes the touched hours of a roll-up: what was counted, and what stays of before."""
    columns = schema(table)
    new = _rows(counted, columns)
    old = _rows([Path(file.path) for file in before], columns)
    minute = old["minute_ns"]
    touched = pc.and_(pc.greater_equal(minute, span.first_ns), pc.less_equal(minute, span.last_ns))
    stays = old.filter(pc.invert(touched))  # without the rows whose minute is null
    rows = pa.concat_tables([new.filter(pc.is_valid(new["minute_ns"])), stays])
    hours = rows["minute_ns"].to_numpy() // _HOUR_NS
    for hour in np.unique(hours):
        yield _file(folder, table, f"{hour}", rows.filter(pa.array(hours == hour)))
    timeless = [each.filter(pc.is_null(each["minute_ns"])) for each in (old, new)]
    if sum(each.num_rows for each in timeless):
        yield _file(folder, table, "timeless", _added_up(pa.concat_tables(timeless)))


def _rows(paths: Iterable[Path], columns: pa.Schema) -> pa.Table:
    found = [pq.read_table(path, columns=columns.names).cast(columns) for path in paths]
    return pa.concat_tables(found) if found else columns.empty_table()


def _added_up(errors: pa.Table) -> pa.Table:
    """Rows of `error_minutes` with the same of everything else become one."""
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
