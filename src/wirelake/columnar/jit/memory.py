"""Memory that stays flat: large arrays go back to the system as soon as they are free.

The C library learns from the sizes that are freed, up to 32 MiB, and then keeps such blocks in its
heap, where they are cut up. A reader that holds a window's arrays for a moment, again and again,
then grows for a long time. With a fixed threshold every large array has pages of its own.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Final

__all__ = ["keep_memory_flat"]

_MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of mallopt."""
_LARGE_BYTES: Final = 1 << 20


@functools.cache
def keep_memory_flat() -> bool:
    """Fix the threshold for this process; whether its C library knows such a thing."""
    try:
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES))
    except (AttributeError, OSError):
        return False
