"""Writes a lake: one writer at a time, one transaction after the other.

    with Writer("lake") as writer:
        with writer.begin() as step:
            path = step.work("task-0") / "comet.parquet"
            ...                                     # tasks write files
            step.add("messages", path, protocol="comet")
            step.consume(capture)
            step.commit("advance", {"seconds": 2.5})

A transaction that is not committed leaves nothing behind. What is done when a process is killed at
any place is in `docs/concepts/lake.md`, section *How a commit is made*.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from wirelake.capture.format.output import sync_folder
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
from .entries import (
    FORMAT,
    AddedFile,
    Input,
    Kind,
    Record,
    iso_time,
)
from .errors import LakeError
from .lock import Lock
from .log import CHECKPOINT_EVERY, Log
from .parquet import stats
from .paths import Layout, table_of
from .snapshot import Snapshot

__all__ = ["Transaction", "Writer"]

OnStep = Callable[[str], None]
_OURS = frozenset({"_log", "_staging", "_lock"})


def _quietly(_: str) -> None:
    """What is done before a step when nobody wants to know."""


class Writer:
    """The one writer of a lake, from entering to leaving."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        create: Mapping[str, Any] | None = None,
        fsync: bool = False,
        keep_s: float = KEPT_S,
        keep_commits: int = KEPT_COMMITS,
        clock: Callable[[], int] = time.time_ns,
    ):
        """`create`: the settings with which the lake is made if there is none. `fsync`: data files
        are on disk before their record is. `keep_s` and `keep_commits`: for how long files that
        were removed stay on disk."""
        self.log = Log(root)
        self.layout: Layout = self.log.layout
        self.snapshot = Snapshot()
        """What the lake is; moves on with each commit."""
        self.fsync = fsync
        self.clock = clock
        self._create = create
        self._keep = (keep_s, keep_commits)
        self._lock = Lock(self.layout.lock)
        self._checkpointed = -1

    def __enter__(self) -> Writer:
        exists = self.log.exists()
        if not exists:
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
        """Begins the next commit. What an error kept from its place is moved there first."""
        if self.snapshot.staging and (self.layout.staging / self.snapshot.staging).is_dir():
            finish_staging(self.layout)
        return Transaction(self)

    def sweep(self) -> int:
        """Deletes files that were removed long enough ago; tells how many bytes."""
        keep_s, keep_commits = self._keep
        return sweep_removed(
            self.layout, self.snapshot, self.clock(), keep_s=keep_s, keep_commits=keep_commits
        )

    def checkpoint(self) -> None:
        """Writes everything up to now into one file, so that readers need fewer."""
        removed = self.snapshot.removed
        self.snapshot.removed = {
            path: each for path, each in removed.items() if self.layout.place(path).exists()
        }
        self.log.checkpoint(self.snapshot)
        self._checkpointed = self.snapshot.commit

    def applied(self, record: Record) -> None:
        """A record was committed."""
        self.snapshot.apply(record)

    def checkpoint_is_due(self) -> bool:
        """Whether there were enough commits since the last checkpoint."""
        return self.snapshot.commit - self._checkpointed >= CHECKPOINT_EVERY

    def _check_new(self) -> None:
        root = self.layout.root
        if self._create is None:
            raise LakeError(f"{root}: there is no lake; `wirelake lake run` makes one")
        if root.exists() and not root.is_dir():
            raise LakeError(f"{root}: a file, no folder")
        if root.is_dir() and not {each.name for each in root.iterdir()} <= _OURS:
            raise LakeError(f"{root}: neither empty nor a lake; name another folder")

    def _open(self) -> None:
        if not self.log.exists():
            finish_staging(self.layout)
            with self.begin() as step:
                step.commit("create", settings=dict(self._create or {}))
            return
        self.snapshot = self.log.snapshot()  # first: a lake that is too new is left alone
        finish_staging(self.layout)
        self._checkpointed = self.log.last_checkpoint()
        self.sweep()


class Transaction:
    """What is about to be committed."""

    def __init__(self, writer: Writer):
        self._writer = writer
        self.number = writer.snapshot.commit + 1
        """The number of the commit that it will be."""
        self.id = f"{self.number}-{secrets.token_hex(3)}"
        self.folder = writer.layout.staging / self.id
        """Its folder in staging."""
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

    # -- what is in it -----------------------------------------------------------------------

    def work(self, name: str) -> Path:
        """A folder for the files of a task."""
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
    ) -> AddedFile:
        """Adds a file that a task wrote. Without `rows`, what its footer says is taken."""
        file = Path(path)
        if not file.is_relative_to(self.folder / "work"):
            raise ValueError(f"{file}: not in a folder that work() gave")
        if rows is None:
            known = stats(file)
            rows, min_ns, max_ns = known.rows, known.min_ns, known.max_ns
        found = AddedFile(
            table=table,
            path=self._free_path(table, file),
            rows=rows,
            bytes=file.stat().st_size,
            min_ns=min_ns,
            max_ns=max_ns,
            provisional=provisional,
            protocol=protocol,
            source=source,
            share=share,
            shares=shares,
        )
        self._added[found.path] = (file, found)
        return found

    def remove(self, path: str) -> None:
        """A file of the lake no longer counts."""
        if path not in self._writer.snapshot.tables.get(table_of(path), {}):
            raise ValueError(f"{path}: no file of the lake")
        self._removed[path] = None

    def consume(self, capture: Input) -> None:
        """A capture was read, or refused."""
        self._inputs.append(capture)

    def _free_path(self, table: str, file: Path) -> str:
        """The file's own name, with a number when another task chose the same."""
        name, number = file.name, 1
        while (path := f"{table}/{self.number}/{name}") in self._added:
            number += 1
            name = f"{file.stem}-{number}{file.suffix}"
        return path

    # -- how it ends -------------------------------------------------------------------------

    def commit(
        self,
        kind: Kind,
        figures: Mapping[str, Any] | None = None,
        *,
        settings: dict[str, Any] | None = None,
        on_step: OnStep = _quietly,
    ) -> Record:
        """Makes it count, all at once. `on_step` is told the name of each step before it is done:
        collect, record, link, forward:<table>, checkpoint, sweep. Raises LakeError when another
        writer was faster; then, and after any error before `link`, nothing is left behind."""
        if self._done:
            raise ValueError("this transaction is over")
        writer = self._writer
        try:
            on_step("collect")
            self._collect()
            on_step("record")
            record = self._record(kind, figures or {}, settings)
            part = self.folder / "record.json"
            writer.log.prepare(record, part)
            on_step("link")
            writer.log.link(part, self.number)
        except BaseException:
            self.abort()
            raise
        self._done = True
        writer.applied(record)
        forward(writer.layout, record, on_step, sync=writer.fsync)
        if writer.checkpoint_is_due():
            on_step("checkpoint")
            with contextlib.suppress(OSError):  # a full disk: the records are there without it
                writer.checkpoint()
        on_step("sweep")
        delete_staging(writer.layout, record)
        writer.sweep()
        return record

    def abort(self) -> None:
        """Leaves nothing behind. Does nothing after a commit."""
        if self._done:
            return
        self._done = True
        if record_of(self._writer.layout, self.id) is None:  # else only the news of it was lost
            shutil.rmtree(self.folder, ignore_errors=True)

    def _collect(self) -> None:
        """Moves the files of tasks to where the record will say they are."""
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
            settings=settings,
            inputs=self._inputs,
            add=[added for _, added in self._added.values()],
            remove=list(self._removed),
            staging=self.id,
            figures=dict(figures),
        )
