"""Compare a lake with a replay of its captures.

    report = verify("lake", shares=16)
    assert report.ok, report.findings()

Four steps: the log and its files agree (`wirelake.tables.check`); the roll-ups are what plain
Python counts in the tables of the lake; each source, replayed by the reference reader and the
engines, has the rows that the lake has; and so do clients and tunnels over all sources. A sample
is one of `shares` parts of everything, another one after each commit.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from wirelake.capture.processes import process_pool
from wirelake.records.rollups import INPUTS, rollup
from wirelake.records.rows import Event
from wirelake.records.schema import schema
from wirelake.tables.check import check
from wirelake.tables.log import Log
from wirelake.tables.names import contents, is_time
from wirelake.tables.paths import absolute_path
from wirelake.tables.snapshot import Input, Snapshot

from ..engine.settings import Settings
from .merge import merge
from .replay import Replayed, ReplayTask, Selection, replay, select
from .rows import Difference, LakeRows, Report, Row, differences, normalized

__all__ = ["verify"]

_SHARD_BYTES: Final = 64 << 20
"""Captures of which one worker keeps the rows at a time: they take about 20 times as much memory
as Python objects."""
_PARALLEL_BYTES: Final = 8 << 20
"""Less than this is replayed in this process: a worker takes seconds to import what it needs."""
_FROM_CAPTURES: Final = ("messages", "faults", "coverage", "calls", "connections", "deliveries",
                         "tunnels")  # fmt: skip


def verify(
    lake: str | os.PathLike[str],
    *,
    shares: int = 16,
    keys: Iterable[str] = (),
    processes: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Compare one of `shares` parts of a lake with its captures; 1 compares everything.

    `keys` are the key logs that the lake was made with. `processes` is the number of workers
    (default: one for each core, or this process alone for small captures). Raises LakeError when
    there is no lake.
    """
    began = time.monotonic()
    log = Log(lake)
    snapshot = log.snapshot()
    report = Report(
        os.fspath(lake), snapshot.commit, "1" if shares == 1 else f"1/{shares}", rows={}
    )
    progress("log and files")
    report.problems = [str(each) for each in check(lake) if not each.harmless]
    if not report.problems:
        report.versions = _versions(log)
        report.skipped += _unchecked(snapshot)
        key_logs = tuple(str(absolute_path(each)) for each in keys)
        found = _Verification(log, snapshot, report, shares, key_logs, processes, progress)
        found.rollups()
        found.captures()
    report.seconds = round(time.monotonic() - began, 3)
    return report


class _Verification:
    def __init__(
        self,
        log: Log,
        snapshot: Snapshot,
        report: Report,
        shares: int,
        keys: tuple[str, ...],
        processes: int | None,
        progress: Callable[[str], None],
    ):
        self._snapshot = snapshot
        self._report = report
        self._shares, self._share = shares, _share(snapshot.commit, shares)
        self._keys = keys
        self._processes = processes
        self._progress = progress
        self._settings = Settings.of_record(snapshot.settings)
        self._expired_ns = _expired_ns(log)
        self._lake = LakeRows(report.lake, snapshot.commit)
        self._skip_outdated()

    def _skip_outdated(self) -> None:
        """Report the columns that an older version did not write."""
        for table in self._settings.tables:
            for protocol in self._lake.protocols(table):
                columns = self._lake.outdated(table, protocol)
                if columns:
                    name = table if protocol is None else f"{table} ({protocol})"
                    self._report.skipped.append(
                        f"{name}: {', '.join(columns)}: an older version wrote some of its files"
                    )

    # -- roll-ups ----------------------------------------------------------------------------

    def rollups(self) -> None:
        """Count sampled minutes again, in the tables of the lake."""
        names = [name for name in INPUTS if name in self._settings.tables]
        if self._expired_ns is not None:
            self._report.skipped += [f"{name}: rows it counts have expired" for name in names]
            return
        minutes: set[int | None] = set()
        for name in names:
            self._progress(f"table {name}")
            inputs = {
                table: self._minutes(table, columns) for table, columns in INPUTS[name].items()
            }
            expected = normalized(name, rollup(name, **inputs))
            actual = list(self._minutes(name, schema(name).names))
            minutes |= {row["minute_ns"] for row in (*actual, *expected)}
            self._report.count(name, len(actual))
            without = self._lake.outdated(name)
            self._report.add(differences(name, actual, expected, without=without))
        self._report.minutes = len(minutes - {None})

    def _minutes(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of sampled minutes, and those that have no time."""
        sample = Selection(self._share, self._shares)
        for batch in self._lake.batches(table, columns):
            sampled = pc.fill_null(sample.minutes(_times(table, batch)), True)
            yield from batch.filter(sampled).to_pylist()

    # -- captures ----------------------------------------------------------------------------

    def captures(self) -> None:
        """Replay the captures of all sources."""
        if not any(name in self._settings.tables for name in _FROM_CAPTURES):
            return
        # Per source, as the lake read them. A source of which one capture is gone is not replayed
        # at all: every row after the gap would differ.
        files = self._files()
        if not files:
            return
        every = [path for paths in files.values() for path in paths]
        self._report.captures = len(every)
        self._report.bytes = sum(map(os.path.getsize, every))
        self._progress("captures: choosing a sample")
        selection = select(files, self._settings, self._keys, self._share, self._shares)
        found = self._replayed(self._tasks(files, selection))
        connections = set[int]().union(*(each.connections for each in found))
        self._report.connections = len(connections)
        for each in found:
            for table, rows in each.rows.items():
                self._report.count(table, rows)
            self._report.add(each.differences, each.differing)
            if each.failure is not None:
                self._report.problems.append(each.failure)
        if self._report.problems:
            return  # what crosses connections needs all captures
        self._report.add(list(self._unknown_connections(selection, connections)))
        self._progress("clients and tunnels")
        events: list[Event] = [event for each in found for event in each.events]
        merge(events, self._lake, self._settings, selection, self._expired_ns, self._report)

    def _files(self) -> dict[str, list[str]]:
        """Return the captures of each source that were read; those that are gone are a problem."""
        found: dict[str, list[str]] = {}
        for name, source in sorted(self._snapshot.sources.items()):
            paths = [each.path for each in source.inputs if each.fault is None]
            gone = [each.path for each in source.inputs if each.fault is None and _is_gone(each)]
            if gone:
                more = f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""
                self._report.problems.append(
                    f"source {name} cannot be replayed:"
                    f" {gone[0]} does not exist or was replaced{more}"
                )
            elif paths:
                found[name] = paths
        return found

    def _tasks(self, files: dict[str, list[str]], selection: Selection) -> list[ReplayTask]:
        tasks = []
        for paths in files.values():
            size = sum(map(os.path.getsize, paths)) // self._shares
            shards = max(1, -(-size // _SHARD_BYTES))
            if self._shares == 1:
                shards = max(shards, self._workers())
            tasks += [
                ReplayTask(
                    lake=self._report.lake,
                    commit=self._snapshot.commit,
                    files=tuple(paths),
                    selection=selection,
                    shard=shard,
                    shards=shards,
                    settings=self._settings,
                    keys=self._keys,
                    expired_ns=self._expired_ns,
                )
                for shard in range(shards)
            ]
        return tasks

    def _workers(self) -> int:
        if self._processes is not None:
            return self._processes
        small = self._report.bytes // self._shares < _PARALLEL_BYTES
        return 1 if small else os.cpu_count() or 1

    def _replayed(self, tasks: Sequence[ReplayTask]) -> list[Replayed]:
        workers = min(self._workers(), len(tasks))
        found: list[Replayed] = []
        if workers == 1:
            for number, task in enumerate(tasks):
                self._progress(f"captures: part {number + 1} of {len(tasks)}")
                found.append(replay(task))
            return found
        with process_pool(workers) as pool:
            futures = [pool.submit(replay, task) for task in tasks]
            for number, _ in enumerate(as_completed(futures)):
                self._progress(f"captures: {number + 1} of {len(tasks)} parts done")
            return [future.result() for future in futures]

    def _unknown_connections(self, selection: Selection, known: set[int]) -> Iterator[Difference]:
        """Yield rows of sampled connections that no capture has."""
        for table in ("coverage", "connections"):
            if table not in self._settings.tables:
                continue
            for batch in self._lake.batches(table, ("connection", "last_ns")):
                for row in batch.to_pylist():
                    if self._expired_ns is not None and row["last_ns"] < self._expired_ns:
                        continue
                    number = row["connection"]
                    if selection.has_connection(number) and number not in known:
                        yield Difference(table, {"connection": number}, None, row, None)


def _is_gone(capture: Input) -> bool:
    """Return whether a capture no longer exists, or a ring buffer has written its file again."""
    try:
        status = os.stat(capture.path)
    except OSError:
        return True
    if not is_time(capture.sequence):
        return False
    return contents(capture.path, status.st_mtime_ns).begin_ns != capture.sequence


def _versions(log: Log) -> dict[str, int]:
    """Count the commits by the version of wirelake that made them."""
    records = log.records(min(log.layout.logged()[0], default=0))
    return dict(Counter(each.version for each in records))


def _unchecked(snapshot: Snapshot) -> list[str]:
    """Return a line about files without a checksum."""
    count = sum(each.checksum is None for each in snapshot.all_files())
    return [f"checksums of {count:,} files: an older version wrote them"] if count else []


def _share(commit: int, shares: int) -> int:
    """Return the part that is compared: another one after each commit."""
    # Runs after new commits compare other parts; a run that is repeated compares the same one.
    return commit % shares


def _times(table: str, batch: pa.RecordBatch) -> pa.Array:
    """Return the times that decide in which minute of a roll-up rows count."""
    match table:
        case "calls":
            unanswered = pc.is_in(batch.column("outcome"), pa.array(["lost", "unknown"]))
            return pc.if_else(unanswered, batch.column("request_ns"), batch.column("response_ns"))
        case "deliveries":
            names = ("published_ns", "first_sent_ns", "acked_ns")
            return pc.coalesce(*(batch.column(name) for name in names))
        case "messages" | "faults":
            return batch.column("ts_ns")
        case _:
            return batch.column("minute_ns")


def _expired_ns(log: Log) -> int | None:
    """Return the time before which rows may have expired."""
    before = [
        each.figures["before_ns"]
        for each in log.records(min(log.layout.logged()[0], default=0))
        if each.kind == "expire" and "before_ns" in each.figures
    ]
    return max(before, default=None)
