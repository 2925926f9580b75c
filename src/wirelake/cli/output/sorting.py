"""Rows in order, whatever their number: runs that are sorted in memory, kept in files and merged.

    for batch in sorted_batches(batches, RowOrder("ts_ns"), limit=None):
        ...

All of it happens in Arrow, so a row costs no Python object. Memory has one run, and of each run in
a file one small batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["RowOrder", "sorted_batches", "sorted_table"]

_RUN_BYTES: Final = 64 << 20
"""Rows that are sorted in memory; more go to a temporary file, sorted, and are merged."""
_BATCH_ROWS: Final = 4_096
_SPARE_ROWS: Final = 1_000
"""Rows beyond the limit that are held, so that rows are not sorted for each batch."""


class RowOrder(NamedTuple):
    """How rows are sorted; those without a value come last, equal ones as they came."""

    column: str
    descending: bool = False


def sorted_table(rows: pa.Table, order: RowOrder) -> pa.Table:
    """Return the rows in order."""
    return rows.take(_places(rows.column(order.column), order))


def sorted_batches(
    batches: Iterable[pa.RecordBatch], order: RowOrder, limit: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in order, or the first ones of them."""
    with ExitStack() as files:
        runs: list[Iterator[pa.RecordBatch]] = []
        held: list[pa.RecordBatch] = []
        size = rows = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            rows += batch.num_rows
            if limit is not None and rows > 2 * limit + _SPARE_ROWS:
                held = _run(held, order, limit)
                size, rows = sum(each.nbytes for each in held), limit
            elif size > _RUN_BYTES:
                if run := _run(held, order, limit):
                    runs.append(_stored(run, files.enter_context(tempfile.TemporaryFile())))
                held, size, rows = [], 0, 0
        runs.append(iter(_run(held, order, limit)))
        yield from _first(_merged(runs, order), limit)


def _first(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
        elif left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


def _run(held: list[pa.RecordBatch], order: RowOrder, limit: int | None) -> list[pa.RecordBatch]:
    if not held:
        return []
    rows = sorted_table(pa.Table.from_batches(held), order).slice(0, limit).combine_chunks()
    return list(rows.to_batches(max_chunksize=_BATCH_ROWS))


def _stored(run: list[pa.RecordBatch], file: BinaryIO) -> Iterator[pa.RecordBatch]:
    """Write a run to a file at once; return an iterator that reads it."""
    with pa.ipc.new_stream(file, run[0].schema) as writer:
        for batch in run:
            writer.write_batch(batch)
    file.seek(0)
    return iter(pa.ipc.open_stream(file))


def _places(keys: pa.ChunkedArray, order: RowOrder) -> pa.Array:
    """Return the places of rows in order, nulls at the end; those of equal rows ascend."""
    # With the place as a second key: only sorts of single arrays are documented as stable.
    table = pa.table({"key": keys, "place": np.arange(len(keys))})
    return pc.sort_indices(
        table,
        sort_keys=[
            ("key", "descending" if order.descending else "ascending"),
            ("place", "ascending"),
        ],
    )


def _merged(runs: list[Iterator[pa.RecordBatch]], order: RowOrder) -> Iterator[pa.RecordBatch]:
    """Yield the rows of runs, each of which is in order."""
    if len(runs) == 1:
        yield from runs[0]
        return
    heads: list[pa.RecordBatch] = []
    live: list[Iterator[pa.RecordBatch]] = []
    for run in runs:
        _refill(heads, live, run)
    while heads:
        keys = pa.chunked_array([head.column(order.column) for head in heads])
        places = _places(keys, order).to_numpy()
        sizes = np.array([head.num_rows for head in heads])
        owners = np.repeat(np.arange(len(heads)), sizes)[places]
        # Later rows of a run come after the last row of its head, so all rows up to the first of
        # these are final. They are the beginning of each head.
        last = np.flatnonzero(np.isin(places, np.cumsum(sizes) - 1))[0] + 1
        counts = np.bincount(owners[:last], minlength=len(heads))
        yield from _in_order(heads, counts, owners[:last])
        rests = [head.slice(count) for head, count in zip(heads, counts, strict=True)]
        waiting, heads, live_before = rests, [], live
        live = []
        for rest, run in zip(waiting, live_before, strict=True):
            if rest.num_rows:
                heads.append(rest)
                live.append(run)
            else:
                _refill(heads, live, run)


def _refill(
    heads: list[pa.RecordBatch],
    live: list[Iterator[pa.RecordBatch]],
    run: Iterator[pa.RecordBatch],
) -> None:
    head = next(run, None)
    if head is not None:
        heads.append(head)
        live.append(run)


def _in_order(heads: list[pa.RecordBatch], counts: Any, owners: Any) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of each head in the order of their owners."""
    parts = [head.slice(0, n) for head, n in zip(heads, counts, strict=True) if n]
    if len(parts) == 1:
        yield parts[0]
        return
    places = np.empty(len(owners), np.int64)
    places[np.argsort(owners, kind="stable")] = np.arange(len(owners))
    rows = pa.Table.from_batches(parts).combine_chunks().take(pa.array(places))
    yield from rows.combine_chunks().to_batches()
