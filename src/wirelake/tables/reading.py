"""Reads the tables of a lake as Arrow batches, with the schema of this version.

    for batch in batches("lake", "calls", columns=["target", "latency_ns"]):
        ...

Columns and struct fields that files of an older version lack are null.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.records.schema import schema
from wirelake.wire.messages import unknown

from .entries import AddedFile
from .errors import LakeError
from .log import Log
from .paths import PUBLIC_TABLES, Layout
from .snapshot import Snapshot

__all__ = ["batches", "conform", "file_batches", "files_at", "table"]

_BATCH_ROWS: Final = 16_384
_ATTEMPTS: Final = 20
_PAUSE_S: Final = 0.01
"""A commit is moved from staging within moments. A reader that comes in between waits up to 0.2 s,
so that files are not moved while it reads them; those of a killed run stay in staging."""


def table(
    root: str | os.PathLike[str],
    name: str,
    *,
    columns: Sequence[str] | None = None,
    commit: int | None = None,
) -> pa.Table:
    """Read a table of a lake, now or at a commit. Raises LakeError."""
    target = _schema(name, columns)
    return pa.Table.from_batches(batches(root, name, columns=columns, commit=commit), schema=target)


def batches(
    root: str | os.PathLike[str],
    name: str,
    *,
    columns: Sequence[str] | None = None,
    commit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a table batch by batch."""
    target = _schema(name, columns)
    log = Log(root)
    snapshot = log.snapshot(commit)
    for _, path in files_at(log.layout, snapshot, snapshot.files(name)):
        yield from file_batches(path, target)


def files_at(
    layout: Layout, snapshot: Snapshot, files: Iterable[AddedFile]
) -> list[tuple[AddedFile, Path]]:
    """Return the current paths of files. Raises LakeError if one is missing."""
    chosen = list(files)
    staged = {each.path for each in chosen if each.commit == snapshot.commit}
    for _ in range(_ATTEMPTS):
        staged = {path for path in staged if not layout.place(path).exists()}
        if not staged:
            break
        time.sleep(_PAUSE_S)
    return [
        (
            each,
            layout.resolve(each.path, snapshot) if each.path in staged else layout.place(each.path),
        )
        for each in chosen
    ]


def file_batches(path: Path, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read a file with the given columns."""
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise LakeError(f"{path}: missing; the log lists this file") from None
    with file:
        have = [name for name in target.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(_BATCH_ROWS, columns=have):
            yield conform(batch, target)


def conform(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the given columns; those that it lacks are null."""
    have = set(batch.schema.names)
    arrays = [
        _as_type(batch.column(field.name), field.type)
        if field.name in have
        else pa.nulls(batch.num_rows, field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _as_struct(array, kind)
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        values = _as_type(array.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=array.is_null())
    return array.cast(kind)


def _as_struct(array: pa.StructArray, kind: pa.DataType) -> pa.Array:
    have = {array.type.field(at).name: at for at in range(array.type.num_fields)}
    parts = array.flatten()
    fields = [kind.field(at) for at in range(kind.num_fields)]
    children = [
        _as_type(parts[have[field.name]], field.type)
        if field.name in have
        else pa.nulls(len(array), field.type)
        for field in fields
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def _offsets(array: pa.ListArray) -> pa.Array:
    """Return the offsets of lists in `flatten`, which skips nulls."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _schema(name: str, columns: Sequence[str] | None) -> pa.Schema:
    if name not in PUBLIC_TABLES:
        raise LakeError(unknown("table", name, PUBLIC_TABLES))
    whole = schema(name)
    if columns is None:
        return whole
    missing = [each for each in columns if each not in whole.names]
    if missing:
        raise LakeError(unknown(f"column of {name}", missing[0], whole.names))
    return pa.schema([whole.field(each) for each in columns], metadata=whole.metadata)
