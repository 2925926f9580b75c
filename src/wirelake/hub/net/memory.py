"""Returns memory to the system after a storm of connections.

A closed connection is freed by its reference count. Two things remain: transports of TLS
connections are in reference cycles, which the garbage collector finds late (`hub.run` lets it run
rarely), and the allocator keeps freed memory for later use. After 10,000 connections have gone, or
half of many, the hub collects garbage and trims the heap, once.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Final

__all__ = ["MemoryRelease"]

_MANY: Final = 1_000
"""Fewer connections are not worth a collection: about 4 MB, with TLS 50 MB."""
_CLOSED: Final = 10_000
"""Closed connections after which garbage is collected, whatever the number of open ones."""


class MemoryRelease:
    """Watches the number of connections, in the deadline scan."""

    def __init__(self, number: int, count: Callable[[], int], closed: Callable[[], int]):
        self.id = number
        """Its id in the deadline scan."""
        self._count = count
        self._closed = closed
        self._peak = 0
        self._closed_before = 0

    def check_deadlines(self, now: float) -> None:  # noqa: ARG002
        """Collect garbage and trim the heap, if enough connections have gone."""
        count, closed = self._count(), self._closed()
        self._peak = max(self._peak, count)
        if self._peak - count < _MANY and closed - self._closed_before < _CLOSED:
            return
        if 2 * count > self._peak:  # still busy: a collection would take long and find little
            return
        self._peak, self._closed_before = count, closed
        gc.collect()
        _trim()


def _trim() -> None:
    """Return free memory to the system; only glibc has a function for it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
