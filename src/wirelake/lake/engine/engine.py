"""The engine of a lake: advances it by one committed step after another.

    with Writer(root, create=settings.to_record()) as writer:
        Engine(workers, writer, settings).advance(inputs)

Batch runs and streams both call it. The tables depend only on the files that were admitted, not on
the steps in which they arrived. `docs/concepts/lake.md` describes a step: decode each source
(`decoding.py`), fold tunnels (`tunnels.py`), merge what crosses connections
(`cross_connection.py`), count roll-ups (`rollups.py`), commit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from wirelake.records.schema import schema
from wirelake.tables.parquet import ParquetOut, added_file
from wirelake.tables.paths import DamagedError, LakeError, absolute_path
from wirelake.tables.snapshot import AddedFile, Input, Record
from wirelake.tables.writer import Writer

from .cross_connection import merge
from .decoding import STATE, Decoded, DecodeTask, decode
from .settings import Settings
from .step import Step
from .tasks import NO_ROOM, Workers, shares_of
from .tunnels import (
    EVENTS,
    IN_TUNNELS,
    PARTS,
    SHARES,
    Tunnelled,
    TunnelTask,
    shares_of_tasks,
    tunnel,
)
from .tunnels import STATE as TUNNEL_STATE
from .watermarks import Reached, complete_ns, expected_ns, watermark_ns

__all__ = ["Engine", "OnStep"]

OnStep = Callable[[str], None]
"""Called with the name of each stage of a step before it starts."""
_Mtimes = dict[str, list[int]]
"""Modification times of the files of each source, in reading order."""

_CONSUMED: Final = "_connections"
"""A table whose final rows are consumed within a step."""
_DETAILS: Final = {
    "late_file": "a later file of its source was read before it came",
    "vanished_file": "it was gone when its turn had come",
    "unreadable_file": "it could not be opened",
}


class _UnreadableError(Exception):
    """A capture that no longer exists or cannot be read."""

    def __init__(self, path: str, code: str):
        super().__init__(path)
        self.path = path
        self.code = code


class Engine:
    """Advances a lake."""

    def __init__(
        self,
        workers: Workers,
        writer: Writer,
        settings: Settings,
        *,
        keys: Iterable[str] = (),
        lateness_s: float = 600,
        window_bytes: int | None = None,
        on_step: OnStep | None = None,
    ):
        """`lateness_s` is how far sources may be apart."""
        self._workers = workers
        self._writer = writer
        self._settings = settings.agreed(writer.snapshot.settings)
        self._keys = tuple(str(absolute_path(each)) for each in keys)
        self._lateness_ns = int(lateness_s * 1e9)
        self._window_bytes = window_bytes
        self._on_step = on_step or (lambda _: None)
        self._checked: set[str] = set()

    def advance(self, inputs: Sequence[Input], unread_ns: int | None = None) -> Record | None:
        """Read captures in order and commit the result; None without captures.

        `unread_ns` is the time of the first packet in captures that are listed but not read in this
        step: up to that time nothing is settled.

        Captures with a fault are not read, only reported. A capture that turns out to be missing or
        unreadable gets a fault, and the step is repeated without it. Raises LakeError if nothing
        was committed.
        """
        wanted = list(inputs)
        while wanted:
            try:
                # Nothing of a failed step is committed, so it is simply repeated. Each round marks
                # one more file, so the loop ends.
                return self._step(wanted, unread_ns)
            except _UnreadableError as found:
                wanted = [_with_fault(each, found) for each in wanted]
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                why = f"cannot write to {self._writer.layout.root}: {os.strerror(error.errno)}"
                raise LakeError(f"{why}; free disk space and run again") from error
        return None

    # -- one step ------------------------------------------------------------------------------

    def _step(self, inputs: Sequence[Input], unread_ns: int | None) -> Record:
        began = time.monotonic()
        good = [each for each in inputs if each.fault is None]
        with self._writer.begin() as transaction:
            step = Step(self._writer, transaction, self._checked)
            mtimes = self._mtimes(good)
            self._on_step("decode")
            # The order of the stages follows from what they read: tunnels need the events of all
            # sources, and `merge` the calls and connections of both.
            self._decode(step, good, mtimes)
            self._refuse(step, [each for each in inputs if each.fault is not None])
            if not IN_TUNNELS.isdisjoint(self._settings.tables):
                self._on_step("tunnels")
                self._tunnels(step, mtimes, unread_ns)
            self._on_step("join")
            # Capture time, not the clock: a run over old captures gives the same rows at any date.
            now_ns = complete_ns(_reached(step, mtimes), self._lateness_ns, unread_ns)
            merge(self._workers, step, self._settings, now_ns)
            # Final connections are in `connections` now, with their predecessor. Provisional ones
            # stay, because another source may still change that predecessor.
            step.remove(step.new(_CONSUMED, provisional=False))
            rows = step.apply()
            for each in inputs:
                # In the record that names the new files: so each capture counts exactly once.
                transaction.consume(each)
            figures: dict[str, Any] = {
                "rows": {table: count for table, count in rows.items() if table[0] != "_"},
                "seconds": round(time.monotonic() - began, 3),
                "bytes": sum(each.bytes for each in good),
            }
            return transaction.commit("advance", figures, on_step=self._on_step)

    def _mtimes(self, inputs: Sequence[Input]) -> _Mtimes:
        """Return the modification times of the files of each source."""
        found: _Mtimes = {}
        sources = self._writer.snapshot.sources.values()
        for each in (*(each for source in sources for each in source.inputs), *inputs):
            if each.fault is None:
                found.setdefault(each.source, []).append(each.mtime_ns)
        return found

    def _decode(self, step: Step, inputs: Sequence[Input], mtimes: _Mtimes) -> None:
        by_source: dict[str, list[Input]] = {}
        for each in inputs:
            by_source.setdefault(each.source, []).append(each)
        sizes = {source: sum(i.bytes for i in files) for source, files in by_source.items()}
        shares = shares_of(sizes, self._workers.count())
        tasks = [
            DecodeTask(
                source=source,
                files=tuple(each.path for each in files),
                sequences=tuple(each.sequence for each in files),
                share=share,
                shares=shares[source],
                states=step.paths(_of_source(step.kept(STATE), source)),
                work=step.work("decode"),
                settings=self._settings,
                keys=self._keys,
                window_bytes=self._window_bytes,
            )
            # The largest first, so that a long task does not start when all others are done.
            for source, files in sorted(by_source.items(), key=lambda item: -sizes[item[0]])
            for share in range(shares[source])
        ]
        done = self._workers.run(decode, tasks, Decoded)
        for result in done:
            _check(result)
        for source in by_source:
            mine = [each for each in done if each.source == source]
            self._replace(step, source, mine, mtimes[source][-1])

    def _replace(self, step: Step, source: str, done: Sequence[Decoded], mtime_ns: int) -> None:
        """Replace the state and the provisional files of a source."""
        before = _of_source(step.kept(STATE), source)
        times = [file.max_ns for file in before if file.max_ns is not None]
        times.append(_watermark(done, mtime_ns))
        waiting_ns = min(
            (each.waiting_ns for each in done if each.waiting_ns is not None), default=None
        )
        for table in step.tables():
            # What the last step wrote for the case that the source ended there. It did not.
            step.remove(file for file in _of_source(step.kept(table), source) if file.provisional)
        step.remove(before)
        for each in done:
            written = [
                msgspec.structs.replace(file, min_ns=waiting_ns, max_ns=max(times))
                if file.table == STATE
                else file
                for file in each.written
            ]
            step.add(written, source=source, share=each.share, shares=each.shares)

    def _refuse(self, step: Step, refused: Sequence[Input]) -> None:
        """Report captures that are not read in `faults`."""
        if not refused:
            return
        columns = schema("faults")
        rows = [
            {
                "file": each.path,
                "offset": 0,
                "present_bytes": each.bytes,
                "missing_bytes": 0,
                "code": each.fault,
                "detail": _DETAILS[each.fault or ""],
            }
            for each in refused
        ]
        path = f"{step.work('refused')}/refused.parquet"
        with ParquetOut(path, columns) as out:
            out.write(pa.RecordBatch.from_pylist(rows, columns))
        step.add([added_file("faults", path)])

    def _tunnels(self, step: Step, mtimes: _Mtimes, unread_ns: int | None) -> None:
        # A lake without relay traffic does not pay for a task in each step.
        if not step.touched(EVENTS):
            return
        states = step.kept(TUNNEL_STATE)
        step.paths(states)
        waited = step.kept(EVENTS, provisional=False)
        final = sorted(step.new(EVENTS, provisional=False), key=_place)
        provisional = sorted(step.files(EVENTS, provisional=True), key=_place)
        until_ns = expected_ns(_reached(step, mtimes), self._lateness_ns, unread_ns)
        events = sum(file.rows for file in (*waited, *final, *provisional))
        tasks = [
            TunnelTask(
                shares=shares,
                waiting=step.paths(waited),
                final=step.paths(final),
                provisional=step.paths(provisional),
                until_ns=until_ns,
                states={file.share or 0: file.path for file in states if file.share in shares},
                work=step.work("tunnels"),
                tables=self._settings.tables,
            )
            for shares in shares_of_tasks(events)
        ]
        done = self._workers.run(tunnel, tasks, Tunnelled)
        for each in done:
            if each.failure is not None:
                raise DamagedError(each.failure)
        # Events are consumed here: folded into the state, or written again because they wait.
        step.remove([*states, *waited, *final])
        # Provisional files of connections belong to a source.
        for table in ("tunnels", "calls", *PARTS):
            provisional = step.kept(table, provisional=True)
            step.remove(file for file in provisional if file.source is None)
        for each in done:
            step.add(each.written)
            for share, state in each.states.items():
                step.add([state], share=share, shares=SHARES)


# -- helpers ------------------------------------------------------------------------------------


def _of_source(files: Iterable[AddedFile], source: str) -> list[AddedFile]:
    return [file for file in files if file.source == source]


def _place(file: AddedFile) -> tuple[str, int]:
    """Return the place of a file of events, which does not depend on the order of tasks."""
    return file.source or "", file.share or 0


def _watermark(done: Sequence[Decoded], mtime_ns: int) -> int:
    """Return the watermark of a source after a step."""
    found = watermark_ns((ts_ns for each in done for ts_ns in each.latest), mtime_ns)
    if found is not None:
        return found
    times = (file.max_ns for each in done for file in each.written if file.max_ns is not None)
    return min(max(times, default=0), mtime_ns)


def _reached(step: Step, mtimes: _Mtimes) -> dict[str, Reached]:
    """Return the progress of each source after this step."""
    found: dict[str, Reached] = {}
    for file in step.files(STATE):
        if file.source is not None and file.max_ns is not None:
            read = mtimes[file.source]
            found[file.source] = Reached(min(file.max_ns, read[-1]), read, file.min_ns)
    return found


def _check(done: Decoded) -> None:
    failure = done.failure
    if failure is None:
        return
    if failure.path is not None and failure.code is not None:
        raise _UnreadableError(failure.path, failure.code)
    raise DamagedError(failure.text)


def _with_fault(each: Input, found: _UnreadableError) -> Input:
    if each.path != found.path:
        return each
    return msgspec.structs.replace(each, fault=found.code)
