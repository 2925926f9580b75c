"""What a simulation knows to be true, against the tables that are read from its captures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wirelake.columnar.read.reader import ReadOptions, read_batches, table_schema

TABLES = ("calls", "deliveries", "connections", "tunnels", "faults", "coverage")


def untrue(folder: Path) -> list[str]:
    """Rows that are only in the truth, or only in what was read; a few examples of each table."""
    files = sorted(str(path) for path in folder.glob("*.pcap*"))
    keys = sorted(str(path) for path in folder.glob("*.keys"))
    found: list[str] = []
    for table in TABLES:
        options = ReadOptions(table=table, keys=keys)
        read = pa.Table.from_batches(read_batches(files, options), schema=table_schema(options))
        true = pq.read_table(folder / "truth" / f"{table}.parquet")
        assert read.column_names == true.column_names
        given, wanted = _rows(read), _rows(true)
        found += [f"{table}, not read: {row}" for row in list((wanted - given).elements())[:3]]
        found += [f"{table}, not true: {row}" for row in list((given - wanted).elements())[:3]]
    return found + _counts(folder, files, keys)


def _rows(table: pa.Table) -> Counter[str]:
    rows = table.to_pylist()
    for row in rows:
        if row.get("file") is not None:
            row["file"] = Path(row["file"]).name
    return Counter(map(repr, rows))


def _counts(folder: Path, files: list[str], keys: list[str]) -> list[str]:
    """Messages by protocol, direction, kind and name."""
    names = ["protocol", "direction", "kind", "name"]
    options = ReadOptions(keys=keys, columns=names)
    read: Counter[tuple[str, ...]] = Counter()
    for batch in read_batches(files, options):
        read.update(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    true = pq.read_table(folder / "truth" / "message_counts.parquet").to_pylist()
    wanted = Counter({tuple(row[name] for name in names): row["messages"] for row in true})
    return [
        f"messages: {key} {read[key]} instead of {wanted[key]}"
        for key in read | wanted
        if read[key] != wanted[key]
    ]
