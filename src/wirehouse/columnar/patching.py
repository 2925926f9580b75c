"""Streams that are out of order, through the reference's assembler.

`follow` (order.py) stops following a stream in a window at its first segment that is not next in
line. From there on the segments of that stream come here: one at a time into a `StreamAssembler`
while something waits, and in runs through the kernel again as soon as nothing does. So a rare
retransmission costs microseconds, and what it means is decided in one place.

What comes out for a stream is a `Patch`: the pieces behind those that the kernel took, and the gaps
between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capture.assembly import FIN, Conflict, Counters, Data, Event, Gap, StreamAssembler
from ..capture.copies import HELD_BYTES
from . import order
from .packets import Packets
from .segments import PAYLOAD_BYTES

__all__ = ["Patch", "Patcher"]


class _Assembler(StreamAssembler):
    """An assembler that can be told about segments which the kernel followed."""

    __slots__ = ()

    @property
    def loose(self) -> bool:
        """Whether it has to see the next segment, whatever that is."""
        if self._over:
            return False
        beyond = self._reach is not None and self._reach.position > self.position
        return bool(self._waiting) or beyond

    @property
    def begun(self) -> bool:
        """Whether it knows where its stream begins."""
        return self._base is not None

    @property
    def reset(self) -> bool:
        """Whether it takes nothing more."""
        return self._over

    @property
    def next_seq(self) -> int:
        """The sequence number of the position."""
        return ((self._base or 0) + self.position) & 0xFFFFFFFF

    def number(self, arrival: int) -> None:
        """Give the next segment a number, by which pieces are compared in time."""
        self._arrivals = arrival - 1

    def skip(self, size: int, tail: bytes) -> None:
        """So many bytes were next in line; these are the last of them."""
        self.position += size
        self.counters.new_bytes += size
        if self._held is not None:
            self._held.add(tail)


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
        self._assemblers: dict[int, _Assembler] = {}
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
            self._assemblers.pop(stream, None)

    def patch(self, packets: Packets, table: NDArray[Any], strange: NDArray[np.int32]) -> list[int]:
        """Take the packets of odd streams; gives the streams that ended with one of them."""
        if len(strange) == 0:
            return []
        streams = packets.stream[strange]
        sequence = np.argsort(streams, kind="stable")
        numbers, starts = np.unique(streams[sequence], return_index=True)
        ended: list[int] = []
        for number, mine in zip(
            numbers.tolist(), np.split(strange[sequence], starts[1:]), strict=True
        ):
            record = table[number]
            was = int(record["state"])
            self._follow(packets, table, number, mine.astype(np.int64))
            record["state"] &= ~order.ODD & 0xFF
            if record["state"] & (order.FINISHED | order.OVER) and not was & order.ENDED:
                ended.append(number)
        return ended

    def hold(self, packets: Packets, table: NDArray[Any], active: NDArray[np.int32]) -> None:
        """Tell the assemblers of streams that were in order in this window what was in them."""
        for number in active[table["state"][active] & order.HELD != 0].tolist():
            if number not in self.patches:
                self._catch_up(packets, table[number], self._assemblers[number])

    def end(self, table: NDArray[Any], number: int) -> None:
        """A stream ends; whatever waits is delivered, with gaps."""
        assembler = self._assemblers[number]
        self._happened(table[number], number, assembler.end())
        _store(assembler, table[number])

    # -- one stream --------------------------------------------------------------------------

    def _follow(
        self, packets: Packets, table: NDArray[Any], number: int, mine: NDArray[np.int64]
    ) -> None:
        record = table[number]
        patch = self._patch(number)
        assembler = self._assembler(packets, record, number)
        at = 0
        while at < len(mine):
            if not assembler.loose:
                _store(assembler, record)
                stop = packets.follow_run(table, number, mine, at)
                if stop > at:
                    self._run(packets, record, patch, assembler, mine[at:stop])
                at = stop
                if at == len(mine):
                    break
            segment = packets.segment(int(mine[at]))
            assembler.number(segment.arrival)
            events = assembler.feed(*segment.arguments)
            self._happened(record, number, events)
            at += 1
        _store(assembler, record)

    def _patch(self, number: int) -> Patch:
        if number not in self.patches:
            self.patches[number] = Patch()
        return self.patches[number]

    def _assembler(self, packets: Packets, record: Any, number: int) -> _Assembler:
        found = self._assemblers.get(number)
        if found is None:
            next_seq = int(record["next_seq"]) if record["state"] & order.STARTED else None
            found = _Assembler(
                next_seq, position=int(record["position"]), counters=_counters(record)
            )
            self._assemblers[number] = found
        else:
            self._catch_up(packets, record, found)
        _finish(found, record)
        return found

    def _catch_up(self, packets: Packets, record: Any, assembler: _Assembler) -> None:
        """The kernel followed the stream in this window, up to its last packet with payload."""
        behind = int(record["position"]) - assembler.position
        if behind:
            assembler.skip(behind, packets.tail_before(int(record["last"]), HELD_BYTES))
        assembler.counters = _counters(record)

    def _run(
        self,
        packets: Packets,
        record: Any,
        patch: Patch,
        assembler: _Assembler,
        mine: NDArray[np.int64],
    ) -> None:
        """The kernel followed the stream through these packets."""
        mine = mine[packets.sizes[PAYLOAD_BYTES, mine] > 0]
        size = int(record["position"]) - assembler.position
        if size:
            # Payload behind a RST is the kernel's to ignore: it is no part of the stream.
            mine = mine[
                : int(np.searchsorted(np.cumsum(packets.sizes[PAYLOAD_BYTES, mine]), size)) + 1
            ]
            assembler.skip(size, packets.tail(mine, HELD_BYTES))
            if record["state"] & order.IGNORED:
                record["ignored"] += size
            else:
                patch.packets(mine, size)
        assembler.counters = _counters(record)
        _finish(assembler, record)

    def _happened(self, record: Any, number: int, events: list[Event]) -> None:
        patch = self._patch(number)
        ignored = bool(record["state"] & order.IGNORED)
        for event in events:
            if isinstance(event, Conflict):
                self.conflicts.append((number, event))
            elif ignored and isinstance(event, Data):
                self._assemblers[number].counters.ignored_bytes += len(event.payload)
            elif isinstance(event, Data):
                patch.data(event)
            elif not ignored:
                patch.gaps.append((patch.size, event))


def _finish(assembler: _Assembler, record: Any) -> None:
    """Tell an assembler of a FIN that the kernel has seen."""
    if record["state"] & order.FINISHED and not assembler.finished:
        assembler.feed(assembler.next_seq, b"", 0, 0, FIN)


def _counters(record: Any) -> Counters:
    return Counters(
        new_bytes=int(record["new"]),
        duplicate_bytes=int(record["duplicate"]),
        gap_bytes=int(record["gap"]),
        ignored_bytes=int(record["ignored"]),
    )


def _store(assembler: _Assembler, record: Any) -> None:
    """The record says what the assembler knows."""
    counters = assembler.counters
    record["new"] = counters.new_bytes
    record["duplicate"] = counters.duplicate_bytes
    record["gap"] = counters.gap_bytes
    record["ignored"] = counters.ignored_bytes
    record["position"] = assembler.position
    state = int(record["state"]) & ~order.LOOSE | order.HELD
    if assembler.begun:
        record["next_seq"] = assembler.next_seq
        state |= order.STARTED
    if assembler.loose:
        state |= order.LOOSE
    if assembler.reset:
        state |= order.OVER
    elif assembler.finished:
        state |= order.FINISHED
    record["state"] = state
