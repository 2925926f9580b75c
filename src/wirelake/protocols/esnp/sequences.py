"""Messages that belong together by their SEQ_NO rows, gathered and put in order.

Implements MT_SEQ_NO of both documents and the sequence rule of section 3 of
`docs/decisions/esnp.md`: parts count from 1, a maximum of 0 is not known yet, and the part whose
number equals its maximum is the last. It serves long requests, which an application gets whole, and
long replies, whose parts it gets one by one.
"""

from __future__ import annotations

from typing import TypeAlias

from wirelake.wire.errors import DecodeError

from .layout import Message

__all__ = ["Numbers", "Part", "Sequences", "in_range"]

Numbers: TypeAlias = tuple[int, int]
"""(current, maximum) of a SEQ_NO row; maximum 0 is unknown."""
Part: TypeAlias = tuple[Message, bytes, bool]
"""A message, its bytes, and whether it is the last."""


def in_range(numbers: Numbers) -> bool:
    """Return whether a part can have these numbers."""
    current, maximum = numbers
    return current >= 1 and (maximum == 0 or current <= maximum)


class _Sequence:
    """The received parts of one sequence."""

    __slots__ = ("held", "next", "refused", "size", "taken")

    def __init__(self) -> None:
        self.next = 1
        self.held: dict[int, Part] = {}
        self.taken: list[Part] = []
        self.size = 0
        self.refused = False


class Sequences:
    """The incomplete sequences of one direction; `whole` keeps all parts until the last."""

    def __init__(self, max_parts: int, max_bytes: int, *, whole: bool = False):
        self.max_parts = max_parts
        self.max_bytes = max_bytes
        self.whole = whole
        self.held_bytes = 0
        self._open: dict[int, _Sequence] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: int) -> bool:
        return key in self._open

    def add(self, key: int, numbers: Numbers, message: Message, raw: bytes) -> list[Part]:
        """Add a part; return those that can be delivered now, in order.

        Raises DecodeError for an invalid part, which leaves the sequence unchanged.
        """
        sequence = self._open.get(key)
        if sequence is not None and sequence.refused:
            if numbers[0] == numbers[1]:
                self.drop(key)
            return []
        self._check(sequence, numbers, len(raw))
        if sequence is None:
            sequence = self._open[key] = _Sequence()
        sequence.held[numbers[0]] = message, raw, numbers[0] == numbers[1]
        sequence.size += len(raw)
        self.held_bytes += len(raw)
        return self._ready(key, sequence)

    def _check(self, sequence: _Sequence | None, numbers: Numbers, size: int) -> None:
        # Count and bytes are limited before the part is stored: parts may come in any order, so a
        # peer that never sends part 1 would otherwise fill the memory.
        current, maximum = numbers
        if not in_range(numbers):
            raise DecodeError("seq_range", "seq_no", None, f"{current} of {maximum}")
        if sequence is not None and (current < sequence.next or current in sequence.held):
            raise DecodeError("seq_range", "seq_no.current", None, f"duplicate part {current}")
        count = 0 if sequence is None else len(sequence.held) + len(sequence.taken)
        if count >= self.max_parts or self.held_bytes + size > self.max_bytes:
            raise DecodeError("too_many", "seq_no", None, f"{count} parts are held")

    def _ready(self, key: int, sequence: _Sequence) -> list[Part]:
        ready: list[Part] = []
        while (part := sequence.held.pop(sequence.next, None)) is not None:
            ready.append(part)
            sequence.next += 1
            if part[2]:
                ready = sequence.taken + ready
                self.drop(key)
                return ready
        if self.whole:
            sequence.taken += ready
            return []
        self._release(sequence, sum(len(raw) for _, raw, _ in ready))
        return ready

    def _release(self, sequence: _Sequence, size: int) -> None:
        sequence.size -= size
        self.held_bytes -= size

    def refuse(self, key: int) -> None:
        """Drop a sequence, and discard its remaining parts as they come."""
        self.drop(key)
        self._open[key] = _Sequence()
        self._open[key].refused = True

    def refused(self, key: int) -> bool:
        """Return whether the remaining parts of this sequence are discarded."""
        return key in self._open and self._open[key].refused

    def drop(self, key: int) -> None:
        """Drop a sequence, if it exists."""
        sequence = self._open.pop(key, None)
        if sequence is not None:
            self.held_bytes -= sequence.size

    def clear(self) -> None:
        """Drop all sequences."""
        self._open.clear()
        self.held_bytes = 0
