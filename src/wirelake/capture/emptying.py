"""Empties what a capture file holds, block by block: sizes stay, what may tell something goes.

An emptied packet keeps its headers and has zeros for payload; of options and blocks only those
stay that are known to be harmless. With `Pseudonyms`, hosts are hidden as well: in IP headers,
in link layers and in facts. Used by `redact.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Protocol

from . import format as f
from .blocks import options
from .files import Feed
from .items import Element, Fact, Interface, Order, Packet, Secrets, Section
from .links import Headers, headers
from .pseudonyms import Pseudonyms
from .writer import fact_text

__all__ = ["BlockEmptier", "Emptier", "PcapEmptier", "empty_packet"]

_CHUNK: Final = 1 << 20
_FILLER_KIND: Final = 0x8000_5748
"""A type for local use, which every reader skips."""
_HARMLESS: Final = {
    f.BLOCK_SHB: frozenset({f.OPTION_CUSTOM_TEXT}),
    f.BLOCK_IDB: frozenset({f.OPTION_TSRESOL, f.OPTION_TSOFFSET}),
    f.BLOCK_EPB: frozenset({f.OPTION_FLAGS, f.OPTION_CUSTOM_BINARY}),
    f.BLOCK_PACKET: frozenset({f.OPTION_FLAGS}),
}
"""The options that stay; custom ones only if they are the recorder's."""
_LINK_ADDRESSES: Final = {
    f.LINK_ETHERNET: (0, 12),
    f.LINK_COOKED: (6, 14),
    f.LINK_COOKED2: (12, 20),
}
_HOSTS: Final = ("client", "server")
"""What the recorder calls them in its facts."""


class Emptier(Protocol):
    """What both file formats can do."""

    def size(self, element: Element, feed: Feed) -> int:
        """How many bytes of the file an element takes."""

    def emptied(self, element: Element, raw: bytes) -> bytes:
        """The same number of bytes, without what may tell something."""

    def filler(self, size: int) -> Iterator[bytes]:
        """So many bytes in pieces that say nothing."""


def empty_packet(packet: Packet, pseudonyms: Pseudonyms | None) -> bytes:
    """The data of a packet with zeros for payload; all zeros when it is no segment."""
    where = headers(packet)
    if not isinstance(where, Headers):
        return bytes(len(packet.data))
    head = bytearray(packet.data[: where.payload])
    head[where.tcp + 16 : where.tcp + 18] = bytes(2)  # the checksum depends on the payload
    if pseudonyms is not None:
        _hide_hosts(head, packet.link, where, pseudonyms)
    return bytes(head).ljust(len(packet.data), b"\0")


def _hide_hosts(head: bytearray, link: int, where: Headers, pseudonyms: Pseudonyms) -> None:
    start, stop = _LINK_ADDRESSES.get(link, (0, 0))
    head[start:stop] = bytes(stop - start)
    first, size = (where.ip + 12, 4) if where.version == 4 else (where.ip + 8, 16)
    for at in (first, first + size):
        head[at : at + size] = pseudonyms(bytes(head[at : at + size]))
    if where.version == 4:
        head[where.ip + 10 : where.ip + 12] = bytes(2)
        head[where.ip + 20 : where.tcp] = bytes(where.tcp - where.ip - 20)
    else:
        _empty_extensions(head, where)


def _empty_extensions(head: bytearray, where: Headers) -> None:
    """A routing header holds addresses. What leads to the next header stays."""
    at, kind = where.ip + 40, head[where.ip + 6]
    while at < where.tcp:
        units = head[at + 1]
        length = (units + 2) * 4 if kind == 51 else (units + 1) * 8
        head[at + 2 : at + length] = bytes(length - 2)
        at, kind = at + length, head[at]


class PcapEmptier:
    """Records have nothing but a time, lengths and a packet."""

    def __init__(self, order: Order, pseudonyms: Pseudonyms | None):  # noqa: ARG002 - as its twin
        self._pseudonyms = pseudonyms

    def size(self, element: Element, feed: Feed) -> int:  # noqa: ARG002
        """As `Emptier` says."""
        if isinstance(element, Packet):
            return f.PCAP_RECORD_SIZE + len(element.data)
        return f.PCAP_HEADER_SIZE if isinstance(element, Section) else 0

    def emptied(self, element: Element, raw: bytes) -> bytes:
        """As `Emptier` says."""
        if isinstance(element, Packet):
            return raw[: f.PCAP_RECORD_SIZE] + empty_packet(element, self._pseudonyms)
        return raw

    def filler(self, size: int) -> Iterator[bytes]:
        """As `Emptier` says: bytes that no reader takes for a record."""
        while size:
            yield b"\xff" * min(size, _CHUNK)
            size -= min(size, _CHUNK)


class BlockEmptier:
    """Blocks of a pcapng section."""

    def __init__(self, order: Order, pseudonyms: Pseudonyms | None):
        self._order: Order = order
        self._sign = "<" if order == "little" else ">"
        self._pseudonyms = pseudonyms

    def size(self, element: Element, feed: Feed) -> int:
        """As `Emptier` says."""
        return int.from_bytes(feed.take(element.offset + 4, 4), self._order)

    def emptied(self, element: Element, raw: bytes) -> bytes:
        """As `Emptier` says."""
        match element:
            case Packet():
                begin = element.data_offset - element.offset
                packet = empty_packet(element, self._pseudonyms)
                end = begin + f.pad4(len(packet))
                return raw[:begin] + packet.ljust(end - begin, b"\0") + self._tail(raw, end)
            case Section():
                return raw[:24] + self._tail(raw, 24)
            case Interface():
                return raw[:16] + self._tail(raw, 16)
            case Fact():
                return self._fact(element, raw)
            case Secrets():
                return self._block(len(raw))
        raise TypeError(f"no block: {element}")

    def filler(self, size: int) -> Iterator[bytes]:
        """As `Emptier` says: blocks of a type that readers skip."""
        while size:
            piece = size if size < 2 * _CHUNK else _CHUNK
            yield self._block(piece)
            size -= piece

    def _block(self, size: int) -> bytes:
        head = struct.pack(self._sign + "II", _FILLER_KIND, size)
        return head + bytes(size - 12) + head[4:]

    def _tail(self, raw: bytes, begin: int) -> bytes:
        """The options of a block, as far as they are harmless, and its end."""
        end = len(raw) - 4
        kept = bytearray(end - begin)
        known = _HARMLESS.get(int.from_bytes(raw[:4], self._order), frozenset())
        for code, at, size in options(raw, begin, end, self._order):
            kept[at - 4 - begin : at - begin] = raw[at - 4 : at]
            if code in known and self._is_ours(code, raw[at : at + size]):
                kept[at - begin : at + size - begin] = raw[at : at + size]
        return bytes(kept) + raw[end:]

    def _is_ours(self, code: int, value: bytes) -> bool:
        if code not in (f.OPTION_CUSTOM_TEXT, f.OPTION_CUSTOM_BINARY):
            return True
        magic = f.ORIGIN_PREFIX if code == f.OPTION_CUSTOM_TEXT else f.MARK_MAGIC
        return value.startswith(struct.pack(self._sign + "I", f.PEN) + magic)

    def _fact(self, fact: Fact, raw: bytes) -> bytes:
        """Without hosts, when they are hidden; spaces take their place."""
        if self._pseudonyms is None or not any(name in fact.data for name in _HOSTS):
            return raw
        data = {name: value for name, value in fact.data.items() if name not in _HOSTS}
        text = fact_text(fact.kind, fact.ts_ns, fact.connection, data)
        if len(text) > len(raw) - 16:
            return self._block(len(raw))
        return raw[:12] + text.ljust(len(raw) - 16) + raw[-4:]
