"""What became of the bytes of each stream, and which protocol it speaks, by number of stream.

Streams have small numbers that are used again. The row of `coverage` of a stream is made when the
stream is dropped, from what the front end counted and what is counted here.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .numba_options import U, kernel

__all__ = ["ENTRY", "IGNORED", "UNDECIDED", "UNSEEN", "Ledger"]

UNDECIDED: Final = -1
"""Instead of a protocol's number: not yet known, its bytes must tell."""
IGNORED: Final = -2
"""Instead of a protocol's number: none, or one that is not installed."""
UNSEEN: Final = -3
"""Instead of a protocol's number: there was no packet of its connection."""

_COUNTS: Final = ("decoded", "faulty", "undecryptable", "ignored", "messages", "faults")
ENTRY: Final = np.dtype([("protocol", "i2"), *((name, "i8") for name in _COUNTS)])
"""What is known of a stream."""


class Ledger:
    """Counts for all streams."""

    def __init__(self) -> None:
        self.entries = self._room(1024)

    @staticmethod
    def _room(count: int) -> NDArray[Any]:
        entries = np.zeros(count, ENTRY)
        entries["protocol"] = UNSEEN
        return entries

    def reach(self, streams: int) -> None:
        """Makes room for streams of numbers below this."""
        held = len(self.entries)
        if streams > held:
            self.entries = np.concatenate([self.entries, self._room(max(streams, 2 * held) - held)])

    def restore(self, entries: NDArray[Any]) -> None:
        """Go on with the entries of the first streams."""
        self.reach(len(entries))
        self.entries[: len(entries)] = entries

    def add(self, name: str, streams: NDArray[Any], amounts: NDArray[Any] | int) -> None:
        """Adds to a count; a stream may occur several times."""
        if isinstance(amounts, int):
            amounts = np.full(len(streams), amounts, np.int64)
        _add(self.entries[name], streams.astype(np.int64), amounts.astype(np.int64))

    def forget(self, streams: NDArray[Any]) -> None:
        """These numbers are free for other streams."""
        blank = np.zeros(1, ENTRY)
        blank["protocol"] = UNSEEN
        self.entries[streams] = blank[0]


@kernel
def _add(counts: NDArray[Any], streams: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
    for i in range(U(len(streams))):
        counts[U(streams[i])] += amounts[i]
