"""The interfaces of a section, as a table for the kernels."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format.items import Interface

from .blocks import (
    BINARY,
    DECIMAL,
    FINER,
    INTERFACE_COLUMNS,
)

__all__ = ["InterfaceTable"]

_NS: Final = 1_000_000_000
_MOST: Final = (1 << 63) - 1
_MOST_POWER: Final = 33
"""2 ** 33 parts of a second, times the ns in it, are just below 2 ** 63."""


class InterfaceTable:
    """Grows by one interface at a time."""

    def __init__(self) -> None:
        self._store = np.zeros((4, INTERFACE_COLUMNS), np.int64)
        self._count = 0
        self.first: Interface
        """The interface with the number 0."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """The table: columns I_LINK to I_SHIFT of `blocks.py`."""
        return self._store[: self._count]

    def clear(self) -> None:
        """Another section begins."""
        self._count = 0

    def add(self, interface: Interface) -> None:
        """The next interface of the section."""
        if self._count == 0:
            self.first = interface
        if self._count == len(self._store):
            self._store = np.concatenate([self._store, np.zeros_like(self._store)])
        self._store[self._count] = (interface.link, interface.snap_length, *_clock(interface))
        self._count += 1


def _clock(interface: Interface) -> tuple[int, int, int, int]:
    """How ticks become ns: the way, its factor, the most ticks that 64 bits are enough for (-1:
    none, Python does it), and what is added."""
    per_s = interface.ticks_per_s
    shift = interface.shift_s * _NS
    room = _MOST - max(shift, 0)
    if not -_MOST <= shift <= _MOST:
        return DECIMAL, 1, -1, 0
    if _NS % per_s == 0:
        return DECIMAL, _NS // per_s, room // (_NS // per_s), shift
    if per_s % _NS == 0 and per_s // _NS <= _MOST:
        return FINER, per_s // _NS, min(_MOST, room * (per_s // _NS)), shift
    power = per_s.bit_length() - 1
    if per_s == 1 << power and power <= _MOST_POWER:
        return BINARY, power, min(_MOST, room * per_s // _NS), shift
    return DECIMAL, 1, -1, 0
