"""Reads pcapng: sections of blocks. What the blocks say is in `blocks.py`.

A block says its length at both ends, and a good one leads to the next. When a length is wrong,
the thread is lost, and `_next_chain` looks for it again: two whole blocks in a row. A block whose
length is right but whose content is wrong is a fault by itself, and the next one follows it.
"""

from __future__ import annotations

import itertools
import struct
import sys
from array import array
from collections.abc import Iterator
from typing import Final

from .blocks import Reader
from .constants import BLOCK_SHB, BYTE_ORDER_MAGIC
from .files import Feed
from .items import Element, Order, cut_off, fault_up_to
from .limits import FAULT_BYTES, Limits

__all__ = ["BEGINS", "read_pcapng", "section_order"]

BEGINS: Final = BLOCK_SHB.to_bytes(4, "big")
"""The type of a section header, in either byte order."""

_SMALLEST: Final = 12
_ORDERS: Final[dict[bytes, Order]] = {
    BYTE_ORDER_MAGIC.to_bytes(4, "little"): "little",
    BYTE_ORDER_MAGIC.to_bytes(4, "big"): "big",
}
_WORDS: Final = {"little": struct.Struct("<II"), "big": struct.Struct(">II")}


def section_order(head: bytes) -> Order | None:
    """The byte order of a section whose first twelve bytes these are; None when it has none."""
    return _ORDERS.get(head[8:12])


def read_pcapng(feed: Feed, limits: Limits) -> Iterator[Element]:
    """All that is in a file which begins with a section header in a known byte order."""
    reader = Reader(section_order(feed.take(0, 12)) or "little", limits)
    pos = 0
    while feed.has(pos, _SMALLEST):
        length, wrong = _length(feed, pos, reader.order, limits)
        if not wrong and not feed.has(pos, length):
            break
        wrong = wrong or _contradicted(feed, pos, length, reader.order)
        if wrong:
            start, first = pos, feed.take(pos, FAULT_BYTES)
            pos = _next_chain(feed, pos + 4, reader.order, limits)
            yield fault_up_to(pos, start, first, wrong)
            continue
        begin = pos - feed.base
        element = reader.block(feed.buffer, begin, begin + length, pos)
        if element is not None:
            yield element
        pos += length
        feed.release(pos)
    if feed.known_end() > pos or feed.ending:
        yield cut_off(feed, pos)


def _order_at(feed: Feed, pos: int, order: Order) -> Order | None:
    """The byte order of a block: its section's, unless it begins one."""
    begin = pos - feed.base
    if feed.buffer[begin : begin + 4] == BEGINS:
        return section_order(feed.buffer[begin : begin + 12])
    return order


def _length(feed: Feed, pos: int, order: Order, limits: Limits) -> tuple[int, str]:
    """The length of a block, and what is wrong with it, if anything is."""
    own = _order_at(feed, pos, order)
    if own is None:
        return 0, "a section without a byte order"
    _, length = _WORDS[own].unpack_from(feed.buffer, pos - feed.base)
    if length < _SMALLEST or length % 4 or length > limits.block_bytes:
        return length, f"a block of {length} bytes"
    return length, ""


def _contradicted(feed: Feed, pos: int, length: int, order: Order) -> str:
    """What is wrong with the copy of the length at the end of a block, if anything is."""
    own = _order_at(feed, pos, order) or order
    begin, end = pos - feed.base, pos + length - feed.base
    if feed.buffer[begin + 4 : begin + 8] == feed.buffer[end - 4 : end]:
        return ""
    other = int.from_bytes(feed.buffer[end - 4 : end], own)
    return f"a block of {length} bytes in front, of {other} at its end"


def _next_chain(feed: Feed, pos: int, order: Order, limits: Limits) -> int:
    """The next place from `pos`, at each fourth byte, where two plausible blocks begin, or the
    end of the file."""
    while feed.has(pos, _SMALLEST):
        window, end = feed.buffer, feed.known_end()
        for place in _likely(window, pos - feed.base, order, limits):
            at = feed.base + place
            if _plausible_chain(feed, at, order, limits):
                return at
            if feed.buffer is not window:
                pos = at + 4
                break
        else:
            pos += (end - pos - _SMALLEST) // 4 * 4 + 4
        feed.release(pos)
    feed.exhaust()
    return feed.known_end()


def _likely(window: bytes, begin: int, order: Order, limits: Limits) -> Iterator[int]:
    """Places in a window where a block may begin: where a length could stand that is not yet
    contradicted, or a section."""
    count = (len(window) - begin) // 4
    words = array("I", window[begin : begin + 4 * count])
    if order != sys.byteorder:
        words.byteswap()
    for index, (kind, length) in enumerate(itertools.pairwise(words[:-1])):
        if kind == BLOCK_SHB:  # whose length may be in the other byte order
            yield begin + 4 * index
        elif _SMALLEST <= length <= limits.block_bytes and length % 4 == 0:
            last = index + length // 4 - 1
            if last >= count or words[last] == length:
                yield begin + 4 * index


def _plausible_chain(feed: Feed, pos: int, order: Order, limits: Limits) -> bool:
    for _ in range(2):
        if not feed.has(pos, _SMALLEST):
            return False
        order = _order_at(feed, pos, order) or order
        length, wrong = _length(feed, pos, order, limits)
        if wrong or not feed.has(pos, length) or _contradicted(feed, pos, length, order):
            return False
        pos += length
    return True
