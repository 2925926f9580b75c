"""The last bytes of some payloads: what an assembler holds to compare later copies with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .numba_options import Int, S, U, inline, kernel
from .segments import PAYLOAD, PAYLOAD_BYTES

__all__ = ["tail", "tail_before"]

Bytes = NDArray[np.uint8]


@kernel
def tail(
    packets: NDArray[np.int64],
    data: Bytes,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    target: Bytes,
) -> int:
    """Fill `target` from its end with payloads, the last one last: gives where they begin."""
    left = len(target)
    k = len(packets) - 1
    while k >= 0 and left > 0:
        left = _prepend(packets[U(k)], data, places, sizes, target, left)
        k -= 1
    return left


@kernel
def tail_before(
    packet: int,
    earlier: NDArray[np.int32],
    data: Bytes,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    target: Bytes,
) -> int:
    """As `tail`, of a packet and of those that `earlier` links to it."""
    left = len(target)
    i = packet
    while i >= 0 and left > 0:
        left = _prepend(i, data, places, sizes, target, left)
        i = S(earlier[U(i)])
    return left


@inline
def _prepend(
    i: Int,
    data: Bytes,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    target: Bytes,
    left: Int,
) -> Int:
    size = S(sizes[PAYLOAD_BYTES, U(i)])
    stop = places[PAYLOAD, U(i)] + size
    size = min(size, left)
    left -= size
    for k in range(U(size)):
        target[U(left) + k] = data[U(stop - size) + k]
    return left
