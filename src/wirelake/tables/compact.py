"""Makes few large files of many small ones.

    compact("lake", size_bytes=256 << 20)

A lake that runs as a stream gets a few files with each step. Here final files of the same table and
protocol are joined into files of about one size, in the order of time. Roll-ups are joined by day,
once a newer day is there, so that a step that counts a minute anew need not read all days. Whatever
a step will replace (provisional files) and what only runs need (state) is left alone.

DuckDB sorts, on disk where memory is short. It is one commit, however many files there are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa

from wirelake.records.schema import schema

from .entries import AddedFile, Record
from .parquet import ParquetOut, time_columns
from .paths import PUBLIC_TABLES
from .query import literal, read_parquet
from .reading import conform
from .snapshot import Snapshot
from .writer import Writer

__all__ = ["SIZE_BYTES", "Group", "compact", "compact_with", "groups"]

SIZE_BYTES: Final = 256 << 20
"""Files of this size are read well by everybody."""
_MEMORY: Final = "512MB"
"""What sorting takes before it goes to disk."""
_BATCH_ROWS: Final = 16_384
_DAY_NS: Final = 86_400 * 1_000_000_000
_TIES: Final = ("connection", "offset")
"""Columns that put rows of the same time in order."""


class Group(NamedTuple):
    """Files that become one."""

    table: str
    protocol: str | None
    files: list[AddedFile]


def compact(
    root: str | os.PathLike[str],
    *,
    size_bytes: int = SIZE_BYTES,
    tables: Iterable[str] | None = None,
) -> Record | None:
    """Joins the small files of a lake, in one commit; None when there is nothing to do."""
    with Writer(root) as writer:
        return compact_with(writer, size_bytes=size_bytes, tables=tables)


def compact_with(
    writer: Writer, *, size_bytes: int = SIZE_BYTES, tables: Iterable[str] | None = None
) -> Record | None:
    """The same for a lake that is being written already."""
    began = time.monotonic()
    found = groups(writer.snapshot, size_bytes, tables)
    if not found:
        return None
    with writer.begin() as step:
        for number, group in enumerate(found):
            work = step.work(f"group-{number}")
            sources = [writer.layout.place(each.path) for each in group.files]
            name = f"{group.protocol or group.table}-{number}.parquet"
            _join(group, sources, work / name, work / "sort")
            step.add(group.table, work / name, protocol=group.protocol)
            for each in group.files:
                step.remove(each.path)
        figures = {
            "seconds": round(time.monotonic() - began, 3),
            "files": sum(len(group.files) for group in found),
            "into": len(found),
        }
        return step.commit("compact", figures)


# -- which -------------------------------------------------------------------------------------


def groups(
    snapshot: Snapshot, size_bytes: int = SIZE_BYTES, tables: Iterable[str] | None = None
) -> list[Group]:
    """The files that would be joined."""
    wanted = PUBLIC_TABLES if tables is None else tuple(tables)
    found: list[Group] = []
    for table in wanted:
        by_protocol: dict[str | None, list[AddedFile]] = {}
        for each in snapshot.files(table):
            if not each.provisional:
                by_protocol.setdefault(each.protocol, []).append(each)
        for protocol, files in by_protocol.items():
            parts = (
                _days(files) if "minute_ns" in time_columns(table) else _sized(files, size_bytes)
            )
            found += [Group(table, protocol, part) for part in parts if len(part) > 1]
    return found


def _sized(files: list[AddedFile], size_bytes: int) -> Iterator[list[AddedFile]]:
    """Small files that follow each other in time, as many as make a large one."""
    part: list[AddedFile] = []
    held = 0
    for each in sorted(files, key=_time_order):
        if each.bytes > size_bytes // 2:
            continue
        if held + each.bytes > size_bytes:
            yield part
            part, held = [], 0
        part.append(each)
        held += each.bytes
    yield part


def _days(files: list[AddedFile]) -> Iterator[list[AddedFile]]:
    """Files within one day, for each day but the last."""
    by_day: dict[int, list[AddedFile]] = {}
    for each in sorted(files, key=_time_order):
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


# -- joining -----------------------------------------------------------------------------------


def _join(group: Group, sources: list[Path], target: Path, work: Path) -> None:
    """Writes the rows of some files into one, in the order of time."""
    protocols = [group.protocol] if group.table == "messages" and group.protocol else []
    columns = schema(group.table, protocols)
    with duckdb.connect(":memory:") as db, ParquetOut(target, columns) as out:
        db.execute(f"set memory_limit = '{_MEMORY}'; set threads = 2")
        db.execute("set temp_directory = " + literal(work))
        db.execute("set preserve_insertion_order = false")
        db.register("wirelake_columns", columns.empty_table())
        found = db.sql(
            f"select * from wirelake_columns union all by name from {read_parquet(sources)}"
            f" order by {_order(group.table, columns)}"
        )
        for batch in found.to_arrow_reader(_BATCH_ROWS):
            out.write(conform(batch, columns))


def _order(table: str, columns: pa.Schema) -> str:
    times = time_columns(table)
    ties = [f'"{name}"' for name in _TIES if name in columns.names]
    return ", ".join([f"coalesce({', '.join(times)})", *times, *ties])
