"""Run a lake: once over the captures that exist, or continuously as they arrive."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from wirelake.capture.decode.decryption import KeyRing
from wirelake.tables.inputs import (
    LATENESS_S,
    SETTLE_S,
    Admission,
    Capture,
    Watch,
    admit,
    check_readable,
    unchanged,
)
from wirelake.tables.maintenance import compact_with, expire_with
from wirelake.tables.paths import LakeError, absolute_path
from wirelake.tables.snapshot import Input, Record
from wirelake.tables.writer import Writer

from .decoding import check_states
from .engine import Engine, OnStep
from .settings import Settings
from .tasks import Workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Committed", "Outcome", "run"]

STEP_BYTES: Final = 4 << 30
"""Maximum bytes of captures in a step: the work that is lost when a run is killed."""
COMPACT_FILES: Final = 64
"""Small files of a table and protocol that are merged after a step. A step adds one or two, and
merging reads and writes all of them again."""
_EXPIRE_EVERY_S: Final = 3_600.0
"""Interval at which a run looks for old data: files cover minutes to hours."""
_LOOK_AGAIN_S: Final = 1.0
"""A file that does not grow for this long is complete."""


class Committed(msgspec.Struct, frozen=True):
    """A commit of a run."""

    record: Record
    waiting: list[tuple[Capture, str]]
    """Captures that are not in the lake yet, and why."""


class Outcome(msgspec.Struct):
    """Totals of a run."""

    commits: int = 0
    files: int = 0
    refused: list[Input] = []
    waiting: list[tuple[Capture, str]] = []
    """Captures that are not in the lake yet, and why."""
    open: list[Capture] = []
    """Recordings that were left out because they are not sealed."""
    rows: dict[str, int] = {}
    """New final rows by table."""
    bytes: int = 0
    seconds: float = 0.0

    def add(self, record: Record) -> None:
        """Add a commit."""
        self.commits += 1
        self.files += sum(each.fault is None for each in record.inputs)
        self.refused += [each for each in record.inputs if each.fault is not None]
        for table, count in record.figures.get("rows", {}).items():
            self.rows[table] = self.rows.get(table, 0) + count
        self.bytes += record.figures.get("bytes", 0)


class Run:
    """One run of a lake, while it holds the lock."""

    def __init__(
        self,
        engine: Engine,
        writer: Writer,
        captures: str,
        *,
        pattern: str | None,
        lateness_s: float,
        settle_s: float,
        max_files: int | None,
        max_bytes: int | None,
        include_open: bool,
        compact_files: int,
        retention: Mapping[str, float],
        committed: Callable[[Committed], None],
        until: Callable[[], bool],
    ):
        self._engine = engine
        self._writer = writer
        self._watch = Watch(captures, pattern, include_open=include_open)
        self._lateness_s = lateness_s
        self._settle_s = settle_s
        self._max_files = max_files
        self._max_bytes = max_bytes or STEP_BYTES
        self._compact_files = compact_files
        self._retention = retention
        self._next_expiry_s = time.monotonic()
        self._committed = committed
        self._until = until
        self.outcome = Outcome(refused=[], waiting=[], open=[], rows={})

    def once(self) -> None:
        """Read the captures that exist, in as many steps as needed."""
        # Listed once: captures that arrive meanwhile are left to the next run, so a run ends.
        captures, still = self._settled()
        while not self._until():
            admission = self._admission(captures, still=still)
            if not self._advance(admission):
                return

    def up_to(self, sequences: Mapping[str, int]) -> None:
        """Read up to sequences that a stream has admitted."""
        captures = self._watch.look()
        while not self._until():
            found = admit(
                captures,
                self._writer.snapshot,
                time.time_ns(),
                # The stream has applied both bounds when it admitted these sequences.
                lateness_s=0,
                settle_s=0,
                up_to=sequences,
                max_files=self._max_files,
                max_bytes=self._max_bytes,
            )
            if not self._advance(check_readable(found)):
                return

    def refuse_late(self) -> None:
        """Report captures that came too late, although there is nothing else to read.

        The stream does not see them: it looks for captures after those that it has offered.
        """
        found = admit(self._watch.look(), self._writer.snapshot, time.time_ns(), up_to={})
        if found.refused:
            self._advance(Admission(refused=found.refused, waiting=self.outcome.waiting))

    def maintain(self) -> None:
        """Merge small files and remove old data, if it is due."""
        if self._compact_files:
            merged = compact_with(
                self._writer, min_files=self._compact_files, by_day=self._retention.keys()
            )
            self._maintained(merged)
        if self._retention and time.monotonic() >= self._next_expiry_s:
            self._maintained(expire_with(self._writer, self._retention))
            self._next_expiry_s = time.monotonic() + _EXPIRE_EVERY_S

    def _maintained(self, record: Record | None) -> None:
        if record is not None:
            self._committed(Committed(record, self.outcome.waiting))

    def cursors(self) -> dict[str, int]:
        """Return the last sequence of each source in the lake."""
        sources = self._writer.snapshot.sources
        return {name: each.last for name, each in sources.items() if each.last is not None}

    def _settled(self) -> tuple[list[Capture], frozenset[str]]:
        """Return the captures, and which of them do not grow."""
        found = self._watch.look()
        fresh = time.time_ns() - self._settle_s * 1e9
        if not any(not each.is_recording and each.mtime_ns > fresh for each in found):
            return found, frozenset()
        # A run that ends does not wait for `settle` but looks twice (docs/concepts/lake.md, Sources
        # and admission).
        time.sleep(_LOOK_AGAIN_S)
        again = self._watch.look()
        return again, unchanged(found, again)

    def _admission(self, captures: Iterable[Capture], *, still: frozenset[str]) -> Admission:
        return check_readable(
            admit(
                captures,
                self._writer.snapshot,
                time.time_ns(),
                lateness_s=self._lateness_s,
                settle_s=self._settle_s,
                still=still,
                max_files=self._max_files,
                max_bytes=self._max_bytes,
            )
        )

    def _advance(self, admission: Admission) -> bool:
        """Advance the engine. Returns whether there was anything to do."""
        self.outcome.waiting, self.outcome.open = admission.waiting, self._watch.open
        begins = [each.begin_ns for each, _ in admission.waiting if each.begin_ns is not None]
        record = self._engine.advance(
            [*admission.admitted, *admission.refused], unread_ns=min(begins, default=None)
        )
        if record is None:
            return False
        self.outcome.add(record)
        self._committed(Committed(record, admission.waiting))
        self.maintain()
        return True


def run(
    lake: str | os.PathLike[str],
    captures: str | os.PathLike[str],
    *,
    spark: Callable[[], SparkSession] | None = None,
    workers: Workers | None = None,
    settings: Settings | None = None,
    keys: Collection[str] = (),
    stream: bool = False,
    available_now: bool = False,
    trigger_s: float = 10.0,
    max_files: int | None = None,
    max_bytes: int | None = None,
    lateness_s: float = LATENESS_S,
    settle_s: float = SETTLE_S,
    include_open: bool = False,
    fsync: bool = True,
    compact_files: int = COMPACT_FILES,
    retention: Mapping[str, float] | None = None,
    window_bytes: int | None = None,
    committed: Callable[[Committed], None] = lambda _: None,
    until: Callable[[], bool] = lambda: False,
    on_step: OnStep | None = None,
) -> Outcome:
    """Advance a lake; create it if it does not exist.

    `spark` is called only after the lake was checked: a session takes seconds to start. Tasks run
    in its workers, or in `workers`; a stream needs a session in either case. Without
    `settings` an existing lake keeps its own and a new one gets the defaults. With `stream` it runs
    until `until` returns true or a signal arrives, or (`available_now`) until everything is read.
    `include_open` also reads recordings that a killed recorder has left; not in a stream.

    After a step, a table with at least `compact_files` small files is compacted (0: never), and
    rows older than the `retention` of their table, in seconds, are removed: the lock of a stream
    keeps other processes from doing it.
    """
    began = time.monotonic()
    folder = str(absolute_path(captures))
    made = settings or Settings()
    Watch(folder, made.source_pattern).look()
    _check_keys(keys)
    with Writer(lake, create=made.to_record(), fsync=fsync) as writer:
        chosen = settings or Settings.of_record(writer.snapshot.settings)
        check_states(writer)
        session = None if spark is None else spark()
        if workers is None:
            if session is None:
                raise ValueError("expected spark or workers")
            from .spark_workers import SparkWorkers

            workers = SparkWorkers(session)
        engine = Engine(
            workers,
            writer,
            chosen,
            keys=keys,
            lateness_s=lateness_s,
            window_bytes=window_bytes,
            on_step=on_step,
        )
        found = Run(
            engine,
            writer,
            folder,
            pattern=chosen.source_pattern,
            lateness_s=lateness_s,
            settle_s=settle_s,
            max_files=max_files,
            max_bytes=max_bytes,
            include_open=include_open,
            compact_files=compact_files,
            retention=retention or {},
            committed=committed,
            until=until,
        )
        if stream:
            from .streaming import follow

            follow(
                session,  # type: ignore[arg-type]
                folder,
                found.up_to,
                start=found.cursors(),
                trigger_s=trigger_s,
                available_now=available_now,
                max_files=max_files,
                max_bytes=max_bytes,
                until=until,
                idle=found.refuse_late,
                lateness=str(lateness_s),
                settle=str(settle_s),
                source_pattern=chosen.source_pattern or "",
            )
            if available_now:
                found.refuse_late()
        else:
            found.once()
        found.maintain()
    found.outcome.seconds = time.monotonic() - began
    return found.outcome


def _check_keys(keys: Collection[str]) -> None:
    """Raise LakeError for a key log that cannot be read: a task would find out much later."""
    ring = KeyRing()
    for each in keys:
        try:
            ring.load(absolute_path(each))
        except OSError as error:
            raise LakeError(f"{each}: cannot read the key log: {error.strerror}") from error
        except ValueError as error:
            raise LakeError(str(error)) from None
