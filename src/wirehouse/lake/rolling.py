"""Roll-ups by minute: the minutes that a step has touched are counted anew from the tables.

The files of a roll-up hold an hour each, so that a step writes little more than what it changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from wirehouse.tables.entries import AddedFile

from .crossing import rollups
from .crossing.shape import MINUTE_NS
from .frames import read, write
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
    "error_minutes": _Rollup((_Base("calls", _CALLS), _Base("faults", _FAULTS)), rollups.errors),
    "delivery_minutes": _Rollup((_Base("deliveries"),), rollups.delivery),
}


def rolled(spark: SparkSession, step: Step, table: str) -> tuple[list[AddedFile], list[AddedFile]]:
    """The files of a roll-up that come with a step, and those that go."""
    rollup = _ROLLUPS[table]
    touched = [file for base in rollup.bases for file in step.touched(base.table)]
    if not touched:
        return [], []
    span = _span(touched)
    if span is None:
        first_ns, last_ns = 0, -1
    else:
        first_ns, last_ns = span
    counted = rollup.counted(
        *(
            read(spark, _overlapping(step, base, first_ns, last_ns), base.table, base.columns)
            for base in rollup.bases
        )
    ).where(f.col("minute_ns").between(first_ns, last_ns))
    before = [
        file
        for file in step.kept(table)
        if file.min_ns is None
        or overlaps(
            file, first_ns - first_ns % _HOUR_NS, last_ns - last_ns % _HOUR_NS + _HOUR_NS - 1
        )
    ]
    old = read(spark, before, table)
    stays = old.where(~f.col("minute_ns").between(first_ns, last_ns))
    rows = counted.unionByName(stays)
    if table == "error_minutes":
        rows = rows.unionByName(_without_time(spark, step, old))
    hour = f.expr(f"minute_ns div {_HOUR_NS}")
    found = write(rows.withColumn("hour", hour).repartition(1), step.work(table), table, by="hour")
    return [file for files in found.values() for file in files], before


def _span(files: list[AddedFile]) -> tuple[int, int] | None:
    """The first and the last minute that files touch."""
    times = [(file.min_ns, file.max_ns) for file in files if file.min_ns is not None]
    if not times:
        return None
    first = min(least for least, _ in times if least is not None)
    last = max(most for _, most in times if most is not None)
    return first - first % MINUTE_NS, last - last % MINUTE_NS


def _overlapping(step: Step, base: _Base, first_ns: int, last_ns: int) -> list[AddedFile]:
    return [
        file for file in step.files(base.table) if overlaps(file, first_ns, last_ns + MINUTE_NS - 1)
    ]


def _without_time(spark: SparkSession, step: Step, old: DataFrame) -> DataFrame:
    """Faults of files have no time, and are final when they are found: they are added up."""
    fresh = read(spark, step.new("faults", provisional=False), "faults", _FAULTS)
    calls = read(spark, [], "calls", _CALLS)
    new = rollups.errors(calls, fresh.where(f.col("ts_ns").isNull()))
    both = old.where(f.col("minute_ns").isNull()).unionByName(new)
    columns = both.columns
    added = both.groupBy(*(name for name in columns if name != "errors"))
    return added.agg(f.sum("errors").alias("errors")).select(*columns)
