"""The packets of a window to contiguous bytes of streams: lay out, then copy.

The bytes of a stream in a window are those carried over, then the payloads that the kernel found in
order, then what the reassembler delivered. They form one run, and another one after each gap. All
sizes are known before anything is copied, so each byte is copied once into one buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..jit.options import readonly
from ..scan.blocks import TS
from ..scan.headers import PAYLOAD, PAYLOAD_BYTES
from .packets import Packets
from .pieces import ARRIVAL, FILE_OFFSET, PIECE_TS, START, Carry, Pieces, copy_bytes, copy_in_order
from .reassembly import Reassembled

__all__ = ["Gathered", "Runs", "gather"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Runs:
    """Runs of contiguous bytes; those of a stream follow each other, in stream order."""

    stream: NDArray[np.int32]
    start: Ints
    stop: Ints
    """Positions in the bytes; an empty run stands for a gap at the end of a stream."""
    offset: Ints
    """Position of the first byte in the stream."""
    gap: Ints
    """Bytes that are missing before the run."""
    kept: Ints
    """Number of leading bytes carried from earlier windows."""
    gap_ts: Ints
    gap_offset: Ints
    gap_file: NDArray[np.int32]
    """The packet that shows the gap."""
    gap_given_up: Ints
    """The number of the packet with which it was given up."""

    @staticmethod
    def empty(count: int) -> Runs:
        """Return space for `count` runs, filled with zeros."""
        columns = [np.zeros(count, np.int64) for _ in range(8)]
        start, stop, offset, gap, kept, gap_ts, gap_offset, given_up = columns
        stream, gap_file = np.zeros(count, np.int32), np.zeros(count, np.int32)
        return Runs(stream, start, stop, offset, gap, kept, gap_ts, gap_offset, gap_file, given_up)


@dataclass(frozen=True)
class Gathered:
    """The bytes of a window's streams."""

    data: NDArray[np.uint8]
    runs: Runs
    pieces: Pieces


def gather(
    packets: Packets,
    table: NDArray[Any],
    active: NDArray[np.int32],
    ended: NDArray[np.int32],
    reassembled: dict[int, Reassembled],
    carry: Carry,
) -> Gathered:
    """Return the bytes of the `active` streams in this window.

    Carried bytes of an `ended` stream are delivered even when nothing is new: nothing will follow.
    """
    layout = _Layout(table, active, ended, reassembled, carry)
    # Not initialised: every byte is written by exactly one of the three copies below.
    data = np.empty(layout.total_bytes, np.uint8)
    pieces = Pieces.empty(layout.total_pieces)
    # First what was carried, because it comes first in each stream.
    carried = layout.rows >= 0
    carry.copy_into(
        layout.rows[carried],
        layout.start[carried],
        layout.piece[carried],
        data,
        pieces,
    )
    # The carried bytes are part of the window now; what is still unfinished is kept again by the
    # caller.
    table["carry_row"][layout.stream] = -1
    table["next_byte"][layout.stream] = layout.start + layout.kept
    table["next_piece"][layout.stream] = layout.piece + layout.kept_pieces
    copy_in_order(
        packets.count,
        packets.data,
        packets.base,
        packets.file,
        packets.before,
        packets.packet_i64,
        packets.header_i64,
        packets.header_i32,
        packets.stream,
        packets.in_order,
        table,
        data,
        pieces.columns,
        pieces.file,
        pieces.cut,
    )
    _add_reassembled(layout, packets, table, data, pieces)
    return Gathered(readonly(data), layout.runs(table), pieces)


class _Layout:
    """Where the bytes and pieces of each stream go."""

    def __init__(
        self,
        table: NDArray[Any],
        active: NDArray[np.int32],
        ended: NDArray[np.int32],
        reassembled: dict[int, Reassembled],
        carry: Carry,
    ):
        # Field `next_byte` serves as scratch space for two lookups by stream number, before
        # `gather` gives it its meaning: a dictionary or a sorted search would be per stream in
        # Python.
        size, count = table["window_bytes"][active], table["window_pieces"][active].astype(np.int64)
        gaps = np.zeros(len(active), np.int64)
        locals_ = _locals(table, active, reassembled)
        for local, part in zip(locals_, reassembled.values(), strict=True):
            size[local] += part.size
            count[local] += part.count
            gaps[local] = len(part.gaps)
        # -1 where nothing is carried.
        rows = table["carry_row"][active].astype(np.int64)
        table["next_byte"][active] = 0
        table["next_byte"][ended] = 1
        wanted = (size > 0) | (gaps > 0) | ((rows >= 0) & (table["next_byte"][active] == 1))
        # From index in `active` to index among the wanted streams.
        chosen = np.cumsum(wanted) - 1
        self.stream = active[wanted]
        self.rows = rows[wanted]
        self.reassembled = [
            (int(chosen[local]), part)
            for local, part in zip(locals_, reassembled.values(), strict=True)
            if wanted[local]
        ]
        self.kept, self.kept_pieces = _carried(self.rows, carry)
        self._sizes = size[wanted] + self.kept
        counts = count[wanted] + self.kept_pieces
        self._stops = np.cumsum(self._sizes)
        self.start = self._stops - self._sizes
        self.piece = np.cumsum(counts) - counts
        self.total_bytes = int(self._sizes.sum())
        self.total_pieces = int(counts.sum())
        self._gaps = gaps[wanted]

    def runs(self, table: NDArray[Any]) -> Runs:
        """Return the runs: one for each stream, and one after each gap."""
        gapped = [(local, part) for local, part in self.reassembled if part.gaps]
        counts = 1 + self._gaps
        missing = np.zeros(len(self.stream), np.int64)
        for local, part in gapped:
            missing[local] = sum(gap.missing for _, gap in part.gaps)
            # A stream that begins with a gap has no run before it.
            before = int(self._sizes[local]) - part.size + part.gaps[0][0]
            counts[local] -= before == 0
        first = np.cumsum(counts) - counts
        runs = Runs.empty(int(counts.sum()))
        runs.stream[:] = np.repeat(self.stream, counts)
        runs.start[first] = self.start
        runs.stop[first] = self._stops
        runs.offset[first] = table["position"][self.stream] - self._sizes - missing
        runs.kept[first] = self.kept
        for local, part in gapped:
            _split(runs, int(first[local]), int(self._stops[local]) - part.size, part)
        return runs


def _locals(
    table: NDArray[Any], active: NDArray[np.int32], reassembled: dict[int, Reassembled]
) -> list[int]:
    """Return the indices of the reassembled streams in `active`."""
    table["next_byte"][active] = np.arange(len(active))
    return [int(local) for local in table["next_byte"][list(reassembled)]] if reassembled else []


def _carried(rows: Ints, carry: Carry) -> tuple[Ints, Ints]:
    """Return the numbers of bytes and pieces in each row of the carry; 0 for row -1."""
    size, count = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    some = rows >= 0
    size[some] = (carry.stop - carry.start)[rows[some]]
    count[some] = (carry.last - carry.first)[rows[some]]
    return size, count


def _split(runs: Runs, at: int, part_start: int, part: Reassembled) -> None:
    """Split the run of a stream at its gaps; reassembled bytes begin at `part_start`."""
    start, stop, offset = int(runs.start[at]), int(runs.stop[at]), int(runs.offset[at])
    if part_start + part.gaps[0][0] > start:
        runs.stop[at] = part_start + part.gaps[0][0]
        at += 1
    else:
        # The stream begins with a gap: nothing was carried in front of it.
        runs.kept[at] = 0
    skipped = 0
    ends = [part_start + before for before, _ in part.gaps[1:]] + [stop]
    # Gaps are rare, so a loop in Python over streams with gaps is enough.
    for (before, gap), end in zip(part.gaps, ends, strict=True):
        skipped += gap.missing
        runs.start[at] = part_start + before
        runs.stop[at] = end
        runs.offset[at] = offset + runs.start[at] - start + skipped
        runs.gap[at] = gap.missing
        runs.gap_ts[at] = gap.ts_ns
        runs.gap_offset[at] = gap.offset
        runs.gap_file[at] = gap.file
        runs.gap_given_up[at] = gap.given_up
        at += 1


def _add_reassembled(
    layout: _Layout,
    packets: Packets,
    table: NDArray[Any],
    target: NDArray[np.uint8],
    pieces: Pieces,
) -> None:
    """Copy reassembled bytes and pieces behind those that the kernel copied for their streams."""
    parts = [(local, part) for local, part in layout.reassembled if part.count]
    if not parts:
        return
    which = np.concatenate([piece for _, part in parts for piece in part.pieces])
    events = [event for _, part in parts for event in part.events]
    # Whole payloads are copied from the packets by number, the others from the assembler's bytes.
    whole = which >= 0
    indices = which[whole]
    size = np.empty(len(which), np.int64)
    size[whole] = packets.header_i32[PAYLOAD_BYTES, indices]
    size[~whole] = [len(event.payload) for event in events]
    streams = layout.stream[[local for local, _ in parts]]
    counts = np.array([part.count for _, part in parts])
    start = _offsets_in_groups(table["next_byte"][streams], counts, size)
    at = _offsets_in_groups(table["next_piece"][streams], counts, np.ones(len(which), np.int64))
    pieces.columns[START, at] = start
    for row, of_packets, of_events in (
        (PIECE_TS, packets.packet_i64[TS, indices], [event.ts_ns for event in events]),
        (
            FILE_OFFSET,
            packets.header_i64[PAYLOAD, indices] + packets.base,
            [event.offset for event in events],
        ),
        (ARRIVAL, indices + packets.before, [event.arrival for event in events]),
    ):
        pieces.columns[row, at[whole]] = of_packets
        pieces.columns[row, at[~whole]] = of_events
    pieces.file[at[whole]] = packets.file
    pieces.file[at[~whole]] = [event.file for event in events]
    pieces.cut[at] = 0
    copy_bytes(
        packets.data, packets.header_i64[PAYLOAD, indices], size[whole], target, start[whole]
    )
    sizes = size[~whole]
    payloads = readonly(b"".join([event.payload for event in events]))
    copy_bytes(payloads, np.cumsum(sizes) - sizes, sizes, target, start[~whole])


def _offsets_in_groups(first: Ints, counts: Ints, sizes: Ints) -> Ints:
    """Return where items of some sizes begin that follow each other in groups.

    A group has `counts` items, and its first item begins at `first`.
    """
    starts = np.cumsum(sizes) - sizes
    heads = np.cumsum(counts) - counts
    moved: Ints = np.repeat(first - starts[heads], counts)
    return starts + moved
