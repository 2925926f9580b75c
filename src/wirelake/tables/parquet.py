"""Parquet files of tables: writing, statistics, and reading as Arrow batches.

    with ParquetOut(path, schema) as out:
        for batch in read_batches(files, options):
            out.write(batch)
    stats(path)                 # rows, bytes and times, from the footer
    table("lake", "calls")      # all rows at the last commit, as an Arrow table

Encodings depend on the columns. Times and offsets increase from row to row: delta encoding. Other
64-bit numbers are ids and sizes, mostly distinct, so a dictionary would cost more than it saves.
Everything else is dictionary-encoded while the dictionary is small. Compared with the defaults this
takes about a quarter less time and space. That matters because writing dominates: of the time from
a capture to a Parquet file, a third to two thirds is spent here.
For the same reason `messages` has files by protocol: four structs that are always null make a
write take 1.5 times as long.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.records.schema import COMMON, TABLES, schema
from wirelake.wire.errors import unknown

from .log import Log
from .paths import PUBLIC_TABLES, DamagedError, LakeError, Layout
from .snapshot import CHECKSUM_BYTES, AddedFile, Snapshot

__all__ = [
    "ParquetOut",
    "Stats",
    "added_file",
    "batches",
    "check_file",
    "conform",
    "file_batches",
    "file_checksum",
    "files_at",
    "stats",
    "table",
    "time_columns",
]

_ROW_GROUP: Final = 131_072
"""Rows per row group: enough for useful statistics, few enough for little memory."""
_MAX_GROUP_BYTES: Final = 64 << 20
"""Bytes after which a row group is written, however few rows it has: bodies may be megabytes, and
a task has a writer for each table and protocol at the same time."""
_WRITE_BATCH: Final = 4096
"""Rows between two tests of a page's size. pyarrow's 1,024 take 12 % more time."""
_BUFFER_BYTES: Final = 4 << 20
"""Of what is written to an open file: each page would be a call of Python, for which a thread waits
while another one uses the interpreter."""
_ARROW: Final = b"ARROW:schema"
_INCREASING: Final = frozenset(
    {"ts_ns", "first_ns", "last_ns", "offset", "request_ns", "response_ns"}
)
"""Columns that increase from row to row."""
_TIMES: Final = (
    ("ts_ns",),
    ("minute_ns",),
    ("request_ns", "response_ns"),
    ("published_ns", "first_sent_ns", "last_sent_ns", "acked_ns"),
    ("first_ns", "last_ns"),
)
"""Time columns: those of the first group that a table has any of."""


class _OpenFile:
    """An open file as Arrow writes to it: it stays open, and gets nothing more after an error.

    Arrow's objects write what they still have when they are deleted, and close the file. After an
    error that would end an incomplete file as if it were complete; and had the buffer let go of the
    file before, the process would crash.
    """

    closed = False

    def __init__(self, file: BinaryIO):
        self._file: BinaryIO | None = file

    def write(self, data: bytes) -> None:
        """Write bytes."""
        if self._file is not None:
            self._file.write(data)

    def flush(self) -> None:
        """Do nothing: the caller's file has a buffer of its own."""

    def close(self) -> None:
        """Do nothing: the file is the caller's."""

    def abandon(self) -> None:
        """Ignore what is written from here on."""
        self._file = None


class ParquetOut:
    """A Parquet file that is being written."""

    def __init__(
        self,
        out: str | os.PathLike[str] | BinaryIO,
        schema: pa.Schema,
        *,
        overlapped: bool = False,
    ):
        """Open the file; `out` is a path or a file open for writing.

        With `overlapped`, a thread writes a row group while the caller makes the next one: on two
        cores that takes the time of one of them, and the memory of two row groups.
        """
        self._schema = schema
        self._thread = ThreadPoolExecutor(1, "parquet") if overlapped else None
        self._written: Future[None] | None = None
        """What the thread writes."""
        self._pending: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._file = None if isinstance(out, str | os.PathLike) else _OpenFile(out)
        self._out = (
            os.fspath(out)
            if isinstance(out, str | os.PathLike)
            else pa.BufferedOutputStream(pa.PythonFile(self._file, "w"), _BUFFER_BYTES)
        )
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Texts may be Arrow dictionaries: the same columns in all batches."""
        self._pending.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _ROW_GROUP or self._bytes >= _MAX_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Finish the file. A file that was open stays open."""
        try:
            self._finish()
            if not isinstance(self._out, str):
                self._out.close()
        except BaseException:
            if self._file is not None:
                self._file.abandon()
            raise

    def _finish(self) -> None:
        try:
            self._flush()
            self._wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
        writer = self._opened(self._schema)
        # As pyarrow itself stores it. It would store that of the batches, and whoever reads the
        # file would get dictionaries.
        arrow_schema = base64.b64encode(self._schema.serialize())
        writer.add_key_value_metadata({**(self._schema.metadata or {}), _ARROW: arrow_schema})
        writer.close()

    def __enter__(self) -> ParquetOut:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _flush(self) -> None:
        if not self._rows:
            return
        pending, self._pending = self._pending, []
        self._rows = self._bytes = 0
        # A dictionary that changes within a row group would end its dictionary encoding.
        table = pa.Table.from_batches(pending).unify_dictionaries()
        if self._thread is None:
            self._write(table)
        else:
            self._wait()  # so that at most one row group waits
            self._written = self._thread.submit(self._write, table)

    def _wait(self) -> None:
        """Wait for the thread. Raises what it raised."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def _write(self, table: pa.Table) -> None:
        # The last batch may go beyond a row group, which is not worth another one.
        size = _ROW_GROUP if len(table) > 2 * _ROW_GROUP else len(table)
        self._opened(table.schema).write_table(table, row_group_size=size)

    def _opened(self, schema: pa.Schema) -> pq.ParquetWriter:
        """Return the writer; it is opened with the schema of the first batch."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._out,
                schema,
                store_schema=False,
                use_dictionary=_dictionaries(schema),
                # Readers skip row groups by times, ids and names. The struct of a protocol has
                # dozens of columns, which queries rarely filter by.
                write_statistics=[
                    field.name for field in schema if not pa.types.is_nested(field.type)
                ],
                column_encoding={
                    name: "DELTA_BINARY_PACKED" for name in schema.names if name in _INCREASING
                },
                # Statistics of a dictionary are computed for each of these batches.
                write_batch_size=_WRITE_BATCH,
            )
        return self._writer


def _dictionaries(schema: pa.Schema) -> list[str]:
    """Return the paths of the columns that may be dictionary-encoded.

    Only a written file tells the physical type of each nested column.
    """
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema):
        pass
    columns = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    found = [columns.column(at) for at in range(len(columns))]
    return [each.path for each in found if each.physical_type != "INT64"]


# -- statistics --------------------------------------------------------------------------------


class Stats(NamedTuple):
    """Statistics from the footer of a file."""

    rows: int
    bytes: int
    min_ns: int | None
    """Earliest time; None if it has no times."""
    max_ns: int | None
    """Latest time."""


def time_columns(table: str) -> tuple[str, ...]:
    """Return the time columns of a table; several if some may be null."""
    return _time_columns((COMMON if table == "messages" else TABLES[table]).names)


def stats(path: str | os.PathLike[str]) -> Stats:
    """Return rows, bytes and times of a file. Raises pa.ArrowInvalid if it is not Parquet."""
    # The footer alone: the log needs rows and times of every file, which may be hundreds of MB.
    metadata = pq.read_metadata(os.fspath(path))
    times = frozenset(_time_columns(metadata.schema.to_arrow_schema().names))
    least: list[int] = []
    greatest: list[int] = []
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        for number in range(group.num_columns):
            column = group.column(number)
            if column.path_in_schema in times and column.statistics is not None:
                known = column.statistics
                if known.has_min_max:
                    least.append(known.min)
                    greatest.append(known.max)
    return Stats(
        metadata.num_rows,
        os.stat(path).st_size,
        min(least, default=None),
        max(greatest, default=None),
    )


def added_file(
    table: str,
    path: str | os.PathLike[str],
    *,
    provisional: bool = False,
    protocol: str | None = None,
) -> AddedFile:
    """Describe a finished Parquet file for the log: statistics and checksum.

    Called by the task that has written it. The file is still in the page cache, and whatever
    happens to it from here on is found.
    """
    known = stats(path)
    return AddedFile(
        table=table,
        path=os.fspath(path),
        rows=known.rows,
        bytes=known.bytes,
        min_ns=known.min_ns,
        max_ns=known.max_ns,
        provisional=provisional,
        protocol=protocol,
        checksum=file_checksum(path),
    )


def file_checksum(path: str | os.PathLike[str]) -> str:
    """Return the checksum of a file."""
    # BLAKE2b: as fast as SHA-256 with CPU support, three times as fast without, and `b2sum` checks
    # it. 128 bits are enough against accidents.
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=CHECKSUM_BYTES))
    return digest.hexdigest()


def check_file(file: AddedFile, path: Path) -> None:
    """Raise LakeError if a file is gone, or not the one that was added.

    Files of an older version have no checksum; then only the size is compared.
    """
    if not path.exists():
        raise LakeError(f"{path}: missing; the log lists this file")
    size = path.stat().st_size
    if size != file.bytes:
        raise DamagedError(f"{path}: damaged: {size:,} bytes; the log has {file.bytes:,}")
    if file.checksum is not None and file_checksum(path) != file.checksum:
        raise DamagedError(
            f"{path}: damaged: its checksum differs from the log; restore it from a backup"
        )


def _time_columns(names: Iterable[str]) -> tuple[str, ...]:
    have = frozenset(names)
    found = (tuple(each for each in group if each in have) for group in _TIMES)
    return next(filter(None, found), ())


# -- reading -----------------------------------------------------------------------------------

_BATCH_ROWS: Final = 16_384
_READ_ATTEMPTS: Final = 20
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
    # Only files of the last commit can still be in staging: a writer finishes a commit before it
    # begins the next. All others are at their places, and are not looked for.
    chosen = list(files)
    staged = {each.path for each in chosen if each.commit == snapshot.commit}
    for _ in range(_READ_ATTEMPTS):
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
    """Return a batch with the given columns; those that it lacks are null.

    Columns are only ever added (`docs/concepts/lake.md`, *Versions*), so files of an older version
    lack some, at any depth of a struct.
    """
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
        raise LakeError(unknown("column", missing[0], whole.names, of=name))
    return pa.schema([whole.field(each) for each in columns], metadata=whole.metadata)
