"""Is a lake what its captures say? Derives a share of its connections anew, and compares.

    problems = verify("lake", shares=16)

Three looks: at the log and its files (`wirehouse.tables.check`); at the roll-ups, which must say
what the tables say; and at a sample of the connections of each source, which is read from the
captures in one go, without any state in between, and must come to the same rows. No Spark is
needed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import duckdb

from wirehouse.tables.check import check
from wirehouse.tables.entries import AddedFile
from wirehouse.tables.log import Log
from wirehouse.tables.query import open_lake
from wirehouse.tables.snapshot import Snapshot

from .decoding import DecodeTask, decode
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
        sample = _Sample(db, snapshot, settings, snapshot.commit % shares, shares, expired_ns)
        for source in sorted(snapshot.sources):
            progress(f"source {source}")
            problems += sample.problems(source, tuple(map(os.path.abspath, keys)))
    return problems


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
        inputs = self._snapshot.sources[source].inputs
        files = [each.path for each in inputs if each.fault is None]
        if not files:
            return []
        gone = [path for path in files if not os.path.exists(path)]
        if gone:
            more = f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""
            return [f"{source}: cannot be derived anew: {gone[0]} is gone{more}"]
        with tempfile.TemporaryDirectory(prefix="wirehouse-verify-") as work:
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
        missing, extra = (
            self._db.sql(f"select count(*) from (({one}) except all ({other}))").fetchall()[0][0]
            for one, other in ((anew, here), (here, anew))
        )
        name = table if protocol is None else f"{table} of {protocol}"
        if missing:
            yield f"{name}: {missing} rows are missing or different"
        if extra:
            yield f"{name}: {extra} rows are in the lake that the captures do not give"

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
