"""A lake of a small simulation, made without Spark: what a run would commit, in one commit."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.records.schema import schema
from wirelake.tables.inputs import discover
from wirelake.tables.writer import Transaction, Writer
from wirelake.traffic import simulate

from .minutes import MINUTES

__all__ = ["captures", "lake", "make_lake"]

READ = ("messages", "calls", "deliveries", "connections", "tunnels", "faults", "coverage")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recordings, captures of tcpdump and the truth."""
    folder = tmp_path_factory.mktemp("traffic")
    simulate(folder, size=600_000, seed=5, faults=0.005, jobs=1)
    return folder


@pytest.fixture(scope="module")
def lake(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of these."""
    return make_lake(tmp_path_factory.mktemp("lake") / "lake", captures)


def make_lake(root: Path, captures: Path) -> Path:
    """Commits all tables of the captures."""
    found = discover(captures)
    with Writer(root, create={}) as writer, writer.begin() as step:
        with duckdb.connect() as db:
            for table in READ:
                batches = read_batches([each.path for each in found], ReadOptions(table=table))
                path = _add(step, table, pa.Table.from_batches(batches, schema(table)))
                db.execute(f"create view {table} as from '{path}'")
            for table, query in MINUTES.items():
                _add(step, table, db.sql(query).to_arrow_table().cast(schema(table)))
        for each in found:
            step.consume(each.consumed())
        step.commit("advance", {"bytes": sum(each.bytes for each in found), "seconds": 1.0})
    return root


def _add(step: Transaction, table: str, rows: pa.Table) -> Path:
    path = step.work("all") / f"{table}.parquet"
    pq.write_table(rows, path)
    step.add(table, path)
    return path
