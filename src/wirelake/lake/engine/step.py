"""The files of a lake while a step is made: those that stay, those that are new, those that go.

Here the path of a file is where it can be read now.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from wirelake.tables.entries import AddedFile
from wirelake.tables.writer import Transaction, Writer

__all__ = ["Step", "overlaps"]


def overlaps(file: AddedFile, first_ns: int, last_ns: int) -> bool:
    """Whether a file may have rows of this time."""
    if file.min_ns is None or file.max_ns is None:
        return False
    return file.min_ns <= last_ns and file.max_ns >= first_ns


class Step:
    """What a step adds to a lake and removes from it, before it is committed."""

    def __init__(self, writer: Writer, transaction: Transaction):
        self.transaction = transaction
        self._names: dict[str, str] = {}
        """What the log calls files of earlier steps, by their paths."""
        self._kept: dict[str, list[AddedFile]] = {}
        for file in writer.snapshot.all_files():
            place = str(writer.layout.place(file.path))
            self._names[place] = file.path
            found = msgspec.structs.replace(file, path=place)
            self._kept.setdefault(file.table, []).append(found)
        self._new: dict[str, list[AddedFile]] = {}
        self._removed: dict[str, list[AddedFile]] = {}

    # -- looking -----------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """The tables that have files of earlier steps."""
        return list(self._kept)

    def kept(self, table: str, *, provisional: bool | None = None) -> list[AddedFile]:
        """Files of earlier steps that stay."""
        return _chosen(self._kept.get(table, []), provisional)

    def new(self, table: str, *, provisional: bool | None = None) -> list[AddedFile]:
        """Files of this step."""
        return _chosen(self._new.get(table, []), provisional)

    def removed(self, table: str) -> list[AddedFile]:
        """Files of earlier steps that go."""
        return self._removed.get(table, [])

    def files(self, table: str, *, provisional: bool | None = None) -> list[AddedFile]:
        """The files of a table as they will be."""
        return self.kept(table, provisional=provisional) + self.new(table, provisional=provisional)

    def touched(self, table: str) -> list[AddedFile]:
        """Files whose rows come or go with this step."""
        return self.new(table) + self.removed(table)

    # -- changing ----------------------------------------------------------------------------

    def work(self, name: str) -> str:
        """A folder for what somebody writes."""
        return str(self.transaction.work(name))

    def add(
        self,
        written: Iterable[AddedFile],
        *,
        source: str | None = None,
        share: int | None = None,
        shares: int | None = None,
    ) -> None:
        """Adds files that were written."""
        for file in written:
            found = msgspec.structs.replace(file, source=source, share=share, shares=shares)
            self._new.setdefault(file.table, []).append(found)

    def remove(self, files: Iterable[AddedFile]) -> None:
        """Files of earlier steps go; files of this one are forgotten."""
        for file in list(files):
            if file.path in self._names:
                self._kept[file.table].remove(file)
                self._removed.setdefault(file.table, []).append(file)
            else:
                self._new[file.table].remove(file)

    def hand_over(self) -> dict[str, int]:
        """Tells the transaction everything; gives the rows of each table that are new and final."""
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
