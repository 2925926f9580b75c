"""Tasks of a read, and their rows: what the batch reader and the stream reader share.

A capture can be divided by connection: each task then scans all packets and decodes its share of
the connections. Every share costs a scan, so only large captures are divided, and small ones are
put into one task. Different captures are independent of each other.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from wirelake.columnar.pipeline.pipeline import Item
from wirelake.columnar.read.reader import DERIVED, finished, open_pipeline, table_schema
from wirelake.tables.inputs import Capture

from .files import FILE_SCHEMA, Listing, file_rows, listings
from .options import PAYLOAD, Request
from .pruning import pruned

__all__ = [
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
