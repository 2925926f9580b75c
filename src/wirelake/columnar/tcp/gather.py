"""From the packets of a window to contiguous bytes of streams: layout, then copying.

The bytes of a stream in a window are what was carried, then the payloads that the kernel took, then
the pieces of its patch. They make one run, and one more behind each gap.
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
from .pieces import ARRIVAL, PLACE, START, TIME, Carry, Pieces, copy_bytes, place
from .reassembly import Patch

__all__ = ["Gathered", "Runs", "gather"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Runs:
    """Runs of contiguous bytes; those of a stream are neighbours, in its order."""

    stream: NDArray[np.int32]
    start: Ints
    stop: Ints
    """Where in the bytes; a run may be empty: a gap at the end of a stream."""
    offset: Ints
    """Where in the stream it begins."""
    gap: Ints
    """Bytes that are missing before it."""
    kept: Ints
    """How many of its first bytes were carried from earlier windows."""
    gap_ts: Ints
    gap_offset: Ints
    gap_file: NDArray[np.int32]
    """The packet that shows the gap."""

    @staticmethod
    def room(count: int) -> Runs:
        """Space for so many runs."""
        numbers = [np.zeros(count, np.int64) for _ in range(7)]
        start, stop, offset, gap, kept, gap_ts, gap_offset = numbers
        stream, gap_file = np.zeros(count, np.int32), np.zeros(count, np.int32)
        return Runs(stream, start, stop, offset, gap, kept, gap_ts, gap_offset, gap_file)


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
    patches: dict[int, Patch],
    carry: Carry,
) -> Gathered:
    """Bring together what the `active` streams have in this window.

    A stream that is `ended` gets what was carried for it even when nothing is new.
    """
    layout = _Layout(table, active, ended, patches, carry)
    data = np.empty(layout.total_bytes, np.uint8)
    pieces = Pieces.room(layout.total_pieces)
    carried = layout.rows >= 0
    carry.lift(
        layout.rows[carried],
        layout.start[carried],
        layout.piece[carried],
        data,
        pieces,
    )
    table["carry"][layout.stream] = -1
    table["cursor"][layout.stream] = layout.start + layout.kept
    table["piece"][layout.stream] = layout.piece + layout.kept_pieces
    place(
        packets.count,
        packets.data,
        packets.base,
        packets.file,
        packets.before,
        packets.wide,
        packets.places,
        packets.sizes,
        packets.stream,
        packets.taken,
        table,
        data,
        pieces.numbers,
        pieces.file,
        pieces.cut,
    )
    _sew(layout, packets, table, data, pieces)
    return Gathered(readonly(data), layout.runs(table), pieces)


class _Layout:
    """Where everything goes."""

    def __init__(
        self,
        table: NDArray[Any],
        active: NDArray[np.int32],
        ended: NDArray[np.int32],
        patches: dict[int, Patch],
        carry: Carry,
    ):
        size, count = table["bytes"][active], table["pieces"][active].astype(np.int64)
        gaps = np.zeros(len(active), np.int64)
        locals_ = _locals(table, active, patches)
        for local, patch in zip(locals_, patches.values(), strict=True):
            size[local] += patch.size
            count[local] += patch.count
            gaps[local] = len(patch.gaps)
        rows = table["carry"][active].astype(np.int64)
        table["cursor"][active] = 0
        table["cursor"][ended] = 1
        wanted = (size > 0) | (gaps > 0) | ((rows >= 0) & (table["cursor"][active] == 1))
        chosen = np.cumsum(wanted) - 1
        self.stream = active[wanted]
        self.rows = rows[wanted]
        self.patches = [
            (int(chosen[local]), patch)
            for local, patch in zip(locals_, patches.values(), strict=True)
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
        """The runs: one for each stream, and those behind gaps."""
        gapped = [(local, patch) for local, patch in self.patches if patch.gaps]
        counts = 1 + self._gaps
        missing = np.zeros(len(self.stream), np.int64)
        for local, patch in gapped:
            missing[local] = sum(gap.missing for _, gap in patch.gaps)
            before = int(self._sizes[local]) - patch.size + patch.gaps[0][0]
            counts[local] -= before == 0
        first = np.cumsum(counts) - counts
        runs = Runs.room(int(counts.sum()))
        runs.stream[:] = np.repeat(self.stream, counts)
        runs.start[first] = self.start
        runs.stop[first] = self._stops
        runs.offset[first] = table["position"][self.stream] - self._sizes - missing
        runs.kept[first] = self.kept
        for local, patch in gapped:
            _split(runs, int(first[local]), int(self._stops[local]) - patch.size, patch)
        return runs


def _locals(table: NDArray[Any], active: NDArray[np.int32], patches: dict[int, Patch]) -> list[int]:
    """The places of the patched streams in `active`."""
    table["cursor"][active] = np.arange(len(active))
    return [int(local) for local in table["cursor"][list(patches)]] if patches else []


def _carried(rows: Ints, carry: Carry) -> tuple[Ints, Ints]:
    """How many bytes and pieces are carried in each row, none for -1."""
    size, count = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    some = rows >= 0
    size[some] = (carry.stop - carry.start)[rows[some]]
    count[some] = (carry.last - carry.first)[rows[some]]
    return size, count


def _split(runs: Runs, at: int, patch_start: int, patch: Patch) -> None:
    """Cut the run of a stream at the gaps of its patch, which begins at `patch_start`."""
    start, stop, offset = int(runs.start[at]), int(runs.stop[at]), int(runs.offset[at])
    if patch_start + patch.gaps[0][0] > start:
        runs.stop[at] = patch_start + patch.gaps[0][0]
        at += 1
    else:
        runs.kept[at] = 0
    skipped = 0
    ends = [patch_start + before for before, _ in patch.gaps[1:]] + [stop]
    for (before, gap), end in zip(patch.gaps, ends, strict=True):
        skipped += gap.missing
        runs.start[at] = patch_start + before
        runs.stop[at] = end
        runs.offset[at] = offset + runs.start[at] - start + skipped
        runs.gap[at] = gap.missing
        runs.gap_ts[at] = gap.ts_ns
        runs.gap_offset[at] = gap.offset
        runs.gap_file[at] = gap.file
        at += 1


def _sew(
    layout: _Layout,
    packets: Packets,
    table: NDArray[Any],
    target: NDArray[np.uint8],
    pieces: Pieces,
) -> None:
    """Put the pieces of patches behind what the kernel placed for their streams."""
    sewn = [(local, patch) for local, patch in layout.patches if patch.count]
    if not sewn:
        return
    which = np.concatenate([part for _, patch in sewn for part in patch.pieces])
    events = [event for _, patch in sewn for event in patch.events]
    whole = which >= 0
    mine = which[whole]
    size = np.empty(len(which), np.int64)
    size[whole] = packets.sizes[PAYLOAD_BYTES, mine]
    size[~whole] = [len(event.payload) for event in events]
    streams = layout.stream[[local for local, _ in sewn]]
    counts = np.array([patch.count for _, patch in sewn])
    start = _behind_each_other(table["cursor"][streams], counts, size)
    here = _behind_each_other(table["piece"][streams], counts, np.ones(len(which), np.int64))
    pieces.numbers[START, here] = start
    for row, of_packets, of_events in (
        (TIME, packets.wide[TS, mine], [event.ts_ns for event in events]),
        (PLACE, packets.places[PAYLOAD, mine] + packets.base, [event.offset for event in events]),
        (ARRIVAL, mine + packets.before, [event.arrival for event in events]),
    ):
        pieces.numbers[row, here[whole]] = of_packets
        pieces.numbers[row, here[~whole]] = of_events
    pieces.file[here[whole]] = packets.file
    pieces.file[here[~whole]] = [event.file for event in events]
    pieces.cut[here] = 0
    copy_bytes(packets.data, packets.places[PAYLOAD, mine], size[whole], target, start[whole])
    sizes = size[~whole]
    joined = readonly(b"".join([event.payload for event in events]))
    copy_bytes(joined, np.cumsum(sizes) - sizes, sizes, target, start[~whole])


def _behind_each_other(first: Ints, counts: Ints, sizes: Ints) -> Ints:
    """Where things of some sizes begin that lie behind each other in groups: so many in each group,
    the first of which begins at `first`."""
    starts = np.cumsum(sizes) - sizes
    heads = np.cumsum(counts) - counts
    moved: Ints = np.repeat(first - starts[heads], counts)
    return starts + moved
