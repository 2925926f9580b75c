"""Runs a lake: over the captures that are there now, or on and on as they come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from wirelake.tables.entries import Input, Record
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
from wirelake.tables.writer import Writer

from .engine import Engine, OnStep
from .settings import Settings
from .streaming import follow
from .tasks import workers_of

__all__ = ["Committed", "Outcome", "run"]

STEP_BYTES: Final = 4 << 30
"""So many bytes of captures make a step at most: what is lost when it is killed."""
_LOOK_AGAIN_S: Final = 1.0
"""After this long, a file that has not grown is taken to be complete."""


class Committed(msgspec.Struct, frozen=True):
    """What a run tells about each commit."""

    record: Record
    waiting: list[tuple[Capture, str]]
    """Captures that are not in, and why."""


class Outcome(msgspec.Struct):
    """What a run has done."""

    commits: int = 0
    files: int = 0
    refused: list[Input] = []
    waiting: list[tuple[Capture, str]] = []
    """Captures that are not in, and why."""
    rows: dict[str, int] = {}
    """New, final rows of each table."""
    bytes: int = 0
    seconds: float = 0.0

    def add(self, record: Record) -> None:
        """One more commit."""
        self.commits += 1
        self.files += sum(each.fault is None for each in record.inputs)
        self.refused += [each for each in record.inputs if each.fault is not None]
        for table, count in record.figures.get("rows", {}).items():
            self.rows[table] = self.rows.get(table, 0) + count
        self.bytes += record.figures.get("bytes", 0)


class Run:
    """One run of a lake, from taking its lock to letting it go."""

    def __init__(
        self,
        engine: Engine,
        writer: Writer,
        captures: str,
        *,
        lateness_s: float,
        settle_s: float,
        max_files: int | None,
        max_bytes: int | None,
        committed: Callable[[Committed], None],
        until: Callable[[], bool],
    ):
        self._engine = engine
        self._writer = writer
        self._watch = Watch(captures)
        self._lateness_s = lateness_s
        self._settle_s = settle_s
        self._max_files = max_files
        self._max_bytes = max_bytes or STEP_BYTES
        self._committed = committed
        self._until = until
        self.outcome = Outcome(refused=[], waiting=[], rows={})

    def once(self) -> None:
        """Reads what is there now, in as many steps as it takes."""
        captures, still = self._settled()
        while not self._until():
            admission = self._admission(captures, still=still)
            if not self._advance(admission):
                return

    def up_to(self, sequences: Mapping[str, int]) -> None:
        """Reads up to these sequences, which a stream has admitted."""
        captures = self._watch.look()
        while not self._until():
            found = admit(
                captures,
                self._writer.snapshot,
                time.time_ns(),
                lateness_s=0,
                settle_s=0,
                up_to=sequences,
                max_files=self._max_files,
                max_bytes=self._max_bytes,
            )
            if not self._advance(check_readable(found)):
                return

    def cursors(self) -> dict[str, int]:
        """The last sequence of each source that is in."""
        sources = self._writer.snapshot.sources
        return {name: each.last for name, each in sources.items() if each.last is not None}

    def _settled(self) -> tuple[list[Capture], frozenset[str]]:
        """The captures, and which of them do not grow."""
        found = self._watch.look()
        fresh = time.time_ns() - self._settle_s * 1e9
        if not any(not each.is_recording and each.mtime_ns > fresh for each in found):
            return found, frozenset()
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
        """Whether there was anything to do."""
        self.outcome.waiting = admission.waiting
        record = self._engine.advance([*admission.admitted, *admission.refused])
        if record is None:
            return False
        self.outcome.add(record)
        self._committed(Committed(record, admission.waiting))
        return True


def run(
    lake: str | os.PathLike[str],
    captures: str | os.PathLike[str],
    *,
    spark: Callable[[], SparkSession],
    settings: Settings | None = None,
    keys: Iterable[str] = (),
    stream: bool = False,
    available_now: bool = False,
    trigger_s: float = 10.0,
    max_files: int | None = None,
    max_bytes: int | None = None,
    lateness_s: float = LATENESS_S,
    settle_s: float = SETTLE_S,
    fsync: bool = False,
    window_bytes: int | None = None,
    committed: Callable[[Committed], None] = lambda _: None,
    until: Callable[[], bool] = lambda: False,
    on_step: OnStep | None = None,
) -> Outcome:
    """Takes a lake forward; makes it when there is none.

    `spark` is called when the lake is known to be good: sessions take seconds to start. Without
    `settings`, a lake has those that it was made with, a new one the defaults. With `stream` it
    goes on until `until` says so or a signal comes, or (`available_now`) until all is read.
    """
    began = time.monotonic()
    folder = os.path.abspath(captures)
    Watch(folder).look()
    made = settings or Settings()
    with Writer(lake, create=made.to_record(), fsync=fsync) as writer:
        chosen = settings or Settings.of_record(writer.snapshot.settings)
        session = spark()
        engine = Engine(
            session,
            writer,
            chosen,
            keys=keys,
            workers=workers_of(session),
            lateness_s=lateness_s,
            window_bytes=window_bytes,
            on_step=on_step,
        )
        found = Run(
            engine,
            writer,
            folder,
            lateness_s=lateness_s,
            settle_s=settle_s,
            max_files=max_files,
            max_bytes=max_bytes,
            committed=committed,
            until=until,
        )
        if stream:
            follow(
                session,
                folder,
                found.up_to,
                start=found.cursors(),
                trigger_s=trigger_s,
                available_now=available_now,
                max_files=max_files,
                max_bytes=max_bytes,
                until=until,
                lateness=str(lateness_s),
                settle=str(settle_s),
            )
        else:
            found.once()
    found.outcome.seconds = time.monotonic() - began
    return found.outcome
