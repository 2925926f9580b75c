"""Files that a task writes: one for each table, and one for each protocol of `messages`.

Rows that are final and rows that are provisional go to different files. The files are in a folder
of the task; the commit moves them.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from wirelake.records.cross_connection import CROSSING
from wirelake.records.schema import schema
from wirelake.tables.entries import AddedFile
from wirelake.tables.parquet import ParquetOut, stats

__all__ = ["Outputs"]


class Outputs:
    """Open files of a task; a file is created with its first row."""

    def __init__(self, work: str, tables: frozenset[str]):
        """`tables` are those to write; rows of other tables are dropped."""
        self._tables = tables
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

    def state(self, table: str, data: bytes) -> None:
        """Add a file with a task's state, which only its owner may read: it may hold keys."""
        path = self._folder / f"{table.strip('_')}.state"
        with open(path, "xb", opener=_private) as out:
            out.write(data)
        self._written.append(AddedFile(table=table, path=str(path), rows=0, bytes=len(data)))

    def close(self) -> list[AddedFile]:
        """Close all files. Returns them."""
        for (table, protocol, provisional), (path, out) in self._open.items():
            out.close()
            found = stats(path)
            self._written.append(
                AddedFile(
                    table=table,
                    path=str(path),
                    rows=found.rows,
                    bytes=found.bytes,
                    min_ns=found.min_ns,
                    max_ns=found.max_ns,
                    provisional=provisional,
                    protocol=protocol,
                )
            )
        self._open.clear()
        return self._written

    def _out(self, table: str, batch: pa.RecordBatch) -> ParquetOut:
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
