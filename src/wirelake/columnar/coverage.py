"""Rows of `coverage`: what the front end counted, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.records.schema import schema

from .ledger import Ledger
from .meaning import Coded
from .window import DIRECTIONS, Streams

__all__ = ["coverage_batch"]


def coverage_batch(
    streams: Streams,
    ledger: Ledger,
    chosen: NDArray[np.int32],
    protocols: Sequence[str],
    files: Sequence[str],
) -> pa.RecordBatch:
    """The rows of some streams."""
    entries = ledger.entries[chosen]
    new, gap = streams.new[chosen], streams.gap[chosen]
    numbers = np.maximum(entries["protocol"].astype(np.int32), -1)
    columns = {
        "file": Coded(streams.file[chosen], tuple(files)).array(),
        "connection": streams.connection[chosen],
        "direction": Coded(streams.direction[chosen].astype(np.int32), DIRECTIONS).array(),
        "protocol": Coded(numbers, tuple(protocols)).array(),
        "first_ns": streams.first_ns[chosen],
        "last_ns": streams.last_ns[chosen],
        "packets": streams.packets[chosen],
        "payload_bytes": streams.payload[chosen],
        "new_bytes": new,
        "duplicate_bytes": streams.duplicate[chosen],
        "gap_bytes": gap,
        "span_bytes": new + gap,
        "decoded_bytes": entries["decoded"],
        "faulty_bytes": entries["faulty"],
        "undecryptable_bytes": entries["undecryptable"],
        "ignored_bytes": entries["ignored"] + streams.ignored[chosen],
        "messages": entries["messages"],
        "faults": entries["faults"],
    }
    found = schema("coverage")
    arrays = [
        value if isinstance(value := columns[field.name], pa.Array) else pa.array(value, field.type)
        for field in found
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=found)
