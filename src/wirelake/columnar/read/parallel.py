"""Captures as tables, read by several processes at once.

    for batch in read_parallel(["edge.pcapng"], ReadOptions(table="calls"), jobs=4):
        ...

Each worker (`workers.py`) goes through all files and decodes its own share of the connections. All
of them cut the files into the same windows, so that window n of the capture is window n of all
workers together. That is what engines are told, one window after the other: they see everything,
in order. The rows are those of one process; those of one connection come in the same order.
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
from .reader import (
    PLAIN,
    ReadOptions,
    finished,
)
from .workers import (
    FILTERED,
    Workers,
    open_windows,
)

__all__ = ["SMALL_BYTES", "Faults", "Progress", "read_parallel", "read_windows"]

SMALL_BYTES: Final = 32 << 20
"""Captures smaller than this, all together, are read sooner than a worker has started."""
_MOST_JOBS: Final = 16
"""Every worker looks at every packet: with more of them, that would cost more than decoding."""
_INFLATED: Final = 4
"""How much longer a compressed capture is than its file: a guess, for progress alone."""

Progress: TypeAlias = Callable[[int, int], None]
"""Is told how many bytes of the files are read, about, and of how many."""
Faults: TypeAlias = Callable[[pa.RecordBatch], None]
"""Is told the faults that were met, in batches of `faults`."""


def read_parallel(
    paths: Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    on_faults: Faults | None = None,
    small_bytes: int = SMALL_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows of a table, in batches of bounded size.

    `jobs` is the number of processes, this one included, by default one for each processor: all
    others decode, this one joins what they find. With one of them, or with captures of less than
    `small_bytes`, everything happens here. `on_faults` is told all faults, whatever the table.
    Raises OSError when a file cannot be read, ValueError for keys or dialects that are none. Close
    the iterator to end the workers before it is exhausted.
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
    """The same, window by window; each must be read to its end before the next."""
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
        raise ValueError(f"jobs: wanted 1 or more, not {wanted}")
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
    """How many bytes are read after each window, as far as sizes of files tell; at last, all."""
    steps: list[int] = []
    for file, size in zip(files, sizes, strict=True):
        length = size * _INFLATED if file.endswith((".gz", ".zst")) else size
        count = max(1, -(-length // window_bytes))
        steps += [size * (n + 1) // count - size * n // count for n in range(count)]
    return [*accumulate(steps), sum(sizes)]
