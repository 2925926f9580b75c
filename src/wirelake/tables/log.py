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
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wirelake.capture.format.writer import sync_folder

from .paths import DamagedError, LakeError, Layout
from .snapshot import Record, Snapshot, encoded, read_checkpoint, read_record

__all__ = ["CHECKPOINT_EVERY", "Log", "write_synced"]

CHECKPOINT_EVERY: Final = 50
"""Commits between checkpoints: a reader opens one checkpoint and at most this many records. A step
takes 5 s whatever its size (benchmarks/results/lake.json), so they are minutes apart."""
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
        # Readers take no lock. `expire` writes a checkpoint and then deletes older records, so what
        # was listed may be gone when it is opened; the next listing has the new checkpoint. Each
        # attempt lists anew, and five in a row fail only if `expire` runs five times meanwhile.
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
        # Records are only deleted when a checkpoint has what they say.
        if number < oldest and checkpoints:
            return LakeError(
                f"{self.layout.root}: commit {number} has expired; the oldest one is {oldest}"
            )
        return LakeError(f"{self.layout.record(number)}: missing; restore it from a backup")

    # -- writing -----------------------------------------------------------------------------

    def commit(self, record: Record) -> None:
        """Add a record. Raises LakeError if its commit already exists."""
        self.layout.log.mkdir(parents=True, exist_ok=True)
        # The dot hides it from readers; the next writer deletes what a kill leaves of it.
        part = self.layout.log / f".{record.commit:020d}.{secrets.token_hex(4)}.part"
        self.prepare(record, part)
        try:
            self.link(part, record.commit)
        finally:
            part.unlink(missing_ok=True)

    def prepare(self, record: Record, part: Path) -> None:
        """Write a record to a file outside the log, and sync it."""
        write_synced(part, encoded(record, indent=1))

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
        # The contents are on disk since `prepare`. Without this the name could be lost in a power
        # failure, and with it a commit that was reported.
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
            write_synced(part, encoded(snapshot.to_checkpoint()))
            # Not a link, as for records: a damaged checkpoint must be replaceable.
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
