"""`verify` reports no difference for a good lake, and names a corrupted value."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake.local_engine import run_here

from wirelake.lake.verify.rows import Difference, Report
from wirelake.lake.verify.verify import verify
from wirelake.tables.log import Log
from wirelake.tables.parquet import file_checksum
from wirelake.tables.snapshot import sealed
from wirelake.traffic import simulate

CORRUPTED = {
    "messages": "reason",
    "faults": "present_bytes",
    "coverage": "packets",
    "calls": "response_bytes",
    "connections": "heartbeats",
    "deliveries": "acks",
    "tunnels": "switches",
    "traffic_minutes": "bytes",
    "latency_minutes": "calls",
    "delivery_minutes": "sends",
    "error_minutes": "errors",
    "talker_minutes": "messages",
}
"""A column of each table; none of these is counted in another table."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of faulty captures that was made in two steps, and the captures beside it."""
    folder = tmp_path_factory.mktemp("replay")
    simulate(folder / "in", size="400kB", seed=6, faults=0.01, jobs=1)
    keys = key_logs(folder / "in")
    run_here(folder / "lake", folder / "in", keys=keys, max_files=2)
    return folder / "lake"


def key_logs(folder: Path) -> list[str]:
    """The key logs of a simulation."""
    return [str(path) for path in sorted(folder.glob("*.keys"))]


def verified(lake: Path, shares: int = 1, **options: Any) -> Report:
    return verify(lake, keys=key_logs(lake.parent / "in"), shares=shares, **options)


@pytest.mark.parametrize("shares", [1, 3])
def test_a_good_lake_is_clean(lake: Path, shares: int) -> None:
    found = verified(lake, shares)
    assert found.findings() == []
    assert found.ok
    assert min(found.connections, found.clients, found.minutes, found.captures, found.bytes) > 0
    assert found.rows.keys() == CORRUPTED.keys()
    assert found.sample == ("1" if shares == 1 else "1/3")


def test_a_full_report_counts_every_row(lake: Path) -> None:
    counted = verified(lake).rows
    for table in CORRUPTED:
        assert counted[table] == sum(file.rows for file in Log(lake).snapshot().files(table))


def test_samples_together_are_everything(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit verifies another part; all parts together have every connection once."""
    whole, parts = verified(lake), 0
    commit = Log(lake).snapshot().commit
    for share in range(3):
        monkeypatch.setattr(
            "wirelake.lake.verify.verify._share", lambda _, shares, share=share: share % shares
        )
        parts += verified(lake, 3).connections
    assert commit > 0
    assert parts == whole.connections


def test_workers_find_the_same(lake: Path) -> None:
    one, two = verified(lake), verified(lake, processes=2)
    assert two.findings() == []
    assert (two.rows, two.connections) == (one.rows, one.connections)


def test_missing_captures_are_named(lake: Path) -> None:
    gone = min((lake.parent / "in").glob("*.pcap*"))
    gone.rename(gone.with_suffix(".away"))
    try:
        found = verified(lake)
    finally:
        gone.with_suffix(".away").rename(gone)
    assert not found.ok
    assert found.problems == [
        f"source edge-a cannot be replayed: {gone} does not exist or was replaced"
    ]


# -- corrupted lakes -------------------------------------------------------------------------------


def corrupt(lake: Path, table: str, column: str, *, in_tunnel: bool = False) -> tuple[Any, Any]:
    """Change one value; the log agrees. Returns the value before, and the wrong one."""
    for file in Log(lake).snapshot().files(table):
        rows = pq.ParquetFile(lake / file.path).read()
        values: list[Any] = rows.column(column).to_pylist()
        links = rows.column("tunnel_link").to_pylist() if in_tunnel else values
        usable = [at for at, (value, link) in enumerate(zip(values, links, strict=True))
                  if value is not None and link is not None]  # fmt: skip
        if usable:
            before = values[usable[0]]
            values[usable[0]] = before + (1 if isinstance(before, int) else "?")
            place = rows.column_names.index(column)
            field = rows.schema.field(place)
            changed = rows.set_column(place, field, pa.array(values, field.type))
            pq.write_table(changed, lake / file.path)
            _admit(lake, file.commit, file.path)
            return before, values[usable[0]]
    raise AssertionError(f"{table} has no {column}")


def _admit(lake: Path, commit: int, path: str) -> None:
    """Let the log have the size and the checksum of the file as it is now."""
    record = Log(lake).layout.record(commit)
    said = json.loads(record.read_text())
    for each in said["add"]:
        if each["path"] == path:
            each["bytes"] = (lake / path).stat().st_size
            each["checksum"] = file_checksum(lake / path)
    del said["checksum"]
    record.write_bytes(sealed(json.dumps(said).encode()))


@pytest.fixture
def copy(lake: Path, tmp_path: Path) -> Path:
    """A lake to corrupt, and its captures."""
    (tmp_path / "in").symlink_to(lake.parent / "in")
    return Path(shutil.copytree(lake, tmp_path / "lake"))


def test_one_wrong_value_in_each_table_is_named(copy: Path) -> None:
    wrong = {table: corrupt(copy, table, column) for table, column in CORRUPTED.items()}
    found = verified(copy)
    assert not found.ok
    named = {each.table: each for each in found.differences}
    assert len(found.differences) == found.differing == len(CORRUPTED)
    for table, column in CORRUPTED.items():
        before, value = wrong[table]
        each = named[table]
        assert (each.column, each.lake, each.expected) == (column, value, before)
        assert str(each).startswith(f"{table}: ")
        assert str(each).endswith(f": {column} is {value}; expected {before}")


def test_what_crosses_connections_is_named(copy: Path) -> None:
    before, value = corrupt(copy, "connections", "previous_connection")
    asked, larger = corrupt(copy, "calls", "request_bytes", in_tunnel=True)
    found = {(each.table, each.column): each for each in verified(copy).differences}
    previous = found.pop(("connections", "previous_connection"))
    assert (previous.lake, previous.expected) == (value, before)
    call = found.pop(("calls", "request_bytes"))
    assert (call.lake, call.expected) == (larger, asked)
    assert found == {}


def test_a_sample_finds_what_is_in_it(copy: Path) -> None:
    """Over the shares of three samples, one wrong value is found exactly once."""
    corrupt(copy, "tunnels", "switches")
    found: list[Difference] = []
    for share in range(3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("wirelake.lake.verify.verify._share", lambda *_, share=share: share)
            found += verified(copy, 3).differences
    assert [(each.table, each.column) for each in found] == [("tunnels", "switches")]
