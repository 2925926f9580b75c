"""A copy of a capture without what must not be seen: `redact`.

The copy holds only what is known to be harmless: headers, and of the payload the bytes of frames
that decode, without their secrets (`masking.py`). All other payload becomes zeros, packets that
are no TCP segments become zeros, key blocks and blocks or options of unknown use are emptied, and
so are places that would not read. Nothing moves: offsets, times, lengths and sequence numbers are
those of the original, so that a place in one is the same place in the other. Three things differ:
the copy is never compressed; an end that is cut off is left out; and of bytes that were sent twice
only the first are shown, so that tables of the copy note a `conflict` there.

Payload is first written as zeros. Once a frame is complete, what may be seen of it is written over
them, so that memory stays bounded whatever the capture.
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from wirelake.wire.protocol import Protocol

from ..decode.conversation import ConnectionDecoder, Context, TableRow
from ..decode.decryption import Decrypted, KeyRing
from ..decode.messages import MessageRows
from ..decode.protocol_selector import ProtocolChooser, RecordedProtocols
from ..decode.streams import Frame
from ..format import constants as f
from ..format.blocks import options
from ..format.constants import Limits
from ..format.files import Feed, open_feed
from ..format.items import (
    Direction,
    Element,
    Fact,
    FileFault,
    Interface,
    Order,
    Packet,
    Secrets,
    Section,
    Segment,
)
from ..format.reader import elements
from ..format.writer import fact_text
from ..record.masking import Masker
from ..tcp.connections import Connection, ConnectionTable
from ..tcp.headers import Headers, headers, segment

__all__ = [
    "BlockEmptier",
    "Emptier",
    "PcapEmptier",
    "Pseudonyms",
    "Redaction",
    "empty_packet",
    "redact",
]


_DEFAULT: Final = Limits()


class Redaction(msgspec.Struct, kw_only=True):
    """What became of a capture."""

    packets: int = 0
    """Packets in the copy."""
    payload_bytes: int = 0
    """TCP payload in the capture."""
    shown_bytes: int = 0
    """How much of it belongs to frames that the copy shows; zeros in place of secrets count."""
    frames: int = 0
    """Frames that the copy shows."""
    masked_frames: int = 0
    """Those of which something was overwritten."""
    emptied_bytes: int = 0
    """What lay in places that would not read, and in blocks of keys or of unknown use."""


def redact(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    content: bool = False,
    addresses: str | None = None,
    ports: Mapping[int, str] | None = None,
    force_protocol: str | None = None,
    dialects: Mapping[str, str] | None = None,
    limits: Limits = _DEFAULT,
) -> Redaction:
    """Writes the copy.

    `content` hides what applications say, too. `addresses` is a seed: with it, hosts get
    pseudonyms, except where a message itself names them. `ports`, `force_protocol` and `dialects`
    choose protocols, as in `decode.read_tables`. Raises OSError when a file cannot be read or
    written or `out` already exists, ValueError when the file is no capture.
    """
    target = Path(out)
    if target.exists():
        raise FileExistsError(f"{target} already exists")
    chooser = ProtocolChooser(ports=ports, force_protocol=force_protocol, dialects=dialects)
    pseudonyms = None if addresses is None else Pseudonyms(addresses)
    part = target.with_name(target.name + ".part")
    try:
        with open_feed(path, limits) as feed, part.open("xb", buffering=0) as stream:
            copy = _Copy(feed, stream, _Streams(chooser, content=content), pseudonyms)
            for element in elements(path, limits=limits):
                copy.element(element)
            copy.finish()
            os.fsync(stream.fileno())
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return copy.told


class _Copy:
    """Goes through a file twice at once: what is in it, and its bytes."""

    def __init__(
        self, feed: Feed, stream: BinaryIO, streams: _Streams, pseudonyms: Pseudonyms | None
    ):
        self.told = Redaction()
        self._feed = feed
        self._file = stream.fileno()
        self._streams = streams
        self._pseudonyms = pseudonyms
        self._emptier: Emptier | None = None
        self._at = 0
        self._cut_off = False

    def element(self, element: Element) -> None:
        """Copies up to an element what says nothing that is known, then the element."""
        if self._emptier is not None:
            self._empty_up_to(self._emptier, element.offset)
        if isinstance(element, Section):
            make = PcapEmptier if element.format == "pcap" else BlockEmptier
            self._emptier = make(element.order, self._pseudonyms)
        if self._emptier is None:
            raise ValueError("not a capture file")
        if isinstance(element, FileFault):
            self._cut_off = element.code in ("truncated_file", "bomb")
            if not self._cut_off:
                self._empty_up_to(self._emptier, element.offset + element.present_bytes)
            return
        size = self._emptier.size(element, self._feed)
        self._write(self._emptier.emptied(element, self._feed.take(element.offset, size)))
        if isinstance(element, Packet):
            self._packet(element)
        elif isinstance(element, Fact):
            self._streams.recorded.add(element)

    def finish(self) -> None:
        """Copies the end."""
        if self._emptier is not None and not self._cut_off:
            self._empty_up_to(self._emptier, self._feed.exhaust())
        self._show(self._streams.finish())

    def _packet(self, packet: Packet) -> None:
        self.told.packets += 1
        found = segment(packet)
        if isinstance(found, Segment):
            self.told.payload_bytes += len(found.payload)
            self._show(self._streams.segment(found))

    def _empty_up_to(self, emptier: Emptier, stop: int) -> None:
        if stop > self._at:
            self.told.emptied_bytes += stop - self._at
            for piece in emptier.filler(stop - self._at):
                self._write(piece)

    def _write(self, data: bytes) -> None:
        _write_at(self._file, data, self._at)
        self._at += len(data)
        self._feed.release(self._at)

    def _show(self, frames: Iterable[_Shown]) -> None:
        for frame in frames:
            self.told.frames += 1
            self.told.masked_frames += frame.masked
            for offset, data in frame.pieces:
                self.told.shown_bytes += len(data)
                _write_at(self._file, data, offset)


def _write_at(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        size = os.pwrite(file, view, offset)
        view, offset = view[size:], offset + size


class _Shown(NamedTuple):
    """A frame that may be seen: its bytes by their places in the file."""

    pieces: list[tuple[int, bytes]]
    masked: bool


class _Streams:
    """Finds the frames of a capture, as the reader of tables does."""

    def __init__(self, chooser: ProtocolChooser, *, content: bool):
        rows = _MaskedRows(chooser, content=content)
        self._context = Context(chooser, KeyRing(), rows, [""], frozenset({"messages"}))
        self._table = ConnectionTable(chooser.ports)
        self._decoders: dict[Connection, ConnectionDecoder] = {}
        self.recorded = RecordedProtocols()
        """What the capture says that its connections speak."""

    def segment(self, found: Segment) -> Iterator[_Shown]:
        """The frames that a segment completes."""
        assigned = self._table.assign(found)
        for dropped in assigned.dropped:
            yield from _shown(self._decoders.pop(dropped).end(still_open=False))
        decoder = self._decoders.get(assigned.connection)
        if decoder is None:
            named = self.recorded.of(found.packet.connection)
            decoder = ConnectionDecoder(self._context, assigned.connection, named)
            self._decoders[assigned.connection] = decoder
        yield from _shown(decoder.segment(found, assigned.direction, 0))

    def finish(self) -> Iterator[_Shown]:
        """The frames that show themselves because nothing follows."""
        for connection in self._table.finish():
            yield from _shown(self._decoders.pop(connection).end(still_open=True))


def _shown(rows: Iterator[TableRow]) -> Iterator[_Shown]:
    for _, row in rows:
        yield row["shown"]


class _MaskedRows(MessageRows):
    """Instead of a row that says what a frame means, one with its masked bytes."""

    def __init__(self, chooser: ProtocolChooser, *, content: bool):
        super().__init__(chooser, [""])
        self._choice = chooser
        self._hide_content = content
        self._maskers: dict[tuple[str, Direction], Masker] = {}

    def rows(
        self,
        protocol: Protocol,
        frame: Frame,
        decrypted: Decrypted,  # noqa: ARG002 - what is sealed stays so
        connection: int,  # noqa: ARG002
        direction: Direction,
    ) -> Iterator[dict[str, Any]]:
        """One row."""
        key = (protocol.name, direction)
        if key not in self._maskers:
            dialect = self._choice.dialect(protocol)
            self._maskers[key] = Masker(protocol, dialect, direction, content=self._hide_content)
        masked = self._maskers[key](frame.message, frame.raw)
        pieces = []
        for piece in frame.pieces:
            start, stop = max(piece.start, frame.start), min(piece.stop, frame.stop)
            data = masked[start - frame.start : stop - frame.start]
            pieces.append((piece.offset + start - piece.start, data))
        yield {"shown": _Shown(pieces, masked != frame.raw)}


# Empties what a capture file holds, block by block: sizes stay, what may tell something goes.


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


class Emptier(typing.Protocol):
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


# Addresses that are not the real ones, and still tell what belongs together.


_MAPPED: Final = bytes(10) + b"\xff\xff"
"""Begins an IPv6 address that stands for an IPv4 one."""


class Pseudonyms:
    """Gives each address its pseudonym."""

    def __init__(self, seed: str):
        self._key = hashlib.blake2b(seed.encode("utf-8", "surrogatepass")).digest()
        self._of = functools.lru_cache(maxsize=65_536)(self._make)

    def __call__(self, address: bytes) -> bytes:
        """The pseudonym of an address of 4 or 16 bytes."""
        return self._of(address)

    def _make(self, address: bytes) -> bytes:
        if len(address) == 16 and address.startswith(_MAPPED):
            return _MAPPED + self._of(address[12:])
        bits = len(address) * 8
        number, made = int.from_bytes(address, "big"), 0
        for position in range(bits):
            prefix = number >> (bits - position)
            turned = (number >> (bits - 1 - position) & 1) ^ self._turns(bits, position, prefix)
            made = made << 1 | turned
        return made.to_bytes(len(address), "big")

    def _turns(self, bits: int, position: int, prefix: int) -> int:
        """Whether the bit behind a prefix is turned."""
        text = f"{bits} {position} {prefix}".encode()
        return hashlib.blake2b(text, digest_size=1, key=self._key).digest()[0] & 1
