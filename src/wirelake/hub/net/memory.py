"""Returns memory to the system after a storm of connections.

A closed connection is freed by its reference count, but the allocator keeps what it was for later
use: 6,000 silent TLS connections left 300 MB, and a second storm found it in pieces that were too
small. After a thousand connections have gone, the hub trims the heap.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

__all__ = ["MemoryRelease"]

_MANY: Final = 1_000
"""Connections that have gone before the heap is trimmed: about 4 MB, with TLS 50 MB. To trim it
takes some milliseconds."""


class MemoryRelease:
    """Watches the number of connections, in the deadline scan."""

    def __init__(
        self, number: int, count: Callable[[], int], trim: Callable[[], object] | None = None
    ):
        self.id = number
        """Its id in the deadline scan."""
        self._count = count
        self._trim = trim or _heap_trim()
        self._peak = 0

    def check_deadlines(self, now: float) -> None:  # noqa: ARG002
        """Trim the heap, if enough connections have gone."""
        count = self._count()
        self._peak = max(self._peak, count)
        if self._peak - count >= _MANY:
            self._peak = count
            self._trim()


def _heap_trim() -> Callable[[], object]:
    """Return the function that returns free memory to the system; only glibc has one."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: None) if trim is None else (lambda: trim(0))
