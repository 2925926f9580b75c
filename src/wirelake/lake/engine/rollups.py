"""Roll-ups by minute (the tables `*_minutes`), counted in workers.

Each is a plain aggregate of other tables, so the minutes that a step touches are counted again from
their rows, by `wirelake.columnar.fold.rollups`. All roll-ups of a step are counted in one Spark
job: a job costs mostly its planning and start, whatever it counts. The result is small and is
written here, one file for each hour, together with the minutes of that hour which the step did not
touch.

Counted by Spark SQL, the roll-ups of a small step took 5 of its 7.5 s, most of it for planning and
for compiling the generated code.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.columnar.fold.rollups import RollupCounts
from wirelake.records.rollups import INPUTS, MINUTE_NS
from wirelake.records.schema import schema
from wirelake.tables.parquet import ParquetOut, added_file
from wirelake.tables.snapshot import AddedFile

from .step import Step, overlaps
from .tasks import Workers

__all__ = ["RollupTask", "count", "roll_up"]

_HOUR_NS: Final = 60 * MINUTE_NS
_ERRORS: Final = "error_minutes"
_TASK_ROWS: Final = 4_000_000
"""Rows that are worth a task of their own. Each task reads all files of its roll-up, and counts
the rows of its minutes."""
_MAX_TASKS: Final = 16
_BATCH_ROWS: Final = 1 << 17


class _Span(NamedTuple):
    """The first and the last minute that a step touches; the last is smaller if there is none."""

    first_ns: int
    last_ns: int


def roll_up(
    workers: Workers, step: Step, tables: Iterable[str]
) -> tuple[list[AddedFile], list[AddedFile]]:
    """Return the files that some roll-ups gain and lose in a step."""
    spans = {table: span for table in tables if (span := _touched(step, table)) is not None}
    tasks = [task for table, span in spans.items() for task in _tasks(step, table, span)]
    counted: dict[str, list[Path]] = {}
    for task, done in zip(tasks, workers.run(count, tasks, Counted), strict=True):
        counted.setdefault(task.table, []).append(Path(done.path))
    add: list[AddedFile] = []
    remove: list[AddedFile] = []
    for table, span in spans.items():
        before = _before(step, table, span)
        old = [Path(each) for each in step.paths(before)]
        add += _written(step.work(table), table, span, counted[table], old)
        remove += before
    return add, remove


# -- counting ------------------------------------------------------------------------------


class RollupTask(msgspec.Struct):
    """Counts the rows of a roll-up in some minutes."""

    table: str
    work: str
    """The folder for the file that is written."""
    first_ns: int
    last_ns: int
    inputs: dict[str, list[str]]
    """Files by table."""
    without_time: list[str] = []
    """Files of `faults` whose rows without a time are counted as well."""


class Counted(msgspec.Struct):
    """What a task wrote."""

    path: str


def count(task: RollupTask) -> Counted:
    """Count, and write the rows."""
    counts = RollupCounts(task.table, task.first_ns, task.last_ns)
    for name, columns in INPUTS[task.table].items():
        for path in task.inputs[name]:
            for batch in pq.ParquetFile(path).iter_batches(_BATCH_ROWS, columns=list(columns)):
                counts.add(name, batch)
    for path in task.without_time:
        columns = INPUTS[task.table]["faults"]
        counts.add_without_time("faults", pq.ParquetFile(path).read(columns=list(columns)))
    written = Path(task.work) / f"{task.table}-{uuid.uuid4().hex}.parquet"
    written.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(counts.rows(), written)
    return Counted(str(written))


def _tasks(step: Step, table: str, span: _Span) -> list[RollupTask]:
    """Divide a roll-up by time."""
    files = {name: _overlapping(step, name, span) for name in INPUTS[table]}
    inputs = {name: list(step.paths(each)) for name, each in files.items()}
    rows = sum(file.rows for each in files.values() for file in each)
    minutes = max(1, (span.last_ns - span.first_ns) // MINUTE_NS + 1)
    # By time, because a minute must be counted by one task.
    tasks = min(1 + rows // _TASK_ROWS, minutes, _MAX_TASKS)
    each_ns = -(-minutes // tasks) * MINUTE_NS
    work = step.work("roll-ups")
    found = [
        RollupTask(table, work, first_ns, min(first_ns + each_ns - MINUTE_NS, span.last_ns), inputs)
        for first_ns in range(span.first_ns, max(span.last_ns, span.first_ns) + 1, each_ns)
    ]
    if table == _ERRORS:  # the new faults of files have no time and never change
        new = step.new("faults", provisional=False)
        found[0].without_time = [file.path for file in new]
    return found


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


def _overlapping(step: Step, table: str, span: _Span) -> list[AddedFile]:
    last_ns = span.last_ns + MINUTE_NS - 1
    return [file for file in step.files(table) if overlaps(file, span.first_ns, last_ns)]


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
    folder: str, table: str, span: _Span, counted: Sequence[Path], before: Sequence[Path]
) -> Iterator[AddedFile]:
    """Write the touched hours of a roll-up: what was counted, and what is left of before."""
    columns = schema(table)
    new = _rows(counted, columns)
    old = _rows(before, columns)
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
    return added_file(table, path)
