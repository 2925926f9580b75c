"""The files of a lake during a step: kept, new and removed; and those that a task writes.

Paths are absolute here: where a file can be read now. A task that is retried or killed leaves files
that no commit names: each call writes into a folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import msgspec
import pyarrow as pa

from wirelake.records.deliveries import CROSSING
from wirelake.records.schema import schema
from wirelake.tables.parquet import ParquetOut, added_file, check_file
from wirelake.tables.snapshot import AddedFile, checksum_of
from wirelake.tables.writer import Transaction, Writer

__all__ = [
    "Outputs",
    "Step",
    "overlaps",
]


def overlaps(file: AddedFile, first_ns: int, last_ns: int) -> bool:
    """Return whether a file may have rows in a time range."""
    if file.min_ns is None or file.max_ns is None:
        return False
    return file.min_ns <= last_ns and file.max_ns >= first_ns


class Step:
    """The changes of a step before its commit."""

    def __init__(self, writer: Writer, transaction: Transaction, checked: set[str]):
        """`checked` has the paths of files that were checked already, and gets those of others."""
        self.transaction = transaction
        self._checked = checked
        self._names: dict[str, str] = {}
        """Names in the log of files of earlier steps, by path."""
        self._kept: dict[str, list[AddedFile]] = {}
        for file in writer.snapshot.all_files():
            place = str(writer.layout.place(file.path))
            self._names[place] = file.path
            found = msgspec.structs.replace(file, path=place)
            self._kept.setdefault(file.table, []).append(found)
        self._new: dict[str, list[AddedFile]] = {}
        self._removed: dict[str, list[AddedFile]] = {}

    # -- files ------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Return the tables that have files of earlier steps."""
        return list(self._kept)

    def kept(self, table: str, *, provisional: bool | None = None) -> list[AddedFile]:
        """Return files of earlier steps that are kept."""
        return _chosen(self._kept.get(table, []), provisional)

    def new(self, table: str, *, provisional: bool | None = None) -> list[AddedFile]:
        """Return new files of this step."""
        return _chosen(self._new.get(table, []), provisional)

    def removed(self, table: str) -> list[AddedFile]:
        """Return files of earlier steps that are removed."""
        return self._removed.get(table, [])

    def files(self, table: str, *, provisional: bool | None = None) -> list[AddedFile]:
        """Return the files of a table after this step."""
        return self.kept(table, provisional=provisional) + self.new(table, provisional=provisional)

    def touched(self, table: str) -> list[AddedFile]:
        """Return files that this step adds or removes."""
        return self.new(table) + self.removed(table)

    def paths(self, files: Iterable[AddedFile]) -> tuple[str, ...]:
        """Return where files can be read. Raises LakeError if an earlier one is gone or damaged."""
        found = list(files)
        for file in found:
            # Else what the step makes of a damaged file would get a checksum that confirms it. Each
            # is checked once in a run: a stream reads the latest ones again and again.
            if file.path in self._names and file.path not in self._checked:
                check_file(file, Path(file.path))
                self._checked.add(file.path)
        return tuple(file.path for file in found)

    # -- changes -----------------------------------------------------------------------------

    def work(self, name: str) -> str:
        """Return a folder for new files."""
        return str(self.transaction.work(name))

    def add(
        self,
        written: Iterable[AddedFile],
        *,
        source: str | None = None,
        share: int | None = None,
        shares: int | None = None,
    ) -> None:
        """Add files that were written."""
        for file in written:
            found = msgspec.structs.replace(file, source=source, share=share, shares=shares)
            self._new.setdefault(file.table, []).append(found)

    def remove(self, files: Iterable[AddedFile]) -> None:
        """Remove files of earlier steps; forget files of this one."""
        for file in list(files):
            if file.path in self._names:
                self._kept[file.table].remove(file)
                self._removed.setdefault(file.table, []).append(file)
            else:
                self._new[file.table].remove(file)

    def apply(self) -> dict[str, int]:
        """Pass all changes to the transaction. Returns the number of new final rows by table."""
        rows: dict[str, int] = {}
        for table, files in self._new.items():
            for file in files:
                self.transaction.add(
                    table,
                    Path(file.path),
                    rows=file.rows,
                    min_ns=file.min_ns,
                    max_ns=file.max_ns,
                    provisional=file.provisional,
                    protocol=file.protocol,
                    source=file.source,
                    share=file.share,
                    shares=file.shares,
                    checksum=file.checksum,
                )
                if not file.provisional:
                    rows[table] = rows.get(table, 0) + file.rows
        for files in self._removed.values():
            for file in files:
                self.transaction.remove(self._names[file.path])
        return rows


def _chosen(files: list[AddedFile], provisional: bool | None) -> list[AddedFile]:
    if provisional is None:
        return list(files)
    return [file for file in files if file.provisional == provisional]


# -- files of a task ---------------------------------------------------------------------------


class Outputs:
    """Open files of a task: one for each table, and one for each protocol of `messages`.

    A file is created with its first row.
    """

    def __init__(self, work: str, tables: frozenset[str]):
        """`tables` are those to write; rows of other tables are dropped."""
        self._tables = tables
        # A retry or a speculative copy of a task runs with the same arguments, perhaps at the same
        # time.
        self._folder = Path(work) / uuid.uuid4().hex
        self._folder.mkdir(parents=True)
        self._open: dict[tuple[str, str | None, bool], tuple[Path, ParquetOut]] = {}
        self._written: list[AddedFile] = []
        self.provisional = False
        """Whether rows that are written now are valid only if the input ends here."""

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Write rows of a table."""
        if batch.num_rows and table in self._tables:
            self._out(table, batch).write(batch)

    def state(self, table: str, data: bytes, mark: str = "") -> AddedFile:
        """Write a file with a task's state, which only its owner may read: it may hold keys.

        `mark` distinguishes the states of one task. The file is not among those of `close`.
        """
        path = self._folder / f"{table.strip('_')}{mark}.state"
        # Created with its mode: a chmod afterwards would leave the file readable for a moment.
        with open(path, "xb", opener=_private) as out:
            out.write(data)
        checksum = checksum_of(data)
        return AddedFile(table=table, path=str(path), rows=0, bytes=len(data), checksum=checksum)

    def close(self) -> list[AddedFile]:
        """Close all files. Returns them."""
        for (table, protocol, provisional), (path, out) in self._open.items():
            out.close()
            self._written.append(
                added_file(table, path, provisional=provisional, protocol=protocol)
            )
        self._open.clear()
        return self._written

    def _out(self, table: str, batch: pa.RecordBatch) -> ParquetOut:
        # One set of files for each protocol: the structs of the others, always null, would make the
        # write take 1.5 times as long.
        protocol = batch.schema.names[-1] if table == "messages" else None
        key = (table, protocol, self.provisional)
        if key not in self._open:
            name = "-".join(
                [
                    protocol or table.strip("_"),
                    *(["open"] if self.provisional else []),
                    uuid.uuid4().hex[:12],
                ]
            )
            path = self._folder / f"{name}.parquet"
            self._open[key] = path, ParquetOut(path, _schema(table, protocol))
        return self._open[key][1]

    def __enter__(self) -> Outputs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close files that are unfinished; no commit names them."""
        for _, out in self._open.values():
            with contextlib.suppress(Exception):
                out.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _schema(table: str, protocol: str | None) -> pa.Schema:
    if table in CROSSING:
        return CROSSING[table]
    return schema(table.removeprefix("_"), () if protocol is None else (protocol,))
