"""The files of a lake while a step is made: those that stay, those that are new, those that go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from wirehouse.tables.entries import AddedFile
from wirehouse.tables.writer import Transaction, Writer

from .outputs import Written

__all__ = ["LakeFile", "Step"]


class LakeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file, and where it can be read now."""

    table: str
    path: str
    """Where it can be read."""
    rows: int
    min_ns: int | None = None
    max_ns: int | None = None
    provisional: bool = False
    protocol: str | None = None
    source: str | None = None
    share: int | None = None
    shares: int | None = None
    name: str | None = None
    """What the log calls it; None for a file that is new."""

    def overlaps(self, first_ns: int, last_ns: int) -> bool:
        """Whether it may have rows of this time."""
        if self.min_ns is None or self.max_ns is None:
            return False
        return self.min_ns <= last_ns and self.max_ns >= first_ns


class Step:
    """What a step adds to a lake and removes from it, before it is committed."""

    def __init__(self, writer: Writer, transaction: Transaction):
        self.transaction = transaction
        layout, snapshot = writer.layout, writer.snapshot
        self._kept: dict[str, list[LakeFile]] = {}
        for file in snapshot.all_files():
            place = str(layout.place(file.path))
            self._kept.setdefault(file.table, []).append(_known(file, place))
        self._new: dict[str, list[LakeFile]] = {}
        self._removed: dict[str, list[LakeFile]] = {}

    # -- looking -----------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """The tables that have files of earlier steps."""
        return list(self._kept)

    def kept(self, table: str, *, provisional: bool | None = None) -> list[LakeFile]:
        """Files of earlier steps that stay."""
        return _chosen(self._kept.get(table, []), provisional)

    def new(self, table: str, *, provisional: bool | None = None) -> list[LakeFile]:
        """Files of this step."""
        return _chosen(self._new.get(table, []), provisional)

    def removed(self, table: str) -> list[LakeFile]:
        """Files of earlier steps that go."""
        return self._removed.get(table, [])

    def files(self, table: str, *, provisional: bool | None = None) -> list[LakeFile]:
        """The files of a table as they will be."""
        return self.kept(table, provisional=provisional) + self.new(table, provisional=provisional)

    def touched(self, table: str) -> list[LakeFile]:
        """Files whose rows come or go with this step."""
        return self.new(table) + self.removed(table)

    # -- changing ----------------------------------------------------------------------------

    def work(self, name: str) -> str:
        """A folder for what somebody writes."""
        return str(self.transaction.work(name))

    def add(
        self,
        written: Iterable[Written],
        *,
        source: str | None = None,
        share: int | None = None,
        shares: int | None = None,
    ) -> None:
        """Adds files that were written."""
        for file in written:
            found = LakeFile(
                table=file.table,
                path=file.path,
                rows=file.rows,
                min_ns=file.min_ns,
                max_ns=file.max_ns,
                provisional=file.provisional,
                protocol=file.protocol,
                source=source,
                share=share,
                shares=shares,
            )
            self._new.setdefault(file.table, []).append(found)

    def remove(self, files: Iterable[LakeFile]) -> None:
        """Files of earlier steps go; files of this one are forgotten."""
        for file in list(files):
            if file.name is None:
                self._new[file.table].remove(file)
            else:
                self._kept[file.table].remove(file)
                self._removed.setdefault(file.table, []).append(file)

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
                assert file.name is not None
                self.transaction.remove(file.name)
        return rows


def _known(file: AddedFile, place: str) -> LakeFile:
    return LakeFile(
        table=file.table,
        path=place,
        rows=file.rows,
        min_ns=file.min_ns,
        max_ns=file.max_ns,
        provisional=file.provisional,
        protocol=file.protocol,
        source=file.source,
        share=file.share,
        shares=file.shares,
        name=file.path,
    )


def _chosen(files: list[LakeFile], provisional: bool | None) -> list[LakeFile]:
    if provisional is None:
        return list(files)
    return [file for file in files if file.provisional == provisional]
