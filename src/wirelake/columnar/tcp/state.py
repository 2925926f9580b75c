"""`FrontState`: what the front end saves after its files; and how a later front end restores it.

Connections are numbered by last use, the longest idle first. Connection n of a state has the
streams 2n (c2s) and 2n + 1 (s2c).

Every front end holds the connections of all shares, because their limit and their expiry concern
all of them together. Streams, and everything about them, are only those of its own share. So the
states of all shares are restored together, by any number of shares: `lru_rank` is the number of a
connection among those of all shares, and becomes its slot.

Fields with a `name=` have another name in the file, so that files of format 2 stay readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..jit.options import readonly
from ..state_format import StateError, check, column, fill
from . import flows
from .pieces import Carry, CarryState, Pieces
from .reassembly import Assembler, AssemblerState
from .stream_order import STREAM
from .tracker import both_streams

__all__ = [
    "CONNECTION_COLUMNS",
    "STREAM_COLUMNS",
    "FrontState",
    "Restored",
    "RestoredFront",
    "mapped",
    "renumbered",
]

_LINKS: Final = ("lru_prev", "lru_next", "closed_prev", "closed_next", "in_share", "drop_reason")
CONNECTION_COLUMNS: Final = tuple(n for n in flows.CONNECTION.names or () if n not in _LINKS)
"""The saved fields of a connection; the others are computed when it is restored."""
_PER_WINDOW: Final = (
    "window_bytes",
    "next_byte",
    "next_piece",
    "window",
    "window_pieces",
    "last_packet",
    "carry_row",
    "out_of_order",
)
STREAM_COLUMNS: Final = tuple(n for n in STREAM.names or () if n not in _PER_WINDOW)
"""The saved fields of a stream."""


class FrontState(msgspec.Struct, frozen=True):
    """The state of a front end: the connections of its share."""

    now_ns: int
    """The latest capture time."""
    packets: int
    """Packets so far, of all shares."""
    total_connections: int = msgspec.field(name="held")
    """Connections of all shares."""
    lru_rank: NDArray[np.int32] = msgspec.field(name="place")
    """For each connection: its number among those of all shares."""
    connections: pa.RecordBatch
    streams: pa.RecordBatch
    carry: CarryState
    assemblers: dict[int, AssemblerState]
    """By stream: those of streams that ever had a segment out of order."""
    files: dict[int, str]
    """The files that this state or a `PipelineState` around it refers to, by number."""
    source_ns: int = 0
    """The time that the capture has reached; see `SourceClock`."""
    last_ns: int = 0
    """The time of the last packet."""

    def check(self) -> None:
        """Raise StateError when a number is out of range."""
        count = len(self.lru_rank)
        check(self.connections.schema.names == list(CONNECTION_COLUMNS), "columns")
        check(self.streams.schema.names == list(STREAM_COLUMNS), "columns")
        check(self.connections.num_rows == count, "connections")
        check(self.streams.num_rows == 2 * count, "streams")
        check(np.all((self.lru_rank >= 0) & (self.lru_rank < self.total_connections)), "place")
        check(column(self.streams, "direction", STREAM).max(initial=0) <= 1, "direction")
        check(all(0 <= stream < 2 * count for stream in self.assemblers), "assemblers")
        self.carry.check(2 * count)
        referred = {
            *self.carry.file.tolist(),
            *(piece.file for each in self.assemblers.values() for piece in each.waiting),
            *(each.reach.file for each in self.assemblers.values() if each.reach is not None),
        }
        check(referred <= self.files.keys(), "files")


class Restored(NamedTuple):
    """How the numbers of one saved state map to those of the front end that restores it."""

    streams: NDArray[np.int64]
    """By saved stream: its number now, or -1 when it belongs to another share."""
    files: dict[int, int]
    in_share: NDArray[np.bool_]
    """By saved connection: whether it belongs to our share."""


class RestoredFront:
    """The saved states of all shares, restored for one share of the connections."""

    def __init__(self, states: Sequence[FrontState], share: int, shares: int):
        for state in states:
            state.check()
        total = states[0].total_connections
        ranks = np.sort(np.concatenate([state.lru_rank for state in states]))
        moments = {(state.now_ns, state.packets, state.total_connections) for state in states}
        # The ranks of all states must be exactly 0 to n - 1: one state missing or twice would give
        # connections that nobody reads.
        if len(moments) > 1 or not np.array_equal(ranks, np.arange(total)):
            raise StateError("state: expected those of all shares, saved after the same file")
        self._share, self._shares = share, shares
        self.now_ns = states[0].now_ns
        self.source_ns, self.last_ns = states[0].source_ns, states[0].last_ns
        self.packets = states[0].packets
        self.connections = np.zeros(total, flows.CONNECTION)
        """Of all shares, the longest idle first."""
        self.streams = np.zeros(2 * total, STREAM)
        self.streams["carry_row"] = -1
        self.files: list[str] = []
        """The earlier files that something refers to, by number."""
        self.carries: list[tuple[Carry, NDArray[np.int64]]] = []
        """Bytes of unfinished frames, and the rows of our share."""
        self.assemblers: dict[int, Assembler] = {}
        self.parts = [self._restore(state) for state in states]
        """One for each state."""

    def _restore(self, state: FrontState) -> Restored:
        fill(self.connections, state.lru_rank, state.connections, slice(None))
        in_share = self.connections["hash"][state.lru_rank] % np.uint32(self._shares) == self._share
        self.connections["in_share"][state.lru_rank] = in_share
        numbers = np.where(np.repeat(in_share, 2), both_streams(state.lru_rank), -1).astype(
            np.int64
        )
        # A state may have been saved with another number of shares: take the streams of our share
        # only.
        own = np.flatnonzero(numbers >= 0)
        files = renumbered(state.files, self.files)
        fill(self.streams, numbers[own], state.streams, own)
        saved_files = column(state.streams, "file", STREAM)[own]
        self.streams["file"][numbers[own]] = mapped(files, saved_files)
        self._restore_carry(state.carry, numbers, files)
        for at, saved in state.assemblers.items():
            if numbers[at] >= 0:
                self.assemblers[int(numbers[at])] = Assembler.restored(saved, files)
        return Restored(numbers, files, in_share)

    def _restore_carry(
        self, saved: CarryState, numbers: NDArray[np.int64], files: dict[int, int]
    ) -> None:
        # Rows of other shares stay in the buffer here; `join_carries` copies only ours.
        carry = Carry()
        carry.stream = numbers[saved.stream].astype(np.int32)
        carry.start, carry.stop = saved.start, saved.stop
        carry.first, carry.last = saved.first, saved.last
        carry.data = readonly(saved.data)
        pieces = np.ascontiguousarray(saved.columns.reshape(4, -1))
        carry.pieces = Pieces(pieces, mapped(files, saved.file), saved.cut)
        self.carries.append((carry, np.flatnonzero(carry.stream >= 0)))


def renumbered(names: dict[int, str], known: list[str]) -> dict[int, int]:
    """Return the index of each name in a list, by its saved number; append unknown names."""
    places = {name: at for at, name in enumerate(known)}
    for name in names.values():
        if name not in places:
            places[name] = len(known)
            known.append(name)
    return {number: places[name] for number, name in names.items()}


def mapped(numbers: dict[int, int], found: NDArray[Any]) -> NDArray[Any]:
    """Map saved numbers to present ones; numbers that are not in `numbers` stay."""
    if not numbers:
        return found
    before = np.array(sorted(numbers))
    after = np.array([numbers[each] for each in sorted(numbers)], found.dtype)
    # `searchsorted` may return the length for numbers beyond the last one.
    at = np.searchsorted(before, found).clip(max=len(before) - 1)
    return np.where(before[at] == found, after[at], found)
