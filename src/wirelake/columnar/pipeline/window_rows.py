"""The messages of a window while they are gathered: batches of rows, by protocol and in order.

Kernels give batches in the order of packets. Rows that were read one by one come later, in batches
of their own; where there are some, all rows of the protocol are put in order once more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.records.schema import schema

from ..decode.messages import Slices
from ..decode.scalar import Outcome

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "WindowRows", "chunks"]

BATCH_ROWS: Final = 32_768
"""Rows of a batch, at most."""
BATCH_BYTES: Final = 8 << 20
"""Bytes of frames in a batch, unless a single frame has more."""

Places = NDArray[np.int64]


def chunks(slices: Slices) -> Iterator[tuple[int, int]]:
    """Ranges of slices, each for one batch."""
    sizes = np.cumsum(slices.stops - slices.starts)
    begin = 0
    while begin < len(slices):
        before = sizes[begin - 1] if begin else 0
        end = int(np.searchsorted(sizes, before + BATCH_BYTES, side="right"))
        end = max(begin + 1, min(end, begin + BATCH_ROWS))
        yield begin, end
        begin = end


class WindowRows:
    """Batches by protocol, with the number of the packet that completed each row."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[pa.RecordBatch, Places]]] = {}

    def add(self, protocol: str, batch: pa.RecordBatch, places: Places) -> None:
        """Rows that kernels decoded."""
        if batch.num_rows:
            self._held.setdefault(protocol, []).append((batch, places))

    def add_outcomes(self, outcomes: list[Outcome]) -> None:
        """Rows of messages that were read one by one."""
        rows: dict[str, tuple[list[dict[str, Any]], list[int]]] = {}
        for outcome in outcomes:
            for row in outcome.rows:
                held, places = rows.setdefault(row["protocol"], ([], []))
                held.append(row)
                places.append(outcome.arrival)
        for name, (held, places) in rows.items():
            batch = pa.RecordBatch.from_pylist(held, schema=schema("messages", [name]))
            self.add(name, batch, np.array(places, np.int64))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, those of a protocol in the order of packets."""
        for held in self._held.values():
            yield from _in_order(held)


def _in_order(held: list[tuple[pa.RecordBatch, Places]]) -> Iterator[pa.RecordBatch]:
    ends = [(places[0], places[-1]) for _, places in held]
    between = all(one[1] <= other[0] for one, other in itertools.pairwise(ends))
    within = all((places[1:] >= places[:-1]).all() for _, places in held)
    if between and within:
        yield from (batch for batch, _ in held)
        return
    table = pa.Table.from_batches([batch for batch, _ in held])
    sequence = np.argsort(np.concatenate([places for _, places in held]), kind="stable")
    whole = table.take(pa.array(sequence)).combine_chunks()
    yield from whole.to_batches(max_chunksize=BATCH_ROWS)
