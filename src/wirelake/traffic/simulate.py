"""Simulated traffic: capture files, and the truth about them.

    summary = simulate("out", size="200MB", seed=1)

A run is cut into shards, each of which follows from the seed alone; processes share them, and the
result is the same however many there are. The folder then has

    edge-a-00000000.pcapng ...    captures in the style of our recorder
    tap-a-00000000.pcap ...       captures in the style of tcpdump, and their key logs (*.keys)
    truth/calls.parquet ...       what a reader must find, by table
    truth.json                    a summary
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.capture.processes import process_pool
from wirelake.records.schema import schema
from wirelake.wire.paths import local_path

from .plan import GeneratedShard, Shard, SimulateError, parse_size, plan, run
from .scenes import provider
from .truth.tables import TABLES

__all__ = [
    "Progress",
    "Summary",
    "Target",
    "gather",
    "simulate",
]


# -- the truth of a run ------------------------------------------------------------------------

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


def gather(folder: Path, made: Sequence[GeneratedShard]) -> Summary:
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


# -- the run -----------------------------------------------------------------------------------

Progress = Callable[[int, int], None]
"""Called with the bytes written so far and the bytes in total."""

_PARTS: Final = Path("truth") / ".parts"
_SINGLE_BYTES: Final = 32_000_000
"""Below this size, starting processes takes longer than the work."""


def simulate(
    out: str | os.PathLike[str],
    *,
    size: int | str = "200MB",
    seed: int = 0,
    faults: float = 0.0,
    protocols: Sequence[str] | None = None,
    style: str = "both",
    jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Write captures and their truth to a folder. Raises SimulateError.

    `size` is the approximate size of all captures. `faults` is the share of messages with a fault.
    `protocols` are the built-in ones by default; others can be named (`scenes/provider.py`).
    `style` is recorder, tcpdump or both. `jobs` is the number of processes, by default one per
    processor; they are spawned, so a script that asks for several needs the usual
    `if __name__ == "__main__"`. A folder that is not empty is refused, or emptied with `force`.
    """
    total = parse_size(size) if isinstance(size, str) else size
    protocols = provider.built_in() if protocols is None else protocols
    shards = plan(size=total, seed=seed, faults=faults, protocols=protocols, style=style)
    if jobs is not None and jobs < 1:
        raise SimulateError(f"invalid number of jobs {jobs}; expected at least 1")
    folder = local_path(out)
    existed = folder.exists()
    _prepare(folder, force)
    if jobs is None:
        jobs = 1 if total < _SINGLE_BYTES else os.cpu_count() or 1
    workers = min(len(shards), jobs)
    made: list[GeneratedShard] = []
    try:
        with closing(_generate(shards, folder, workers)) as parts:
            for each in parts:
                made.append(each)
                if progress is not None:
                    progress(sum(one.bytes for one in made), total)
        summary = gather(folder, made)
        shutil.rmtree(folder / _PARTS)
        _write_summary(folder, summary, shards, protocols, style)
    except BaseException:
        # A part of the captures would be taken for all of them, and refused by the next attempt.
        _empty(folder)
        if not existed:
            folder.rmdir()
        raise
    return summary


def _prepare(folder: Path, force: bool) -> None:
    """Make an empty folder with a subfolder for parts of truth."""
    if folder.exists() and not folder.is_dir():
        raise SimulateError(f"{folder}: not a directory")
    if folder.is_dir() and any(folder.iterdir()):
        if not force:
            raise SimulateError(f"{folder}: not empty")
        _empty(folder)
    (folder / _PARTS).mkdir(parents=True)


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


def _generate(shards: list[Shard], folder: Path, workers: int) -> Generator[GeneratedShard]:
    """Generate the shards, in order."""
    if workers == 1:
        for shard in shards:
            yield run(shard, folder)
        return
    with process_pool(workers) as pool:
        # Not `map`: an interrupt makes it cancel the shards that wait. If the processes end first,
        # by the same Ctrl-C, the pool's thread fails on those with a traceback (Python 3.11).
        futures = [pool.submit(run, shard, folder) for shard in shards]
        # In the order of shards, and with it the order of rows in truth.
        for future in futures:
            yield future.result()


def _write_summary(
    folder: Path, summary: Summary, shards: list[Shard], protocols: Sequence[str], style: str
) -> None:
    options: dict[str, Any] = {
        "seed": shards[0].seed,
        "style": style,
        "protocols": sorted(protocols),
        "faults": shards[0].faults,
    }
    text = json.dumps({"asked": options, **summary.as_json()}, indent=2, ensure_ascii=False)
    (folder / "truth.json").write_text(text + "\n", encoding="utf-8")
