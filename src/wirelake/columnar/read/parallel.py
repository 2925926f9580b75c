"""Captures as tables, read by several processes at once.

    for batch in read_parallel(["edge.pcapng"], ReadOptions(table="calls"), jobs=4):
        ...

Each worker (`workers.py`) scans all files and decodes its own share of the connections. All workers
cut the files into the same windows, so window n of the capture is window n of all workers together.
Engines see the merged windows, in order. The rows are those of a single process, and rows of one
connection keep their order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from typing import Final, TypeAlias

import pyarrow as pa

from ..pipeline.pipeline import Item
from .reader import PLAIN, ReadOptions, finished
from .workers import FILTERED, Workers, open_windows

__all__ = ["SMALL_BYTES", "Faults", "Progress", "read_parallel", "read_windows"]

SMALL_BYTES: Final = 32 << 20
"""Captures of fewer bytes in total are read here: starting a worker would take longer."""
_MOST_JOBS: Final = 16
"""Every worker scans every packet; beyond this, scanning costs more than sharing saves."""
_INFLATED: Final = 4
"""Assumed compression ratio of a capture, used only for progress."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the approximate number of bytes read so far, and the total."""
Faults: TypeAlias = Callable[[pa.RecordBatch], None]
"""Called with batches of `faults`."""


def read_parallel(
    paths: Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    on_faults: Faults | None = None,
    small_bytes: int = SMALL_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, in batches of bounded size.

    `jobs` is the number of processes, this one included (default: one per processor); the others
    decode, this one merges. With one job, or with captures of less than `small_bytes`, everything
    happens in this process. `on_faults` gets all faults, whatever the table. Raises OSError when a
    file cannot be read, ValueError for invalid keys or dialects. Close the iterator to stop the
    workers early.
    """
    windows = read_windows(
        paths,
        options,
        jobs=jobs,
        progress=progress,
        on_faults=on_faults,
        small_bytes=small_bytes,
    )
    with closing(windows):
        for window in windows:
            yield from window


def read_windows(
    paths: Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    on_faults: Faults | None = None,
    small_bytes: int = SMALL_BYTES,
) -> Generator[Iterator[pa.RecordBatch]]:
    """Yield the same, window by window; each must be exhausted before the next."""
    chosen = options or ReadOptions()
    files = [os.fspath(path) for path in paths]
    sizes = [os.path.getsize(path) for path in files]
    count = _jobs(jobs, sum(sizes), small_bytes)
    marks = _marks(files, sizes, chosen.window_bytes)
    opened = (
        open_windows(files, chosen) if count == 1 else Workers(files, chosen, count - 1).windows()
    )
    with closing(opened):
        windows = _watched(opened, on_faults, progress, marks)
        if count > 1 and chosen.table in FILTERED:
            chosen = replace(chosen, filter=None)
        if chosen.table in PLAIN:
            for window in windows:
                yield finished(chosen, [window])
        else:
            for batch in finished(chosen, windows):
                yield iter([batch])


def _jobs(wanted: int | None, size: int, small: int) -> int:
    if wanted is not None and wanted < 1:
        raise ValueError(f"invalid jobs {wanted}; expected 1 or more")
    if size < small:
        return 1
    return min(wanted or len(os.sched_getaffinity(0)), _MOST_JOBS)


# -- who is watching -------------------------------------------------------------------------


def _watched(
    windows: Iterable[Iterable[Item]],
    on_faults: Faults | None,
    progress: Progress | None,
    marks: Sequence[int],
) -> Iterator[Iterator[Item]]:
    for number, window in enumerate(windows):
        yield _told(window, on_faults)
        if progress is not None:
            progress(marks[min(number, len(marks) - 1)], marks[-1])


def _told(window: Iterable[Item], on_faults: Faults | None) -> Iterator[Item]:
    for table, found in window:
        if table == "faults" and on_faults is not None:
            on_faults(found)
        yield table, found


def _marks(files: Sequence[str], sizes: Sequence[int], window_bytes: int) -> list[int]:
    """Yield the bytes read after each window, estimated from file sizes; finally the total."""
    steps: list[int] = []
    for file, size in zip(files, sizes, strict=True):
        length = size * _INFLATED if file.endswith((".gz", ".zst")) else size
        count = max(1, -(-length // window_bytes))
        steps += [size * (n + 1) // count - size * n // count for n in range(count)]
    return [*accumulate(steps), sum(sizes)]
