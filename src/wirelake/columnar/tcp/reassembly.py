"""`Reassembler`: streams with segments out of order, through the reference's assembler.

A stream is followed either by the kernel (`stream_order.py`), whose state is the record of the
stream in the table, or by an `Assembler`, a `StreamAssembler` of `wirelake.capture`. Position and
counters are copied when one takes over from the other. An assembler costs a Python call for each
segment, so the kernel takes over again as soon as no segment waits. The rules for overlaps, holes
and conflicts are written only once, in `wirelake.capture.tcp.assembly`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from wirelake.capture.tcp.assembly import (
    FIN,
    RECENT_BYTES,
    Conflict,
    Counters,
    Data,
    Event,
    Gap,
    RecentBytes,
    StreamAssembler,
)

from ..scan.headers import PAYLOAD_BYTES
from . import stream_order
from .packets import Packets

__all__ = [
    "Assembler",
    "AssemblerState",
    "Reassembled",
    "Reassembler",
    "StreamRecord",
]


_BEHIND_ALL: Final = 1 << 62
"""In place of a packet's number: no packet of the connection follows."""


@dataclass
class Reassembled:
    """The reassembled bytes of one stream in one window: pieces, and the gaps between them."""

    pieces: list[NDArray[np.int64]] = field(default_factory=list)
    """Packets whose whole payloads are next; a negative number is `~` an index into `events`."""
    events: list[Data] = field(default_factory=list)
    gaps: list[tuple[int, Gap]] = field(default_factory=list)
    """Gaps, with the number of bytes in the pieces before each."""
    size: int = 0
    """Bytes in the pieces."""
    count: int = 0
    """The number of pieces."""

    def data(self, event: Data) -> None:
        """Add bytes that the assembler delivered."""
        self.pieces.append(np.array([~len(self.events)]))
        self.events.append(event)
        self.size += len(event.payload)
        self.count += 1

    def packets(self, packets: NDArray[np.int64], size: int) -> None:
        """Add whole payloads that the kernel followed; they are copied without Python objects."""
        self.pieces.append(packets)
        self.size += size
        self.count += len(packets)


class Reassembler:
    """The assemblers of all streams that ever had a segment out of order.

    They are kept for the life of the connection: a retransmission may come at any time, and is
    compared with the last 64 KiB that were delivered.
    """

    def __init__(self) -> None:
        self._assemblers: dict[int, Assembler] = {}
        self._active: set[int] = set()
        """Streams in which segments wait, so that the assembler gets every segment."""
        self._followed: dict[int, int] = {}
        """By stream: the last packet that an assembler got, in this window."""
        self.reassembled: dict[int, Reassembled] = {}
        """By stream, for this window."""
        self.conflicts: list[tuple[int, Conflict]] = []
        """Streams, and retransmissions that differ from the first copy, for this window."""

    def begin_window(self) -> None:
        """Begin a window: forget the results of the last one."""
        self.reassembled = {}
        self.conflicts = []
        self._followed = {}

    def forget(self, streams: Iterable[int]) -> None:
        """Forget streams of dropped connections."""
        for stream in streams:
            if self._assemblers.pop(stream, None) is not None:
                self._active.discard(stream)

    @property
    def assemblers(self) -> dict[int, Assembler]:
        """The assemblers, by stream."""
        return self._assemblers

    def restore(self, assemblers: dict[int, Assembler]) -> None:
        """Continue with saved assemblers."""
        self._assemblers = assemblers
        self._active = {stream for stream, each in assemblers.items() if each.needs_every_segment}

    def waiting(self) -> dict[int, int]:
        """Return the streams with segments behind a hole, and when the first of them came."""
        since = {stream: self._assemblers[stream].waiting_since_ns for stream in self._active}
        return {stream: ts_ns for stream, ts_ns in since.items() if ts_ns is not None}

    def first_waiting(self, stream: int) -> int | None:
        """Return the number of the first packet with bytes that wait behind a hole."""
        if stream not in self._active:
            return None
        return min(self._assemblers[stream].waiting_arrivals(), default=None)

    def reassemble(
        self, packets: Packets, table: NDArray[Any], disordered: NDArray[np.int32]
    ) -> list[int]:
        """Reassemble the packets that are out of order; return the streams that they ended."""
        if len(disordered) == 0:
            return []
        # Group the packets by stream; a stable sort keeps the order of arrival within a stream.
        streams = packets.stream[disordered]
        sequence = np.argsort(streams, kind="stable")
        numbers, starts = np.unique(streams[sequence], return_index=True)
        ended: list[int] = []
        for number, indices in zip(
            numbers.tolist(),
            np.split(disordered[sequence].astype(np.int64), starts[1:]),
            strict=True,
        ):
            record = StreamRecord(table, number)
            before = record.state
            self._follow(packets, table, number, record, indices)
            if (
                record.state & (stream_order.FINISHED | stream_order.WAS_RESET)
                and not before & stream_order.END_REPORTED
            ):
                ended.append(number)
        return ended

    def expire(self, packets: Packets, table: NDArray[Any]) -> tuple[list[int], list[int]]:
        """Give up holes that are overdue; return the streams, and those of them that end by it.

        The next packet of the stream would do the same, but it may never come, and what is captured
        on other connections must not wait for it.
        """
        expired: list[int] = []
        ended: list[int] = []
        for number in sorted(self._active) if packets.count else ():
            assembler = self._assemblers[number]
            followed, last = self._followed.get(number, -1), packets.count - 1
            if followed == last:
                continue
            record = StreamRecord(table, number)
            before = record.state
            if not self._give_up(packets, record, number, followed, last):
                continue
            assembler.hand_over(record)
            if not assembler.needs_every_segment:
                self._active.discard(number)
            expired.append(number)
            if record.state & stream_order.FINISHED and not before & stream_order.END_REPORTED:
                ended.append(number)
        return expired, ended

    def update_assemblers(
        self, packets: Packets, table: NDArray[Any], active: NDArray[np.int32]
    ) -> None:
        """Pass the bytes of streams that were in order in this window to their assemblers."""
        for number in active[table["state"][active] & stream_order.HAS_ASSEMBLER != 0].tolist():
            if number not in self.reassembled:
                self._catch_up(packets, StreamRecord(table, number), self._assemblers[number])

    def end_stream(self, table: NDArray[Any], number: int) -> None:
        """End a stream: waiting segments are delivered, with gaps."""
        assembler = self._assemblers[number]
        record = StreamRecord(table, number)
        # The kernel has counted payload after a RST of the other direction.
        assembler.counters = record.counters()
        assembler.set_arrival(_BEHIND_ALL)
        self._collect(record, number, assembler, assembler.end())
        assembler.hand_over(record)
        self._active.discard(number)

    # -- one stream --------------------------------------------------------------------------

    def _follow(
        self,
        packets: Packets,
        table: NDArray[Any],
        number: int,
        record: StreamRecord,
        indices: NDArray[np.int64],
    ) -> None:
        part = self._part(number)
        assembler = self._assembler(packets, record, number)
        # The kernel and the assembler alternate: the kernel takes runs in order, the assembler
        # every segment from one out of order until the hole before it is filled or given up.
        at, before = 0, -1
        while at < len(indices):
            # Give the kernel a chance after every segment: usually one hole is filled and the rest
            # of the window is in order.
            if not assembler.needs_every_segment:
                assembler.hand_over(record)
                stop = packets.follow_run(table, number, indices, at)
                if stop > at:
                    record.load()
                    self._add_run(packets, record, part, assembler, indices[at:stop])
                at = stop
                if at == len(indices):
                    break
            # The expensive path: the payload becomes a bytes object. About 2 us for each segment,
            # where the kernel takes a few ns.
            segment = packets.segment(int(indices[at]))
            index = int(indices[at])
            self._give_up(packets, record, number, before, index)
            assembler.set_arrival(segment.arrival)
            self._collect(record, number, assembler, assembler.feed(*segment.arguments))
            at, before = at + 1, index
        self._followed[number] = before
        assembler.hand_over(record)
        (self._active.add if assembler.needs_every_segment else self._active.discard)(number)

    def _give_up(
        self, packets: Packets, record: StreamRecord, number: int, after: int, until: int
    ) -> bool:
        """Give up the holes that are overdue behind one packet, up to another, each with the packet
        that shows it; return whether there were any."""
        assembler = self._assemblers[number]
        found = False
        while (since_ns := assembler.hole_ns) is not None:
            at = packets.first_overdue(after, until, since_ns)
            if at is None:
                break
            found, after = True, at - 1
            assembler.set_arrival(packets.before + at + 1)
            self._collect(
                record, number, assembler, assembler.expire(packets.overdue_ns(after, at))
            )
        return found

    def _part(self, number: int) -> Reassembled:
        if number not in self.reassembled:
            self.reassembled[number] = Reassembled()
        return self.reassembled[number]

    def _assembler(self, packets: Packets, record: StreamRecord, number: int) -> Assembler:
        found = self._assemblers.get(number)
        if found is None:
            found = self._assemblers[number] = Assembler.from_record(record)
            found.catch_up(record, b"")
        else:
            self._catch_up(packets, record, found)
        return found

    def _catch_up(self, packets: Packets, record: StreamRecord, assembler: Assembler) -> None:
        """Update an assembler after the kernel followed its stream in this window."""
        # A stream that did not move has nothing new to compare with; fetching 64 KiB for it would
        # be waste.
        moved = record.position > assembler.position
        assembler.catch_up(
            record, packets.tail_before(record.last_packet, RECENT_BYTES) if moved else b""
        )

    def _add_run(
        self,
        packets: Packets,
        record: StreamRecord,
        part: Reassembled,
        assembler: Assembler,
        indices: NDArray[np.int64],
    ) -> None:
        """Add packets through which the kernel followed the stream."""
        size = record.position - assembler.position
        sizes = packets.header_i32[PAYLOAD_BYTES, indices]
        # Bare ACKs have no bytes to copy.
        indices = indices[sizes > 0]
        # Payload after a RST is not part of the stream: only as many packets as the position moved.
        if record.state & stream_order.WAS_RESET:
            indices = indices[np.cumsum(sizes[sizes > 0]) <= size]
        # Bytes of a stream without a protocol are only counted.
        if size and record.state & stream_order.IGNORED:
            record.ignored += size
        elif size:
            part.packets(indices, size)
        assembler.catch_up(record, packets.tail(indices, RECENT_BYTES) if size else b"")

    def _collect(
        self, record: StreamRecord, number: int, assembler: Assembler, events: list[Event]
    ) -> None:
        part = self._part(number)
        ignored = record.state & stream_order.IGNORED
        for event in events:
            if isinstance(event, Conflict):
                self.conflicts.append((number, event))
            elif ignored and isinstance(event, Data):
                assembler.counters.ignored_bytes += len(event.payload)
            elif isinstance(event, Data):
                part.data(event)
            elif not ignored:
                part.gaps.append((part.size, event))


# -- assemblers --------------------------------------------------------------------------------


class StreamRecord:
    """The record of a stream in the table, as Python integers."""

    __slots__ = (
        "_number",
        "_table",
        "_values",
        "duplicate",
        "gap",
        "ignored",
        "last_packet",
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
        """Read the record after the kernel followed the stream."""
        stream_order.load_stream(self._table, self._number, self._values)
        (
            self.position,
            self.next_seq,
            self.new,
            self.duplicate,
            self.gap,
            self.ignored,
            self.state,
            self.last_packet,
        ) = self._values.tolist()

    def save(self) -> None:
        """Write the record before the kernel follows the stream."""
        self._values[:] = (
            self.position,
            self.next_seq,
            self.new,
            self.duplicate,
            self.gap,
            self.ignored,
            self.state,
            self.last_packet,
        )
        stream_order.store_stream(self._table, self._number, self._values)

    def counters(self) -> Counters:
        """Return the counters for an assembler."""
        return Counters(self.new, self.duplicate, self.gap, self.ignored)


class AssemblerState(msgspec.Struct, frozen=True):
    """A saved `Assembler`."""

    position: int
    counters: tuple[int, int, int, int]
    base: int | None
    arrivals: int
    waiting: list[Data]
    oldest_ns: int
    recent: tuple[bytes, list[tuple[int, int]]] | None = msgspec.field(name="held")
    """The last delivered bytes, and the gaps between them."""
    fin_at: int | None
    reach: Gap | None
    over: bool


class Assembler(StreamAssembler):
    """An assembler that takes over from the kernel, and hands over to it."""

    __slots__ = ()

    def waiting_arrivals(self) -> Iterator[int]:
        """Yield the numbers of the packets with bytes that wait."""
        return (each.arrival for each in self._waiting)

    def save(self) -> AssemblerState:
        """Return a copy of the whole state."""
        counters = msgspec.structs.astuple(self.counters)
        recent = None if self._recent is None else self._recent.save()
        return AssemblerState(
            self.position,
            counters,
            self._base,
            self._arrivals,
            list(self._waiting),
            self._oldest_ns,
            recent,
            self._fin_at,
            self._known_end,
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
        found._recent = None if state.recent is None else RecentBytes.restored(*state.recent)
        found._fin_at = state.fin_at
        if state.reach is not None:
            found._known_end = state.reach._replace(file=files[state.reach.file])
        found._over = state.over
        return found

    @staticmethod
    def from_record(record: StreamRecord) -> Assembler:
        """Return an assembler that continues where the kernel stopped."""
        next_seq = record.next_seq if record.state & stream_order.STARTED else None
        return Assembler(next_seq, position=record.position, counters=record.counters())

    @property
    def needs_every_segment(self) -> bool:
        """Whether segments wait, or bytes are missing: then the kernel cannot follow the stream."""
        if self._over:
            return False
        beyond = self._known_end is not None and self._known_end.position > self.position
        return bool(self._waiting) or beyond

    def files(self) -> set[int]:
        """Return the numbers of the files that the waiting segments refer to."""
        found = {piece.file for piece in self._waiting}
        return found if self._known_end is None else found | {self._known_end.file}

    def set_arrival(self, arrival: int) -> None:
        """Set the number of the next segment among all packets, by which pieces are ordered."""
        self._arrivals = arrival - 1

    def catch_up(self, record: StreamRecord, tail: bytes) -> None:
        """Continue at the position of the record; `tail` is the end of what the kernel followed."""
        self.position = record.position
        self.counters = record.counters()
        if self._recent is not None:
            self._recent.add(tail)
        # The kernel saw FIN: an empty segment with FIN makes the assembler see it as well.
        if record.state & stream_order.FINISHED and not self.finished:
            self.feed(record.next_seq, b"", 0, 0, FIN)

    def hand_over(self, record: StreamRecord) -> None:
        """Write position, counters and state to the record, so that the kernel can continue."""
        counters = self.counters
        record.new, record.duplicate = counters.new_bytes, counters.duplicate_bytes
        record.gap, record.ignored = counters.gap_bytes, counters.ignored_bytes
        record.position = self.position
        record.state = record.state & ~stream_order.IN_ASSEMBLER | stream_order.HAS_ASSEMBLER
        if self._base is not None:
            # Positions do not wrap, sequence numbers do.
            record.next_seq = (self._base + self.position) & 0xFFFFFFFF
            record.state |= stream_order.STARTED
        if self.needs_every_segment:
            record.state |= stream_order.IN_ASSEMBLER
        if self._over:
            record.state |= stream_order.WAS_RESET
        elif self.finished:
            record.state |= stream_order.FINISHED
        record.save()
