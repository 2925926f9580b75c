"""Capture files to packet rows, a window at a time: kernels and the reference take turns.

Each of `Scanner.windows` covers about `window_bytes` of the file. Kernels (`blocks.py`) read the
packets. A section, an interface, a fact or an unusual block is decoded by `Reader` of
`wirelake.capture.format.blocks`; after damage, `_resync` lets the reference's reader find where to
continue. Plain files are memory-mapped, compressed ones are read through a `Feed`.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Final, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format.blocks import Reader
from wirelake.capture.format.constants import (
    BLOCK_SHB,
    BYTE_ORDER_MAGIC,
    PCAP_HEADER_SIZE,
    PCAP_RECORD_SIZE,
    Limits,
)
from wirelake.capture.format.files import Feed, open_feed
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
    read_bytes,
    read_pcap,
    read_pcapng,
    section_order,
    unknown_file,
)
from wirelake.wire.paths import local_path

from ..jit.options import readonly
from . import blocks
from .blocks import InterfaceTable

__all__ = [
    "FileItem",
    "PacketRows",
    "Scanner",
]

_MIN_PACKET_BYTES: Final = 64
"""Bytes of a window for each packet row. A pcap record with Ethernet, IP and TCP
headers has 70, so a window is rarely full before its end; with smaller packets it is only
shorter."""
_OTHER_BLOCKS: Final = 4096
"""Facts and secrets that a kernel lists before Python decodes them."""

_ITEMS: Final = (Fact, Secrets, FileFault)
FileItem: TypeAlias = tuple[int, Fact | Secrets | FileFault]
"""A fact, secrets or fault, with the number of the packet of its window that follows it."""


class PacketRows:
    """The packets of a window as columns, and the other items between them."""

    def __init__(self, capacity: int):
        self.packet_i64 = np.empty((6, capacity), np.int64)
        self.packet_i32 = np.empty((2, capacity), np.int32)
        self.marks = np.empty(capacity, np.uint8)
        self.count = 0
        self.items: list[FileItem] = []
        self.data = readonly(b"")
        """The buffer that row DATA refers to."""
        self.base = 0
        """Offset of the buffer in the file."""

    def add(self, packet: Packet) -> None:
        """Add a packet that Python decoded."""
        i = self.count
        self.packet_i64[:, i] = (
            packet.ts_ns,
            packet.offset,
            packet.data_offset - self.base,
            len(packet.data),
            packet.original,
            packet.connection or 0,
        )
        self.packet_i32[:, i] = packet.interface, packet.link
        self.marks[i] = (
            0
            if packet.connection is None
            else blocks.MARK_RECORDED
            | (blocks.MARK_C2S if packet.direction == "c2s" else 0)
            | (blocks.MARK_S2C if packet.direction == "s2c" else 0)
            | (blocks.MARK_CONTINUES if packet.continues else 0)
            | (blocks.MARK_UNFINISHED if packet.unfinished else 0)
        )
        self.count += 1


class Scanner:
    """Reads one file from front to back. Raises OSError when it cannot be opened or read.

    Instead of a path it takes a feed, whose bytes may still arrive. Without `facts`, facts are
    skipped, except those that open a connection.
    """

    def __init__(
        self,
        path: str | Feed,
        *,
        window_bytes: int,
        limits: Limits,
        facts: bool = True,
    ):
        self._limits = limits
        self._facts = facts
        self._window_bytes = window_bytes
        self._capacity = max(16, window_bytes // _MIN_PACKET_BYTES)
        self._source = Source(path, limits)
        self._feed = self._source.feed
        self._other_blocks = np.empty((3, _OTHER_BLOCKS), np.int64)
        self._interfaces = InterfaceTable()
        self._pcap_order: Order = "little"
        self._reader: Reader | None = None
        self._items: list[Fact | Secrets | FileFault] = []
        self.at = 0
        """Offset in the file at which the next window begins."""
        self.done = False
        """Whether the whole file has been read."""
        self._read_file_header()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def windows(self) -> Iterator[PacketRows]:
        """Yield the windows, at least one. A window may have no packets."""
        yield self._window()
        while not self.done:
            yield self._window()

    @property
    def _order(self) -> Order:
        """The byte order of the pcap file, or of the current pcapng section."""
        return self._pcap_order if self._reader is None else self._reader.order

    def _window(self) -> PacketRows:
        # New arrays for each window: the reader of the last window still uses the old ones. Memory
        # that is never written costs no pages.
        rows = PacketRows(self._capacity)
        self._feed.release(self.at)
        # For a mapped file this does nothing. A compressed file is decompressed up to the end of
        # the window, so that the kernel can run through without interruption.
        self._feed.prefetch(self.at, self._window_bytes)
        self._expose(rows)
        stop = self.at + self._window_bytes
        # A window has one buffer, because row DATA refers to it. Reading on behind damage moves the
        # buffer of a compressed file: then the window ends early.
        while self.at < stop and not self.done and self._is_current(rows):
            why = self._run_kernel(rows, stop)
            # A window with packets can always be ended early. Only without any packet must it go
            # on, or windows would not advance.
            if why == blocks.ARRAYS_FULL or (why == blocks.INCOMPLETE and rows.count):
                break  # the next window begins here, with more of the file
            if why == blocks.INCOMPLETE:
                self._read_more(rows)
            elif why == blocks.BAD_LENGTH:
                self._skip_damage()
            elif why == blocks.UNHANDLED:
                self._read_block(rows)
            self._flush_items(rows)
        self._flush_items(rows)
        return rows

    def _expose(self, rows: PacketRows) -> None:
        rows.data = self._source.array()
        rows.base = self._feed.base

    def _is_current(self, rows: PacketRows) -> bool:
        return rows.base == self._feed.base and len(rows.data) == len(self._feed.buffer)

    def _flush_items(self, rows: PacketRows) -> None:
        """Put the items read so far before the next packet."""
        rows.items += [(rows.count, item) for item in self._items]
        self._items = []

    # -- beginning, end and damage of a file -------------------------------------------------

    def _read_file_header(self) -> None:
        head = self._feed.take(0, PCAP_HEADER_SIZE)
        if head[:4] in MAGICS:
            if len(head) < PCAP_HEADER_SIZE:
                self._finish()
                return
            self._pcap_header = head
            for element in read_bytes(head):
                self._add(element)
            self.at = PCAP_HEADER_SIZE
        elif head[:4] == BEGINS and (len(head) < 12 or section_order(head)):
            # A section whose header is cut off has no byte order; the scan then ends with a fault.
            self._reader = Reader(section_order(head) or "little", self._limits)
        else:
            # Neither pcap nor pcapng: the reference reports the whole file as one fault.
            for element in unknown_file(self._feed):
                self._add(element)
            self.done = True

    def _finish(self) -> None:
        """End the file; it is a fault when that is inside a block."""
        incomplete = self._feed.known_end() > self.at or self._feed.ending
        if incomplete and not self._feed.stopped:
            self._items.append(cut_off(self._feed, self.at))
        self.done = True

    def _read_more(self, rows: PacketRows) -> None:
        """Read on because the buffer does not hold even one block; end the file if it ends."""
        known = self._feed.known_end()
        # As much as the largest block, so that one call is always enough for a file.
        most = self._limits.block_bytes + PCAP_RECORD_SIZE
        self._feed.read_more(self.at, most)
        if self._feed.known_end() == known:
            self._finish()
        self._expose(rows)

    def _skip_damage(self) -> None:
        """Skip from a bad length to where the reference continues."""
        if self._reader is None:
            fault = _resync(self._feed, self.at, self._pcap_header, read_pcap, self._limits)
        else:
            head = _section_header(self._order)
            fault = _resync(self._feed, self.at, head, read_pcapng, self._limits)
        self._items.append(fault)
        self.at += fault.present_bytes

    # -- blocks ------------------------------------------------------------------------------

    def _run_kernel(self, rows: PacketRows, stop: int) -> int:
        """Run the kernel from here to `stop`, or to a block that it cannot handle."""
        start, stop = self.at - rows.base, stop - rows.base
        columns = rows.packet_i64, rows.packet_i32, rows.marks, rows.count
        limit = self._limits.block_bytes
        big_endian = self._order == "big"
        if self._reader is None:
            only = self._interfaces.first
            tick_ns = 1_000_000_000 // only.ticks_per_s
            at, rows.count, why = blocks.scan_pcap(
                rows.data, rows.base, start, stop, big_endian, tick_ns, only.link, limit, *columns
            )
            self.at = rows.base + at
            return why
        at, rows.count, n_other, why = blocks.scan_pcapng(
            rows.data,
            rows.base,
            start,
            stop,
            big_endian,
            self._facts,
            self._interfaces.rows,
            limit,
            *columns,
            self._other_blocks,
        )
        self.at = rows.base + at
        self._read_other_blocks(rows, n_other)
        return why

    def _read_other_blocks(self, rows: PacketRows, count: int) -> None:
        """Decode the facts and secrets that the kernel listed."""
        assert self._reader is not None
        decode, buffer, base = self._reader.block, self._feed.buffer, rows.base
        for at, next_packet, size in zip(*self._other_blocks[:, :count].tolist(), strict=True):
            element = decode(buffer[at : at + size], 0, size, base + at)
            if isinstance(element, _ITEMS):
                rows.items.append((next_packet, element))

    def _read_block(self, rows: PacketRows) -> None:
        """Decode the block at which the kernel stopped; it may change how the rest is read."""
        assert self._reader is not None
        head = self._feed.take(self.at, 12)
        order = section_order(head) if head[:4] == BEGINS else self._reader.order
        size = int.from_bytes(head[4:8], order or "little")
        element = self._reader.block(self._feed.take(self.at, size), 0, size, self.at)
        if head[:4] == BEGINS:
            self._interfaces.clear()
        if isinstance(element, Packet):
            rows.add(element)
        else:
            self._add(element)
        self.at += size

    def _add(self, element: Element | None) -> None:
        if isinstance(element, Interface):
            self._interfaces.add(element)
        elif isinstance(element, Section):
            self._pcap_order = element.order
        elif isinstance(element, _ITEMS):
            self._items.append(element)


def _section_header(order: Order) -> bytes:
    """Return the shortest section header."""
    sign = "<" if order == "little" else ">"
    return struct.pack(sign + "IIIHHqI", BLOCK_SHB, 28, BYTE_ORDER_MAGIC, 1, 0, -1, 28)


# -- the bytes of a file ---------------------------------------------------------------------

_FIRST_CHUNK_BYTES: Final = 1 << 12
_MAX_CHUNK_BYTES: Final = 1 << 20
"""How much the reference gets at a time while it searches for the end of damage."""


class _MappedFeed(Feed):
    """A feed over a memory-mapped file: nothing is read, released or moved."""

    __slots__ = ()

    def __init__(self, mapped: mmap.mmap):
        super().__init__(iter(()))
        # A map is not `bytes`, but its slices are, and a feed's buffer is only sliced.
        self.buffer = cast(bytes, mapped)

    def has(self, offset: int, size: int) -> bool:
        """Return whether the file is long enough."""
        return offset + size <= len(self.buffer)


class Source:
    """An open capture file. Raises OSError when it cannot be opened."""

    def __init__(self, path: str | Feed, limits: Limits):
        self._stack = ExitStack()
        self.feed = path if isinstance(path, Feed) else self._opened(path, limits)
        """The file as the functions of `capture.format` read it; `base` is the array's offset."""

    def _opened(self, path: str, limits: Limits) -> Feed:
        return _map(path) or self._stack.enter_context(open_feed(path, limits))

    def array(self) -> NDArray[np.uint8]:
        """Return the buffered part of the file."""
        return readonly(self.feed.buffer)

    def close(self) -> None:
        """Close the file. A mapped file stays mapped as long as arrays refer to it."""
        self._stack.close()


def _map(path: str) -> Feed | None:
    """Return a feed that maps an uncompressed capture; None for other files and for pipes."""
    with open(local_path(path), "rb") as file:
        head = file.read(4)
        if head not in MAGICS and head != BEGINS:
            return None
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # madvise(2): more read-ahead, and pages may be freed soon after they were read.
    mapped.madvise(mmap.MADV_SEQUENTIAL)
    return _MappedFeed(mapped)


def _resync(
    feed: Feed,
    at: int,
    head: bytes,
    read: Callable[[Feed, Limits], Iterator[Element]],
    limits: Limits,
) -> FileFault:
    """Return the reference's fault for a bad length at `at`, up to where reading can continue.

    The reference reads a file made of `head`, a valid file header, and the bytes from `at` on. Its
    first fault is the wanted one. Afterwards the feed begins where the fault stops.
    """
    rest = Feed(chain([head], _chunks_from(feed, at)))
    found = next(element for element in read(rest, limits) if isinstance(element, FileFault))
    stop = found.offset + found.present_bytes
    if not isinstance(feed, _MappedFeed):
        # A compressed file cannot be read again: take back what the reference had read too far.
        passed_on = at + rest.known_end() - len(head)
        feed.buffer = rest.buffer[stop - rest.base :] + feed.buffer[passed_on - feed.base :]
        feed.base = at + found.present_bytes
        feed.release(feed.base)
    return msgspec.structs.replace(found, offset=at)


def _chunks_from(feed: Feed, at: int) -> Iterator[bytes]:
    """Yield the bytes from an offset on, and release them.

    The first chunks are small, because most damage is small and a file may have much of it: with
    chunks of 1 MiB each damaged block would copy 1 MiB.
    """
    size = _FIRST_CHUNK_BYTES
    while chunk := feed.take(at, size):
        at += len(chunk)
        feed.release(at)
        yield chunk
        size = min(2 * size, _MAX_CHUNK_BYTES)
