"""A lake without a JVM: tasks run in this process, tables across connections are made by tests.

All the rest is the real thing: admission, decoding, folding, commits. It is quick, so that many
lakes can be made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.columnar.folding import merged_rows
from tests.lake.lakes import differing, engine_rows, rows

from wirelake.lake.engine import engine as advance
from wirelake.lake.engine import run
from wirelake.lake.engine import tasks as planning
from wirelake.lake.engine.settings import Settings
from wirelake.lake.engine.step import Step
from wirelake.records.deliveries import CROSSING
from wirelake.tables.log import Log
from wirelake.tables.snapshot import AddedFile

__all__ = ["run_here", "unlike_engines_here"]

_DECODED = ("messages", "faults", "coverage", "calls", "tunnels")
_CONNECTIONS = "_connections"


def run_here(
    lake: str | PathLike[str],
    captures: str | PathLike[str],
    *,
    workers: int = 1,
    **options: Any,
) -> run.Outcome:
    """As `run` of the lake; every source is divided into as many shares as `workers`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advance, "merge", _set_aside)
        patch.setattr(planning, "_SHARE_BYTES", 1)
        return run.run(lake, captures, spark=lambda: _Here(workers), **options)  # type: ignore[arg-type, return-value]


def unlike_engines_here(
    lake: Path, files: Sequence[Path], keys: Sequence[str] = (), without: Sequence[str] = ()
) -> list[str]:
    """Where such a lake differs from what the engines make of the same captures, read at once."""
    wanted = engine_rows(files, keys, without=without)
    given = _joined(lake) | {table: rows(lake, table, without) for table in _DECODED}
    return [line for table, each in wanted.items() for line in differing(given[table], each, table)]


# -- Spark, as far as tasks go ---------------------------------------------------------------------


class _Here:
    """Stands for a session that has so many workers."""

    def __init__(self, workers: int):
        self.conf = {"spark.master": f"local[{workers}]"}

    def range(self, start: int, stop: int, step: int, partitions: int) -> _Numbers:
        assert (start, step) == (0, 1)
        return _Numbers(stop, partitions)


class _Numbers:
    def __init__(self, stop: int, partitions: int):
        assert partitions == stop
        self._stop = stop

    def mapInArrow(  # noqa: N802
        self, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: object
    ) -> _Mapped:
        return _Mapped(self._stop, work)


class _Mapped:
    def __init__(
        self, stop: int, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    ):
        self._stop, self._work = stop, work

    def collect(self) -> list[dict[str, Any]]:
        numbers = (pa.record_batch({"id": pa.array([number])}) for number in range(self._stop))
        return [row for batch in self._work(numbers) for row in batch.to_pylist()]


# -- what Spark's JVM would do ---------------------------------------------------------------------


def _set_aside(_: SparkSession, step: Step, __: Settings, ___: int) -> None:
    """Leaves everything as the folds gave it; rows of connections where they can be found."""
    for file in step.new(_CONNECTIONS):
        written = AddedFile(
            table="connections",
            path=file.path,
            rows=file.rows,
            bytes=0,
            min_ns=file.min_ns,
            max_ns=file.max_ns,
            provisional=file.provisional,
        )
        step.remove([file])
        step.add([written], source=file.source, share=file.share, shares=file.shares)


def _joined(lake: Path) -> dict[str, Counter[str]]:
    log = Log(lake)
    snapshot = log.snapshot()
    found: dict[str, list[dict[str, Any]]] = {}
    for table in (*CROSSING, "connections"):
        paths = [log.layout.resolve(file.path, snapshot) for file in snapshot.files(table)]
        found[table] = [row for path in paths for row in pq.read_table(path).to_pylist()]
    merged = merged_rows(found, {})
    return {table: merged[table] for table in ("connections", "deliveries")}
