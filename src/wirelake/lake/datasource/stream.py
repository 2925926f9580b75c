"""The streaming reader of the data source: captures as they arrive in a folder.

    spark.readStream.format("wirelake").option("table", "files").load("captures/")

Source and sequence decide which captures a batch has (`docs/concepts/lake.md`, section *Sources and
admission*). The files of a source in one batch are read as one capture. No state is carried to the
next batch: a frame that continues in a later file is not decoded. Tables that need state are made
by a lake.

Spark calls `commit` one batch late, and not at all for the last batch of an AvailableNow run; so
nothing here depends on it.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from wirelake.columnar.pipeline.pipeline import Item
from wirelake.columnar.read.reader import DERIVED, finished, open_pipeline, table_schema
from wirelake.tables.inputs import Capture, Watch, admit
from wirelake.tables.snapshot import Input, Snapshot, Source

from .options import PAYLOAD, Offset, OptionError, Request, advance, between, cursors
from .paths import FILE_SCHEMA, Listing, file_rows, folder, listings
from .pushdown import pruned

__all__ = [
    "CaptureStream",
    "FaultError",
    "Files",
    "ReadTask",
    "Share",
    "pack",
    "plan",
    "read_share",
    "read_task",
    "whole_schema",
]


# Tasks of a read, and their rows: what the batch reader and the stream reader share.


_TASK_BYTES: Final = 32 << 20
"""Bytes of a capture that are worth a task of their own."""
_MAX_SHARES: Final = 16
"""Every share scans every packet: with more shares, scanning costs more than decoding."""

_FAULTS = "faults"


class Files(NamedTuple):
    """One capture: its files in order, and their total size."""

    paths: tuple[str, ...]
    size: int


class Share(NamedTuple):
    """A share of the connections of one capture."""

    paths: tuple[str, ...]
    share: int = 0
    shares: int = 1


@dataclass
class ReadTask(InputPartition):
    """The shares that one task reads, one after the other."""

    shares: tuple[Share, ...]


def pack(captures: Sequence[Files], tasks: int | None = None) -> list[ReadTask]:
    """Divide captures into at most `tasks` tasks, or into as many as their size is worth."""
    total = sum(each.size for each in captures)
    worth = _TASK_BYTES if tasks is None else max(1, -(-total // tasks))
    bins = 1 + total // worth if tasks is None else tasks
    most = _MAX_SHARES if tasks is None else tasks
    pieces: list[tuple[int, Share]] = []
    for each in captures:
        shares = _shares(each.size, worth, most, exactly=tasks is not None)
        pieces += [(each.size // shares, Share(each.paths, n, shares)) for n in range(shares)]
    return _spread(pieces, bins)


def _shares(size: int, worth: int, most: int, *, exactly: bool) -> int:
    return min(most, max(1, -(-size // worth)) if exactly else 1 + size // worth)


def _spread(pieces: list[tuple[int, Share]], bins: int) -> list[ReadTask]:
    """Give each piece, the largest first, to the task with the least bytes."""
    loads = [(0, 0, number) for number in range(min(bins, len(pieces)))]
    given: list[list[Share]] = [[] for _ in loads]
    for size, share in sorted(pieces, key=lambda piece: -piece[0]):
        load, count, number = heapq.heappop(loads)
        given[number].append(share)
        heapq.heappush(loads, (load + size, count + 1, number))
    return [ReadTask(tuple(shares)) for shares in given]


class FaultError(ValueError):
    """Bytes that do not decode, with the option mode=failfast."""


def whole_schema(request: Request) -> pa.Schema:
    """Return the columns of the requested table."""
    return FILE_SCHEMA if request.files else table_schema(request.read)


def plan(request: Request, captures: Sequence[Sequence[Capture]]) -> list[InputPartition]:
    """Return the tasks that read some captures."""
    if request.files:
        return list(listings([each for files in captures for each in files]))
    if request.read.table in DERIVED:
        paths = tuple(each.path for files in captures for each in files)
        return [ReadTask((Share(paths),))]
    whole = [
        Files(tuple(each.path for each in files), sum(each.bytes for each in files))
        for files in (pruned(each, request.read) for each in captures)
    ]
    return list(pack(whole, request.partitions))


def read_task(request: Request, task: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task."""
    if isinstance(task, Listing):
        yield from file_rows(task.files)
    else:
        assert isinstance(task, ReadTask)
        for share in task.shares:
            yield from read_share(request, share)


def read_share(request: Request, share: Share) -> Iterator[pa.RecordBatch]:
    """Return the rows of a share."""
    options = replace(request.read, share=share.share, shares=share.shares)
    also = (_FAULTS,) if request.failfast else ()
    windows: Iterable[Iterable[Item]] = open_pipeline(share.paths, options, also).windows()
    if request.failfast:
        windows = map(_failfast, windows)
    found = finished(options, windows)
    column = PAYLOAD.get(options.table) if request.hashed else None
    return found if column is None else (_hashed(batch, column) for batch in found)


def _failfast(window: Iterable[Item]) -> Iterator[Item]:
    """Pass items on. Raises FaultError at the first fault."""
    for table, found in window:
        if table == _FAULTS and isinstance(found, pa.RecordBatch) and found.num_rows:
            raise FaultError(_describe(found.slice(0, 1).to_pylist()[0]))
        yield table, found


def _describe(fault: dict[str, object]) -> str:
    return (
        f"{fault['file']}, offset {fault['offset']}: {fault['code']} ({fault['detail']}); the"
        " option mode=permissive makes it a row of table faults instead"
    )


def _hashed(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Replace the bytes of a column with their SHA-256."""
    place = batch.schema.get_field_index(column)
    if place < 0:
        return batch
    values = [
        None if each is None else hashlib.sha256(each).digest()
        for each in batch.column(place).to_pylist()
    ]
    return batch.set_column(place, batch.schema.field(place), pa.array(values, pa.binary()))


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader; the driver has one for each query."""

    def __init__(self, request: Request, *, clock: Callable[[], int] = time.time_ns):
        if not request.files and request.read.table in DERIVED:
            raise OptionError(
                f"table {request.read.table} needs state across files, which a stream does not"
                " keep; use a lake: wirelake lake run --from ... --to ... --stream"
            )
        self._request = request
        self._watch = Watch(folder(request.paths))
        self._clock = clock
        self._frozen: tuple[list[Capture], int] | None = None
        self._latest: Offset | None = None

    # The methods that Spark calls, in its order.

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of a new query."""
        return self._request.pace.after

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch; `latestOffset` applies a second limit, of bytes, itself."""
        pace = self._request.pace
        if pace.max_files is not None:
            return ReadMaxFiles(pace.max_files)
        return ReadAllAvailable() if pace.max_bytes is None else ReadMaxBytes(pace.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Ignore captures that arrive from now on."""
        self._frozen = self._look()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch; `start` if there is nothing to read."""
        captures, now_ns = self._frozen or self._look()
        pace = self._request.pace
        admitted = functools.partial(
            admit,
            captures,
            _snapshot(cursors(start)),
            now_ns,
            lateness_s=pace.lateness_s,
            settle_s=pace.settle_s,
        )
        self._latest = advance(start, admitted().admitted)
        match limit:
            case ReadMaxFiles():
                found = admitted(max_files=limit.max_files, max_bytes=pace.max_bytes)
            case ReadMaxBytes():
                found = admitted(max_bytes=limit.max_bytes)
            case _:
                return self._latest
        return advance(start, found.admitted)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return how far the stream could advance when it last looked."""
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the tasks of a batch, the same ones each time.

        The table `files` leaves out files that no longer exist.
        """
        found = between(self._watch.look(), start, end, whole=not self._request.files)
        return plan(self._request, list(found.values()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Called in a worker."""
        return read_task(self._request, partition)

    def _look(self) -> tuple[list[Capture], int]:
        return self._watch.look(), self._clock()


def _snapshot(last: Mapping[str, int]) -> Snapshot:
    """Return the snapshot of a lake that has read up to these sequences."""
    found = Snapshot()
    for source, sequence in last.items():
        found.sources[source] = Source()
        found.sources[source].add(
            Input(source=source, sequence=sequence, path="", bytes=0, mtime_ns=0)
        )
    return found
