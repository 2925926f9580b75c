"""Numbers of notifications: the seconds since `EPOCH_S`, and a counter of 20 bits.

A number is the position of a notification in the log, and its id has nothing else. The
store allocates the numbers of stored notifications when it commits them, so that their order is the
order of commits, whichever hub wrote them. They use the lower half of each second's counters.

A publish that is not stored is confirmed without the store, so its hub allocates the number, from
the upper half. It is unique together with the hub's own byte in the id.
"""

from __future__ import annotations

from typing import Final

__all__ = ["EPOCH_S", "SECOND", "SECOND_BITS", "TransientNumbers", "next_number"]

EPOCH_S: Final = 1_434_253_712
"""Start of the seconds in numbers, in seconds since 1970: the original software's, so that ids of
both sort alike."""
SECOND_BITS: Final = 20
"""Bits of the counter."""
SECOND: Final = 1 << SECOND_BITS
"""Numbers of one second."""
_HALF: Final = SECOND >> 1


def next_number(last: int, now_ms: int) -> int:
    """Return the number after `last` for a stored notification at this wall-clock time."""
    # Ascending even if the clock goes back, or more than half a million are stored in a second.
    number = max(last + 1, _first(now_ms))
    return number if not number & _HALF else (number | (SECOND - 1)) + 1


class TransientNumbers:
    """Allocates the numbers of notifications that are not stored."""

    __slots__ = ("last",)

    def __init__(self, last: int = 0):
        self.last = last
        """The last allocated number."""

    def next(self, now_ms: int) -> int:
        """Allocate the next number at this wall-clock time."""
        self.last = max(self.last + 1, _first(now_ms)) | _HALF
        return self.last


def _first(now_ms: int) -> int:
    """Return the first number of a second."""
    return (now_ms // 1000 - EPOCH_S) << SECOND_BITS
