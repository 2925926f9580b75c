"""What tests of lakes share: a lake against the truth of a simulation, and against the engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wirelake.columnar.read.reader import (
    ReadOptions,
    read_batches,
    table_schema,
)
from wirelake.tables.query import open_lake

TRUE_TABLES = ("calls", "deliveries", "connections", "tunnels", "faults", "coverage")
"""The tables of which a simulation tells the truth, row by row."""
ALL_TABLES = ("messages", *TRUE_TABLES)
PLACES = ("file", "offset")
"""Columns that say in which file something is: they differ when captures are cut."""

ROLLUPS = {
    "traffic_minutes": """
        select ts_ns - ts_ns % 60000000000 as minute_ns, protocol, direction, kind,
               count(*) as messages, sum(size_bytes)::bigint as bytes
        from messages group by all""",
    "latency_minutes": """
        select response_ns - response_ns % 60000000000 as minute_ns, protocol, target,
               count(*) as calls, sum(latency_ns)::bigint as latency_ns
        from calls where latency_ns is not null group by all""",
    "delivery_minutes": """
        with d as (select *, coalesce(published_ns, first_sent_ns, acked_ns) as t from deliveries)
        select t - t % 60000000000 as minute_ns, protocol, topic, count(*) as deliveries,
               count(first_sent_ns) as sent,
               count(*) filter (outcome = 'acked') as acked,
               count(*) filter (outcome = 'unacked') as unacked,
               count(*) filter (outcome = 'unknown') as unknown,
               count(*) filter (outcome = 'unsent') as unsent,
               count(*) filter (outcome = 'orphan') as orphans,
               sum(sends)::bigint as sends, coalesce(sum(latency_ns), 0)::bigint as latency_ns
        from d group by all""",
    "error_minutes": """
        with e as (
            select case when outcome = 'failed' then response_ns else request_ns end as t,
                   outcome as what, protocol, target,
                   case when outcome = 'failed' then status else cause end as code
            from calls where outcome in ('failed', 'lost', 'unknown')
            union all select ts_ns, 'fault', protocol, null, code from faults)
        select t - t % 60000000000 as minute_ns, what, protocol, target, code, count(*) as errors
        from e group by all""",
    "talker_minutes": """
        with t as (
            select ts_ns - ts_ns % 60000000000 as minute_ns, protocol, connection,
                   count(*) as messages, sum(size_bytes)::bigint as bytes
            from messages group by all)
        select minute_ns,
               row_number() over (partition by minute_ns
                                  order by bytes desc, connection, protocol)::int as rank,
               protocol, connection, messages, bytes
        from t qualify rank <= 20""",
}
"""The roll-ups as queries over the other tables."""
_SUMMED = {
    "latency_minutes": """select minute_ns, protocol, target, sum(calls)::bigint as calls,
        sum(latency_ns)::bigint as latency_ns from latency_minutes group by all"""
}


def rows(lake: Path, table: str, without: Sequence[str] = ()) -> Counter[str]:
    """The rows of a table of a lake; files by their names."""
    with open_lake(lake) as db:
        return counted(db.sql(f'select * from "{table}"').to_arrow_table(), without)


def counted(table: pa.Table, without: Sequence[str] = ()) -> Counter[str]:
    """Rows as texts, and how often each is there; `without` are columns that do not count."""
    found = table.drop_columns([name for name in without if name in table.column_names]).to_pylist()
    for row in found:
        if row.get("file") is not None:
            row["file"] = Path(row["file"]).name
    return Counter(map(repr, found))


def differing(given: Counter[str], wanted: Counter[str], table: str) -> list[str]:
    """A few rows that are only in one of two tables."""
    return [
        *(f"{table}, missing: {row}" for row in list((wanted - given).elements())[:2]),
        *(f"{table}, too many: {row}" for row in list((given - wanted).elements())[:2]),
    ]


def untrue(lake: Path, folder: Path) -> list[str]:
    """Where a lake differs from what the simulation of its captures knows to be true."""
    found: list[str] = []
    for table in TRUE_TABLES:
        true = pq.read_table(folder / "truth" / f"{table}.parquet")
        found += differing(rows(lake, table), counted(true), table)
    names = ["protocol", "direction", "kind", "name"]
    true = pq.read_table(folder / "truth" / "message_counts.parquet").to_pylist()
    wanted = {tuple(row[name] for name in names): row["messages"] for row in true}
    with open_lake(lake) as db:
        query = f"select {', '.join(names)}, count(*) from messages group by all"
        given = {tuple(row[:4]): row[4] for row in db.sql(query).fetchall()}
    if given != wanted:
        found.append(f"messages: {set(given.items()) ^ set(wanted.items())}")
    return found + miscounted(lake)


def unlike_engines(
    lake: Path,
    files: Iterable[Path],
    keys: Sequence[str] = (),
    tables: Sequence[str] = ALL_TABLES,
    without: Sequence[str] = (),
) -> list[str]:
    """Where a lake differs from what the engines make of the same captures, read at once."""
    found: list[str] = []
    for table, wanted in engine_rows(files, keys, tables, without).items():
        found += differing(rows(lake, table, without), wanted, table)
    return found + miscounted(lake)


def engine_rows(
    files: Iterable[Path],
    keys: Sequence[str] = (),
    tables: Sequence[str] = ALL_TABLES,
    without: Sequence[str] = (),
) -> dict[str, Counter[str]]:
    """What the engines make of captures."""
    paths = [str(path) for path in files]
    found: dict[str, Counter[str]] = {}
    for table in tables:
        options = ReadOptions(table=table, keys=keys)
        read = pa.Table.from_batches(read_batches(paths, options), schema=table_schema(options))
        found[table] = counted(read, without)
    return found


def miscounted(lake: Path) -> list[str]:
    """Where roll-ups differ from queries over the tables."""
    found: list[str] = []
    with open_lake(lake) as db:
        for table, query in ROLLUPS.items():
            given = db.sql(_SUMMED.get(table, f"select * from {table}")).to_arrow_table()
            wanted = db.sql(query).to_arrow_table().select(given.column_names)
            found += differing(counted(given), counted(wanted), table)
    return found
