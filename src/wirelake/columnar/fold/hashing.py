"""Which share a connection belongs to."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["id_hash", "id_hashes"]

_MASK: Final = (1 << 64) - 1
_FIRST: Final = 0xFF51AFD7ED558CCD
_SECOND: Final = 0xC4CEB9FE1A85EC53


def id_hash(connection: int) -> int:
    """32 bits of a recorder's id, or of a tunnel's: its remainder by the shares is its share.

    The same as the front end's (`flows.py`) for a connection that a recorder has numbered.
    """
    value = connection & _MASK
    value ^= value >> 33
    value = value * _FIRST & _MASK
    value ^= value >> 33
    value = value * _SECOND & _MASK
    return (value ^ value >> 33) >> 32


def id_hashes(connections: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same, of each."""
    value = connections.astype(np.uint64)
    for factor in (_FIRST, _SECOND):
        value ^= value >> np.uint64(33)
        value *= np.uint64(factor)
    return ((value ^ value >> np.uint64(33)) >> np.uint64(32)).astype(np.int64)
