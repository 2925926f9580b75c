"""A small live run on a hub of its own, and the tables that a reader finds in its recording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from tests.hub_raw.hub_process import HubProcess, running_hub

from wirelake.capture.format.writer import sealed_files
from wirelake.columnar.read.reader import ReadOptions, read_batches, table_schema
from wirelake.traffic.live import HubAddress, LiveSummary, simulate_live

TABLES = ("calls", "deliveries", "connections", "tunnels", "faults", "messages")
_COLUMNS = {"messages": ["protocol", "kind", "name", "direction"]}


@dataclass(frozen=True)
class LiveRun:
    """What a live run leaves."""

    truth: Path
    recordings: Path
    ports: dict[int, str]
    summary: LiveSummary


@contextmanager
def recording_hub(folder: Path, **changes: Any) -> Iterator[HubProcess]:
    """A hub that records into `folder/recordings`, in files of a second."""
    record = {"folder": str(folder / "recordings"), "keys": True, "rotate_s": 1}
    store = {"synchronous": "normal"}
    with running_hub(folder, {"record": record, "store": store, **changes}) as hub:
        yield hub


def address_of(hub: HubProcess) -> HubAddress:
    """Where to simulate_live."""
    host, port = hub.addresses["admin"]
    return HubAddress(f"http://{host}:{port}", hub.data)


def live_run(folder: Path, *, seconds: float = 3.0, scale: float = 0.05) -> LiveRun:
    """Run clients, then end the hub."""
    with recording_hub(folder) as hub:
        ports = {port: name for name, (_, port) in hub.addresses.items() if name != "admin"}
        summary = simulate_live(
            address_of(hub), folder / "live", seconds=seconds, scale=scale, seed=3
        )
    return LiveRun(folder / "live", folder / "recordings", ports, summary)


@contextmanager
def tables_of(found: LiveRun) -> Iterator[Any]:
    """The tables of the recording, in DuckDB."""
    files = [str(each) for each in sealed_files(found.recordings)]
    with duckdb.connect(":memory:") as db:
        for name in TABLES:
            options = ReadOptions(table=name, ports=found.ports, columns=_COLUMNS.get(name))
            table = pa.Table.from_batches(
                read_batches(files, options), schema=table_schema(options)
            )
            db.register(name, table)
        yield db
