"""Writes a lake: one writer at a time, one transaction after another.

    with Writer("lake") as writer:
        with writer.begin() as step:
            path = step.work("task-0") / "comet.parquet"
            ...                                     # tasks write files
            step.add("messages", path, protocol="comet")
            step.consume(capture)
            step.commit("advance", {"seconds": 2.5})

The steps of a commit, and what a kill after each of them leaves (`docs/concepts/lake.md`, *How a
commit is made*):

1. Tasks write files to `_staging/<id>/work`. Nothing is committed; the next writer deletes the
   folder.
2. `collect` moves them to `_staging/<id>/<table>`, where readers look for files of the last commit.
   The files and folders are synced first (unless `fsync` is off): the record must never be on disk
   before the data that it names.
3. `record` writes the record beside them and syncs it, outside the log.
4. `link` gives it its name in the log. This is the commit: from here on readers see all files of
   all tables, in staging.
5. `forward` renames one folder per table to its final place. After a kill the next writer repeats
   it; readers accept both places.
6. A checkpoint, and deletion of staging and of files that were removed long ago. Failures here lose
   nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from wirelake import __version__
from wirelake.capture.format.writer import sync_folder
from wirelake.records.schema import VERSION

from .cleanup import (
    KEPT_COMMITS,
    KEPT_S,
    delete_staging,
    finish_staging,
    forward,
    record_of,
    sweep_removed,
)
from .log import CHECKPOINT_EVERY, Log
from .parquet import file_checksum, stats
from .paths import LakeError, Layout, table_of
from .snapshot import FORMAT, AddedFile, Input, Kind, Record, Snapshot, iso_time

__all__ = ["Transaction", "Writer"]

OnStep = Callable[[str], None]
_INTERNAL_NAMES: Final = frozenset({"_log", "_staging", "_lock"})
"""What a run that was killed before its first commit may leave in the folder."""


def _ignore_step(_: str) -> None:
    """Ignore a step: the default of `on_step`."""


class Writer:
    """The writer of a lake; holds its lock between entering and leaving."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        create: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
        fsync: bool = True,
        keep_s: float = KEPT_S,
        keep_commits: int = KEPT_COMMITS,
        clock: Callable[[], int] = time.time_ns,
    ):
        """Prepare a writer; entering it opens or creates the lake.

        `create` has the settings of a new lake; None refuses to create one. `about` has the figures
        of its first commit. Without `fsync` data files are not synced before their record: a
        power failure may lose them. `keep_s` and `keep_commits` say how long removed files stay on
        disk.
        """
        self.log = Log(root)
        self.layout: Layout = self.log.layout
        self.snapshot = Snapshot()
        """State of the lake, updated by each commit."""
        self.fsync = fsync
        self.clock = clock
        self._create = create
        self._about = about
        self._keep = (keep_s, keep_commits)
        self._lock = Lock(self.layout.lock)
        self._checkpointed = -1

    def __enter__(self) -> Writer:
        # Before anything is created: a mistyped path must not become a lake, and a folder of
        # something else must not get a lock file.
        if not self.log.exists():
            self._check_new()
        self.layout.log.mkdir(parents=True, exist_ok=True)
        self._lock.take(iso_time(self.clock()))
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def begin(self) -> Transaction:
        """Begin the next commit, after finishing the previous one if an error interrupted it."""
        # A full disk may stop `forward` halfway. The commit counts, but its files would stay in
        # staging, where readers look for files of the last commit only.
        if self.snapshot.staging and (self.layout.staging / self.snapshot.staging).is_dir():
            finish_staging(self.layout)
        return Transaction(self)

    def sweep(self) -> int:
        """Delete files that were removed long enough ago; return the bytes freed."""
        keep_s, keep_commits = self._keep
        return sweep_removed(
            self.layout, self.snapshot, self.clock(), keep_s=keep_s, keep_commits=keep_commits
        )

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        # Removed files that are gone need not be remembered; without this the list would grow with
        # the age of the lake.
        removed = self.snapshot.removed
        self.snapshot.removed = {
            path: each for path, each in removed.items() if self.layout.place(path).exists()
        }
        self.log.checkpoint(self.snapshot)
        self._checkpointed = self.snapshot.commit

    def applied(self, record: Record) -> None:
        """Apply a committed record."""
        self.snapshot.apply(record)

    def checkpoint_is_due(self) -> bool:
        """Return whether there were enough commits since the last checkpoint."""
        return self.snapshot.commit - self._checkpointed >= CHECKPOINT_EVERY

    def _check_new(self) -> None:
        root = self.layout.root
        if self._create is None:
            raise LakeError(f"{root}: no lake in this folder; `wirelake lake run` creates one")
        if root.exists() and not root.is_dir():
            raise LakeError(f"{root}: not a folder")
        # Writers delete unknown folders in `_staging`: a lake must have its folder to itself.
        if root.is_dir() and not {each.name for each in root.iterdir()} <= _INTERNAL_NAMES:
            raise LakeError(f"{root}: not a lake and not empty; use another folder")

    def _open(self) -> None:
        if not self.log.exists():
            finish_staging(self.layout)
            with self.begin() as step:
                step.commit("create", self._about, settings=dict(self._create or {}))
            return
        self.snapshot = self.log.snapshot()  # first: refuse a newer lake before changing it
        finish_staging(self.layout)
        self._checkpointed = self.log.last_checkpoint()
        self.sweep()


class Transaction:
    """The files and inputs of the next commit."""

    def __init__(self, writer: Writer):
        self._writer = writer
        self.number = writer.snapshot.commit + 1
        """Number of the commit."""
        # The number leads from a staging folder to its record without reading the log. The random
        # part keeps two writers apart where locks do not work: both may prepare this commit.
        self.id = f"{self.number}-{secrets.token_hex(3)}"
        self.folder = writer.layout.staging / self.id
        """Its staging folder."""
        self.folder.mkdir(parents=True)
        self._added: dict[str, tuple[Path, AddedFile]] = {}
        self._removed: dict[str, None] = {}
        self._inputs: list[Input] = []
        self._done = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    # -- contents ----------------------------------------------------------------------------

    def work(self, name: str) -> Path:
        """Create a folder for the files of a task."""
        folder = self.folder / "work" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def add(
        self,
        table: str,
        path: str | os.PathLike[str],
        *,
        rows: int | None = None,
        min_ns: int | None = None,
        max_ns: int | None = None,
        provisional: bool = False,
        protocol: str | None = None,
        source: str | None = None,
        share: int | None = None,
        shares: int | None = None,
        checksum: str | None = None,
    ) -> AddedFile:
        """Add a file that a task wrote.

        Without `rows`, its statistics come from its footer; without `checksum`, it is read.
        """
        file = Path(path)
        if not file.is_relative_to(self.folder / "work"):
            raise ValueError(f"{file}: not in a folder of work()")
        if rows is None:
            known = stats(file)
            rows, min_ns, max_ns = known.rows, known.min_ns, known.max_ns
        added = AddedFile(
            table=table,
            path=self._unique_path(table, file),
            rows=rows,
            bytes=file.stat().st_size,
            min_ns=min_ns,
            max_ns=max_ns,
            provisional=provisional,
            protocol=protocol,
            source=source,
            share=share,
            shares=shares,
            checksum=checksum or file_checksum(file),
        )
        self._added[added.path] = (file, added)
        return added

    def remove(self, path: str) -> None:
        """Remove a file from the lake."""
        if path not in self._writer.snapshot.tables.get(table_of(path), {}):
            raise ValueError(f"{path}: not a file of the lake")
        self._removed[path] = None

    def consume(self, capture: Input) -> None:
        """Record that a capture was read or refused."""
        self._inputs.append(capture)

    def _unique_path(self, table: str, file: Path) -> str:
        """Return the path of a file in the lake, with a number if another task used its name."""
        # Tasks choose names on their own, and several may use the same: `comet.parquet`.
        name, number = file.name, 1
        while (path := f"{table}/{self.number}/{name}") in self._added:
            number += 1
            name = f"{file.stem}-{number}{file.suffix}"
        return path

    # -- commit, abort -----------------------------------------------------------------------

    def commit(
        self,
        kind: Kind,
        figures: Mapping[str, Any] | None = None,
        *,
        settings: dict[str, Any] | None = None,
        on_step: OnStep = _ignore_step,
    ) -> Record:
        """Commit everything at once, and return the record.

        `on_step` is called with the name of each step before it: collect, record, link,
        forward:<table>, checkpoint, sweep. Raises LakeError if another writer made this commit;
        then, and after any error up to `link`, the transaction is aborted.
        """
        if self._done:
            raise ValueError("the transaction has ended")
        writer = self._writer
        try:
            on_step("collect")
            self._collect()
            on_step("record")
            record = self._record(kind, figures or {}, settings)
            # In the staging folder, not in the log: where locks do not work, another writer that
            # takes this folder for a dead one renames it first (`cleanup._delete`). Then the link
            # below fails, instead of committing files that are about to be deleted.
            part = self.folder / "record.json"
            writer.log.prepare(record, part)
            on_step("link")
            writer.log.link(part, self.number)
        except BaseException:
            self.abort()
            raise
        # Committed: from here on errors must not delete staging, and everything can be repeated.
        self._done = True
        writer.applied(record)
        forward(writer.layout, record, on_step, sync=writer.fsync)
        if writer.checkpoint_is_due():
            on_step("checkpoint")
            with contextlib.suppress(OSError):  # disk full: the records are enough
                writer.checkpoint()
        on_step("sweep")
        delete_staging(writer.layout, record)
        writer.sweep()
        return record

    def abort(self) -> None:
        """Delete the staging folder. Does nothing after a commit."""
        if self._done:
            return
        self._done = True
        # `link` may have succeeded although it raised (NFS, a signal); then this is committed.
        if record_of(self._writer.layout, self.id) is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _collect(self) -> None:
        """Move the files of tasks to where readers of the commit look for them in staging."""
        # Only files that were added: failed, repeated and speculative tasks leave further files in
        # `work`, which are deleted with it.
        layout, sync = self._writer.layout, self._writer.fsync
        folders = set()
        for file, added in self._added.values():
            target = layout.staged(self.id, added.path)
            if target.parent not in folders:
                target.parent.mkdir(exist_ok=True)
                folders.add(target.parent)
            if sync:
                sync_folder(file)
            file.rename(target)
        if sync:
            for folder in folders:
                sync_folder(folder)

    def _record(
        self, kind: Kind, figures: Mapping[str, Any], settings: dict[str, Any] | None
    ) -> Record:
        return Record(
            commit=self.number,
            format=FORMAT,
            schema=VERSION,
            time=iso_time(self._writer.clock()),
            kind=kind,
            version=__version__,
            settings=settings,
            inputs=self._inputs,
            add=[added for _, added in self._added.values()],
            remove=list(self._removed),
            staging=self.id,
            figures=dict(figures),
        )


# -- the lock ----------------------------------------------------------------------------------

_UNSUPPORTED: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL})


class _Holder(msgspec.Struct):
    """The process that holds a lock."""

    pid: int
    host: str
    since: str


class Lock:
    """The lock of a lake: `flock` on a file that names its holder.

    The kernel releases it when its process ends, however that ends: a killed run never has to be
    unlocked by hand.
    """

    def __init__(self, path: Path):
        self._path = path
        self._file: int | None = None

    def take(self, since: str) -> None:
        """Take the lock. Raises LakeError if another process holds it."""
        opened = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            raise LakeError(
                f"{self._path.parent}: {self._holder()}; wait for it or stop it"
            ) from None
        except OSError as error:
            # Some network file systems have no locks. There the link of the record still lets only
            # one of two writers win; the work of the other is lost.
            if error.errno not in _UNSUPPORTED:
                os.close(opened)
                raise
        self._file = opened
        os.ftruncate(opened, 0)
        os.pwrite(opened, msgspec.json.encode(_Holder(os.getpid(), socket.gethostname(), since)), 0)

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def _holder(self) -> str:
        try:
            holder = msgspec.json.decode(self._path.read_bytes(), type=_Holder)
        except (OSError, msgspec.MsgspecError):
            return "locked by another process"
        return f"locked by process {holder.pid} on {holder.host} since {holder.since}"
