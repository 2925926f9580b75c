"""The rows of a lake's tables as Arrow, with the columns of this version.

    for batch in batches("lake", "calls", columns=["target", "latency_ns"]):
        ...

Files of an older version lack columns, and fields within structs; these are null.
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

from .entries import AddedFile
from .errors import LakeError
from .log import Log
from .paths import PUBLIC_TABLES, Layout
from .snapshot import Snapshot

__all__ = ["batches", "conform", "file_batches", "files_at", "table"]

_BATCH_ROWS: Final = 16_384
_LOOKS: Final = 20
_PAUSE_S: Final = 0.01
"""A commit is moved to its place within moments. A reader who comes in between looks again, so that
files are not moved away under it; what a killed run left in staging stays there."""


def table(
    root: str | os.PathLike[str],
    name: str,
    *,
    columns: Sequence[str] | None = None,
    commit: int | None = None,
) -> pa.Table:
    """A table of a lake, as it is now or was at a commit. Raises LakeError."""
    wanted = _wanted(name, columns)
    return pa.Table.from_batches(batches(root, name, columns=columns, commit=commit), schema=wanted)


def batches(
    root: str | os.PathLike[str],
    name: str,
    *,
    columns: Sequence[str] | None = None,
    commit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a table, a batch at a time."""
    wanted = _wanted(name, columns)
    log = Log(root)
    snapshot = log.snapshot(commit)
    for _, path in files_at(log.layout, snapshot, snapshot.files(name)):
        yield from file_batches(path, wanted)


def files_at(
    layout: Layout, snapshot: Snapshot, files: Iterable[AddedFile]
) -> list[tuple[AddedFile, Path]]:
    """Where these files are now. Raises LakeError when one is gone."""
    wanted = list(files)
    staged = {each.path for each in wanted if each.commit == snapshot.commit}
    for _ in range(_LOOKS):
        staged = {path for path in staged if not layout.place(path).exists()}
        if not staged:
            break
        time.sleep(_PAUSE_S)
    return [
        (
            each,
            layout.resolve(each.path, snapshot) if each.path in staged else layout.place(each.path),
        )
        for each in wanted
    ]


def file_batches(path: Path, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with these columns."""
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise LakeError(f"{path}: the log names this file, and it is not there") from None
    with file:
        have = [name for name in wanted.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(_BATCH_ROWS, columns=have):
            yield conform(batch, wanted)


def conform(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The same rows with these columns; what is not there is null."""
    have = set(batch.schema.names)
    arrays = [
        _as_type(batch.column(field.name), field.type)
        if field.name in have
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


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
    """Where the lists begin in `flatten`, which leaves out what is null."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _wanted(name: str, columns: Sequence[str] | None) -> pa.Schema:
    if name not in PUBLIC_TABLES:
        raise LakeError(f"no table is called {name!r}; there are {', '.join(PUBLIC_TABLES)}")
    whole = schema(name)
    if columns is None:
        return whole
    unknown = [each for each in columns if each not in whole.names]
    if unknown:
        raise LakeError(f"{name}: no column {unknown[0]!r}; there are {', '.join(whole.names)}")
    return pa.schema([whole.field(each) for each in columns], metadata=whole.metadata)
