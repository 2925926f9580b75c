"""Maintenance of a lake: merging small files, and removing old data.

    compact("lake", size_bytes=256 << 20)
    expire("lake", older_than_s=30 * 86_400)
    expire("lake", {"messages": 7 * 86_400, "calls": 90 * 86_400})

A streaming run adds a few files with each step. Compaction merges final files of the same table and
protocol into files of about one size, sorted by time. Roll-ups are merged by day, and only when
there is a newer day, because a step that recounts a minute reads the files of that minute again:
one large file would make it read all days. Provisional files, which the next step replaces, and
state are not touched.

DuckDB sorts, and spills to disk when memory is short. All files are replaced in one commit.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa

from wirelake.records.schema import schema
from wirelake.wire.errors import unknown

from .cleanup import KEPT_COMMITS, KEPT_S
from .parquet import ParquetOut, check_file, conform, time_columns
from .paths import PUBLIC_TABLES, LakeError
from .query import literal, read_parquet
from .snapshot import AddedFile, Record, Snapshot, read_record, time_ns_of
from .writer import Writer

__all__ = [
    "SIZE_BYTES",
    "Group",
    "check_retention",
    "compact",
    "compact_with",
    "expire",
    "expire_with",
    "groups",
]


SIZE_BYTES: Final = 256 << 20
"""Default target size: large enough for Spark and DuckDB to scan well."""
_MEMORY: Final = "512MB"
"""Memory limit of the sort, which may run on the machine of a hub; beyond it DuckDB spills."""
_BATCH_ROWS: Final = 16_384
_DAY_NS: Final = 86_400 * 1_000_000_000
_TIES: Final = ("connection", "offset")
"""Columns that order rows with the same time."""


class Group(NamedTuple):
    """Files to merge into one."""

    table: str
    protocol: str | None
    files: list[AddedFile]


def compact(
    root: str | os.PathLike[str],
    *,
    size_bytes: int = SIZE_BYTES,
    tables: Iterable[str] | None = None,
) -> Record | None:
    """Merge the small files of a lake in one commit; return None if there are none."""
    with Writer(root) as writer:
        return compact_with(writer, size_bytes=size_bytes, tables=tables)


def compact_with(
    writer: Writer,
    *,
    size_bytes: int = SIZE_BYTES,
    tables: Iterable[str] | None = None,
    min_files: int = 2,
    by_day: Collection[str] = (),
) -> Record | None:
    """Merge small files with a writer that is already open.

    A table is left as it is if fewer than `min_files` of one protocol would become one. Those in
    `by_day` get files of one day each: a file is only removed when all of its rows are old.
    """
    began = time.monotonic()
    merges = _worthwhile(groups(writer.snapshot, size_bytes, tables, by_day), min_files)
    if not merges:
        return None
    with writer.begin() as step:
        for number, group in enumerate(merges):
            work = step.work(f"group-{number}")
            sources = [writer.layout.place(each.path) for each in group.files]
            # Else a damaged file would get a new name and a checksum that confirms it.
            for each, path in zip(group.files, sources, strict=True):
                check_file(each, path)
            name = f"{group.protocol or group.table}-{number}.parquet"
            _merge(group, sources, work / name, work / "sort")
            step.add(group.table, work / name, protocol=group.protocol)
            for each in group.files:
                step.remove(each.path)
        figures = {
            "seconds": round(time.monotonic() - began, 3),
            "files": sum(len(group.files) for group in merges),
            "into": len(merges),
        }
        return step.commit("compact", figures)


# -- selection ---------------------------------------------------------------------------------


def _worthwhile(merges: list[Group], min_files: int) -> list[Group]:
    """Return the merges of tables and protocols that have enough files to merge."""
    saved: Counter[tuple[str, str | None]] = Counter()
    for each in merges:
        saved[each.table, each.protocol] += len(each.files) - 1
    return [each for each in merges if saved[each.table, each.protocol] >= min_files - 1]


def groups(
    snapshot: Snapshot,
    size_bytes: int = SIZE_BYTES,
    tables: Iterable[str] | None = None,
    by_day: Collection[str] = (),
) -> list[Group]:
    """Return the files to merge; those of tables in `by_day` day by day."""
    chosen = PUBLIC_TABLES if tables is None else tuple(tables)
    merges: list[Group] = []
    for table in chosen:
        by_protocol: dict[str | None, list[AddedFile]] = {}
        for each in snapshot.files(table):
            if not each.provisional:
                by_protocol.setdefault(each.protocol, []).append(each)
        for protocol, files in by_protocol.items():
            if "minute_ns" in time_columns(table):
                parts = _days(files)
            elif table in by_day:
                parts = (part for day in _of_days(files) for part in _sized(day, size_bytes))
            else:
                parts = _sized(files, size_bytes)
            merges += [Group(table, protocol, part) for part in parts if len(part) > 1]
    return merges


def _sized(files: list[AddedFile], size_bytes: int) -> Iterator[list[AddedFile]]:
    """Yield runs of small files, in order of time, that together reach the target size."""
    part: list[AddedFile] = []
    part_bytes = 0
    for each in sorted(files, key=_time_order):
        # Not merged again: a large file would be rewritten for each small one that arrives.
        if each.bytes > size_bytes // 2:
            continue
        if part_bytes + each.bytes > size_bytes:
            yield part
            part, part_bytes = [], 0
        part.append(each)
        part_bytes += each.bytes
    yield part


def _of_days(files: list[AddedFile]) -> Iterator[list[AddedFile]]:
    """Yield the files of each day, by the time of their last row."""
    by_day: dict[int, list[AddedFile]] = {}
    for each in files:
        by_day.setdefault((each.max_ns or 0) // _DAY_NS, []).append(each)
    yield from by_day.values()


def _days(files: list[AddedFile]) -> Iterator[list[AddedFile]]:
    """Yield the files of each day except the last."""
    by_day: dict[int, list[AddedFile]] = {}
    for each in sorted(files, key=_time_order):
        # A file over midnight stays alone: in either day's file it would widen the times of that
        # file, which a step compares to find the minutes that it recounts.
        if each.min_ns is not None and each.max_ns is not None:
            day = each.min_ns // _DAY_NS
            if each.max_ns // _DAY_NS == day:
                by_day.setdefault(day, []).append(each)
    for day in sorted(by_day)[:-1]:
        yield by_day[day]


def _time_order(file: AddedFile) -> tuple[int, int, str]:
    return (
        -1 if file.min_ns is None else file.min_ns,
        -1 if file.max_ns is None else file.max_ns,
        file.path,
    )


# -- merging -----------------------------------------------------------------------------------


def _merge(group: Group, sources: list[Path], target: Path, work: Path) -> None:
    """Write the rows of several files into one, sorted by time."""
    protocols = [group.protocol] if group.table == "messages" and group.protocol else []
    columns = schema(group.table, protocols)
    with duckdb.connect(":memory:") as db, ParquetOut(target, columns) as out:
        db.execute(f"set memory_limit = '{_MEMORY}'; set threads = 2")
        db.execute("set temp_directory = " + literal(work))
        # Rows are ordered below; keeping the order of the files as well only takes memory.
        db.execute("set preserve_insertion_order = false")
        # Columns that an older version lacked become null, in the order of this version.
        db.register("wirelake_columns", columns.empty_table())
        rows = db.sql(
            f"select * from wirelake_columns union all by name from {read_parquet(sources)}"
            f" order by {_order(group.table, columns)}"
        )
        for batch in rows.to_arrow_reader(_BATCH_ROWS):
            out.write(conform(batch, columns))


def _order(table: str, columns: pa.Schema) -> str:
    times = time_columns(table)
    ties = [f'"{name}"' for name in _TIES if name in columns.names]
    return ", ".join([f"coalesce({', '.join(times)})", *times, *ties])


# -- expiry ------------------------------------------------------------------------------------


def expire(
    root: str | os.PathLike[str],
    older_than_s: float | Mapping[str, float],
    *,
    tables: Iterable[str] | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> Record | None:
    """Remove old files; return the commit, or None if no file is that old.

    `older_than_s` is the age for all `tables`, or one for each table.
    """
    if isinstance(older_than_s, Mapping):
        ages = dict(older_than_s)
    else:
        ages = dict.fromkeys(PUBLIC_TABLES if tables is None else tables, older_than_s)
    check_retention(ages)
    with Writer(root, clock=clock) as writer:
        return expire_with(writer, ages)


def expire_with(writer: Writer, ages_s: Mapping[str, float]) -> Record | None:
    """Remove files of each table that are older than its age, with a writer that is open."""
    now_ns = writer.clock()
    before_ns = {table: now_ns - int(age_s * 1e9) for table, age_s in ages_s.items()}
    record = _drop(writer, before_ns)
    # Records of the last hour stay, as removed files do: a reader of an earlier snapshot needs
    # both. Those of a table that is kept for longer are in the checkpoint.
    _truncate_log(writer, min(*before_ns.values(), now_ns - int(KEPT_S * 1e9)))
    return record


def check_retention(ages_s: Mapping[str, float]) -> None:
    """Check ages by table. Raises LakeError."""
    for table, age_s in ages_s.items():
        if table not in PUBLIC_TABLES:
            raise LakeError(unknown("table", table, PUBLIC_TABLES))
        if age_s <= 0:
            raise LakeError(f"invalid age {age_s:g} s; expected more than 0")


def _drop(writer: Writer, before_ns: Mapping[str, int]) -> Record | None:
    """Remove old files in one commit."""
    # State stays whatever its age, and provisional files are replaced by the next step: without
    # either a lake could not go on. Inputs stay in the log, so expired captures are not read again.
    old = [
        each
        for each in writer.snapshot.all_files()
        if each.table in before_ns
        and not each.provisional
        and each.max_ns is not None
        and each.max_ns < before_ns[each.table]
    ]
    if not old:
        return None
    with writer.begin() as step:
        for each in old:
            step.remove(each.path)
        figures = {
            # The latest of all tables: what is compared with captures must be complete in each.
            "before_ns": max(before_ns.values()),
            "files": len(old),
            "rows": sum(each.rows for each in old),
            "bytes": sum(each.bytes for each in old),
        }
        return step.commit("expire", figures)


def _truncate_log(writer: Writer, before_ns: int) -> None:
    """Write a checkpoint, then delete older records and checkpoints."""
    layout, log = writer.layout, writer.log
    records, checkpoints = layout.logged()
    old = []
    for number in records[: -KEPT_COMMITS or None]:
        if time_ns_of(read_record(layout.record(number)).time) >= before_ns:
            break
        old.append(number)
    if not old:
        return
    last = writer.snapshot.commit
    writer.checkpoint()
    # Read back before anything is deleted: from here on the checkpoint is the only truth.
    if log.snapshot().to_checkpoint() != writer.snapshot.to_checkpoint():
        raise LakeError(f"{layout.checkpoint(last)}: the new checkpoint differs from the records")
    for number in old:
        layout.record(number).unlink()
    for number in checkpoints:
        if number < last:
            layout.checkpoint(number).unlink()
