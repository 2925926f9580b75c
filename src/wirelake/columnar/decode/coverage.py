"""Counts what became of the bytes of each stream; also holds the number of its protocol.

Streams have small numbers that are used again. The row of `coverage` of a stream is made when the
stream is dropped, from what the front end counted and what is counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.records.schema import schema

from ..jit.options import U, kernel
from ..tcp.window import DIRECTIONS, Streams
from .meaning import Coded

__all__ = [
    "ENTRY",
    "IGNORED",
    "UNDECIDED",
    "UNSEEN",
    "CoverageCounts",
    "coverage_batch",
]


UNDECIDED: Final = -1
"""In place of a protocol's number: not known yet, its first bytes decide."""
IGNORED: Final = -2
"""In place of a protocol's number: no protocol, or one that is not installed."""
UNSEEN: Final = -3
"""In place of a protocol's number: no packet of its connection was seen."""

_COUNTS: Final = ("decoded", "faulty", "undecryptable", "ignored", "messages", "faults")
ENTRY: Final = np.dtype([("protocol", "i2"), *((name, "i8") for name in _COUNTS)])
"""The record of a stream."""


class CoverageCounts:
    """The counts of all streams, by number of stream."""

    def __init__(self) -> None:
        self.entries = self._room(1024)

    @staticmethod
    def _room(count: int) -> NDArray[Any]:
        entries = np.zeros(count, ENTRY)
        entries["protocol"] = UNSEEN
        return entries

    def reach(self, streams: int) -> None:
        """Grow to at least this many streams."""
        held = len(self.entries)
        if streams > held:
            self.entries = np.concatenate([self.entries, self._room(max(streams, 2 * held) - held)])

    def restore(self, entries: NDArray[Any]) -> None:
        """Restore the entries of the first streams."""
        self.reach(len(entries))
        self.entries[: len(entries)] = entries

    def add(self, name: str, streams: NDArray[Any], amounts: NDArray[Any] | int) -> None:
        """Add to a count; a stream may occur several times."""
        if isinstance(amounts, int):
            amounts = np.full(len(streams), amounts, np.int64)
        _add(self.entries[name], streams.astype(np.int64), amounts.astype(np.int64))

    def forget(self, streams: NDArray[Any]) -> None:
        """Reset streams whose numbers become free."""
        blank = np.zeros(1, ENTRY)
        blank["protocol"] = UNSEEN
        self.entries[streams] = blank[0]


@kernel
def _add(counts: NDArray[Any], streams: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
    for i in range(U(len(streams))):
        counts[U(streams[i])] += amounts[i]


# Rows of `coverage`: what the front end counted, and what became of it.


def coverage_batch(
    streams: Streams,
    coverage: CoverageCounts,
    chosen: NDArray[np.int32],
    protocols: Sequence[str],
    files: Sequence[str],
) -> pa.RecordBatch:
    """Return the rows of some streams."""
    entries = coverage.entries[chosen]
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
