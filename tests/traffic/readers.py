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

from wirelake.capture.decode.reference import read_tables
from wirelake.records.calls import CallsEngine
from wirelake.records.connections import ConnectionsEngine
from wirelake.records.deliveries import DeliveriesEngine
from wirelake.records.engine import tell
from wirelake.records.rows import (
    Closed,
    Event,
    Fact,
    FaultRow,
    MessageRow,
    Opened,
    fields_of,
    in_order,
)
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
    tables = ("messages", "packets", "faults", "coverage", "facts")
    found: dict[str, list[Row]] = {name: [] for name in tables}
    for paths in captures(folder):
        for table, row in read_tables(paths, tables=tables, keys=sorted(folder.glob("*.keys"))):
            if "file" in row:
                row["file"] = Path(row["file"]).name
            found[table].append(row)
    events = in_order(_events(found))
    for name, engine in _ENGINES.items():
        running: Any = engine()
        for event in events:
            tell(running, event)
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


def _events(found: dict[str, list[Row]]) -> list[Event]:
    events: list[Event] = list(_lives(found["packets"]))
    events += [Fact(f["ts_ns"], f["kind"], f["connection"], f["data"]) for f in found["facts"]]
    for fault in found["faults"]:
        if fault["connection"] is not None:
            names = ("ts_ns", "connection", "direction", "code", "missing_bytes", "protocol")
            events.append(FaultRow(*(fault[name] for name in names)))
    columns = MessageRow.__struct_fields__[:-1]
    for row in found["messages"]:
        fields = fields_of(row["protocol"], row["name"], row.get(row["protocol"]))
        events.append(MessageRow(*(row[name] for name in columns), fields))
    return events


def _lives(packets: list[Row]) -> Iterable[Event]:
    """When connections begin and end."""
    fins: dict[int, set[str]] = {}
    sides: dict[int, str] = {}
    over: set[int] = set()
    for packet in packets:
        number, flags = packet["connection"], packet["flags"]
        if number not in fins:
            fins[number] = set()
            ends = ("src", "src_port", "dst", "dst_port")
            if packet["direction"] == "s2c":
                ends = ("dst", "dst_port", "src", "src_port")
            whole = bool(flags & 2)
            yield Opened(packet["ts_ns"], number, None, *(packet[e] for e in ends), whole)
        if flags & 5:
            sides.setdefault(number, packet["direction"])
        if flags & 1:
            fins[number].add(packet["direction"])
        if number not in over and (flags & 4 or len(fins[number]) == 2):
            over.add(number)
            yield Closed(packet["ts_ns"], number, sides[number], "rst" if flags & 4 else "fin")
