"""A lake without a JVM: tasks run in this process.

All the rest is the real thing: admission, decoding, folding, merging, counting, commits. It is
quick, so that many lakes can be made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import pyarrow as pa
import pytest

from wirelake.lake.engine import run
from wirelake.lake.engine import tasks as planning

__all__ = ["run_here"]


def run_here(
    lake: str | PathLike[str],
    captures: str | PathLike[str],
    *,
    workers: int = 1,
    **options: Any,
) -> run.Outcome:
    """As `run` of the lake; every source is divided into as many shares as `workers`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_SHARE_BYTES", 1)
        return run.run(lake, captures, spark=lambda: _Here(workers), **options)  # type: ignore[arg-type, return-value]


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
