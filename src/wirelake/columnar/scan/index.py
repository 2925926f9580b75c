"""An index of a capture: where its windows begin, and what one has to know to begin there.

    found = index("edge.pcapng")
    late = [part for part in found.parts if part.last_ns and part.last_ns >= since_ns]
    front = FrontEnd("edge.pcapng", ports=ports, part=late[0])

One pass of the block scan, with no look at headers. A reader that begins at a part joins the
connections that are open there in the middle, as it would with a capture that was begun there.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from wirelake.capture.format.items import Interface, Order
from wirelake.capture.format.limits import Limits

from .blocks import TS
from .scanner import END, Part, Rows, Scanner

__all__ = ["END", "Index", "IndexedPart", "Part", "index"]

_PART_BYTES: Final = 32 << 20
_LIMITS: Final = Limits()


class IndexedPart(Part, frozen=True):
    """A part of a file, and what is in it."""

    packets: int
    first_ns: int | None
    last_ns: int | None
    """The earliest and the latest time of its packets; None without packets."""


class Index(msgspec.Struct, frozen=True):
    """The parts of a file, which leave nothing out."""

    path: str
    parts: list[IndexedPart]

    @property
    def packets(self) -> int:
        """Packets of the file."""
        return sum(part.packets for part in self.parts)


def index(
    path: str | os.PathLike[str], *, part_bytes: int = _PART_BYTES, limits: Limits = _LIMITS
) -> Index:
    """The parts of a file, of about `part_bytes` each. Raises OSError when it cannot be read."""
    name = os.fspath(path)
    parts: list[IndexedPart] = []
    scanner = Scanner(name, window_bytes=part_bytes, limits=limits)
    try:
        begin = scanner.at, scanner.order, scanner.interfaces
        for rows in scanner.windows():
            stop = END if scanner.done else scanner.at
            parts.append(_part(rows, stop, *begin))
            begin = scanner.at, scanner.order, scanner.interfaces
    finally:
        scanner.close()
    return Index(name, parts)


def _part(
    rows: Rows, stop: int, offset: int, order: Order, interfaces: tuple[Interface, ...]
) -> IndexedPart:
    times = rows.wide[TS, : rows.count]
    first, last = (int(times.min()), int(times.max())) if rows.count else (None, None)
    return IndexedPart(offset, stop, order, interfaces, rows.count, first, last)
