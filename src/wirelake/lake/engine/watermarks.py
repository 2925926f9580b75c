"""Watermarks: up to which capture time each source is complete, and which sources to wait for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .settings import DAY_NS

__all__ = ["LATEST", "Latest", "Reached", "complete_ns", "expected_ns", "watermark_ns"]

LATEST: Final = 16
"""Number of latest message times whose median is the watermark."""


class Latest:
    """The latest message times that a task has seen."""

    def __init__(self) -> None:
        self._times: NDArray[np.int64] = np.empty(0, np.int64)
        self.waiting_ns: int | None = None
        """Since when events wait, after the last window; None if none do."""

    def add(self, messages: pa.RecordBatch) -> None:
        """Add messages."""
        times = np.concatenate([self._times, messages.column("ts_ns").to_numpy()])
        if len(times) > LATEST:
            times = np.partition(times, len(times) - LATEST)[-LATEST:]
        self._times = times

    @property
    def times(self) -> list[int]:
        """At most `LATEST` times, unordered."""
        found: list[int] = self._times.tolist()
        return found


class Reached(msgspec.Struct, frozen=True):
    """The progress of a source."""

    ts_ns: int
    """Its watermark."""
    mtimes_ns: Sequence[int]
    """Modification times of its files, in reading order."""
    waiting_ns: int | None = None
    """Since when events of it wait (captures.md, Waiting): later steps yield them."""

    def settled_ns(self, lateness_ns: int) -> int:
        """Return the time up to which the source yields no more events."""
        settled_ns = self.ts_ns - lateness_ns
        return settled_ns if self.waiting_ns is None else min(settled_ns, self.waiting_ns - 1)


def watermark_ns(times: Iterable[int], mtime_ns: int) -> int | None:
    """Return the watermark of a source from its latest times.

    Times after the modification time of its last file are wrong. None if there are no others.
    """
    good = sorted(ts_ns for ts_ns in times if ts_ns <= mtime_ns)[-LATEST:]
    # The median: a damaged packet may have any timestamp, and one must not move the watermark.
    return good[(len(good) - 1) // 2] if good else None


def complete_ns(
    sources: Mapping[str, Reached], lateness_ns: int, unread_ns: int | None = None
) -> int:
    """Return the time that all sources that have not ended have settled; at most 0 without any.

    `unread_ns` is the first time of the captures that are there and not read yet.
    """
    return _settled_ns(_active(sources.values()), lateness_ns, unread_ns)


def expected_ns(
    sources: Mapping[str, Reached], lateness_ns: int, unread_ns: int | None = None
) -> int:
    """Return the same without sources whose next file is overdue.

    It is overdue when it takes `lateness_ns` longer than the longest interval between two files of
    the source so far. A source with a single file is never overdue.
    """
    newest = max((each.mtimes_ns[-1] for each in sources.values() if each.mtimes_ns), default=0)
    due = [
        each
        for each in _active(sources.values())
        if newest <= _next_ns(each.mtimes_ns, newest) + lateness_ns
    ]
    return _settled_ns(due, lateness_ns, unread_ns)


def _settled_ns(sources: Iterable[Reached], lateness_ns: int, unread_ns: int | None) -> int:
    found = min((each.settled_ns(lateness_ns) for each in sources), default=-lateness_ns)
    return found if unread_ns is None else min(found, unread_ns - lateness_ns)


def _active(sources: Iterable[Reached]) -> list[Reached]:
    every = list(sources)
    newest = max((each.ts_ns for each in every), default=0)
    return [each for each in every if each.ts_ns > newest - DAY_NS]


def _next_ns(mtimes_ns: Sequence[int], unknown_ns: int) -> int:
    """Return when the next file is due, after the longest interval so far."""
    if len(mtimes_ns) < 2:
        return unknown_ns
    return mtimes_ns[-1] + max(later - earlier for earlier, later in pairwise(mtimes_ns))
