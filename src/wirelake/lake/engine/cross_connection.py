"""The third stage of a step: tables that need more than one connection, merged in workers.

The fold of a connection writes parts of `deliveries` and sign-ons, in files of their own. Here is
when a lake merges them, and how long it keeps them. The rules of the merge are those of
`wirelake.columnar.fold`: a task reads the files of its tables, calls them and writes Parquet files,
as `decoding.py` and `tunnels.py` do. Parts can be merged in any order and grouping, so the rows do
not depend on the order of files or on the steps in which they came.

A task has a share of the notifications, or of the clients, small enough for its memory. A table
that nothing in the step has touched costs nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.columnar.fold.deliveries import (
    by_client,
    delivery_rows,
    expected_parts,
    last_faults,
    merge_parts,
)
from wirelake.columnar.fold.groups import Groups, column_of, numbers_or, present
from wirelake.columnar.fold.sign_ons import previous_connections, with_previous
from wirelake.records.deliveries import CROSSING
from wirelake.records.schema import schema
from wirelake.tables.snapshot import AddedFile

from .rollups import roll_up
from .settings import DAY_NS, QUIET_NS, Settings
from .step import Outputs, Step, overlaps
from .tasks import Workers

__all__ = [
    "Change",
    "is_settled",
    "kept_faults",
    "kept_publications",
    "kept_sign_ons",
    "merge",
]

_PARTS, _FAULTS, _PUBLICATIONS = "_delivery_parts", "_delivery_faults", "_publications"
_SIGN_ONS, _CONNECTIONS = "_sign_ons", "_connections"
_MANY_FILES: Final = 16
"""A table that only grows is rewritten when it has this many files more than a rewrite leaves."""
_SHARE_ROWS: Final = 1_000_000
"""Rows for one task. A part takes about 200 bytes, and a merge needs it about three times."""
_PARALLEL_JOBS: Final = 4
"""Jobs in parallel: of a job of Spark, most of the time goes into being planned and started."""


# -- the stage -------------------------------------------------------------------------------


class Change(msgspec.Struct):
    """Files that a table gains and loses."""

    add: list[AddedFile] = []
    remove: list[AddedFile] = []

    def join(self, other: Change) -> Change:
        """Return both changes as one."""
        return Change(self.add + other.add, self.remove + other.remove)


_Make = Callable[[Workers, Step, int], Change]


def merge(workers: Workers, step: Step, settings: Settings, now_ns: int) -> None:
    """Add the remaining tables and the roll-ups to a step.

    `now_ns` is a time of the captures; nothing older is expected to arrive.
    """
    tables: list[_Make] = []
    if "deliveries" in settings.tables:
        tables.append(_deliveries)
    if "connections" in settings.tables:
        tables.append(_connections)
    minutes = [name for name in settings.tables if name.endswith("_minutes")]
    after_deliveries = [name for name in minutes if name == "delivery_minutes"]
    at_once = [name for name in minutes if name not in after_deliveries]
    # Threads only wait for workers. A job of Spark costs mostly its planning and start, so several
    # that do not depend on each other are started together.
    with ThreadPoolExecutor(_PARALLEL_JOBS) as pool:
        futures = [pool.submit(make, workers, step, now_ns) for make in tables]
        rollups = [pool.submit(roll_up, workers, step, at_once)]
        # The roll-ups under way read none of the tables that change here.
        _apply(step, [future.result() for future in futures])
        rollups.append(pool.submit(roll_up, workers, step, after_deliveries))
        _apply(step, [Change(*future.result()) for future in rollups])


def _apply(step: Step, changes: Iterable[Change]) -> None:
    for change in changes:
        step.remove(change.remove)
        step.add(change.add)


def _deliveries(workers: Workers, step: Step, now_ns: int) -> Change:
    if not any(step.touched(table) for table in (_PARTS, _FAULTS, _PUBLICATIONS)):
        return Change()
    before = step.files(_PARTS, provisional=False)
    provisional = step.files(_PARTS, provisional=True)
    new_publications = step.new(_PUBLICATIONS)
    shares = _shares([*before, *provisional, *new_publications])
    tasks = [
        DeliveriesTask(
            share=share,
            shares=shares,
            work=step.work("deliveries"),
            now_ns=now_ns,
            parts=step.paths(before),
            provisional=step.paths(provisional),
            publications=step.paths(step.files(_PUBLICATIONS)),
            new_publications=step.paths(new_publications),
            faults=step.paths(step.files(_FAULTS)),
        )
        for share in range(shares)
    ]
    written = _written(workers.run(merge_deliveries, tasks, Merged))
    change = Change(written, [*before, *step.kept("deliveries", provisional=True)])
    held = step.paths(file for file in written if file.table == _PARTS)
    for table in (_PUBLICATIONS, _FAULTS):
        change = change.join(_compacted(workers, step, table, now_ns, held))
    return change


def _connections(workers: Workers, step: Step, now_ns: int) -> Change:
    if not any(step.touched(table) for table in (_CONNECTIONS, _SIGN_ONS)):
        return Change()
    sign_ons = step.files(_SIGN_ONS)
    final = step.new(_CONNECTIONS, provisional=False)
    corrected = _corrected(workers, step, sign_ons)
    provisional = step.files(_CONNECTIONS, provisional=True)
    shares = _shares([*final, *corrected, *provisional, *sign_ons])
    tasks = [
        ConnectionsTask(
            share=share,
            shares=shares,
            work=step.work("connections"),
            final=step.paths([*final, *corrected]),
            provisional=step.paths(provisional),
            sign_ons=step.paths(sign_ons),
        )
        for share in range(shares)
    ]
    change = Change(
        _written(workers.run(merge_connections, tasks, Merged)),
        [*final, *corrected, *step.kept("connections", provisional=True)],
    )
    return change.join(_compacted(workers, step, _SIGN_ONS, now_ns))


def _corrected(workers: Workers, step: Step, sign_ons: Sequence[AddedFile]) -> list[AddedFile]:
    """Return files whose connections get another previous connection by a late sign-on."""
    known = [file for file in step.kept(_SIGN_ONS, provisional=False) if file.max_ns is not None]
    new = [file for file in step.new(_SIGN_ONS) if file.min_ns is not None]
    finished = step.kept("connections", provisional=False)
    if not known or not new or not finished:
        return []
    first_new_ns = min(file.min_ns or 0 for file in new)
    # The usual case: sign-ons arrive in order, and no finished row can change.
    if first_new_ns > max(file.max_ns or 0 for file in known):
        return []
    shares = _shares(sign_ons)
    tasks = [
        SignOnsTask(
            share=share,
            shares=shares,
            known=step.paths(known),
            sign_ons=step.paths(sign_ons),
            first_new_ns=first_new_ns,
        )
        for share in range(shares)
    ]
    done = workers.run(changed_sign_ons, tasks, Changed)
    times = [ts_ns for each in done for ts_ns in each.times_ns]
    return [file for file in finished if any(overlaps(file, ts_ns, ts_ns) for ts_ns in times)]


def _compacted(
    workers: Workers, step: Step, table: str, now_ns: int, held: tuple[str, ...] = ()
) -> Change:
    """Rewrite many files as one for each share, with the rows that are still needed."""
    files = step.files(table, provisional=False)
    shares = _shares(files)
    if len(files) < _MANY_FILES + shares - 1:
        return Change()
    tasks = [
        CompactTask(
            share=share,
            shares=shares,
            work=step.work(table),
            now_ns=now_ns,
            table=table,
            files=step.paths(files),
            held=held,
        )
        for share in range(shares)
    ]
    return Change(_written(workers.run(compact, tasks, Merged)), files)


def _shares(files: Iterable[AddedFile]) -> int:
    """Return the number of tasks for the rows of some files."""
    return 1 + sum(file.rows for file in files) // _SHARE_ROWS


def _written(done: Iterable[Merged]) -> list[AddedFile]:
    return [file for each in done for file in each.written]


# -- tasks -----------------------------------------------------------------------------------


class DeliveriesTask(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a share of the notifications, to be merged into rows of `deliveries`."""

    share: int
    shares: int
    work: str
    now_ns: int
    parts: tuple[str, ...]
    provisional: tuple[str, ...]
    """Parts that are valid only if the input ends here."""
    publications: tuple[str, ...]
    new_publications: tuple[str, ...]
    faults: tuple[str, ...]


class ConnectionsTask(msgspec.Struct, frozen=True, kw_only=True):
    """Connections of a share of the clients, which get their previous connection."""

    share: int
    shares: int
    work: str
    final: tuple[str, ...]
    provisional: tuple[str, ...]
    sign_ons: tuple[str, ...]


class SignOnsTask(msgspec.Struct, frozen=True, kw_only=True):
    """Sign-ons of a share of the clients: those that were known, and all."""

    share: int
    shares: int
    known: tuple[str, ...]
    sign_ons: tuple[str, ...]
    first_new_ns: int


class CompactTask(msgspec.Struct, frozen=True, kw_only=True):
    """A share of the rows of a table that only grows."""

    share: int
    shares: int
    work: str
    now_ns: int
    table: str
    files: tuple[str, ...]
    held: tuple[str, ...]
    """Files with parts of deliveries that are not settled."""


class Merged(msgspec.Struct, frozen=True):
    """Files that a task has written."""

    written: list[AddedFile]


class Changed(msgspec.Struct, frozen=True):
    """Times of known sign-ons that have another one before them now."""

    times_ns: list[int]


def merge_deliveries(task: DeliveriesTask) -> Merged:
    """Merge parts. Writes settled rows for good, open rows for this step, and open parts."""

    def mine(paths: Iterable[str], table: str) -> pa.Table:
        return _read(paths, table, "notification", task.share, task.shares)

    publications = mine(task.publications, _PUBLICATIONS)
    faults = _read(task.faults, _FAULTS)
    expected = expected_parts(mine(task.new_publications, _PUBLICATIONS))
    merged = merge_parts(pa.concat_tables([mine(task.parts, _PARTS), expected]))
    settled = is_settled(merged, task.now_ns)
    held = merged.filter(pc.invert(settled))
    # A part that arrives after its notification was settled makes a row of its own.
    provisional = mine(task.provisional, _PARTS)
    open_parts = merge_parts(pa.concat_tables([held, provisional]))
    with Outputs(task.work, frozenset({"deliveries", _PARTS})) as outputs:
        _write(outputs, _PARTS, held)
        _write(outputs, "deliveries", delivery_rows(merged.filter(settled), publications, faults))
        outputs.provisional = True
        _write(outputs, "deliveries", delivery_rows(open_parts, publications, faults))
        return Merged(outputs.close())


def merge_connections(task: ConnectionsTask) -> Merged:
    """Write rows of `connections` with their previous connection."""
    sign_ons = _read(task.sign_ons, _SIGN_ONS, "client", task.share, task.shares)
    with Outputs(task.work, frozenset({"connections"})) as outputs:
        for paths, provisional in ((task.final, False), (task.provisional, True)):
            outputs.provisional = provisional
            rows = _read(paths, "connections", "client", task.share, task.shares)
            _write(outputs, "connections", with_previous(rows, sign_ons))
        return Merged(outputs.close())


def changed_sign_ons(task: SignOnsTask) -> Changed:
    """Return the times of known sign-ons whose previous connection has changed."""
    known, every = (
        previous_connections(_read(paths, _SIGN_ONS, "client", task.share, task.shares))
        for paths in (task.known, task.sign_ons)
    )
    every = every.filter(pc.greater_equal(every.column("ts_ns"), task.first_new_ns))
    both = pa.concat_tables([known, every])
    keys = ("protocol", "client", "connection", "ts_ns")
    numbers = Groups.by(*(column_of(both, name) for name in keys)).numbers()
    before = column_of(both, "previous_connection")
    # A sign-on is in each of the two at most once: the same group is the same sign-on.
    place = np.full(len(both), -1)
    place[numbers[: len(known)]] = np.arange(len(known))
    old = place[numbers[len(known) :]]
    new = np.arange(len(known), len(both))
    old, new = old[old >= 0], new[old >= 0]
    exists, values = present(before), numbers_or(before, 0)
    differs = (exists[old] != exists[new]) | (values[old] != values[new])
    times = numbers_or(column_of(both, "ts_ns"), 0)[new[differs]]
    return Changed(np.unique(times).tolist())


def compact(task: CompactTask) -> Merged:
    """Write the rows of a table that are still needed."""
    key = "notification" if task.table == _PUBLICATIONS else "client"
    rows = _read(task.files, task.table, key, task.share, task.shares)
    match task.table:
        case "_sign_ons":
            kept = kept_sign_ons(rows, task.now_ns)
        case "_publications":
            kept = kept_publications(rows, _read(task.held, _PARTS), task.now_ns)
        case _:
            kept = kept_faults(rows, _read(task.held, _PARTS), task.now_ns)
    with Outputs(task.work, frozenset({task.table})) as outputs:
        _write(outputs, task.table, kept)
        return Merged(outputs.close())


def _read(
    paths: Iterable[str], table: str, key: str | None = None, share: int = 0, shares: int = 1
) -> pa.Table:
    """Read files of a table: all rows, or those of a share by the text in column `key`."""
    wanted = CROSSING[table] if table in CROSSING else schema(table)
    found = [wanted.empty_table()]
    for path in paths:
        with pq.ParquetFile(path) as file:
            # One row group at a time: each share reads all files, and keeps a fraction of their
            # rows.
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group).select(wanted.names).cast(wanted)
                found.append(_of_share(rows, key, share, shares) if key is not None else rows)
    return pa.concat_tables(found)


def _of_share(rows: pa.Table, key: str, share: int, shares: int) -> pa.Table:
    """Return the rows of a share; share 0 has those without a key."""
    # crc32, not `hash`: Python's hash of a text differs between processes.
    if shares == 1:
        return rows
    encoded = pc.dictionary_encode(column_of(rows, key))
    hashes = [zlib.crc32(text.encode()) for text in encoded.dictionary.to_pylist()]
    numbers = np.array([*hashes, 0])[pc.fill_null(encoded.indices, -1).to_numpy()]
    return rows.filter(pa.array(numbers % shares == share))


def _write(outputs: Outputs, table: str, rows: pa.Table) -> None:
    for batch in rows.combine_chunks().to_batches():
        outputs.write(table, batch)


# -- what a lake keeps -----------------------------------------------------------------------


def is_settled(parts: pa.Table, now_ns: int) -> pa.Array:
    """Return whether rows of merged parts are final at a time of the captures.

    They are when they were acknowledged and had no event for `QUIET_NS`, or had none for `DAY_NS`.
    Without this bound the state of a lake would grow with every notification that is never acked.
    """
    last_ns = column_of(parts, "last_event_ns")
    acked = pc.is_valid(column_of(parts, "acked_ns"))
    quiet = pc.and_(acked, pc.less_equal(last_ns, now_ns - QUIET_NS))
    return pc.or_(quiet, pc.less_equal(last_ns, now_ns - DAY_NS))


def kept_publications(publications: pa.Table, held: pa.Table, now_ns: int) -> pa.Table:
    """Return publications of the last 24 hours, and those that held parts still need."""
    needed = pc.is_in(publications.column("notification"), column_of(held, "notification"))
    return publications.filter(pc.or_(_is_recent(publications, now_ns), needed))


def kept_faults(faults: pa.Table, held: pa.Table, now_ns: int) -> pa.Table:
    """Return the last fault of each client, by the same rule."""
    last = last_faults(faults)
    clients = column_of(held, "client")
    connections = by_client(clients, column_of(held, "connection"))
    needed = pc.or_(
        pc.is_in(last.column("client"), clients, skip_nulls=True),
        pc.is_in(last.column("connection"), connections, skip_nulls=True),
    )
    return last.filter(pc.or_(_is_recent(last, now_ns), needed))


def kept_sign_ons(sign_ons: pa.Table, now_ns: int) -> pa.Table:
    """Return sign-ons of the last 24 hours, and the last one before of each client.

    With them every sign-on that still arrives for these 24 hours finds its predecessor.
    """
    recent = _is_recent(sign_ons, now_ns)
    order = [("ts_ns", "descending"), ("connection", "descending")]
    old = sign_ons.filter(pc.invert(recent)).sort_by(order)
    clients = Groups.by(*(column_of(old, name) for name in ("protocol", "client")))
    return pa.concat_tables([sign_ons.filter(recent), old.take(pa.array(clients.firsts))])


def _is_recent(rows: pa.Table, now_ns: int) -> pa.Array:
    return pc.greater(rows.column("ts_ns"), now_ns - DAY_NS)
