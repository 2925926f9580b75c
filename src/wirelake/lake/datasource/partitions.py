"""How a read is cut into tasks.

A capture can be cut by connection: each task then looks at all packets and decodes its own share of
the connections. That costs a scan for each share, so only large captures are cut; small ones are
put together. Captures have nothing to do with each other.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

__all__ = ["Files", "Share", "Work", "packed"]

_BYTES_OF_A_TASK: Final = 32 << 20
"""How much of a capture is worth a task of its own."""
_MOST_SHARES: Final = 16
"""Every share looks at every packet: with more of them, that would cost more than decoding."""


class Files(NamedTuple):
    """One capture: its files in order, and how large they are together."""

    paths: tuple[str, ...]
    size: int


class Share(NamedTuple):
    """A share of the connections of one capture."""

    paths: tuple[str, ...]
    share: int = 0
    shares: int = 1


@dataclass
class Work(InputPartition):
    """What one task reads, one share after the other."""

    shares: tuple[Share, ...]


def packed(captures: Sequence[Files], tasks: int | None = None) -> list[Work]:
    """The tasks that read these captures: at most `tasks`, or as many as their size is worth."""
    total = sum(each.size for each in captures)
    worth = _BYTES_OF_A_TASK if tasks is None else max(1, -(-total // tasks))
    bins = 1 + total // worth if tasks is None else tasks
    most = _MOST_SHARES if tasks is None else tasks
    pieces: list[tuple[int, Share]] = []
    for each in captures:
        shares = _shares(each.size, worth, most, exactly=tasks is not None)
        pieces += [(each.size // shares, Share(each.paths, n, shares)) for n in range(shares)]
    return _spread(pieces, bins)


def _shares(size: int, worth: int, most: int, *, exactly: bool) -> int:
    return min(most, max(1, -(-size // worth)) if exactly else 1 + size // worth)


def _spread(pieces: list[tuple[int, Share]], bins: int) -> list[Work]:
    """The largest first, each to whoever has least to do."""
    loads = [(0, 0, number) for number in range(min(bins, len(pieces)))]
    given: list[list[Share]] = [[] for _ in loads]
    for size, share in sorted(pieces, key=lambda piece: -piece[0]):
        load, count, number = heapq.heappop(loads)
        given[number].append(share)
        heapq.heappush(loads, (load + size, count + 1, number))
    return [Work(tuple(shares)) for shares in given]
