"""`read`: the items of a pcap or pcapng file, in file order, in constant memory.

    for item in read("edge.pcapng"):
        ...                             # Packet, Fact, Secrets or FileFault

Invalid bytes become a `FileFault`, and reading continues after them. Whatever the bytes, only
OSError is raised, when a file cannot be opened or read. The rules are in
`docs/concepts/captures.md`, section *Files*. The content of pcapng blocks is decoded in
`blocks.py`.

After a bad length the position of the next block is unknown. A position counts as the next one if
two plausible blocks follow each other there: one alone is found by chance in most payloads.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import Final

from .blocks import Reader
from .constants import (
    BLOCK_SHB,
    BYTE_ORDER_MAGIC,
    FAULT_BYTES,
    PCAP_HEADER_SIZE,
    PCAP_MAGIC_MICRO,
    PCAP_MAGIC_NANO,
    PCAP_RECORD_SIZE,
    Limits,
)
from .files import Feed, open_feed
from .items import (
    Element,
    Fact,
    FileFault,
    Interface,
    Item,
    Order,
    Packet,
    Secrets,
    Section,
    cut_off,
    fault_up_to,
)

__all__ = [
    "BEGINS",
    "MAGICS",
    "elements",
    "is_capture",
    "read",
    "read_bytes",
    "read_pcap",
    "read_pcapng",
    "section_order",
    "unknown_file",
]

MAGICS: Final[dict[bytes, tuple[Order, int]]] = {
    PCAP_MAGIC_MICRO.to_bytes(4, "little"): ("little", 1_000_000),
    PCAP_MAGIC_MICRO.to_bytes(4, "big"): ("big", 1_000_000),
    PCAP_MAGIC_NANO.to_bytes(4, "little"): ("little", 1_000_000_000),
    PCAP_MAGIC_NANO.to_bytes(4, "big"): ("big", 1_000_000_000),
}
"""The first bytes of a pcap file: byte order, and ticks per second."""
BEGINS: Final = BLOCK_SHB.to_bytes(4, "big")
"""The first bytes of a pcapng file: the type of a section header, the same in both byte orders."""

_ITEMS = (Packet, Fact, Secrets, FileFault)
_DEFAULT = Limits()


def read(path: str | os.PathLike[str], *, limits: Limits = _DEFAULT) -> Iterator[Item]:
    """Yield packets, facts, secrets and faults of a file."""
    for element in elements(path, limits=limits):
        if isinstance(element, _ITEMS):
            yield element


def elements(path: str | os.PathLike[str], *, limits: Limits = _DEFAULT) -> Iterator[Element]:
    """Yield the items of `read`, and also sections and interfaces."""
    with open_feed(path, limits) as feed:
        yield from _elements(feed, limits)


def read_bytes(data: bytes, *, limits: Limits = _DEFAULT) -> Iterator[Element]:
    """Yield the items of `elements` for the uncompressed bytes of a file."""
    return _elements(Feed(iter([data] if data else [])), limits)


def is_capture(path: str | os.PathLike[str], *, limits: Limits = _DEFAULT) -> bool:
    """Return whether a file begins like a capture; only its beginning is read. Raises OSError."""
    with open_feed(path, limits) as feed:
        return _format(feed) is not None


def _elements(feed: Feed, limits: Limits) -> Iterator[Element]:
    found = _format(feed)
    return unknown_file(feed) if found is None else found(feed, limits)


def _format(feed: Feed) -> Callable[[Feed, Limits], Iterator[Element]] | None:
    """Return the reader of a file, by its first bytes; None for unknown formats."""
    head = feed.take(0, 12)
    if head[:4] in MAGICS:
        return read_pcap
    if head[:4] == BEGINS and (len(head) < 12 or section_order(head)):
        return read_pcapng
    return None


def unknown_file(feed: Feed) -> Iterator[FileFault]:
    """Yield the fault of bytes that begin like no capture."""
    feed.refuse()
    first = feed.take(0, FAULT_BYTES)
    size = feed.exhaust()
    code, detail = feed.ending or ("unknown_file", "neither pcap nor pcapng")
    yield FileFault(0, size, code, detail, first)


# -- pcap ------------------------------------------------------------------------------------

_LINK_MASK: Final = 0x03FF_FFFF
"""The upper bits are the length of a checksum at the end of each packet."""


def read_pcap(feed: Feed, limits: Limits) -> Iterator[Element]:
    """Yield the elements of a file that begins with one of `MAGICS`."""
    order, per_s = MAGICS[feed.take(0, 4)]
    if not feed.has(0, PCAP_HEADER_SIZE):
        yield cut_off(feed, 0)
        return
    snap_length, link = struct.unpack_from(_sign(order) + "II", feed.buffer, 16)
    interface = Interface(0, 0, link & _LINK_MASK, snap_length, per_s)
    yield Section(0, "pcap", order)
    yield interface
    yield from _records(feed, interface, struct.Struct(_sign(order) + "IIII"), limits)


def _sign(order: str) -> str:
    return "<" if order == "little" else ">"


def _records(
    feed: Feed, interface: Interface, head: struct.Struct, limits: Limits
) -> Iterator[Element]:
    pos = PCAP_HEADER_SIZE
    # Both resolutions of pcap divide a second evenly.
    scale = 1_000_000_000 // interface.ticks_per_s
    while feed.has(pos, PCAP_RECORD_SIZE):
        seconds, parts, captured, original = head.unpack_from(feed.buffer, pos - feed.base)
        # A bad length, because no packet is that long. The search starts one byte further.
        if captured > limits.block_bytes:
            start, first = pos, feed.take(pos, 256)
            pos = _next_chain(feed, pos + 1, interface, head, limits)
            yield fault_up_to(pos, start, first, f"a record of {captured} bytes")
            continue
        data_at = pos + PCAP_RECORD_SIZE
        if not feed.has(data_at, captured):
            break
        ts_ns = seconds * 1_000_000_000 + parts * scale
        data = feed.take(data_at, captured)
        yield Packet(ts_ns, pos, data_at, data, original, 0, interface.link)
        pos = data_at + captured
        feed.release(pos)
    if feed.known_end() > pos or feed.ending:
        yield cut_off(feed, pos)


def _next_chain(
    feed: Feed, pos: int, interface: Interface, head: struct.Struct, limits: Limits
) -> int:
    """Return the next offset from `pos` on with two plausible records, or the end of the file."""
    # Compiled once for each search, which may go through gigabytes.
    likely = _likely(head, limits)
    while feed.has(pos, PCAP_RECORD_SIZE):
        window, end = feed.buffer, feed.known_end()
        for match in likely.finditer(window, pos - feed.base):
            place = feed.base + match.start()
            if _plausible_chain(feed, place, interface, head, limits):
                return place
            if feed.buffer is not window:
                pos = place + 1
                break
        else:
            pos = end - PCAP_RECORD_SIZE + 1
        feed.release(pos)
    return feed.known_end()


def _likely(head: struct.Struct, limits: Limits) -> re.Pattern[bytes]:
    """Return a pattern for offsets where the high bytes of both lengths are plausible.

    A search by regular expression instead of a Python loop over every byte: few offsets match.
    """
    high = b"[\\x00-\\x%02x]" % min(limits.block_bytes >> 24, 255)
    if head.format.startswith("<"):
        return re.compile(b"(?s)(?=.{11}" + high + b".{3}" + high + b")")
    return re.compile(b"(?s)(?=.{8}" + high + b".{3}" + high + b".{3})")


def _plausible_chain(
    feed: Feed, pos: int, interface: Interface, head: struct.Struct, limits: Limits
) -> bool:
    for _ in range(2):
        if not feed.has(pos, PCAP_RECORD_SIZE):
            return False
        _, parts, captured, original = head.unpack_from(feed.buffer, pos - feed.base)
        if parts >= interface.ticks_per_s:
            return False
        # Stricter than for records in sequence: an empty record, or one longer than its original,
        # is valid there, but would match too many arbitrary bytes here.
        if not 0 < captured <= original <= limits.block_bytes:
            return False
        pos += PCAP_RECORD_SIZE + captured
        if not feed.has(pos, 0):
            return False
    return True


# -- pcapng ----------------------------------------------------------------------------------

_SMALLEST: Final = 12
_ORDERS: Final[dict[bytes, Order]] = {
    BYTE_ORDER_MAGIC.to_bytes(4, "little"): "little",
    BYTE_ORDER_MAGIC.to_bytes(4, "big"): "big",
}
_WORDS: Final = {"little": struct.Struct("<II"), "big": struct.Struct(">II")}


def section_order(head: bytes) -> Order | None:
    """Return the byte order of a section by its first twelve bytes; None if it has none."""
    return _ORDERS.get(head[8:12])


def read_pcapng(feed: Feed, limits: Limits) -> Iterator[Element]:
    """Yield the elements of a file that begins with a section header in a known byte order."""
    reader = Reader(section_order(feed.take(0, 12)) or "little", limits)
    pos = 0
    while feed.has(pos, _SMALLEST):
        length, wrong = _length(feed, pos, reader.order, limits)
        if not wrong and not feed.has(pos, length):
            break
        wrong = wrong or _contradicted(feed, pos, length, reader.order)
        if wrong:
            start, first = pos, feed.take(pos, FAULT_BYTES)
            # Blocks are aligned to four bytes, so the search is too.
            pos = _next_block_chain(feed, pos + 4, reader.order, limits)
            yield fault_up_to(pos, start, first, wrong)
            continue
        begin = pos - feed.base
        # No slice for the block: the reader takes positions, and copies only the packet's data.
        element = reader.block(feed.buffer, begin, begin + length, pos)
        if element is not None:
            yield element
        pos += length
        feed.release(pos)
    if feed.known_end() > pos or feed.ending:
        yield cut_off(feed, pos)


def _order_at(feed: Feed, pos: int, order: Order) -> Order | None:
    """Return the byte order of a block: that of its section, or its own if it begins one."""
    begin = pos - feed.base
    if feed.buffer[begin : begin + 4] == BEGINS:
        return section_order(feed.buffer[begin : begin + 12])
    return order


def _length(feed: Feed, pos: int, order: Order, limits: Limits) -> tuple[int, str]:
    """Return the length of a block, and what is wrong with it ("" if nothing is)."""
    own = _order_at(feed, pos, order)
    if own is None:
        return 0, "a section without a byte order"
    _, length = _WORDS[own].unpack_from(feed.buffer, pos - feed.base)
    if length < _SMALLEST or length % 4 or length > limits.block_bytes:
        return length, f"a block of {length} bytes"
    return length, ""


def _contradicted(feed: Feed, pos: int, length: int, order: Order) -> str:
    """Return what is wrong with the second copy of a block's length ("" if nothing is)."""
    own = _order_at(feed, pos, order) or order
    begin, end = pos - feed.base, pos + length - feed.base
    if feed.buffer[begin + 4 : begin + 8] == feed.buffer[end - 4 : end]:
        return ""
    other = int.from_bytes(feed.buffer[end - 4 : end], own)
    return f"a block of {length} bytes in front, of {other} at its end"


def _next_block_chain(feed: Feed, pos: int, order: Order, limits: Limits) -> int:
    """Return the next offset from `pos` on, in steps of four, with two plausible blocks, or the end
    of the file."""
    while feed.has(pos, _SMALLEST):
        window, end = feed.buffer, feed.known_end()
        for place in _likely_blocks(window, pos - feed.base, order, limits):
            at = feed.base + place
            if _plausible_block_chain(feed, at, order, limits):
                return at
            if feed.buffer is not window:
                pos = at + 4
                break
        else:
            pos += (end - pos - _SMALLEST) // 4 * 4 + 4
        feed.release(pos)
    # To know where the file ends, and whether its compression was damaged.
    feed.exhaust()
    return feed.known_end()


def _likely_blocks(window: bytes, begin: int, order: Order, limits: Limits) -> Iterator[int]:
    """Yield positions in a window where a block may begin: a section header, or a plausible length
    whose second copy agrees or lies beyond the window."""
    count = (len(window) - begin) // 4
    # All words of the window at once, in C, instead of unpacking them one by one in Python.
    words = array("I", window[begin : begin + 4 * count])
    if order != sys.byteorder:
        words.byteswap()
    for index, (kind, length) in enumerate(itertools.pairwise(words[:-1])):
        if kind == BLOCK_SHB:  # its length may be in the other byte order
            yield begin + 4 * index
        elif _SMALLEST <= length <= limits.block_bytes and length % 4 == 0:
            last = index + length // 4 - 1
            # The second copy of the length decides, if it is in the window already. This leaves few
            # candidates to look at one by one.
            if last >= count or words[last] == length:
                yield begin + 4 * index


def _plausible_block_chain(feed: Feed, pos: int, order: Order, limits: Limits) -> bool:
    for _ in range(2):
        if not feed.has(pos, _SMALLEST):
            return False
        order = _order_at(feed, pos, order) or order
        length, wrong = _length(feed, pos, order, limits)
        if wrong or not feed.has(pos, length) or _contradicted(feed, pos, length, order):
            return False
        pos += length
    return True
