"""The scan of a capture: windows of packet rows, kernels and the reference taking turns.

Each of `Scanner.windows` reads on until about `window_bytes` of the file are behind it. Kernels
(`blocks.py`) read what is regular; a section, an interface, a fact, a block with wrong content is
read by the reference's `blocks.Reader`; damage and ends are the reference's too (`sources.py`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec
import numpy as np

from wirelake.capture.format.blocks import Reader
from wirelake.capture.format.constants import (
    BLOCK_SHB,
    BYTE_ORDER_MAGIC,
    PCAP_HEADER_SIZE,
    PCAP_RECORD_SIZE,
    Limits,
)
from wirelake.capture.format.items import (
    Element,
    Fact,
    FileFault,
    Interface,
    Order,
    Packet,
    Secrets,
    Section,
    cut_off,
)
from wirelake.capture.format.reader import (
    BEGINS,
    MAGICS,
    elements,
    read_bytes,
    read_pcap,
    read_pcapng,
    section_order,
)

from ..jit.options import readonly
from . import blocks as b
from .blocks import TS, InterfaceTable, Source, resync

__all__ = [
    "END",
    "FileItem",
    "Index",
    "IndexedPart",
    "Part",
    "Rows",
    "Scanner",
    "index",
]


_LEAST_PACKET_BYTES: Final = 64
"""A window has room for as many packets as it has pieces of this size: a record with Ethernet, IP
and TCP headers has 70 bytes. Where packets are smaller, the window is merely shorter."""
_OTHERS: Final = 4096
"""Facts and secrets that a kernel notes before Python reads them."""

END: Final = 1 << 62
"""Where a part stops that reaches to the end of its file."""

_TOLD: Final = (Fact, Secrets, FileFault)
FileItem: TypeAlias = tuple[int, Fact | Secrets | FileFault]
"""What a file holds besides packets, with the number of the next packet of its window."""


class Part(msgspec.Struct, frozen=True):
    """A part of a file between two blocks, and what is known of the section that it begins in."""

    offset: int
    stop: int
    order: Order
    interfaces: tuple[Interface, ...]


class Rows:
    """The packets of a window, and whatever else lies between them."""

    def __init__(self, room: int):
        self.wide = np.empty((6, room), np.int64)
        self.narrow = np.empty((2, room), np.int32)
        self.marks = np.empty(room, np.uint8)
        self.count = 0
        self.items: list[FileItem] = []
        self.data = readonly(b"")
        """The bytes in which row DATA is a place."""
        self.base = 0
        """Where in the file they begin."""

    def add(self, packet: Packet) -> None:
        """A packet that Python has read."""
        i = self.count
        self.wide[:, i] = (
            packet.ts_ns,
            packet.offset,
            packet.data_offset - self.base,
            len(packet.data),
            packet.original,
            packet.connection or 0,
        )
        self.narrow[:, i] = packet.interface, packet.link
        self.marks[i] = (
            0
            if packet.connection is None
            else b.MARK_RECORDED
            | (b.MARK_C2S if packet.direction == "c2s" else 0)
            | (b.MARK_S2C if packet.direction == "s2c" else 0)
            | (b.MARK_CONTINUES if packet.continues else 0)
            | (b.MARK_UNFINISHED if packet.unfinished else 0)
        )
        self.count += 1


class Scanner:
    """Reads one file, or a part of one, from front to back. Raises OSError when it cannot."""

    def __init__(
        self,
        path: str,
        *,
        window_bytes: int,
        limits: Limits,
        part: Part | None = None,
        facts: bool = True,
    ):
        self._limits = limits
        self._facts = facts
        self._window_bytes = window_bytes
        self._room = max(16, window_bytes // _LEAST_PACKET_BYTES)
        self._source = Source(path, limits)
        self._feed = self._source.feed
        self._others = np.empty((3, _OTHERS), np.int64)
        self._interfaces = InterfaceTable()
        self._pcap_order: Order = "little"
        self._stop = END if part is None else part.stop
        self._reader: Reader | None = None
        self._items: list[Fact | Secrets | FileFault] = []
        self.at = 0
        """Where in the file the next window begins."""
        self.done = False
        """Whether the file is read."""
        self._begin(path)
        if part is not None and not self.done:
            self._jump(part)

    @property
    def order(self) -> Order:
        """The byte order, of the section in pcapng."""
        return self._pcap_order if self._reader is None else self._reader.order

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The interfaces of the section so far."""
        return () if self._reader is None else tuple(self._reader.interfaces)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def windows(self) -> Iterator[Rows]:
        """The windows, at least one. A window may hold no packet at all."""
        yield self._window()
        while not self.done:
            yield self._window()

    def _window(self) -> Rows:
        rows = Rows(self._room)
        self._feed.release(self.at)
        self._feed.has(self.at, self._window_bytes)
        self._show(rows)
        stop = min(self.at + self._window_bytes, self._stop)
        while self.at < stop and not self.done and self._is_shown(rows):
            why = self._run(rows, stop)
            if why == b.FULL or (why == b.SHORT and rows.count):
                break  # the next window begins here, with more of the file
            if why == b.SHORT:
                self._more(rows)
            elif why == b.BAD:
                self._damage()
            elif why == b.ODD:
                self._odd(rows)
            self._place(rows)
        self._place(rows)
        self.done = self.done or self.at >= self._stop
        return rows

    def _show(self, rows: Rows) -> None:
        rows.data = self._source.array()
        rows.base = self._feed.base

    def _is_shown(self, rows: Rows) -> bool:
        return rows.base == self._feed.base and len(rows.data) == len(self._feed.buffer)

    def _place(self, rows: Rows) -> None:
        """Place the items read so far before the next packet."""
        rows.items += [(rows.count, item) for item in self._items]
        self._items = []

    # -- how a file begins and ends ----------------------------------------------------------

    def _begin(self, path: str) -> None:
        head = self._feed.take(0, PCAP_HEADER_SIZE)
        if head[:4] in MAGICS:
            if len(head) < PCAP_HEADER_SIZE:
                self._end()
                return
            self._head = head
            for element in read_bytes(head):
                self._take(element)
            self.at = PCAP_HEADER_SIZE
        elif head[:4] == BEGINS and (len(head) < 12 or section_order(head)):
            self._reader = Reader(section_order(head) or "little", self._limits)
        else:
            for element in elements(path, limits=self._limits):
                self._take(element)
            self.done = True

    def _jump(self, part: Part) -> None:
        """Seek to the beginning of a part, with the section it is in."""
        while self._feed.known_end() < part.offset and self._feed.has(self._feed.known_end(), 1):
            self._feed.release(min(self._feed.known_end(), part.offset))
        self.at = part.offset
        self._feed.release(self.at)
        if self._reader is None:
            return
        self._reader = Reader(part.order, self._limits)
        for interface in part.interfaces:
            self._reader.interfaces.append(interface)
            self._interfaces.add(interface)

    def _end(self) -> None:
        """The file ends here; that is a fault when it ends inside of something."""
        if self._feed.known_end() > self.at or self._feed.ending:
            self._items.append(cut_off(self._feed, self.at))
        self.done = True

    def _more(self, rows: Rows) -> None:
        """What is held is too short for even one block: see whether the file has more."""
        known = self._feed.known_end()
        self._feed.has(self.at, self._limits.block_bytes + PCAP_RECORD_SIZE)
        if self._feed.known_end() == known:
            self._end()
        self._show(rows)

    def _damage(self) -> None:
        """A length is wrong: the reference says how far that reaches."""
        if self._reader is None:
            fault = resync(self._feed, self.at, self._head, read_pcap, self._limits)
        else:
            head = _section_header(self.order)
            fault = resync(self._feed, self.at, head, read_pcapng, self._limits)
        self._items.append(fault)
        self.at += fault.present_bytes

    # -- blocks ------------------------------------------------------------------------------

    def _run(self, rows: Rows, stop: int) -> int:
        """Run the kernel from here to `stop`, or to a block that it does not know."""
        start, stop = self.at - rows.base, stop - rows.base
        columns = rows.wide, rows.narrow, rows.marks, rows.count
        limit = self._limits.block_bytes
        if self._reader is None:
            big = self.order == "big"
            face = self._interfaces.first
            tick_ns = 1_000_000_000 // face.ticks_per_s
            at, rows.count, why = b.scan_pcap(
                rows.data, rows.base, start, stop, big, tick_ns, face.link, limit, *columns
            )
            self.at = rows.base + at
            return why
        table = self._interfaces.rows
        big = self.order == "big"
        at, rows.count, other, why = b.scan_pcapng(
            rows.data,
            rows.base,
            start,
            stop,
            big,
            self._facts,
            table,
            limit,
            *columns,
            self._others,
        )
        self.at = rows.base + at
        self._read_others(rows, other)
        return why

    def _read_others(self, rows: Rows, count: int) -> None:
        """Read the facts and secrets that the kernel noted."""
        assert self._reader is not None
        read, held, base, items = self._reader.block, self._feed.buffer, rows.base, rows.items
        for place, following, size in zip(*self._others[:, :count].tolist(), strict=True):
            element = read(held[place : place + size], 0, size, base + place)
            if isinstance(element, _TOLD):
                items.append((following, element))

    def _odd(self, rows: Rows) -> None:
        """Read a block that the kernel does not know, and that may change how it continues."""
        self.at += self._read_block(rows, self.at)

    def _read_block(self, rows: Rows, at: int) -> int:
        assert self._reader is not None
        head = self._feed.take(at, 12)
        order = section_order(head) if head[:4] == BEGINS else self._reader.order
        size = int.from_bytes(head[4:8], order or "little")
        element = self._reader.block(self._feed.take(at, size), 0, size, at)
        if head[:4] == BEGINS:
            self._interfaces.clear()
        if isinstance(element, Packet):
            rows.add(element)
        else:
            self._take(element)
        return size

    def _take(self, element: Element | None) -> None:
        if isinstance(element, Interface):
            self._interfaces.add(element)
        elif isinstance(element, Section):
            self._pcap_order = element.order
        elif isinstance(element, _TOLD):
            self._items.append(element)


def _section_header(order: Order) -> bytes:
    """The shortest section header."""
    sign = "<" if order == "little" else ">"
    return struct.pack(sign + "IIIHHqI", BLOCK_SHB, 28, BYTE_ORDER_MAGIC, 1, 0, -1, 28)


# An index of a capture: where its windows begin, and what one has to know to begin there.


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
