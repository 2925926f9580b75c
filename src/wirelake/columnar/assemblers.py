"""The reference's assembler beside the record of a stream: each tells the other what it has seen.

A stream is followed by the kernel (`order.py`), which works on its record, or by an assembler. When
it changes hands, the one that goes on is told where the stream stands and what was counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..capture.assembly import FIN, Counters, StreamAssembler
from . import order

__all__ = ["Assembler", "Record"]


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


class Assembler(StreamAssembler):
    """An assembler that can be told about segments which the kernel followed."""

    __slots__ = ()

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

    def renumber(self, files: Mapping[int, int]) -> None:
        """Files have other numbers now."""
        self._waiting = [each._replace(file=files[each.file]) for each in self._waiting]
        if self._reach is not None:
            self._reach = self._reach._replace(file=files[self._reach.file])

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
