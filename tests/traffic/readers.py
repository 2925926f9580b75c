"""Reads simulated captures with the reference reader and the engines, table by table.

Nothing of `wirelake.traffic` is used here: what is found is compared with the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from wirelake.capture.decode.events import EVENT_TABLES, engine_event
from wirelake.capture.decode.reference import read_tables
from wirelake.records.calls import CallsEngine
from wirelake.records.connections import ConnectionsEngine
from wirelake.records.deliveries import DeliveriesEngine
from wirelake.records.engine import feed_event
from wirelake.records.rows import Event, in_order
from wirelake.records.tunnels import TunnelsEngine

Row = dict[str, Any]

_ENGINES = {
    "calls": CallsEngine,
    "deliveries": DeliveriesEngine,
    "connections": ConnectionsEngine,
    "tunnels": TunnelsEngine,
}


def captures(folder: Path) -> list[list[Path]]:
    """The captures of a folder, by source, each in order."""
    sources: dict[str, list[Path]] = {}
    for path in sorted([*folder.glob("*.pcapng"), *folder.glob("*.pcap")]):
        sources.setdefault(path.name.rpartition("-")[0], []).append(path)
    return list(sources.values())


def found_in(folder: Path) -> dict[str, list[Row]]:
    """All tables of a folder, as a reader finds them."""
    tables = ("messages", "packets", "faults", "coverage", "facts", "lifecycle")
    events: list[Event | None] = []
    found: dict[str, list[Row]] = {name: [] for name in tables}
    for paths in captures(folder):
        for table, row in read_tables(paths, tables=tables, keys=sorted(folder.glob("*.keys"))):
            if table in EVENT_TABLES:
                events.append(engine_event(table, row))
            if "file" in row:
                row["file"] = Path(row["file"]).name
            found[table].append(row)
    events = in_order(event for event in events if event is not None)
    for name, engine in _ENGINES.items():
        running: Any = engine()
        for event in events:
            feed_event(running, event)
        running.finish()
        found[name] = [msgspec.to_builtins(row) for row in running.take()]
    return found


def truth_of(folder: Path, table: str) -> list[Row]:
    """A table of truth."""
    rows: list[Row] = pq.read_table(folder / "truth" / f"{table}.parquet").to_pylist()
    return rows


def differences(truth: Iterable[Row], found: Iterable[Row]) -> tuple[list[Any], list[Any]]:
    """What only the one has, and what only the other has."""
    left, right = (Counter(_key(row) for row in rows) for rows in (truth, found))
    return list((left - right).elements())[:3], list((right - left).elements())[:3]


def _key(row: Row) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in row.items()))
