"""When bytes could be delivered: with which packet, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .numba_options import U, kernel
from .pieces import ARRIVAL, START, TIME, Pieces

__all__ = ["Delivered", "delivered", "order", "pieces_in_order"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Delivered:
    """Of each piece: the packet with which it could be delivered, by number, and when that was."""

    arrival: Ints
    ts_ns: Ints


def delivered(pieces: Pieces, run_starts: Ints) -> Delivered:
    """The last packet of each run so far. Pieces and runs are in the order of the buffer."""
    count = pieces.numbers.shape[1]
    found = Delivered(np.empty(count, np.int64), np.empty(count, np.int64))
    _delivered(pieces.numbers, run_starts, found.arrival, found.ts_ns)
    return found


@kernel
def _delivered(numbers: Any, run_starts: Any, arrival: Any, ts_ns: Any) -> Any:
    run = 0
    latest = np.int64(-1)
    when = np.int64(0)
    for k in range(U(numbers.shape[1])):
        while run < len(run_starts) and run_starts[U(run)] <= numbers[START, k]:
            run += 1
            latest = np.int64(-1)
        if numbers[ARRIVAL, k] > latest:
            latest = numbers[ARRIVAL, k]
            when = numbers[TIME, k]
        arrival[k] = latest
        ts_ns[k] = when


def pieces_in_order(pieces: Pieces, positions: Ints) -> Ints:
    """The pieces that hold ascending places of the buffer."""
    found = np.empty(len(positions), np.int64)
    _pieces_in_order(pieces.numbers, positions, found)
    return found


@kernel
def _pieces_in_order(numbers: Any, positions: Any, found: Any) -> Any:
    count = numbers.shape[1]
    at = 0
    for i in range(U(positions.shape[0])):
        while at + 1 < count and numbers[START, U(at + 1)] <= positions[i]:
            at += 1
        found[i] = at


def order(arrival: Ints) -> NDArray[np.int64]:
    """The slices in the order in which they were completed; of one packet, as they stand."""
    if not len(arrival):
        return np.empty(0, np.int64)
    low, high = int(arrival.min()), int(arrival.max())
    if high - low > 4 * len(arrival) + 65_536:
        return np.argsort(arrival, kind="stable")
    places = np.zeros(high - low + 2, np.int64)
    found = np.empty(len(arrival), np.int64)
    _counting_sort(arrival, low, places, found)
    return found


@kernel
def _counting_sort(keys: Any, low: int, places: Any, found: Any) -> None:
    for i in range(U(keys.shape[0])):
        places[U(keys[i] - low + 1)] += 1
    for k in range(1, len(places)):
        places[U(k)] += places[U(k - 1)]
    for i in range(U(keys.shape[0])):
        key = U(keys[i] - low)
        found[U(places[key])] = i
        places[key] += 1
