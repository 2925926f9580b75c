"""The scan of a capture, in kernels: from block to block, one row for each packet.

The kernels know what is regular: records of pcap, packet blocks of pcapng in either byte order,
the recorder's options. They step over blocks that are of no use, note the place of those that
Python reads (facts, secrets), and stop at everything else: a section, an interface, a block that
is not whole or not right. There `scan.py` goes on with the reference's own functions.

Rows go into arrays that the caller brings, one array for each width of column:

    wide[TS | OFFSET | DATA | CAPTURED | ORIGINAL | RECORDED]   int64
    narrow[INTERFACE | LINK]                                    int32
    marks                                                       uint8, bits MARK_*
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format import constants as fmt
from wirelake.capture.format.constants import Limits
from wirelake.capture.format.files import Feed, open_feed
from wirelake.capture.format.items import Element, FileFault, Interface
from wirelake.capture.format.reader import BEGINS, MAGICS

from ..jit.intrinsics import be32, le32, le64, u8, u16, u32
from ..jit.options import Int, U, inline, kernel, readonly

__all__ = [
    "BAD",
    "BINARY",
    "CAPTURED",
    "DATA",
    "DECIMAL",
    "FINER",
    "FULL",
    "INTERFACE",
    "INTERFACE_COLUMNS",
    "LINK",
    "MARK_C2S",
    "MARK_CONTINUES",
    "MARK_RECORDED",
    "MARK_S2C",
    "MARK_UNFINISHED",
    "ODD",
    "OFFSET",
    "ORIGINAL",
    "RECORDED",
    "SHORT",
    "TS",
    "WINDOW",
    "InterfaceTable",
    "Source",
    "resync",
    "scan_pcap",
    "scan_pcapng",
]


TS, OFFSET, DATA, CAPTURED, ORIGINAL, RECORDED = range(6)
"""Rows of `wide`: time in ns, place of the block in the file, place of the data in the buffer,
bytes in the file, bytes on the wire, the recorder's connection."""
INTERFACE, LINK = range(2)
"""Rows of `narrow`: number of the interface, its link type."""

MARK_C2S: Final = 1
MARK_S2C: Final = 2
MARK_CONTINUES: Final = 4
MARK_UNFINISHED: Final = 8
MARK_RECORDED: Final = 16
"""The packet has the recorder's option; the other marks are what that option and the flags say."""

WINDOW, FULL, SHORT, BAD, ODD = range(5)
"""Why a scan stopped: it reached its end; its arrays are full; the buffer ends inside a block; a
length is wrong; Python has to read the block, which is whole."""

DECIMAL, FINER, BINARY = range(3)
"""How an interface counts time: in ticks of some ns, in so many ticks a ns, or in a power of two
of ticks a second."""
I_LINK, I_SNAP, I_CLOCK, I_FACTOR, I_MOST, I_SHIFT = range(6)
"""Columns of the table of interfaces: link type, snap length, how time is counted and by what
factor (or power), the most ticks for which 64 bits are enough, ns to add."""
INTERFACE_COLUMNS: Final = 6
"""How many columns that table has."""

_EPB: Final = fmt.BLOCK_EPB
_SPB: Final = fmt.BLOCK_SPB
_OBSOLETE: Final = fmt.BLOCK_PACKET
_SHB: Final = fmt.BLOCK_SHB
_IDB: Final = fmt.BLOCK_IDB
_SECRETS: Final = fmt.BLOCK_SECRETS
_CUSTOM: Final = fmt.BLOCK_CUSTOM
_ORDER_MAGIC: Final = fmt.BYTE_ORDER_MAGIC
_PEN: Final = fmt.PEN
_OPTION_END: Final = fmt.OPTION_END
_OPTION_FLAGS: Final = fmt.OPTION_FLAGS
_OPTION_MARK: Final = fmt.OPTION_CUSTOM_BINARY
_MARK_HEAD: Final = int.from_bytes(fmt.MARK_MAGIC + bytes([fmt.MARK_VERSION]), "little")
_RECORD: Final = fmt.PCAP_RECORD_SIZE
_FACT_MAGIC: Final = int.from_bytes(fmt.FACT_MAGIC, "little")
_FACT_TEXT: Final = 16
"""Where in its block the text of a fact begins."""
_OPEN_WORD: Final = int.from_bytes(b"open", "little")
_BACKSLASH: Final = ord("\\")

Bytes = NDArray[np.uint8]
Wide = NDArray[np.int64]
Narrow = NDArray[np.int32]


@kernel
def scan_pcap(
    data: Bytes,
    base: int,
    start: int,
    stop: int,
    big: bool,
    tick_ns: int,
    link: int,
    limit: int,
    wide: Wide,
    narrow: Narrow,
    marks: Bytes,
    count: int,
) -> tuple[int, int, int]:
    """Read records from `start` until one begins at or behind `stop`: place, packets, why."""
    at = start
    end = len(data)
    while at < stop:
        if count >= wide.shape[1]:
            return at, count, FULL
        if end - at < _RECORD:
            return at, count, SHORT
        captured = u32(data, at + 8, big)
        if captured > limit:
            return at, count, BAD
        if captured > end - at - _RECORD:
            return at, count, SHORT
        i = U(count)
        wide[TS, i] = u32(data, at, big) * 1_000_000_000 + u32(data, at + 4, big) * tick_ns
        wide[OFFSET, i] = base + at
        wide[DATA, i] = at + _RECORD
        wide[CAPTURED, i] = captured
        wide[ORIGINAL, i] = u32(data, at + 12, big)
        wide[RECORDED, i] = 0
        narrow[INTERFACE, i] = 0
        narrow[LINK, i] = link
        marks[i] = 0
        count += 1
        at += _RECORD + captured
    return at, count, WINDOW


@kernel
def scan_pcapng(
    data: Bytes,
    base: int,
    start: int,
    stop: int,
    big: bool,
    with_facts: bool,
    interfaces: Wide,
    limit: int,
    wide: Wide,
    narrow: Narrow,
    marks: Bytes,
    count: int,
    others: Wide,
) -> tuple[int, int, int, int]:
    """Read blocks from `start` until one begins at or behind `stop`: place, packets, others, why.

    `others` gets place in the buffer, number of the next packet, and size, of each block that
    Python has to read but that changes nothing for the blocks behind it; unless facts are wanted,
    custom blocks are passed over that cannot introduce a connection.
    """
    at = start
    end = len(data)
    other = 0
    while at < stop:
        if count >= wide.shape[1] or other >= others.shape[1]:
            return at, count, other, FULL
        if end - at < 12:
            return at, count, other, SHORT
        kind = u32(data, at, big)
        own = _own_order(data, at) if kind == _SHB else int(big)
        length = u32(data, at + 4, own == 1)
        if own < 0 or length < 12 or length & 3 or length > limit:
            return at, count, other, BAD
        if length > end - at:
            return at, count, other, SHORT
        if le32(data, at + 4) != le32(data, at + length - 4):
            return at, count, other, BAD
        if kind in (_EPB, _OBSOLETE):
            if not _packet(
                data, base, at, length, kind, big, interfaces, wide, narrow, marks, count
            ):
                return at, count, other, ODD
            count += 1
        elif kind == _SECRETS or (
            kind == _CUSTOM and (with_facts or _may_introduce(data, at, length, big))
        ):
            others[0, U(other)] = at
            others[1, U(other)] = count
            others[2, U(other)] = length
            other += 1
        elif kind == _SPB:
            if not _simple(data, base, at, length, big, interfaces, wide, narrow, marks, count):
                return at, count, other, ODD
            count += 1
        elif kind in (_SHB, _IDB):
            return at, count, other, ODD
        at += length
    return at, count, other, WINDOW


@inline
def _own_order(data: Bytes, at: Int) -> Int:
    """The byte order of a section: 0 little, 1 big, -1 none."""
    if le32(data, at + 8) == _ORDER_MAGIC:
        return 0
    if be32(data, at + 8) == _ORDER_MAGIC:
        return 1
    return -1


@inline
def _may_introduce(data: Bytes, at: Int, length: Int, big: bool) -> bool:
    """Whether a custom block is a fact that has the word `open`, or something escaped, in it."""
    if length < _FACT_TEXT + 8 or u32(data, at + 8, big) != _PEN:
        return False
    if le32(data, at + 12) != _FACT_MAGIC:
        return False
    for place in range(at + _FACT_TEXT, at + length - 7):
        if u8(data, place) == _BACKSLASH or le32(data, place) == _OPEN_WORD:
            return True
    return False


@inline
def _packet(
    data: Bytes,
    base: Int,
    at: Int,
    length: Int,
    kind: Int,
    big: bool,
    interfaces: Wide,
    wide: Wide,
    narrow: Narrow,
    marks: Bytes,
    count: Int,
) -> bool:
    """Fill the row of an enhanced or obsolete packet block; False when Python has to look."""
    if length < 32:
        return False
    number = u32(data, at + 8, big) if kind == _EPB else u16(data, at + 8, big)
    captured = u32(data, at + 20, big)
    if number >= interfaces.shape[0] or captured > length - 32:
        return False
    face = U(number)
    ticks = u32(data, at + 12, big) << 32 | u32(data, at + 16, big)
    if ticks < 0 or ticks > interfaces[face, I_MOST]:
        return False
    i = U(count)
    wide[TS, i] = _time(ticks, interfaces[face, I_CLOCK], interfaces[face, I_FACTOR])
    wide[TS, i] += interfaces[face, I_SHIFT]
    wide[OFFSET, i] = base + at
    wide[DATA, i] = at + 28
    wide[CAPTURED, i] = captured
    wide[ORIGINAL, i] = u32(data, at + 24, big)
    wide[RECORDED, i] = 0
    narrow[INTERFACE, i] = number
    narrow[LINK, i] = interfaces[face, I_LINK]
    marks[i] = 0
    options = at + 28 + ((captured + 3) & ~3)
    if at + length - 4 - options >= 4:
        _recorded(data, options, at + length - 4, big, wide, marks, count)
    return True


@inline
def _simple(
    data: Bytes,
    base: Int,
    at: Int,
    length: Int,
    big: bool,
    interfaces: Wide,
    wide: Wide,
    narrow: Narrow,
    marks: Bytes,
    count: Int,
) -> bool:
    """Fill the row of a simple packet block, which has no time; False when Python has to look."""
    if length < 16 or interfaces.shape[0] == 0:
        return False
    original = u32(data, at + 8, big)
    snap = interfaces[0, I_SNAP]
    captured = min(original, snap) if snap > 0 else original
    if captured > length - 16:
        return False
    i = U(count)
    wide[TS, i] = 0
    wide[OFFSET, i] = base + at
    wide[DATA, i] = at + 12
    wide[CAPTURED, i] = captured
    wide[ORIGINAL, i] = original
    wide[RECORDED, i] = 0
    narrow[INTERFACE, i] = 0
    narrow[LINK, i] = interfaces[0, I_LINK]
    marks[i] = 0
    return True


@inline
def _time(ticks: Int, clock: Int, factor: Int) -> Int:
    """Ticks of an interface in ns."""
    if clock == DECIMAL:
        return ticks * factor
    if clock == FINER:
        return ticks // factor
    part = ticks & ((1 << factor) - 1)
    return (ticks >> factor) * 1_000_000_000 + (part * 1_000_000_000 >> factor)


@inline
def _recorded(
    data: Bytes, at: Int, end: Int, big: bool, wide: Wide, marks: Bytes, count: Int
) -> None:
    """Look through the options of a packet for what the recorder puts there."""
    found = 0
    direction = 0
    while end - at >= 4:
        code = u16(data, at, big)
        size = u16(data, at + 2, big)
        at += 4
        if code == _OPTION_END or size > end - at:
            break
        if code == _OPTION_FLAGS and size == 4:
            direction = u32(data, at, big) & 3
        elif (
            code == _OPTION_MARK
            and size == 16
            and u32(data, at, big) == _PEN
            and le32(data, at + 4) & 0xFFFFFF == _MARK_HEAD
            and le64(data, at + 8) > 0
        ):
            found = MARK_RECORDED | (u8(data, at + 7) & 3) << 2
            wide[RECORDED, U(count)] = le64(data, at + 8)
        at += (size + 3) & ~3
    if found and direction < 3:
        found |= direction
    marks[U(count)] = found


# The interfaces of a section, as a table for the kernels.


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


# The bytes of a capture file, as the scan wants them: an array, and where in the file it begins.


_FIRST_BYTES: Final = 1 << 12
_MOST_BYTES: Final = 1 << 20
"""How much is handed on at a time when reading goes on behind damage."""


class _Mapped(Feed):
    """A feed that has everything already."""

    __slots__ = ()

    def __init__(self, mapped: mmap.mmap):
        super().__init__(iter(()))
        self.buffer = cast(bytes, mapped)  # as good as bytes: its slices are

    def has(self, offset: int, size: int) -> bool:
        """Whether the file is long enough."""
        return offset + size <= len(self.buffer)


class Source:
    """An open capture file. Raises OSError when it cannot be opened."""

    def __init__(self, path: str, limits: Limits):
        self._stack = ExitStack()
        self.feed = _mapped(path) or self._stack.enter_context(open_feed(path, limits))
        """For the reference's functions; `feed.base` is where in the file the array begins."""

    def array(self) -> NDArray[np.uint8]:
        """What is held of the file."""
        return readonly(self.feed.buffer)

    def close(self) -> None:
        """Close the file. What is mapped stays as long as there are arrays of it."""
        self._stack.close()


def _mapped(path: str) -> Feed | None:
    with open(path, "rb") as file:
        head = file.read(4)
        if head not in MAGICS and head != BEGINS:
            return None
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(mmap.MADV_SEQUENTIAL)
    return _Mapped(mapped)


def resync(
    feed: Feed,
    at: int,
    head: bytes,
    read: Callable[[Feed, Limits], Iterator[Element]],
    limits: Limits,
) -> FileFault:
    """What the reference says of a wrong length at `at`: a fault up to where reading goes on.

    It reads a file that begins with `head` and goes on with what begins here; afterwards the feed
    begins where the fault stops.
    """
    rest = Feed(chain([head], _from(feed, at)))
    found = next(element for element in read(rest, limits) if isinstance(element, FileFault))
    stop = found.offset + found.present_bytes
    if not isinstance(feed, _Mapped):
        handed_on = at + rest.known_end() - len(head)
        feed.buffer = rest.buffer[stop - rest.base :] + feed.buffer[handed_on - feed.base :]
        feed.base = at + found.present_bytes
        feed.release(feed.base)
    return msgspec.structs.replace(found, offset=at)


def _from(feed: Feed, at: int) -> Iterator[bytes]:
    """Everything from a place on; what was handed on is not held here any more.

    Little at first, because most damage is small, and there may be much of it.
    """
    size = _FIRST_BYTES
    while chunk := feed.take(at, size):
        at += len(chunk)
        feed.release(at)
        yield chunk
        size = min(2 * size, _MOST_BYTES)
