"""Small lakes for tests: files with a few rows, committed as a run would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from wirelake.records.schema import schema
from wirelake.tables.parquet import ParquetOut
from wirelake.tables.snapshot import Input, Record
from wirelake.tables.writer import Transaction, Writer

SECOND = 1_000_000_000

__all__ = ["SECOND", "Clock", "add_rows", "call", "capture", "commit_calls", "write_rows"]


class Clock:
    """A clock that stands still until it is told to move."""

    def __init__(self, now_ns: int = 1_700_000_000 * SECOND):
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def move(self, seconds: float) -> None:
        """Time passes."""
        self.now_ns += int(seconds * SECOND)


def call(number: int, **columns: Any) -> dict[str, Any]:
    """A row of `calls`."""
    return {
        "connection": number,
        "protocol": "comet",
        "direction": "c2s",
        "target": f"target-{number % 3}",
        "outcome": "answered",
        "request_ns": number * SECOND,
        "response_ns": number * SECOND + 5_000_000,
        "latency_ns": 5_000_000,
        **columns,
    }


def write_rows(path: Path, table: str, rows: list[dict[str, Any]], protocol: str = "comet") -> Path:
    """A file with rows of a table."""
    columns = schema(table, [protocol] if table == "messages" else ())
    with ParquetOut(path, columns) as out:
        out.write(pa.RecordBatch.from_pylist(rows, schema=columns))
    return path


def add_rows(
    step: Transaction, table: str, rows: list[dict[str, Any]], name: str = "part", **facts: Any
) -> str:
    """Adds a file with rows; gives its path in the lake."""
    path = step.work(f"{table}-{name}") / f"{name}.parquet"
    write_rows(path, table, rows, facts.get("protocol") or "comet")
    return step.add(table, path, **facts).path


def capture(sequence: int, source: str = "edge", **facts: Any) -> Input:
    """A capture that is consumed."""
    return Input(
        **{
            "source": source,
            "sequence": sequence,
            "path": f"/captures/{source}-{sequence:08d}.pcapng",
            "bytes": 1_000,
            "mtime_ns": sequence * SECOND,
            **facts,
        }
    )


def commit_calls(writer: Writer, numbers: range | list[int], **facts: Any) -> Record:
    """Commits calls with these numbers, and a capture that they come from."""
    with writer.begin() as step:
        add_rows(step, "calls", [call(each) for each in numbers], **facts)
        step.consume(capture(step.number - 1))
        return step.commit("advance", {"rows": {"calls": len(numbers)}, "seconds": 1.0})
