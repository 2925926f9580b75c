"""Reads pcap: a header, then records. Both byte orders, microseconds and nanoseconds.

A record is a time, a captured length, an original length and the data; nothing else tells where
the next one begins. So a wrong length loses the thread, and `_next_chain` looks for it again: two
whole records in a row whose heads make sense.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final

from .constants import PCAP_HEADER_SIZE, PCAP_MAGIC_MICRO, PCAP_MAGIC_NANO, PCAP_RECORD_SIZE
from .files import Feed
from .items import Element, Interface, Order, Packet, Section, cut_off, fault_up_to
from .limits import Limits

__all__ = ["MAGICS", "read_pcap"]

MAGICS: Final[dict[bytes, tuple[Order, int]]] = {
    PCAP_MAGIC_MICRO.to_bytes(4, "little"): ("little", 1_000_000),
    PCAP_MAGIC_MICRO.to_bytes(4, "big"): ("big", 1_000_000),
    PCAP_MAGIC_NANO.to_bytes(4, "little"): ("little", 1_000_000_000),
    PCAP_MAGIC_NANO.to_bytes(4, "big"): ("big", 1_000_000_000),
}
"""How a file begins, and what that says: byte order, and parts of a second."""

_LINK_MASK: Final = 0x03FF_FFFF
"""The bits above say how long the checksum at the end of each packet is."""


def read_pcap(feed: Feed, limits: Limits) -> Iterator[Element]:
    """All that is in a file which begins with one of `MAGICS`."""
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
    scale = 1_000_000_000 // interface.ticks_per_s
    while feed.has(pos, PCAP_RECORD_SIZE):
        seconds, parts, captured, original = head.unpack_from(feed.buffer, pos - feed.base)
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
    """The next place from `pos` where two plausible records begin, or the end of the file."""
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
    """Finds the places where the high bytes of both lengths may be right: few of all places."""
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
        if not 0 < captured <= original <= limits.block_bytes:
            return False
        pos += PCAP_RECORD_SIZE + captured
        if not feed.has(pos, 0):
            return False
    return True
