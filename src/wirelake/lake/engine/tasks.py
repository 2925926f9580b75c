"""Tasks: functions that run in workers, and the workers of this machine.

    results = workers.run(decode, [DecodeTask(...), DecodeTask(...)], Decoded)

Rows of tables do not pass through the caller: a task writes Parquet files into the lake's folder,
and its result names them. A lake is updated by the workers of Spark (`spark_workers.py`), or by
processes of this machine: the same functions, so the same tables.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Final, TypeVar

from wirelake.tables.paths import LakeError

__all__ = [
    "NO_ROOM",
    "LocalWorkers",
    "Workers",
    "no_room",
    "shares_of",
]


Task = TypeVar("Task")
Result = TypeVar("Result")

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk or an exceeded quota."""


def no_room(number: int) -> LakeError:
    """Return the error of a task whose disk is full."""
    return LakeError(
        f"cannot write to the lake: {os.strerror(number)};"
        " nothing was committed; free disk space and run again"
    )


class Workers(ABC):
    """What runs tasks."""

    @abstractmethod
    def count(self) -> int:
        """Return how many tasks run in parallel."""

    @abstractmethod
    def run(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], result: type[Result]
    ) -> list[Result]:
        """Call `function` for each task. Returns the results in order.

        A retry or speculation may call it more than once, so it must write only files of its own.
        Tasks and results are msgspec Structs; `result` is the type of the latter. Raises LakeError
        if the disk of a task is full, which is not worth a retry.
        """


class LocalWorkers(Workers):
    """Processes of this machine, which start with the first tasks that are worth it."""

    def __init__(self, count: int = 1):
        """With one worker, tasks run in this process."""
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> LocalWorkers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            # After Ctrl-C nobody wants the rest of what the workers do.
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for each in processes if error is not None else ():
                each.terminate()
            for each in processes:
                each.join()

    def count(self) -> int:
        return self._count

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        result: type[Result],  # noqa: ARG002 - nothing is encoded on the way
    ) -> list[Result]:
        try:
            return list(self._results(function, tasks))
        except BrokenProcessPool as error:
            raise LakeError(
                "a worker ended early; one process alone needs less memory: --jobs 1"
            ) from error
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise no_room(error.errno or 0) from error

    def _results(
        self, function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterable[Result]:
        if self._count == 1 or len(tasks) == 1:
            return map(function, tasks)
        if self._pool is None:
            # Not fork: Arrow has threads, which a forked process would lack.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self._count, mp_context=context, initializer=_ignore_interrupts
            )
        # Not `map`, which cancels: see `traffic.simulate`.
        futures = [self._pool.submit(function, task) for task in tasks]
        return (future.result() for future in futures)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one, which ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- number of tasks -------------------------------------------------------------------------


_SHARE_BYTES: Final = 8 << 20
"""Bytes of a source that are worth a task of their own."""
_MAX_SHARES: Final = 16
"""Every share scans all packets of its source: more shares cost more than they save."""


def shares_of(sizes: Mapping[str, int], workers: int) -> dict[str, int]:
    """Return the number of tasks of each source, so that all workers are busy.

    A source is divided only if it is too big for the other sources to keep the workers busy.
    """
    total = sum(sizes.values())
    found: dict[str, int] = {}
    for source, size in sizes.items():
        # Its part of all workers, rounded up.
        even = -(-size * workers // total) if total else 1
        worth = 1 + size // _SHARE_BYTES
        found[source] = max(1, min(even, worth, _MAX_SHARES))
    return found
