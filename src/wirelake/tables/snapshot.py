"""The state of a lake at a commit: files by table, inputs by source, settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .entries import FORMAT, AddedFile, Checkpoint, Input, Record, Removed
from .paths import is_public, table_of

__all__ = ["Snapshot", "Source"]

_LATE = "late_file"


class Source:
    """The captures of one source that were read or refused."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        """In the order in which they were consumed, including refused ones."""
        self.first: int | None = None
        """First sequence number that was read; None if all were late."""
        self.last: int | None = None
        """Highest sequence number that was read."""
        self._sequences: set[int] = set()
        self._known: dict[tuple[int, str], Input] = {}

    def add(self, consumed: Input) -> None:
        """Add a consumed capture."""
        self.inputs.append(consumed)
        self._known[consumed.sequence, consumed.name] = consumed
        if consumed.fault == _LATE:
            return
        self._sequences.add(consumed.sequence)
        self.first = consumed.sequence if self.first is None else self.first
        self.last = max(consumed.sequence, consumed.sequence if self.last is None else self.last)

    def has(self, sequence: int) -> bool:
        """Return whether a file with this sequence number was read, or missing at its turn."""
        return sequence in self._sequences

    def known(self, sequence: int, name: str) -> Input | None:
        """Return the last capture consumed with this sequence number and name."""
        return self._known.get((sequence, name))


class Snapshot:
    """The state of a lake at a commit. A writer updates its own with each commit."""

    def __init__(self) -> None:
        self.commit = -1
        """The last commit; -1 before the first."""
        self.schema = 0
        """Version of the table schemas at that commit."""
        self.time = ""
        """Time of that commit, ISO 8601."""
        self.settings: dict[str, Any] = {}
        """Settings of the first commit; they never change."""
        self.tables: dict[str, dict[str, AddedFile]] = {}
        """Files by table and path, in the order of their commits."""
        self.sources: dict[str, Source] = {}
        """Consumed captures by source."""
        self.removed: dict[str, Removed] = {}
        """Removed files that may still be on disk, by path."""
        self.staging = ""
        """Staging folder of the last commit."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Snapshot:
        """Return the state that a checkpoint contains."""
        snapshot = cls()
        snapshot.commit, snapshot.schema = checkpoint.commit, checkpoint.schema
        snapshot.time, snapshot.staging = checkpoint.time, checkpoint.staging
        snapshot.settings = checkpoint.settings
        snapshot._consume(checkpoint.inputs)
        snapshot._add(checkpoint.files)
        snapshot.removed = {each.path: each for each in checkpoint.removed}
        return snapshot

    def to_checkpoint(self) -> Checkpoint:
        """Return the state as a checkpoint."""
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
        """Apply the next commit."""
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
        """Return the files of a table; none if it has no rows yet."""
        return list(self.tables.get(table, {}).values())

    def all_files(self) -> list[AddedFile]:
        """Return the files of all tables."""
        return [each for files in self.tables.values() for each in files.values()]

    def public_files(self) -> list[AddedFile]:
        """Return the files of all public tables."""
        return [each for each in self.all_files() if is_public(each.table)]

    def _consume(self, inputs: Iterable[Input]) -> None:
        for each in inputs:
            self.sources.setdefault(each.source, Source()).add(each)

    def _add(self, files: Iterable[AddedFile]) -> None:
        for each in files:
            self.tables.setdefault(each.table, {})[each.path] = each
