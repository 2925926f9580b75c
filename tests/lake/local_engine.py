"""A lake without a JVM: tasks run in this process.

All the rest is the real thing: admission, decoding, folding, merging, counting, commits. It is
quick, so that many lakes can be made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any

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
        return run.run(lake, captures, workers=_Here(workers), **options)


class _Here(planning.LocalWorkers):
    """Workers that are planned for, whose tasks run in this process all the same."""

    def _results(
        self, function: Callable[[planning.Task], planning.Result], tasks: Sequence[planning.Task]
    ) -> Iterable[planning.Result]:
        return map(function, tasks)
