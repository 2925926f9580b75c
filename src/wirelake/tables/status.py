"""The status of a lake: tables, sources, speed and backlog.

status("lake", "captures").backlog_files
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .inputs import LATENESS_S, SETTLE_S, Watch, admit
from .log import Log
from .parquet import batches
from .paths import LakeError, is_public
from .snapshot import Record, Snapshot, time_ns_of

__all__ = ["SourceStatus", "Status", "TableStatus", "WaitingFile", "status"]

_LAST_COMMITS = 10
"""Commits that the speed is computed from: recent enough for "now", enough to smooth small steps,
which take 5 s whatever their size."""


class TableStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a table."""

    table: str
    files: int
    rows: int
    bytes: int
    provisional_rows: int
    """Rows that the next step of their source may replace."""
    min_ns: int | None
    max_ns: int | None


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The captures of a source."""

    source: str
    files: int
    """Captures that were read."""
    bytes: int
    refused: int
    last_sequence: int | None
    ordered_by: list[str] = []
    """What decides the order of its captures: recording, pattern, number (in names), time (of the
    first packets). Several if its names changed; none if an older version read them."""


class WaitingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A capture that was not read yet."""

    path: str
    source: str
    sequence: int
    bytes: int
    age_s: float
    """Since the last write."""
    why: str
    """Empty if the next run reads it."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a lake."""

    path: str
    commit: int
    time: str
    """Time of that commit, ISO 8601."""
    age_s: float
    """Since that commit."""
    schema: int
    tables: list[TableStatus]
    sources: list[SourceStatus]
    rows_per_s: float | None
    """Messages per second in the last steps; None if there were none."""
    bytes_per_s: float | None
    """Bytes of captures per second in the last steps."""
    source_pattern: str | None = None
    """Pattern for the names of captures that the lake was created with."""
    cut_connections: int | None = None
    """Connections that continue in another source, where they are counted again: their captures
    belong to one source. None if the lake has no table `connections`."""
    waiting: list[WaitingFile] = []
    backlog_files: int = 0
    backlog_bytes: int = 0
    lag_s: float = 0.0
    """Age of the oldest capture that was not read yet."""
    open_files: int = 0
    """Recordings that are not sealed, which a run leaves out."""
    open_bytes: int = 0


def status(
    root: str | os.PathLike[str],
    captures: str | os.PathLike[str] | None = None,
    *,
    lateness_s: float = LATENESS_S,
    settle_s: float = SETTLE_S,
    now_ns: int | None = None,
) -> Status:
    """Return the status of a lake, with its backlog if `captures` is given. Raises LakeError."""
    now = time.time_ns() if now_ns is None else now_ns
    log = Log(root)
    snapshot = log.snapshot()
    watch = None if captures is None else Watch(captures, snapshot.settings.get("source_pattern"))
    waiting = [] if watch is None else _waiting(watch, snapshot, now, lateness_s, settle_s)
    unsealed = [] if watch is None else watch.open
    steps = _last_steps(log, snapshot.commit)
    return Status(
        path=str(log.layout.root),
        commit=snapshot.commit,
        time=snapshot.time,
        age_s=(now - time_ns_of(snapshot.time)) / 1e9,
        schema=snapshot.schema,
        tables=_tables(snapshot),
        sources=_sources(snapshot),
        rows_per_s=_rate(steps, _message_rows),
        bytes_per_s=_rate(steps, _input_bytes),
        source_pattern=snapshot.settings.get("source_pattern"),
        cut_connections=_cut_connections(log, snapshot),
        waiting=waiting,
        backlog_files=len(waiting),
        backlog_bytes=sum(each.bytes for each in waiting),
        lag_s=max((each.age_s for each in waiting), default=0.0),
        open_files=len(unsealed),
        open_bytes=sum(each.bytes for each in unsealed),
    )


def _tables(snapshot: Snapshot) -> list[TableStatus]:
    found = []
    for table, files in sorted(snapshot.tables.items()):
        if not is_public(table) or not files:
            continue
        every = files.values()
        found.append(
            TableStatus(
                table=table,
                files=len(files),
                rows=sum(each.rows for each in every),
                bytes=sum(each.bytes for each in every),
                provisional_rows=sum(each.rows for each in every if each.provisional),
                min_ns=min(
                    (each.min_ns for each in every if each.min_ns is not None), default=None
                ),
                max_ns=max(
                    (each.max_ns for each in every if each.max_ns is not None), default=None
                ),
            )
        )
    return found


def _sources(snapshot: Snapshot) -> list[SourceStatus]:
    found = []
    for name, source in sorted(snapshot.sources.items()):
        read = [each for each in source.inputs if each.fault is None]
        found.append(
            SourceStatus(
                source=name,
                files=len(read),
                bytes=sum(each.bytes for each in read),
                refused=len(source.inputs) - len(read),
                last_sequence=source.last,
                ordered_by=sorted({each.ordered_by for each in read if each.ordered_by}),
            )
        )
    return found


def _waiting(
    watch: Watch,
    snapshot: Snapshot,
    now_ns: int,
    lateness_s: float,
    settle_s: float,
) -> list[WaitingFile]:
    # The same rules as those of a run, with the same bounds, so the reasons are those of a run.
    admission = admit(watch.look(), snapshot, now_ns, lateness_s=lateness_s, settle_s=settle_s)
    entries = [(each, "") for each in admission.admitted]
    entries += [(each.consumed(), why) for each, why in admission.waiting]
    return [
        WaitingFile(
            path=each.path,
            source=each.source,
            sequence=each.sequence,
            bytes=each.bytes,
            age_s=max(0.0, (now_ns - each.mtime_ns) / 1e9),
            why=why,
        )
        for each, why in sorted(entries, key=lambda entry: (entry[0].source, entry[0].sequence))
    ]


# -- connections in two sources ----------------------------------------------------------------

_CUT_SLACK_NS = 60 * 10**9
"""How far the parts of a connection may overlap: packets at the edge of a file are reordered."""


def _cut_connections(log: Log, snapshot: Snapshot) -> int | None:
    """Count connections without a start that continue one without an end.

    Within a source a connection continues from file to file in one row. So two such rows belong to
    two sources, or a capture between them was refused.
    """
    try:
        return _count_cut(log, snapshot) if snapshot.files("connections") else None
    except (LakeError, pa.ArrowException):
        return None  # a file is missing or damaged, which is for `verify` to report


def _count_cut(log: Log, snapshot: Snapshot) -> int:
    ends = ("client_address", "client_port", "server_address", "server_port")
    rows = _open_ended(log, snapshot, (*ends, "opened_ns", "closed_ns", "first_ns", "last_ns"))
    without_end: dict[frozenset[tuple[str, int]], list[tuple[int, int]]] = {}
    without_start = []
    for row in rows:
        # Both directions: which end is the client is a guess without the start.
        key = frozenset(
            {
                (row["client_address"], row["client_port"]),
                (row["server_address"], row["server_port"]),
            }
        )
        if row["closed_ns"] is None:
            without_end.setdefault(key, []).append((row["first_ns"], row["last_ns"]))
        if row["opened_ns"] is None:
            without_start.append((key, row["first_ns"]))
    return sum(
        any(first < begins and last <= begins + _CUT_SLACK_NS for first, last in without_end[key])
        for key, begins in without_start
        if key in without_end
    )


def _open_ended(log: Log, snapshot: Snapshot, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the connections whose start or end was not captured; the others are whole."""
    for batch in batches(log.layout.root, "connections", columns=columns, commit=snapshot.commit):
        whole = pc.and_(
            pc.is_valid(batch.column("opened_ns")), pc.is_valid(batch.column("closed_ns"))
        )
        yield from batch.filter(pc.invert(whole)).to_pylist()


# -- speed -------------------------------------------------------------------------------------


def _last_steps(log: Log, last: int) -> list[Record]:
    """Return the last commits that read captures."""
    oldest = min(log.layout.logged()[0], default=last + 1)
    records = log.records(since=max(oldest, last - _LAST_COMMITS + 1))
    return [each for each in records if each.kind == "advance" and "seconds" in each.figures]


def _message_rows(record: Record) -> int:
    return sum(
        each.rows for each in record.add if each.table == "messages" and not each.provisional
    )


def _input_bytes(record: Record) -> int:
    return sum(each.bytes for each in record.inputs if each.fault is None)


def _rate(steps: list[Record], measure: Callable[[Record], int]) -> float | None:
    seconds = sum(float(each.figures["seconds"]) for each in steps)
    return sum(map(measure, steps)) / seconds if seconds > 0 else None
