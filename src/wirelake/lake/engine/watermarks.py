"""How far sources have come, by the times of their captures, and which of them are waited for.

What happens in different sources is put in the order of its time, so a step has to know up to which
time all of it is there. Times of captures are not to be trusted one by one: a damaged packet may be
of any year. So a source has come as far as the middle one of its latest messages says, and never
further than its files: a capture has no packet that is younger than itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["LATEST", "Latest", "Reached", "believed_ns", "everywhere_ns", "expected_ns"]

LATEST: Final = 16
"""So many of the latest messages of a step say how far its source has come."""
_SILENT_NS: Final = 24 * 3600 * 1_000_000_000
"""A source that is so far behind the others is not waited for: it has ended."""


class Latest:
    """The latest times of the messages that a task has seen."""

    def __init__(self) -> None:
        self._times: NDArray[np.int64] = np.empty(0, np.int64)

    def see(self, messages: pa.RecordBatch) -> None:
        """Some more messages."""
        times = np.concatenate([self._times, messages.column("ts_ns").to_numpy()])
        if len(times) > LATEST:
            times = np.partition(times, len(times) - LATEST)[-LATEST:]
        self._times = times

    @property
    def times(self) -> list[int]:
        """At most `LATEST` of them, in no order."""
        found: list[int] = self._times.tolist()
        return found


class Reached(msgspec.Struct, frozen=True):
    """How far a source has come."""

    ts_ns: int
    """By the times in its captures."""
    mtimes_ns: Sequence[int]
    """When its files were last written, in the order in which they were read."""


def believed_ns(times: Iterable[int], mtime_ns: int) -> int | None:
    """How far a source has come, by its latest times and the age of its last file.

    Times after `mtime_ns` are wrong. None when there are no others.
    """
    good = sorted(ts_ns for ts_ns in times if ts_ns <= mtime_ns)[-LATEST:]
    return good[(len(good) - 1) // 2] if good else None


def everywhere_ns(sources: Mapping[str, Reached]) -> int:
    """A time that all sources have passed, but for those that have ended; 0 without any."""
    return min((each.ts_ns for each in _active(sources.values())), default=0)


def expected_ns(sources: Mapping[str, Reached], lateness_ns: int) -> int:
    """The same, without sources whose next file should have come long ago.

    It should have come as soon as any did before, or `lateness_ns` later. Of a source with a single
    file nothing is known.
    """
    newest = max((each.mtimes_ns[-1] for each in sources.values() if each.mtimes_ns), default=0)
    due = [
        each
        for each in _active(sources.values())
        if newest <= _next_ns(each.mtimes_ns, newest) + lateness_ns
    ]
    return min((each.ts_ns for each in due), default=0)


def _active(sources: Iterable[Reached]) -> list[Reached]:
    every = list(sources)
    newest = max((each.ts_ns for each in every), default=0)
    return [each for each in every if each.ts_ns > newest - _SILENT_NS]


def _next_ns(mtimes_ns: Sequence[int], unknown_ns: int) -> int:
    """When a source's next file comes, if it takes as long as any did."""
    if len(mtimes_ns) < 2:
        return unknown_ns
    return mtimes_ns[-1] + max(later - earlier for earlier, later in pairwise(mtimes_ns))
