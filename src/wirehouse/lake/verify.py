"""Is a lake what its captures say? Derives a share of its connections anew, and compares.

    problems = verify("lake", sample=Fraction(1, 16))

Three looks: at the log and its files (`wirehouse.tables.check`), at the roll-ups, which must say what
the tables say, and at a sample of the connections of each source, which is read from the captures in
one go, without any state in between, and must come to the same rows. No Spark is needed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import duckdb

from wirehouse.tables.check import check
from wirehouse.tables.log import Log
from wirehouse.tables.query import open_lake
from wirehouse.tables.snapshot import Snapshot

from .decoding import DecodeTask, decode
from .outputs import Written
from .settings import Settings

__all__ = ["verify"]

_PLACE: Final = {"messages": "coalesce(tunnel_link, connection)"}
"""By table: what tells the connection whose bytes a row comes from."""
_CONDITION: Final = {"calls": "tunnel_link is null"}
"""By table: rows that come from one connection alone."""
_TIME: Final = {
    "messages": "ts_ns",
    "faults": "ts_ns",
    "coverage": "last_ns",
    "calls": "coalesce(response_ns, request_ns)",
    "connections": "last_ns",
}
_COMPARED: Final = {
    "messages": "messages",
    "faults": "faults",
    "coverage": "coverage",
    "calls": "calls",
    "_connections": "connections",
}
"""Tables that are derived anew, and what they are called in the lake."""
_SUMS: Final = (
    ("traffic_minutes", "sum(messages)", "messages", "count(*)"),
    ("traffic_minutes", "sum(bytes)", "messages", "sum(size_bytes)"),
    ("latency_minutes", "sum(calls)", "calls", "count(latency_ns)"),
    ("latency_minutes", "sum(latency_ns)", "calls", "sum(latency_ns)"),
    ("delivery_minutes", "sum(deliveries)", "deliveries", "count(*)"),
    ("delivery_minutes", "sum(sends)", "deliveries", "sum(sends)"),
)
"""What must be equal: a sum over a roll-up, and over the table that it counts."""


def verify(
    lake: str | os.PathLike[str],
    *,
    shares: int = 16,
    keys: Iterable[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """What is wrong with a lake, each in a sentence; nothing when all is well.

    One of `shares` parts of the connections of each source is derived anew; another one after each
    commit. Raises LakeError when there is no lake.
    """
    snapshot = Log(lake).snapshot()
    progress("the log and its files")
    problems = [str(each) for each in check(lake)]
    if problems:
        return problems
    with open_lake(lake, snapshot.commit) as db:
        progress("the roll-ups")
        settings = Settings.of_record(snapshot.settings)
        problems += _sums(db, settings)
        for source in sorted(snapshot.sources):
            progress(f"source {source}")
            problems += _source(db, snapshot, settings, source, shares, tuple(keys))
    return problems


def _sums(db: duckdb.DuckDBPyConnection, settings: Settings) -> list[str]:
    problems = []
    for rollup, sum_there, table, sum_here in _SUMS:
        if rollup in settings.tables:
            there, here = (
                db.sql(f"select coalesce({what}, 0)::hugeint from {name}").fetchall()[0][0]
                for what, name in ((sum_there, rollup), (sum_here, table))
            )
            if there != here:
                problems.append(f"{rollup}: {sum_there} is {there}, but {table} says {here}")
    return problems


def _source(
    db: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    settings: Settings,
    source: str,
    shares: int,
    keys: tuple[str, ...],
) -> list[str]:
    files = [each.path for each in snapshot.sources[source].inputs if each.fault is None]
    if not files:
        return []
    gone = [path for path in files if not os.path.exists(path)]
    if gone:
        return [f"{source}: cannot be derived anew: {gone[0]} is gone (and {len(gone) - 1} more)"]
    with tempfile.TemporaryDirectory(prefix="wirehouse-verify-") as work:
        done = decode(
            DecodeTask(
                source=source,
                files=tuple(files),
                share=snapshot.commit % shares,
                shares=shares,
                states=(),
                work=work,
                settings=settings,
                keys=tuple(map(os.path.abspath, keys)),
            )
        )
        if done.failure is not None:
            return [f"{source}: {done.failure.text}"]
        return [
            f"{source}: {problem}" for problem in _compared(db, done.written, settings, snapshot)
        ]


def _compared(
    db: duckdb.DuckDBPyConnection,
    written: Sequence[Written],
    settings: Settings,
    snapshot: Snapshot,
) -> list[str]:
    coverage = [each.path for each in written if each.table == "coverage"]
    if not coverage:
        return []
    db.execute(
        "create or replace temp table sampled as select distinct connection from "
        f"read_parquet({coverage!r})"
    )
    problems = []
    for derived, table in _COMPARED.items():
        if table in settings.tables:
            groups: dict[str | None, list[str]] = {}
            for each in written:
                if each.table == derived:
                    groups.setdefault(each.protocol, []).append(each.path)
            if table == "messages":
                for protocol in {each.protocol for each in snapshot.files(table)} - groups.keys():
                    groups[protocol] = []
            elif not groups:
                groups[None] = []
            for protocol, paths in groups.items():
                problems += _differences(db, table, protocol, paths)
    return problems


def _differences(
    db: duckdb.DuckDBPyConnection, table: str, protocol: str | None, paths: Sequence[str]
) -> list[str]:
    place, time = _PLACE.get(table, "connection"), _TIME[table]
    whose = [f"{place} in (select connection from sampled)"]
    whose += [_CONDITION[table]] if table in _CONDITION else []
    whose += [f"protocol = '{protocol}'"] if protocol is not None else []
    columns = "* exclude (previous_connection)" if table == "connections" else "*"
    if table == "messages":
        others = "', '".join(_structs(db, protocol))
        columns = f"columns(c -> c not in ('{others}'))"
    here = f"select {columns} from {table} where {' and '.join(whose)}"
    anew = (
        f"select {columns} from read_parquet({list(paths)!r}, union_by_name=true)"
        f" where {' and '.join(whose)}"
        if paths
        else f"{here} and false"
    )
    del time
    counts = [
        db.sql(f"select count(*) from (({one}) except all ({other}))").fetchall()[0][0]
        for one, other in ((anew, here), (here, anew))
    ]
    name = table if protocol is None else f"{table} of {protocol}"
    problems = []
    if counts[0]:
        problems.append(f"{name}: {counts[0]} rows are missing or different")
    if counts[1]:
        problems.append(f"{name}: {counts[1]} rows are in the lake that the captures do not give")
    return problems


def _structs(db: duckdb.DuckDBPyConnection, protocol: str | None) -> list[str]:
    """The columns with the fields of other protocols."""
    found = db.sql("select * from messages limit 0")
    return [
        name
        for name, kind in zip(found.columns, found.types, strict=True)
        if str(kind).startswith("STRUCT") and name != protocol
    ]
