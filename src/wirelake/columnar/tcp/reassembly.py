"""Streams that are out of order, through the reference's assembler.

A stream is followed by the kernel (`stream_order.py`), which works on its record, or by an
assembler. When one takes over from the other, position and counts are copied. The kernel takes
over again as soon as nothing waits, because an assembler costs a Python call for each segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from wirelake.capture.tcp.assembly import (
    FIN,
    HELD_BYTES,
    Conflict,
    Counters,
    Data,
    Event,
    Gap,
    Held,
    StreamAssembler,
)

from ..scan.headers import PAYLOAD_BYTES
from . import stream_order as order
from .packets import Packets

__all__ = [
    "Assembler",
    "AssemblerState",
    "Patch",
    "Patcher",
    "Record",
]


class Record:
    """What the table says of a stream, as Python's numbers."""

    __slots__ = (
        "_number",
        "_table",
        "_values",
        "duplicate",
        "gap",
        "ignored",
        "last",
        "new",
        "next_seq",
        "position",
        "state",
    )

    def __init__(self, table: NDArray[Any], number: int):
        self._table = table
        self._number = number
        self._values = np.empty(8, np.int64)
        self.load()

    def load(self) -> None:
        """Read it again: the kernel has followed the stream."""
        order.peek(self._table, self._number, self._values)
        (
            self.position,
            self.next_seq,
            self.new,
            self.duplicate,
            self.gap,
            self.ignored,
            self.state,
            self.last,
        ) = self._values.tolist()

    def save(self) -> None:
        """Write it: the kernel goes on."""
        self._values[:] = (
            self.position,
            self.next_seq,
            self.new,
            self.duplicate,
            self.gap,
            self.ignored,
            self.state,
            self.last,
        )
        order.poke(self._table, self._number, self._values)

    def counters(self) -> Counters:
        """What was counted, for an assembler."""
        return Counters(self.new, self.duplicate, self.gap, self.ignored)


class AssemblerState(msgspec.Struct, frozen=True):
    """An assembler as it is saved between two files."""

    position: int
    counters: tuple[int, int, int, int]
    base: int | None
    arrivals: int
    waiting: list[Data]
    oldest_ns: int
    held: tuple[bytes, list[tuple[int, int]]] | None
    """The last bytes that were delivered, and the gaps between them."""
    fin_at: int | None
    reach: Gap | None
    over: bool


class Assembler(StreamAssembler):
    """An assembler that can take over from the kernel, and hand over to it."""

    __slots__ = ()

    def save(self) -> AssemblerState:
        """Return a copy of everything that it knows."""
        counters = msgspec.structs.astuple(self.counters)
        held = None if self._held is None else self._held.save()
        return AssemblerState(
            self.position,
            counters,
            self._base,
            self._arrivals,
            list(self._waiting),
            self._oldest_ns,
            held,
            self._fin_at,
            self._reach,
            self._over,
        )

    @staticmethod
    def restored(state: AssemblerState, files: Mapping[int, int]) -> Assembler:
        """Return the assembler that was saved; `files` maps saved file numbers to present ones."""
        found = Assembler(
            position=state.position, arrivals=state.arrivals, counters=Counters(*state.counters)
        )
        found._base = state.base
        found._waiting = [each._replace(file=files[each.file]) for each in state.waiting]
        found._waiting_bytes = sum(len(each.payload) for each in state.waiting)
        found._oldest_ns = state.oldest_ns
        found._held = None if state.held is None else Held.restored(*state.held)
        found._fin_at = state.fin_at
        if state.reach is not None:
            found._reach = state.reach._replace(file=files[state.reach.file])
        found._over = state.over
        return found

    @staticmethod
    def of(record: Record) -> Assembler:
        """One that goes on where the kernel stopped."""
        next_seq = record.next_seq if record.state & order.STARTED else None
        return Assembler(next_seq, position=record.position, counters=record.counters())

    @property
    def loose(self) -> bool:
        """Whether it has to see the next segment, whatever that is."""
        if self._over:
            return False
        beyond = self._reach is not None and self._reach.position > self.position
        return bool(self._waiting) or beyond

    def files(self) -> set[int]:
        """The numbers of the files that it refers to."""
        found = {piece.file for piece in self._waiting}
        return found if self._reach is None else found | {self._reach.file}

    def number(self, arrival: int) -> None:
        """Give the next segment a number, by which pieces are compared in time."""
        self._arrivals = arrival - 1

    def learn(self, record: Record, tail: bytes) -> None:
        """The kernel followed the stream up to what the record says; `tail` is the last of it."""
        self.position = record.position
        self.counters = record.counters()
        if self._held is not None:
            self._held.add(tail)
        if record.state & order.FINISHED and not self.finished:
            self.feed(record.next_seq, b"", 0, 0, FIN)

    def teach(self, record: Record) -> None:
        """Tell the record what was seen here."""
        counters = self.counters
        record.new, record.duplicate = counters.new_bytes, counters.duplicate_bytes
        record.gap, record.ignored = counters.gap_bytes, counters.ignored_bytes
        record.position = self.position
        record.state = record.state & ~order.LOOSE | order.HELD
        if self._base is not None:
            record.next_seq = (self._base + self.position) & 0xFFFFFFFF
            record.state |= order.STARTED
        if self.loose:
            record.state |= order.LOOSE
        if self._over:
            record.state |= order.OVER
        elif self.finished:
            record.state |= order.FINISHED
        record.save()


# Streams that are out of order, through the reference's assembler.


@dataclass
class Patch:
    """What was found out about one stream in one window: its pieces, and the gaps between them."""

    pieces: list[NDArray[np.int64]] = field(default_factory=list)
    """The packets whose whole payloads are next in line; or, below 0, `~` a number in `events`."""
    events: list[Data] = field(default_factory=list)
    gaps: list[tuple[int, Gap]] = field(default_factory=list)
    """Gaps, with the number of bytes in the pieces before them."""
    size: int = 0
    """Bytes in the pieces."""
    count: int = 0
    """The number of pieces."""

    def data(self, event: Data) -> None:
        """Bytes that the assembler delivers."""
        self.pieces.append(np.array([~len(self.events)]))
        self.events.append(event)
        self.size += len(event.payload)
        self.count += 1

    def packets(self, packets: NDArray[np.int64], size: int) -> None:
        """Whole payloads that the kernel has followed."""
        self.pieces.append(packets)
        self.size += size
        self.count += len(packets)


class Patcher:
    """Keeps the assemblers of streams that were ever out of order."""

    def __init__(self) -> None:
        self._assemblers: dict[int, Assembler] = {}
        self._loose: set[int] = set()
        self.patches: dict[int, Patch] = {}
        """By stream, of this window."""
        self.conflicts: list[tuple[int, Conflict]] = []
        """Streams, and what contradicts itself in them, of this window."""

    def begin(self) -> None:
        """A window begins."""
        self.patches = {}
        self.conflicts = []

    def forget(self, streams: Iterable[int]) -> None:
        """These streams are gone."""
        for stream in streams:
            if self._assemblers.pop(stream, None) is not None:
                self._loose.discard(stream)

    @property
    def assemblers(self) -> dict[int, Assembler]:
        """By stream."""
        return self._assemblers

    def restore(self, assemblers: dict[int, Assembler]) -> None:
        """Go on with these."""
        self._assemblers = assemblers
        self._loose = {stream for stream, each in assemblers.items() if each.loose}

    def waiting(self) -> dict[int, int]:
        """The streams in which something waits behind a hole, and when the first of it came."""
        since = {stream: self._assemblers[stream].waiting_since_ns for stream in self._loose}
        return {stream: ts_ns for stream, ts_ns in since.items() if ts_ns is not None}

    def patch(self, packets: Packets, table: NDArray[Any], strange: NDArray[np.int32]) -> list[int]:
        """Take the packets of odd streams; gives the streams that ended with one of them."""
        if len(strange) == 0:
            return []
        streams = packets.stream[strange]
        sequence = np.argsort(streams, kind="stable")
        numbers, starts = np.unique(streams[sequence], return_index=True)
        ended: list[int] = []
        for number, mine in zip(
            numbers.tolist(), np.split(strange[sequence].astype(np.int64), starts[1:]), strict=True
        ):
            record = Record(table, number)
            was = record.state
            record.state &= ~order.ODD
            self._follow(packets, table, number, record, mine)
            if record.state & (order.FINISHED | order.OVER) and not was & order.ENDED:
                ended.append(number)
        return ended

    def hold(self, packets: Packets, table: NDArray[Any], active: NDArray[np.int32]) -> None:
        """Tell the assemblers of streams that were in order in this window what was in them."""
        for number in active[table["state"][active] & order.HELD != 0].tolist():
            if number not in self.patches:
                self._catch_up(packets, Record(table, number), self._assemblers[number])

    def end(self, table: NDArray[Any], number: int) -> None:
        """A stream ends; whatever waits is delivered, with gaps."""
        assembler = self._assemblers[number]
        record = Record(table, number)
        self._happened(record, number, assembler, assembler.end())
        assembler.teach(record)
        self._loose.discard(number)

    # -- one stream --------------------------------------------------------------------------

    def _follow(
        self,
        packets: Packets,
        table: NDArray[Any],
        number: int,
        record: Record,
        mine: NDArray[np.int64],
    ) -> None:
        patch = self._patch(number)
        assembler = self._assembler(packets, record, number)
        at = 0
        while at < len(mine):
            if not assembler.loose:
                assembler.teach(record)
                stop = packets.follow_run(table, number, mine, at)
                if stop > at:
                    record.load()
                    self._run(packets, record, patch, assembler, mine[at:stop])
                at = stop
                if at == len(mine):
                    break
            segment = packets.segment(int(mine[at]))
            assembler.number(segment.arrival)
            self._happened(record, number, assembler, assembler.feed(*segment.arguments))
            at += 1
        assembler.teach(record)
        (self._loose.add if assembler.loose else self._loose.discard)(number)

    def _patch(self, number: int) -> Patch:
        if number not in self.patches:
            self.patches[number] = Patch()
        return self.patches[number]

    def _assembler(self, packets: Packets, record: Record, number: int) -> Assembler:
        found = self._assemblers.get(number)
        if found is None:
            found = self._assemblers[number] = Assembler.of(record)
            found.learn(record, b"")
        else:
            self._catch_up(packets, record, found)
        return found

    def _catch_up(self, packets: Packets, record: Record, assembler: Assembler) -> None:
        """The kernel followed the stream in this window, up to its last packet with payload."""
        moved = record.position > assembler.position
        assembler.learn(record, packets.tail_before(record.last, HELD_BYTES) if moved else b"")

    def _run(
        self,
        packets: Packets,
        record: Record,
        patch: Patch,
        assembler: Assembler,
        mine: NDArray[np.int64],
    ) -> None:
        """The kernel followed the stream through these packets."""
        size = record.position - assembler.position
        sizes = packets.sizes[PAYLOAD_BYTES, mine]
        mine = mine[sizes > 0]
        if record.state & order.OVER:  # payload behind a RST is no part of the stream
            mine = mine[np.cumsum(sizes[sizes > 0]) <= size]
        if size and record.state & order.IGNORED:
            record.ignored += size
        elif size:
            patch.packets(mine, size)
        assembler.learn(record, packets.tail(mine, HELD_BYTES) if size else b"")

    def _happened(
        self, record: Record, number: int, assembler: Assembler, events: list[Event]
    ) -> None:
        patch = self._patch(number)
        ignored = record.state & order.IGNORED
        for event in events:
            if isinstance(event, Conflict):
                self.conflicts.append((number, event))
            elif ignored and isinstance(event, Data):
                assembler.counters.ignored_bytes += len(event.payload)
            elif isinstance(event, Data):
                patch.data(event)
            elif not ignored:
                patch.gaps.append((patch.size, event))
