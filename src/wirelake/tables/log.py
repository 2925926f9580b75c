"""The log of a lake: one JSON record per commit, and checkpoints to read fewer of them.

    log = Log("lake")
    now = log.snapshot()
    for record in log.records(since=now.commit + 1):
        ...

A record is written to a temporary file, synced, and then hard-linked to its name. Two properties
decide this order (`docs/concepts/lake.md`, *How a commit is made*):

- `link` fails if the name exists, so only one of two writers can create commit n. A rename would
  overwrite the other writer's record without an error.
- The contents are on disk before the name, and the name is on disk (fsync of the folder) before the
  commit is reported. After a power failure a record is complete or absent, never half written.

Readers take no lock: a record never changes once it has its name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.capture.format.writer import sync_folder
from wirelake.records.schema import schema
from wirelake.wire.errors import unknown

from .errors import DamagedError, LakeError
from .paths import PUBLIC_TABLES, Layout
from .snapshot import (
    FORMAT,
    AddedFile,
    Checkpoint,
    Input,
    Record,
    Snapshot,
    Source,
    read_checkpoint,
    read_record,
)

__all__ = [
    "CHECKPOINT_EVERY",
    "FORMAT",
    "AddedFile",
    "Checkpoint",
    "Input",
    "Log",
    "Record",
    "Snapshot",
    "Source",
    "batches",
    "conform",
    "file_batches",
    "files_at",
    "table",
    "write_synced",
]


CHECKPOINT_EVERY: Final = 50
"""Commits between checkpoints: a reader opens one checkpoint and at most this many records."""
_ATTEMPTS: Final = 5
"""Attempts of a reader to list and read the log while `expire` deletes old records."""


class Log:
    """The log of a lake."""

    def __init__(self, root: str | os.PathLike[str]):
        self.layout = Layout(root)

    # -- reading -----------------------------------------------------------------------------

    def exists(self) -> bool:
        """Return whether the lake exists."""
        return self.last() is not None

    def last(self) -> int | None:
        """Return the number of the last commit; None if there is no lake."""
        records, checkpoints = self.layout.logged()
        return max((*records[-1:], *checkpoints[-1:]), default=None)

    def records(self, since: int = 0) -> Iterator[Record]:
        """Yield the records from this commit on. Raises LakeError if one is missing."""
        numbers = [each for each in self.layout.logged()[0] if each >= since]
        for expected, number in enumerate(numbers, since):
            if number != expected:
                raise self._missing(expected)
            try:
                yield read_record(self.layout.record(number))
            except FileNotFoundError:
                raise self._missing(number) from None

    def snapshot(self, commit: int | None = None) -> Snapshot:
        """Return the state of the lake, now or at a commit. Raises LakeError."""
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(FileNotFoundError):
                return self._snapshot(commit)
        try:
            return self._snapshot(commit)
        except FileNotFoundError as error:
            raise LakeError(
                f"{error.filename}: deleted while the log was read; try again"
            ) from error

    def _snapshot(self, commit: int | None) -> Snapshot:
        records, checkpoints = self.layout.logged()
        last = self._check_commit(commit, max((*records[-1:], *checkpoints[-1:]), default=None))
        snapshot = self._from_checkpoint(last, checkpoints)
        present = set(records)
        for number in range(snapshot.commit + 1, last + 1):
            if number not in present:
                raise self._missing(number)
            snapshot.apply(read_record(self.layout.record(number)))
        return snapshot

    def _check_commit(self, commit: int | None, last: int | None) -> int:
        root = self.layout.root
        if last is None:
            raise LakeError(f"{root}: no lake in this folder; `wirelake lake run` creates one")
        if commit is not None and not 0 <= commit <= last:
            raise LakeError(f"{root}: no such commit {commit}; expected 0-{last}")
        return last if commit is None else commit

    def _from_checkpoint(self, last: int, checkpoints: list[int]) -> Snapshot:
        """Return the state of the newest readable checkpoint; an empty one if there is none.

        A damaged checkpoint is only an error if the records that it replaces are gone.
        """
        damaged: DamagedError | None = None
        for number in reversed([each for each in checkpoints if each <= last]):
            try:
                return Snapshot.from_checkpoint(read_checkpoint(self.layout.checkpoint(number)))
            except FileNotFoundError:
                continue
            except DamagedError as error:
                damaged = error
        if damaged is not None and not self.layout.record(0).exists():
            raise damaged
        return Snapshot()

    def _missing(self, number: int) -> LakeError:
        records, checkpoints = self.layout.logged()
        oldest = min((*records[:1], *checkpoints[:1]), default=number)
        if number < oldest:
            return LakeError(
                f"{self.layout.root}: commit {number} has expired; the oldest one is {oldest}"
            )
        return LakeError(f"{self.layout.record(number)}: missing; restore it from a backup")

    # -- writing -----------------------------------------------------------------------------

    def commit(self, record: Record) -> None:
        """Add a record. Raises LakeError if its commit already exists."""
        self.layout.log.mkdir(parents=True, exist_ok=True)
        part = self.layout.log / f".{record.commit:020d}.{secrets.token_hex(4)}.part"
        self.prepare(record, part)
        try:
            self.link(part, record.commit)
        finally:
            part.unlink(missing_ok=True)

    def prepare(self, record: Record, part: Path) -> None:
        """Write a record to a file outside the log, and sync it."""
        write_synced(part, msgspec.json.format(msgspec.json.encode(record), indent=1))

    def link(self, part: Path, commit: int) -> None:
        """Publish a prepared record. Raises LakeError if another writer made this commit."""
        try:
            os.link(part, self.layout.record(commit))
        except FileExistsError:
            # NFS may perform the link and lose the reply; the retry then fails with EEXIST. Two
            # links mean that the name is ours.
            if part.stat().st_nlink == 1:
                raise LakeError(
                    f"{self.layout.root}: another writer made commit {commit}; run again"
                ) from None
        sync_folder(self.layout.log)

    def last_checkpoint(self) -> int:
        """Return the commit of the newest checkpoint; -1 if there is none."""
        return max(self.layout.logged()[1], default=-1)

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Write a checkpoint of a snapshot.

        It may replace one with the same number: both have the same contents.
        """
        place = self.layout.checkpoint(snapshot.commit)
        part = self.layout.log / f".{place.name}.{secrets.token_hex(4)}.part"
        try:
            write_synced(part, msgspec.json.encode(snapshot.to_checkpoint()))
            os.replace(part, place)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(self.layout.log)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and sync it to disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


# Reads the tables of a lake as Arrow batches, with the schema of this version.


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
