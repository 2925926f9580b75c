"""Is a lake what its captures say? Derives a share of its connections anew, and compares.

    problems = verify("lake", shares=16)

Four looks: at the log and its files (`wirelake.tables.check`); at the roll-ups, which must say
what the tables say; at a sample of the connections of each source, which is read from the captures
in one go, without any state in between, and must come to the same rows; and at a sample of what
crosses connections (`verify_crossing.py`). No Spark is needed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import duckdb

from wirelake.tables.check import check
from wirelake.tables.entries import AddedFile
from wirelake.tables.log import Log
from wirelake.tables.query import open_lake
from wirelake.tables.snapshot import Snapshot

from ..engine.decoding import DecodeTask, decode
from ..engine.settings import Settings
from .cross_connection import Crossing
from .queries import CALL_TIME, differences

__all__ = ["verify"]

_PLACE: Final = {"messages": "coalesce(tunnel_link, connection)"}
"""By table: what tells the connection whose bytes a row comes from."""
_CONDITION: Final = {"calls": "tunnel_link is null"}
"""By table: rows that come from one connection alone."""
_TIME: Final = {
    "messages": "ts_ns",
    "faults": "ts_ns",
    "coverage": "last_ns",
    "calls": CALL_TIME,
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

    One of `shares` parts of the connections of each source is derived anew, and of the tunnels and
    clients of all sources; another one after each commit. Raises LakeError when there is no lake.
    """
    log = Log(lake)
    snapshot = log.snapshot()
    progress("the log and its files")
    problems = [str(each) for each in check(lake) if not each.harmless]
    if problems:
        return problems
    expired_ns = _expired_ns(log)
    with open_lake(lake, snapshot.commit) as db:
        settings = Settings.of_record(snapshot.settings)
        if expired_ns is None:
            progress("the roll-ups")
            problems += _sums(db, settings)
        share, key_logs = snapshot.commit % shares, tuple(map(os.path.abspath, keys))
        sample = _Sample(db, snapshot, settings, share, shares, expired_ns)
        for source in sorted(snapshot.sources):
            progress(f"source {source}")
            problems += sample.problems(source, key_logs)
        crossing = Crossing(db, settings, share, shares, expired_ns)
        problems += _crossing(crossing, _files(snapshot), key_logs, progress)
    return problems


def _files(snapshot: Snapshot) -> dict[str, list[str]]:
    """The captures of each source that were read."""
    return {
        source: [each.path for each in found.inputs if each.fault is None]
        for source, found in sorted(snapshot.sources.items())
    }


def _crossing(
    crossing: Crossing,
    files: dict[str, list[str]],
    keys: tuple[str, ...],
    progress: Callable[[str], None],
) -> list[str]:
    if not crossing.tables:
        return []
    gone = [source for source, paths in files.items() if not all(map(os.path.exists, paths))]
    if gone:
        return [_not_derived(crossing, f"captures of {', '.join(gone)} are gone")]
    with tempfile.TemporaryDirectory(prefix="wirelake-verify-") as work:
        for source, paths in files.items():
            if paths:
                progress(f"what crosses connections: source {source}")
                try:
                    crossing.read(source, paths, keys, work)
                except OSError as error:
                    return [_not_derived(crossing, str(error))]
        progress("what crosses connections")
        return list(crossing.problems(work))


def _not_derived(crossing: Crossing, why: str) -> str:
    return f"{', '.join(crossing.tables)}: cannot be derived anew across connections: {why}"


def _expired_ns(log: Log) -> int | None:
    """Before this time, rows may have been dropped."""
    times = [
        each.figures["before_ns"]
        for each in log.records(min(log.layout.logged()[0], default=0))
        if each.kind == "expire" and "before_ns" in each.figures
    ]
    return max(times, default=None)


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


class _Sample:
    """A share of the connections of each source, derived anew."""

    def __init__(
        self,
        db: duckdb.DuckDBPyConnection,
        snapshot: Snapshot,
        settings: Settings,
        share: int,
        shares: int,
        expired_ns: int | None,
    ):
        self._db = db
        self._snapshot = snapshot
        self._settings = settings
        self._share, self._shares = share, shares
        self._expired_ns = expired_ns

    def problems(self, source: str, keys: tuple[str, ...]) -> list[str]:
        """Where the lake differs from the captures of a source."""
        files = _files(self._snapshot)[source]
        if not files:
            return []
        gone = [path for path in files if not os.path.exists(path)]
        if gone:
            more = f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""
            return [f"{source}: cannot be derived anew: {gone[0]} is gone{more}"]
        with tempfile.TemporaryDirectory(prefix="wirelake-verify-") as work:
            done = decode(
                DecodeTask(
                    source=source,
                    files=tuple(files),
                    share=self._share,
                    shares=self._shares,
                    states=(),
                    work=work,
                    settings=self._settings,
                    keys=keys,
                )
            )
            if done.failure is not None:
                return [f"{source}: {done.failure.text}"]
            return [f"{source}: {problem}" for problem in self._compared(done.written)]

    def _compared(self, written: Sequence[AddedFile]) -> Iterator[str]:
        coverage = [each.path for each in written if each.table == "coverage"]
        if not coverage:
            return
        self._db.execute(
            "create or replace temp table sampled as select distinct connection from "
            f"read_parquet({coverage!r})"
        )
        for derived, table in _COMPARED.items():
            if table in self._settings.tables:
                for protocol, paths in self._groups(written, derived, table).items():
                    yield from self._differences(table, protocol, paths)

    def _groups(
        self, written: Sequence[AddedFile], derived: str, table: str
    ) -> dict[str | None, list[str]]:
        """The files of a table that were derived, by protocol where the table has one set each."""
        known = {each.protocol for each in self._snapshot.files(table)}
        found: dict[str | None, list[str]] = {protocol: [] for protocol in known or {None}}
        for each in written:
            if each.table == derived:
                found.setdefault(each.protocol, []).append(each.path)
        return found

    def _differences(self, table: str, protocol: str | None, paths: Sequence[str]) -> Iterator[str]:
        columns, whose = self._columns(table, protocol), self._whose(table, protocol)
        here = f"select {columns} from {table} where {whose}"
        files = f"read_parquet({list(paths)!r}, union_by_name=true)"
        anew = f"select {columns} from {files} where {whose}" if paths else f"{here} and false"
        name = table if protocol is None else f"{table} of {protocol}"
        yield from differences(self._db, name, f"({here})", f"({anew})")

    def _whose(self, table: str, protocol: str | None) -> str:
        """Which rows are compared."""
        place = _PLACE.get(table, "connection")
        conditions = [f"{place} in (select connection from sampled)"]
        if table in _CONDITION:
            conditions.append(_CONDITION[table])
        if protocol is not None:
            conditions.append(f"protocol = '{protocol}'")
        if self._expired_ns is not None:
            conditions.append(f"{_TIME[table]} >= {self._expired_ns}")
        return " and ".join(conditions)

    def _columns(self, table: str, protocol: str | None) -> str:
        if table == "connections":
            return "* exclude (previous_connection)"
        if table != "messages":
            return "*"
        found = self._db.sql("select * from messages limit 0")
        names = [
            f'"{name}"'
            for name, kind in zip(found.columns, found.types, strict=True)
            if not str(kind).startswith("STRUCT") or str(kind).endswith("[]") or name == protocol
        ]
        return ", ".join(names)
