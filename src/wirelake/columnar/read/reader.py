"""Captures as tables: the entry point of the command line and of Spark.

    options = ReadOptions(table="calls", filter='status != "ok"')
    for batch in read_batches(["edge.pcapng"], options):
        ...

`messages`, `packets`, `faults` and `coverage` come from the pipeline as they are. `calls`,
`deliveries`, `connections` and `tunnels` are derived from them by `wirelake.columnar.fold`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from wirelake.records.filter import compile_filter

from ..decode.texts import plain
from ..fold.capture_fold import CaptureFold, Folded, merge_for
from ..fold.fold import LATE_COLUMNS
from ..pipeline.pipeline import CapturePipeline, Item
from ..pipeline.window_rows import BATCH_ROWS
from ..scan.live import LiveInputs
from ..tcp.frontend import WINDOW_BYTES
from .options import DERIVED, PLAIN, TABLES, ReadOptions, table_schema, whole_schema

__all__ = [
    "DERIVED",
    "PLAIN",
    "TABLES",
    "ReadOptions",
    "finished",
    "merged",
    "open_pipeline",
    "read_batches",
    "sources",
    "table_schema",
]

_SOURCES: Final = ("messages", "faults", "connections", "facts")
"""The input of folds."""


def read_batches(
    paths: Iterable[str | os.PathLike[str]], options: ReadOptions | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, in bounded batches. Raises OSError for unreadable files."""
    chosen = options or ReadOptions()
    files = [os.fspath(path) for path in paths]
    pipeline = open_pipeline(files, chosen)
    yield from finished(chosen, pipeline.windows())


def sources(table: str) -> tuple[str, ...]:
    """Return the tables of the pipeline that a table is made from."""
    return (table,) if table in PLAIN else _SOURCES


def open_pipeline(
    files: Sequence[str] | LiveInputs, options: ReadOptions, also: Sequence[str] = ()
) -> CapturePipeline:
    """Return a pipeline for the sources of a table, and for the tables in `also`."""
    return CapturePipeline(
        files,
        tables=(*sources(options.table), *also),
        ports=options.ports,
        force_protocol=options.force_protocol,
        keys=options.keys,
        dialects=options.dialects,
        reveal=options.reveal,
        window_bytes=options.window_bytes or WINDOW_BYTES,
        share=options.share,
        shares=options.shares,
        all_facts=options.table in DERIVED,
    )


def finished(
    options: ReadOptions, windows: Iterable[Iterable[Item]], *, live: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield batches of the table from windows of the pipeline: filtered, with chosen columns.

    With `live`, each row is yielded as soon as all of its columns that are read are final.
    """
    if options.table in PLAIN:
        return _chosen(options, _plain(options, windows))
    early = live and not _columns_read(options) & LATE_COLUMNS
    fold = CaptureFold(options.table, share=options.share, shares=options.shares, early=early)
    return merged(options, fold.windows(windows))


def merged(options: ReadOptions, windows: Iterable[Iterable[Folded]]) -> Iterator[pa.RecordBatch]:
    """Yield the same for a derived table from windows that were folded already."""
    return _chosen(options, _derived(options, windows))


# -- tables ----------------------------------------------------------------------------------


def _plain(options: ReadOptions, windows: Iterable[Iterable[Item]]) -> Iterator[pa.RecordBatch]:
    for window in windows:
        for table, found in window:
            if table == options.table:
                assert isinstance(found, pa.RecordBatch)
                yield from _of_protocol(found, options)


def _of_protocol(batch: pa.RecordBatch, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    if options.protocol is None or "protocol" not in batch.schema.names:
        yield batch
    elif options.table == "messages":  # a batch has messages of one protocol, and its struct
        if options.protocol in batch.schema.names:
            yield batch
    else:
        yield batch.filter(pc.equal(batch.column("protocol"), options.protocol))


def _derived(options: ReadOptions, windows: Iterable[Iterable[Folded]]) -> Iterator[pa.RecordBatch]:
    merge = merge_for(options.table)
    for window in windows:
        for rows in merge.window(window):
            yield from _batches(options, rows)
    for rows in merge.finish():
        yield from _batches(options, rows)


def _batches(options: ReadOptions, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in rows.combine_chunks().to_batches(max_chunksize=BATCH_ROWS):
        yield from _of_protocol(batch, options)


def _chosen(options: ReadOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the requested rows and columns; no empty batches."""
    whole = whole_schema(options)
    wanted = table_schema(options)
    condition = None if options.filter is None else compile_filter(options.filter, whole)
    for found in batches:
        batch = _completed(found if options.coded else plain(found), whole)
        if condition is not None:
            batch = batch.filter(condition.mask(plain(batch)))
        if batch.num_rows:
            yield _selected(batch, wanted) if options.columns is not None else batch


# -- columns ---------------------------------------------------------------------------------


def _columns_read(options: ReadOptions) -> set[str]:
    """Return the top-level columns of the result, and those of the filter."""
    whole = whole_schema(options)
    columns = whole.names if options.columns is None else options.columns
    found = {name.partition(".")[0] for name in columns}
    if options.filter is not None:
        found |= compile_filter(options.filter, whole).columns
    return found


def _completed(batch: pa.RecordBatch, whole: pa.Schema) -> pa.RecordBatch:
    """Return a batch with all columns of a schema; structs of other protocols are null."""
    if batch.schema.names == whole.names:
        return batch
    have = set(batch.schema.names)
    arrays = [
        batch.column(field.name) if field.name in have else pa.nulls(batch.num_rows, field.type)
        for field in whole
    ]
    return _batch(arrays, whole)


def _selected(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    return _batch([_at(batch, field.name) for field in wanted], wanted)


def _batch(arrays: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of a schema, some of which may be coded."""
    fields = [field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=schema.metadata))


def _at(batch: pa.RecordBatch, path: str) -> pa.Array:
    first, *rest = path.split(".")
    column = batch.column(first)
    return pc.struct_field(column, rest) if rest else column
