"""The truth of a run: one file for each table, from the parts of all shards, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.records.schema import schema

from .shard import Made
from .truth.tables import TABLES

__all__ = ["Summary", "Target", "gather"]

_COUNTS: Final = pa.schema(
    [
        pa.field("protocol", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("name", pa.string()),
        pa.field("direction", pa.string()),
        pa.field("messages", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Target:
    """Calls to one target."""

    protocol: str
    target: str
    calls: int
    answered: int
    """Calls with a complete response, failures included."""
    p50_ns: int | None
    p99_ns: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a run."""

    files: int
    bytes: int
    packets: int
    messages: int
    connections: int
    calls: dict[str, int]
    """By outcome."""
    deliveries: dict[str, int]
    """By outcome."""
    faults: dict[str, int]
    """By code."""
    targets: tuple[Target, ...]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "packets": self.packets,
            "messages": self.messages,
            "connections": self.connections,
            "calls": self.calls,
            "deliveries": self.deliveries,
            "faults": self.faults,
            "targets": [
                {name: getattr(each, name) for name in Target.__slots__} for each in self.targets
            ],
        }


def gather(folder: Path, made: Sequence[Made]) -> Summary:
    """Write the truth tables; return the figures."""
    outcomes: dict[str, Counter[str]] = {}
    latencies: dict[tuple[str, str], list[Any]] = {}
    rows: Counter[str] = Counter()
    for table in TABLES:
        outcomes[table] = Counter()
        with _writer(folder / "truth" / f"{table}.parquet", schema(table)) as writer:
            for each in made:
                if table in each.tables:
                    part = pa.ipc.open_file(pa.memory_map(str(each.tables[table]))).read_all()
                    writer.write_table(part)
                    rows[table] += part.num_rows
                    _count(table, part, outcomes[table], latencies)
    counts = sum((each.counts for each in made), Counter[Any]())
    kinds = sorted(counts)
    columns = {
        **{name: [getattr(kind, name) for kind in kinds] for name in _COUNTS.names[:-1]},
        "messages": [counts[kind] for kind in kinds],
    }
    path = folder / "truth" / "message_counts.parquet"
    pq.write_table(pa.table(columns, schema=_COUNTS), path)
    return Summary(
        files=sum(len(each.files) for each in made),
        bytes=sum(each.bytes for each in made),
        packets=sum(each.packets for each in made),
        messages=counts.total(),
        connections=rows["connections"],
        calls=dict(sorted(outcomes["calls"].items())),
        deliveries=dict(sorted(outcomes["deliveries"].items())),
        faults=dict(sorted(outcomes["faults"].items())),
        targets=tuple(_target(key, found) for key, found in sorted(latencies.items())),
    )


def _writer(path: Path, columns: pa.Schema) -> pq.ParquetWriter:
    """Open a Parquet file. Only text repeats: a dictionary of times would be as large as they."""
    texts = [field.name for field in columns if pa.types.is_string(field.type)]
    return pq.ParquetWriter(path, columns, compression="zstd", use_dictionary=texts)


def _count(
    table: str,
    part: pa.Table,
    outcomes: Counter[str],
    latencies: dict[tuple[str, str], list[Any]],
) -> None:
    column = {"calls": "outcome", "deliveries": "outcome", "faults": "code"}.get(table)
    if column is not None:
        for found in pc.value_counts(part[column]).to_pylist():
            outcomes[found["values"]] += found["counts"]
    if table == "calls":
        keys = pc.binary_join_element_wise(part["protocol"], part["target"], "\0")
        coded = keys.combine_chunks().dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False)
        values = part["latency_ns"].fill_null(-1).to_numpy()
        for n, key in enumerate(coded.dictionary.to_pylist()):
            if key is not None:
                protocol, target = key.split("\0")
                latencies.setdefault((protocol, target), []).append(values[codes == n])


def _target(key: tuple[str, str], found: list[npt.NDArray[np.int64]]) -> Target:
    values = np.concatenate(found)
    known = np.sort(values[values >= 0])
    return Target(*key, len(values), len(known), _percentile(known, 50), _percentile(known, 99))


def _percentile(values: npt.NDArray[np.int64], share: int) -> int | None:
    """Return a percentile: the smallest value with that share of values not above it."""
    if not len(values):
        return None
    return int(values[max(0, -(-len(values) * share // 100) - 1)])
