"""Comparisons of a lake with the truth of a simulation and with the engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.columnar.oracle import read_by_engines
from tests.records.row_batches import batch_from_rows

from wirelake.capture.decode.events import EVENT_TABLES, engine_event
from wirelake.capture.decode.reference import read_tables
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.columnar.read.reader import DERIVED, ReadOptions, finished, read_batches, table_schema
from wirelake.columnar.tcp.frontend import WINDOW_BYTES
from wirelake.records import ENGINES
from wirelake.records.engine import feed_event
from wirelake.records.rollups import INPUTS, rollup
from wirelake.records.rows import Event, in_order
from wirelake.records.schema import schema
from wirelake.tables import parquet as reading
from wirelake.tables.query import open_lake

TRUE_TABLES = ("calls", "deliveries", "connections", "tunnels", "faults", "coverage")
"""The tables for which a simulation has the expected rows."""
ALL_TABLES = ("messages", *TRUE_TABLES)
PLACES = ("file", "offset")
"""Columns that say in which file something is: they differ when captures are cut."""


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
    """Return the differences between a lake and the truth of its simulation."""
    found: list[str] = []
    with open_lake(lake) as db:
        for table in TRUE_TABLES:
            given = db.sql(f'select * from "{table}"').to_arrow_table()
            true = pq.read_table(folder / "truth" / f"{table}.parquet")
            found += differing(counted(given), counted(true), table)
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
    """Return the differences between a lake and the engines over the same captures."""
    found: list[str] = []
    with open_lake(lake) as db:
        for table, wanted in engine_rows(files, keys, tables, without).items():
            given = db.sql(f'select * from "{table}"').to_arrow_table()
            found += differing(counted(given, without), wanted, table)
    return found + miscounted(lake)


def engine_rows(
    files: Iterable[Path],
    keys: Sequence[str] = (),
    tables: Sequence[str] = ALL_TABLES,
    without: Sequence[str] = (),
) -> dict[str, Counter[str]]:
    """Return the rows of the engines for captures."""
    paths = [str(path) for path in files]
    derived = [table for table in tables if table in DERIVED]
    found = read_by_engines(derived, paths, ReadOptions(keys=keys))
    for table in tables:
        if table not in DERIVED:
            options = ReadOptions(table=table, keys=keys)
            batches = read_batches(paths, options)
            found[table] = pa.Table.from_batches(batches, schema=table_schema(options))
    return {table: counted(found[table], without) for table in tables}


def reference_rows(files: Iterable[Path], keys: Sequence[str]) -> dict[str, Counter[str]]:
    """Return the rows of all tables by the reference reader and the engines, without places."""
    found: dict[str, list[dict[str, Any]]] = {"messages": [], "faults": [], "coverage": []}
    events: list[Event] = []
    tables = (*EVENT_TABLES, "coverage")
    for table, row in read_tables([str(path) for path in files], tables=tables, keys=keys):
        if table in found:
            found[table].append(row)
        if table in EVENT_TABLES and (event := engine_event(table, row)) is not None:
            events.append(event)
    counts = {
        table: counted(pa.Table.from_pylist(rows, table_schema(ReadOptions(table=table))), PLACES)
        for table, rows in found.items()
    }
    ordered = in_order(events)
    for table in DERIVED:
        engine = ENGINES[table]()
        for event in ordered:
            feed_event(engine, event)
        engine.finish()
        batch = batch_from_rows(table, engine.take())
        counts[table] = counted(pa.Table.from_batches([batch], schema=schema(table)))
    return counts


def columnar_rows(
    files: Iterable[Path], keys: Sequence[str], window_bytes: int = WINDOW_BYTES
) -> dict[str, Counter[str]]:
    """Return the rows of all tables by the columnar reader, without places."""
    pipeline = CapturePipeline(
        [str(path) for path in files],
        tables=("messages", "faults", "coverage", "connections", "facts"),
        keys=keys,
        window_bytes=window_bytes,
        all_facts=True,
    )
    windows = [list(window) for window in pipeline.windows()]
    found = {}
    for table in ALL_TABLES:
        options = ReadOptions(table=table)
        batches = finished(options, windows)
        found[table] = counted(pa.Table.from_batches(batches, table_schema(options)), PLACES)
    return found


def lake_rows(lake: Path) -> dict[str, Counter[str]]:
    """Return the rows of all tables of a lake, without places."""
    with open_lake(lake) as db:
        found = {each: db.sql(f'select * from "{each}"').to_arrow_table() for each in ALL_TABLES}
    return {table: counted(each, PLACES) for table, each in found.items()}


def unlike(given: dict[str, Counter[str]], wanted: dict[str, Counter[str]]) -> list[str]:
    """Return the differences between the rows of all tables."""
    return [
        problem for table in ALL_TABLES for problem in differing(given[table], wanted[table], table)
    ]


def miscounted(lake: Path) -> list[str]:
    """Return the differences between rollups and counts over the tables."""
    found: list[str] = []
    for name, inputs in INPUTS.items():
        given = {}
        for each, columns in inputs.items():
            given[each] = reading.table(lake, each, columns=columns).to_pylist()
        wanted = pa.Table.from_pylist(rollup(name, **given), schema=schema(name))
        found += differing(counted(reading.table(lake, name)), counted(wanted), name)
    return found
