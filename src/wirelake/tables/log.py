"""The log of a lake: one file for each commit, and checkpoints to read fewer of them.

    log = Log("lake")
    now = log.snapshot()
    for record in log.records(since=now.commit + 1):
        ...

A record is written to a temporary file, synced, and linked to its name. The link fails when the
name exists, so of two writers only one makes a commit (`docs/concepts/lake.md`). Readers lock
nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from wirelake.capture.format.output import sync_folder

from .entries import (
    FORMAT,
    AddedFile,
    Checkpoint,
    Input,
    Record,
    read_checkpoint,
    read_record,
)
from .errors import DamagedError, LakeError
from .paths import Layout
from .snapshot import Snapshot, Source

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
    "write_synced",
]

CHECKPOINT_EVERY: Final = 50
"""Commits from one checkpoint to the next: so many files are read at most, beside one that holds
everything."""
_TRIES: Final = 5
"""How often a reader looks again when records go away under it: `expire` deletes old ones."""


class Log:
    """The log of the lake in a folder."""

    def __init__(self, root: str | os.PathLike[str]):
        self.layout = Layout(root)

    # -- reading -----------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether there is a lake."""
        return self.last() is not None

    def last(self) -> int | None:
        """The number of the last commit; None when there is no lake."""
        records, checkpoints = self.layout.logged()
        return max((*records[-1:], *checkpoints[-1:]), default=None)

    def records(self, since: int = 0) -> Iterator[Record]:
        """The records from this commit on. Raises LakeError where one is missing."""
        numbers = [each for each in self.layout.logged()[0] if each >= since]
        for wanted, number in enumerate(numbers, since):
            if number != wanted:
                raise self._hole(wanted)
            try:
                yield read_record(self.layout.record(number))
            except FileNotFoundError:
                raise self._hole(number) from None

    def snapshot(self, commit: int | None = None) -> Snapshot:
        """What the lake is now, or was at a commit. Raises LakeError."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(FileNotFoundError):
                return self._snapshot(commit)
        try:
            return self._snapshot(commit)
        except FileNotFoundError as error:
            raise LakeError(f"{error.filename}: gone while the log was read; try again") from error

    def _snapshot(self, commit: int | None) -> Snapshot:
        records, checkpoints = self.layout.logged()
        last = self._wanted(commit, max((*records[-1:], *checkpoints[-1:]), default=None))
        found = self._begun(last, checkpoints)
        there = set(records)
        for number in range(found.commit + 1, last + 1):
            if number not in there:
                raise self._hole(number)
            found.apply(read_record(self.layout.record(number)))
        return found

    def _wanted(self, commit: int | None, last: int | None) -> int:
        root = self.layout.root
        if last is None:
            raise LakeError(f"{root}: there is no lake; `wirelake lake run` makes one")
        if commit is not None and not 0 <= commit <= last:
            raise LakeError(f"{root}: there is no commit {commit}; the last one is {last}")
        return last if commit is None else commit

    def _begun(self, last: int, checkpoints: list[int]) -> Snapshot:
        """What the newest checkpoint says that can be read; nothing when there is none."""
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

    def _hole(self, number: int) -> LakeError:
        records, checkpoints = self.layout.logged()
        oldest = min((*records[:1], *checkpoints[:1]), default=number)
        if number < oldest:
            return LakeError(
                f"{self.layout.root}: commit {number} is no longer in the log;"
                f" the oldest that is known is {oldest}"
            )
        return LakeError(f"{self.layout.record(number)}: missing; restore it from a backup")

    # -- writing -----------------------------------------------------------------------------

    def commit(self, record: Record) -> None:
        """Adds a record. Raises LakeError when there is one with this number already."""
        self.layout.log.mkdir(parents=True, exist_ok=True)
        part = self.layout.log / f".{record.commit:020d}.{secrets.token_hex(4)}.part"
        self.prepare(record, part)
        try:
            self.link(part, record.commit)
        finally:
            part.unlink(missing_ok=True)

    def prepare(self, record: Record, part: Path) -> None:
        """Writes a record to a file that is not in the log yet."""
        write_synced(part, msgspec.json.format(msgspec.json.encode(record), indent=1))

    def link(self, part: Path, commit: int) -> None:
        """Makes a prepared record count. Raises LakeError when somebody else was faster."""
        try:
            os.link(part, self.layout.record(commit))
        except FileExistsError:
            if part.stat().st_nlink == 1:  # 2: it was this link, whose answer a network lost
                raise LakeError(
                    f"{self.layout.root}: another run made commit {commit}; run again"
                ) from None
        sync_folder(self.layout.log)

    def last_checkpoint(self) -> int:
        """The commit of the newest checkpoint; -1 without one."""
        return max(self.layout.logged()[1], default=-1)

    def checkpoint(self, snapshot: Snapshot) -> None:
        """Writes everything up to a commit."""
        place = self.layout.checkpoint(snapshot.commit)
        part = self.layout.log / f".{place.name}.{secrets.token_hex(4)}.part"
        try:
            write_synced(part, msgspec.json.encode(snapshot.to_checkpoint()))
            os.replace(part, place)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(self.layout.log)


def write_synced(path: Path, data: bytes) -> None:
    """Writes a file and brings it to disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
