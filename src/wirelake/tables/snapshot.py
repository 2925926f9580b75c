"""What a lake is at a commit: its files by table, its inputs by source, its settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .entries import (
    FORMAT,
    AddedFile,
    Checkpoint,
    Input,
    Record,
    Removed,
)
from .paths import is_public, table_of

__all__ = ["Snapshot", "Source"]

_LATE = "late_file"


class Source:
    """What was consumed of one source."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        """In the order in which they were consumed, refused ones included."""
        self.first: int | None = None
        """The sequence that came in first; None when all came too late."""
        self.last: int | None = None
        """The highest sequence that is in."""
        self._sequences: set[int] = set()
        self._known: dict[tuple[int, str], Input] = {}

    def add(self, consumed: Input) -> None:
        """One more was consumed."""
        self.inputs.append(consumed)
        self._known[consumed.sequence, consumed.name] = consumed
        if consumed.fault == _LATE:
            return
        self._sequences.add(consumed.sequence)
        self.first = consumed.sequence if self.first is None else self.first
        self.last = max(consumed.sequence, consumed.sequence if self.last is None else self.last)

    def has(self, sequence: int) -> bool:
        """Whether a file with this sequence is in, or was missing when its turn came."""
        return sequence in self._sequences

    def known(self, sequence: int, name: str) -> Input | None:
        """What was last consumed under this sequence and name."""
        return self._known.get((sequence, name))


class Snapshot:
    """A lake at a commit. A writer moves its own on from commit to commit."""

    def __init__(self) -> None:
        self.commit = -1
        """The last commit; -1 before the first."""
        self.schema = 0
        """The version of the tables' columns in that commit."""
        self.time = ""
        """When that commit was made, ISO 8601."""
        self.settings: dict[str, Any] = {}
        """What never changes."""
        self.tables: dict[str, dict[str, AddedFile]] = {}
        """The files of each table, by their path in the lake, in the order of their commits."""
        self.sources: dict[str, Source] = {}
        """What was consumed of each source."""
        self.removed: dict[str, Removed] = {}
        """Files that no longer count, and may still be on disk."""
        self.staging = ""
        """The folder from which the files of the last commit are moved."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Snapshot:
        """What a checkpoint says."""
        found = cls()
        found.commit, found.schema = checkpoint.commit, checkpoint.schema
        found.time, found.staging = checkpoint.time, checkpoint.staging
        found.settings = checkpoint.settings
        found._consume(checkpoint.inputs)
        found._add(checkpoint.files)
        found.removed = {each.path: each for each in checkpoint.removed}
        return found

    def to_checkpoint(self) -> Checkpoint:
        """The same, to be written."""
        return Checkpoint(
            commit=self.commit,
            format=FORMAT,
            schema=self.schema,
            time=self.time,
            settings=self.settings,
            inputs=[each for source in self.sources.values() for each in source.inputs],
            files=self.all_files(),
            removed=list(self.removed.values()),
            staging=self.staging,
        )

    def apply(self, record: Record) -> None:
        """Moves on by the next commit."""
        self.commit, self.schema, self.time = record.commit, record.schema, record.time
        self.staging = record.staging
        if record.settings is not None:
            self.settings = record.settings
        self._consume(record.inputs)
        for path in record.remove:
            if self.tables.get(table_of(path), {}).pop(path, None) is not None:
                self.removed[path] = Removed(path, record.commit, record.time)
        self._add(record.add)

    def files(self, table: str) -> list[AddedFile]:
        """The files of a table; none when it has no rows yet."""
        return list(self.tables.get(table, {}).values())

    def all_files(self) -> list[AddedFile]:
        """The files of all tables."""
        return [each for files in self.tables.values() for each in files.values()]

    def public_files(self) -> list[AddedFile]:
        """The files of the tables that are for people."""
        return [each for each in self.all_files() if is_public(each.table)]

    def _consume(self, inputs: Iterable[Input]) -> None:
        for each in inputs:
            self.sources.setdefault(each.source, Source()).add(each)

    def _add(self, files: Iterable[AddedFile]) -> None:
        for each in files:
            self.tables.setdefault(each.table, {})[each.path] = each
