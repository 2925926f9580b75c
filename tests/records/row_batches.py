"""Rows of `faults` as events of engines, and rows of engines as batches of their tables."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from wirelake.capture.decode.events import engine_event
from wirelake.records.rows import FaultRow
from wirelake.records.schema import schema

__all__ = ["batch_from_rows", "fault_rows"]


def fault_rows(batch: pa.RecordBatch) -> list[FaultRow]:
    """Return the rows of a batch of `faults` that have a direction and a time."""
    events = (engine_event("faults", row) for row in batch.to_pylist())
    return [event for event in events if isinstance(event, FaultRow)]


def batch_from_rows(table: str, rows: Sequence[msgspec.Struct]) -> pa.RecordBatch:
    """Return the rows of an engine as a batch of their table."""
    columns = schema(table)
    arrays = [pa.array([getattr(row, each.name) for row in rows], each.type) for each in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
