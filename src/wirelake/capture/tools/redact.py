"""`redact`: a copy of a capture without secrets.

The copy contains only what is known to be harmless: headers, and of the payload the bytes of frames
that decode, without their secrets and credentials (`record/masking.py`). All other payload is
replaced by zeros, and so are packets without a TCP segment, key blocks, unknown blocks and options,
and damaged parts.
Nothing moves: offsets, times, lengths and sequence numbers are those of the original, so that an
offset in one is the same in the other. Three things differ: the copy is never compressed; a
truncated end is left out; and of retransmitted bytes only the first copy is shown, so that tables
of the copy have a `conflict` there.

Payload is first written as zeros. Once a frame is complete, its visible bytes are written over
them. So memory stays bounded, and a crash in between cannot leave secrets in the copy.
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from wirelake.wire.paths import local_path
from wirelake.wire.protocol import Protocol

from ..decode.conversation import ConnectionDecoder, Context, TableRow
from ..decode.decryption import Decrypted, KeyRing
from ..decode.messages import MessageRows
from ..decode.protocol_selector import ProtocolChooser, RecordedProtocols
from ..decode.streams import Frame
from ..format import constants as fmt
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
    "BlockEraser",
    "Eraser",
    "PcapEraser",
    "Pseudonyms",
    "Redaction",
    "erase_packet",
    "redact",
]


_DEFAULT: Final = Limits()


class Redaction(msgspec.Struct, kw_only=True):
    """The result of a redaction."""

    packets: int = 0
    """Packets in the copy."""
    payload_bytes: int = 0
    """TCP payload in the capture."""
    shown_bytes: int = 0
    """Bytes of it in frames that the copy shows, zeros for secrets included."""
    frames: int = 0
    """Frames that the copy shows."""
    masked_frames: int = 0
    """Those in which something was masked."""
    emptied_bytes: int = 0
    """Bytes of damaged parts, and of key blocks and unknown blocks."""


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
    """Write a redacted copy of `path` to `out`.

    `content` hides the content of applications, too. `addresses` is a seed: with it, hosts get
    pseudonyms, except where a message itself names them. `ports`, `force_protocol` and `dialects`
    choose protocols, as in `decode.reference.read_tables`. Raises OSError when a file cannot be
    read or written or `out` already exists, ValueError when the file is not a capture.
    """
    target = local_path(out)
    if target.exists():
        raise FileExistsError(f"{target} already exists")
    chooser = ProtocolChooser(ports=ports, force_protocol=force_protocol, dialects=dialects)
    pseudonyms = None if addresses is None else Pseudonyms(addresses)
    # Written under another name, so that an interrupted run does not leave a file that looks
    # complete.
    part = target.with_name(target.name + ".part")
    try:
        with open_feed(path, limits) as feed, part.open("xb", buffering=0) as stream:
            # The file is opened twice: parsing and copying advance together, so neither holds more
            # than a window.
            copy = _Copy(feed, stream, _Streams(chooser, content=content), pseudonyms)
            for element in elements(path, limits=limits):
                copy.element(element)
            copy.finish()
            # On disk before the rename, or a power loss could leave an empty file with the final
            # name.
            os.fsync(stream.fileno())
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return copy.result


class _Copy:
    """Copies a file in two passes in step: its elements, and its bytes."""

    def __init__(
        self, feed: Feed, stream: BinaryIO, streams: _Streams, pseudonyms: Pseudonyms | None
    ):
        self.result = Redaction()
        self._feed = feed
        self._file = stream.fileno()
        self._streams = streams
        self._pseudonyms = pseudonyms
        self._eraser: Eraser | None = None
        self._at = 0
        self._cut_off = False

    def element(self, element: Element) -> None:
        """Erase everything up to an element, then copy the element."""
        if self._eraser is not None:
            self._erase_up_to(self._eraser, element.offset)
        if isinstance(element, Section):
            make = PcapEraser if element.format == "pcap" else BlockEraser
            self._eraser = make(element.order, self._pseudonyms)
        if self._eraser is None:
            raise ValueError("not a capture file")
        if isinstance(element, FileFault):
            # A truncated end cannot be copied as blocks; it is left out.
            self._cut_off = element.code in ("truncated_file", "bomb")
            if not self._cut_off:
                self._erase_up_to(self._eraser, element.offset + element.present_bytes)
            return
        size = self._eraser.size(element, self._feed)
        self._write(self._eraser.erased(element, self._feed.take(element.offset, size)))
        if isinstance(element, Packet):
            self._packet(element)
        elif isinstance(element, Fact):
            self._streams.recorded.add(element)

    def finish(self) -> None:
        """Copy the rest of the file."""
        if self._eraser is not None and not self._cut_off:
            self._erase_up_to(self._eraser, self._feed.exhaust())
        self._show(self._streams.finish())

    def _packet(self, packet: Packet) -> None:
        self.result.packets += 1
        found = segment(packet)
        if isinstance(found, Segment):
            self.result.payload_bytes += len(found.payload)
            self._show(self._streams.segment(found))

    def _erase_up_to(self, eraser: Eraser, stop: int) -> None:
        if stop > self._at:
            self.result.emptied_bytes += stop - self._at
            for piece in eraser.filler(stop - self._at):
                self._write(piece)

    def _write(self, data: bytes) -> None:
        _write_at(self._file, data, self._at)
        self._at += len(data)
        self._feed.release(self._at)

    def _show(self, frames: Iterable[_Shown]) -> None:
        for frame in frames:
            self.result.frames += 1
            self.result.masked_frames += frame.masked
            for offset, data in frame.pieces:
                self.result.shown_bytes += len(data)
                _write_at(self._file, data, offset)


def _write_at(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        size = os.pwrite(file, view, offset)
        view, offset = view[size:], offset + size


class _Shown(NamedTuple):
    """A frame that the copy shows: its masked bytes, by file offset."""

    pieces: list[tuple[int, bytes]]
    masked: bool


class _Streams:
    """Finds the frames of a capture, as `read_tables` does."""

    def __init__(self, chooser: ProtocolChooser, *, content: bool):
        rows = _MaskedRows(chooser, content=content)
        self._context = Context(chooser, KeyRing(), rows, [""], frozenset({"messages"}))
        self._table = ConnectionTable(chooser.ports)
        self._decoders: dict[Connection, ConnectionDecoder] = {}
        self.recorded = RecordedProtocols()
        """The protocols that the capture names for its connections."""

    def segment(self, found: Segment) -> Iterator[_Shown]:
        """Yield the frames that a segment completes."""
        assigned = self._table.assign(found)
        for dropped in assigned.dropped:
            yield from _shown(self._decoders.pop(dropped).end(still_open=False))
        decoder = self._decoders.get(assigned.connection)
        if decoder is None:
            known = self.recorded.of(found.packet.connection)
            decoder = ConnectionDecoder(self._context, assigned.connection, known)
            self._decoders[assigned.connection] = decoder
        yield from _shown(decoder.segment(found, assigned.direction, 0))

    def finish(self) -> Iterator[_Shown]:
        """Yield the frames that are complete at the end of the file."""
        for connection in self._table.finish():
            yield from _shown(self._decoders.pop(connection).end(still_open=True))


def _shown(rows: Iterator[TableRow]) -> Iterator[_Shown]:
    for _, row in rows:
        yield row["shown"]


class _MaskedRows(MessageRows):
    """Makes rows with the masked bytes of a frame instead of its columns."""

    def __init__(self, chooser: ProtocolChooser, *, content: bool):
        super().__init__(chooser, [""])
        self._choice = chooser
        self._hide_content = content
        self._maskers: dict[tuple[str, Direction], Masker] = {}

    def rows(
        self,
        protocol: Protocol,
        frame: Frame,
        decrypted: Decrypted,
        connection: int,  # noqa: ARG002
        direction: Direction,
    ) -> Iterator[dict[str, Any]]:
        """Yield one row."""
        key = (protocol.name, direction)
        if key not in self._maskers:
            dialect = self._choice.dialect(protocol)
            self._maskers[key] = Masker(protocol, dialect, direction, content=self._hide_content)
        # Sealed parts stay sealed: only what needs no key is opened, to find sign-ons in it.
        masked = self._maskers[key](frame.message, frame.raw, decrypted.parts)
        pieces = []
        for piece in frame.pieces:
            start, stop = max(piece.start, frame.start), min(piece.stop, frame.stop)
            data = masked[start - frame.start : stop - frame.start]
            pieces.append((piece.offset + start - piece.start, data))
        yield {"shown": _Shown(pieces, masked != frame.raw)}


# -- erasing blocks --------------------------------------------------------------------------

_CHUNK: Final = 1 << 20
_FILLER_TYPE: Final = 0x8000_5748
"""A block type for local use, which every reader skips."""
_MIN_BLOCK: Final = 12
"""Bytes of a block without content."""
_KEPT_OPTIONS: Final = {
    fmt.BLOCK_SHB: frozenset({fmt.OPTION_CUSTOM_TEXT}),
    fmt.BLOCK_IDB: frozenset({fmt.OPTION_TSRESOL, fmt.OPTION_TSOFFSET}),
    fmt.BLOCK_EPB: frozenset({fmt.OPTION_FLAGS, fmt.OPTION_CUSTOM_BINARY}),
    fmt.BLOCK_PACKET: frozenset({fmt.OPTION_FLAGS}),
}
"""The options that are kept, by block type; custom ones only if they are the recorder's."""
_LINK_ADDRESSES: Final = {
    fmt.LINK_ETHERNET: (0, 12),
    fmt.LINK_COOKED: (6, 14),
    fmt.LINK_COOKED2: (12, 20),
}
_HOSTS: Final = ("client", "server")
"""The fields of hosts in the recorder's facts."""


class Eraser(typing.Protocol):
    """Erases the content of one file format."""

    def size(self, element: Element, feed: Feed) -> int:
        """Return the size of an element in the file."""

    def erased(self, element: Element, raw: bytes) -> bytes:
        """Return an element's bytes without anything that may be secret; the size stays."""

    def filler(self, size: int) -> Iterator[bytes]:
        """Yield this many bytes without content, in pieces."""


def erase_packet(packet: Packet, pseudonyms: Pseudonyms | None) -> bytes:
    """Return the data of a packet with zeros as payload; all zeros without a segment."""
    where = headers(packet)
    if not isinstance(where, Headers):
        return bytes(len(packet.data))
    head = bytearray(packet.data[: where.payload])
    # A checksum over the original payload would reveal two bytes about it.
    head[where.tcp + 16 : where.tcp + 18] = bytes(2)  # the checksum depends on the payload
    if pseudonyms is not None:
        _hide_addresses(head, packet.link, where, pseudonyms)
    return bytes(head).ljust(len(packet.data), b"\0")


def _hide_addresses(head: bytearray, link: int, where: Headers, pseudonyms: Pseudonyms) -> None:
    start, stop = _LINK_ADDRESSES.get(link, (0, 0))
    head[start:stop] = bytes(stop - start)
    first, size = (where.ip + 12, 4) if where.version == 4 else (where.ip + 8, 16)
    for at in (first, first + size):
        head[at : at + size] = pseudonyms(bytes(head[at : at + size]))
    if where.version == 4:
        head[where.ip + 10 : where.ip + 12] = bytes(2)
        head[where.ip + 20 : where.tcp] = bytes(where.tcp - where.ip - 20)
    else:
        _erase_extensions(head, where)


def _erase_extensions(head: bytearray, where: Headers) -> None:
    """Erase IPv6 extension headers, which may contain addresses; next header and length stay."""
    at, kind = where.ip + 40, head[where.ip + 6]
    while at < where.tcp:
        units = head[at + 1]
        length = (units + 2) * 4 if kind == 51 else (units + 1) * 8
        head[at + 2 : at + length] = bytes(length - 2)
        at, kind = at + length, head[at]


class PcapEraser:
    """Erases pcap records, which have only a time, lengths and a packet."""

    def __init__(self, order: Order, pseudonyms: Pseudonyms | None):  # noqa: ARG002 - same signature
        self._pseudonyms = pseudonyms

    def size(self, element: Element, feed: Feed) -> int:  # noqa: ARG002
        """As `Eraser`."""
        if isinstance(element, Packet):
            return fmt.PCAP_RECORD_SIZE + len(element.data)
        return fmt.PCAP_HEADER_SIZE if isinstance(element, Section) else 0

    def erased(self, element: Element, raw: bytes) -> bytes:
        """As `Eraser`."""
        if isinstance(element, Packet):
            return raw[: fmt.PCAP_RECORD_SIZE] + erase_packet(element, self._pseudonyms)
        return raw

    def filler(self, size: int) -> Iterator[bytes]:
        """As `Eraser`: 0xff, which is an invalid length to every reader."""
        while size:
            yield b"\xff" * min(size, _CHUNK)
            size -= min(size, _CHUNK)


class BlockEraser:
    """Erases the blocks of a pcapng section."""

    def __init__(self, order: Order, pseudonyms: Pseudonyms | None):
        self._order: Order = order
        self._sign = "<" if order == "little" else ">"
        self._pseudonyms = pseudonyms

    def size(self, element: Element, feed: Feed) -> int:
        """As `Eraser`."""
        return int.from_bytes(feed.take(element.offset + 4, 4), self._order)

    def erased(self, element: Element, raw: bytes) -> bytes:
        """As `Eraser`."""
        match element:
            case Packet():
                begin = element.data_offset - element.offset
                packet = erase_packet(element, self._pseudonyms)
                end = begin + fmt.pad4(len(packet))
                return raw[:begin] + packet.ljust(end - begin, b"\0") + self._tail(raw, end)
            case Section():
                return raw[:24] + self._tail(raw, 24)
            case Interface():
                return raw[:16] + self._tail(raw, 16)
            case Fact():
                return self._fact(element, raw)
            case Secrets():
                return self._block(len(raw))
        raise TypeError(f"{type(element).__name__} is not a block")

    def filler(self, size: int) -> Iterator[bytes]:
        """As `Eraser`: blocks of a type that readers skip; 0xff where there is no room for one."""
        if size < _MIN_BLOCK:
            # Damaged bytes between two blocks. They stay damaged: 0xffffffff is no block's type,
            # and neither it nor the type of the next block is a valid length.
            yield b"\xff" * size
            return
        while size:
            # No remainder is too small for a block.
            piece = size if size < 2 * _CHUNK else _CHUNK
            yield self._block(piece)
            size -= piece

    def _block(self, size: int) -> bytes:
        head = struct.pack(self._sign + "II", _FILLER_TYPE, size)
        return head + bytes(size - _MIN_BLOCK) + head[4:]

    def _tail(self, raw: bytes, begin: int) -> bytes:
        """Return the harmless options of a block, and its end."""
        end = len(raw) - 4
        kept = bytearray(end - begin)
        known = _KEPT_OPTIONS.get(int.from_bytes(raw[:4], self._order), frozenset())
        for code, at, size in options(raw, begin, end, self._order):
            # Code and length of every option stay, so that the block still parses; values only if
            # harmless.
            kept[at - 4 - begin : at - begin] = raw[at - 4 : at]
            if code in known and self._is_recorder_option(code, raw[at : at + size]):
                kept[at - begin : at + size - begin] = raw[at : at + size]
        return bytes(kept) + raw[end:]

    def _is_recorder_option(self, code: int, value: bytes) -> bool:
        if code not in (fmt.OPTION_CUSTOM_TEXT, fmt.OPTION_CUSTOM_BINARY):
            return True
        magic = fmt.ORIGIN_PREFIX if code == fmt.OPTION_CUSTOM_TEXT else fmt.MARK_MAGIC
        return value.startswith(struct.pack(self._sign + "I", fmt.PEN) + magic)

    def _fact(self, fact: Fact, raw: bytes) -> bytes:
        """Return a fact without hosts, if they are hidden, padded with spaces."""
        if self._pseudonyms is None or not any(name in fact.data for name in _HOSTS):
            return raw
        data = {name: value for name, value in fact.data.items() if name not in _HOSTS}
        text = fact_text(fact.kind, fact.ts_ns, fact.connection, data)
        # Other JSON writers may have packed the fact more tightly than we do: then it is erased.
        if len(text) > len(raw) - 16:
            return self._block(len(raw))
        return raw[:12] + text.ljust(len(raw) - 16) + raw[-4:]


# -- pseudonyms ------------------------------------------------------------------------------

_MAPPED: Final = bytes(10) + b"\xff\xff"
"""Prefix of an IPv4-mapped IPv6 address."""


class Pseudonyms:
    """Prefix-preserving pseudonyms of addresses.

    Two addresses with a common prefix of n bits get pseudonyms with a common prefix of n bits, so
    that networks stay recognisable as such. The scheme is that of Crypto-PAn, with keyed BLAKE2b as
    the function that decides whether a bit is flipped. The same seed gives the same pseudonyms.
    """

    def __init__(self, seed: str):
        self._key = hashlib.blake2b(seed.encode("utf-8", "surrogatepass")).digest()
        self._of = functools.lru_cache(maxsize=65_536)(self._make)

    def __call__(self, address: bytes) -> bytes:
        """Return the pseudonym of an address of 4 or 16 bytes."""
        return self._of(address)

    def _make(self, address: bytes) -> bytes:
        if len(address) == 16 and address.startswith(_MAPPED):
            return _MAPPED + self._of(address[12:])
        bits = len(address) * 8
        number, made = int.from_bytes(address, "big"), 0
        for position in range(bits):
            prefix = number >> (bits - position)
            flipped = (number >> (bits - 1 - position) & 1) ^ self._flips(bits, position, prefix)
            made = made << 1 | flipped
        return made.to_bytes(len(address), "big")

    def _flips(self, bits: int, position: int, prefix: int) -> int:
        """Return whether the bit after a prefix is flipped."""
        text = f"{bits} {position} {prefix}".encode()
        return hashlib.blake2b(text, digest_size=1, key=self._key).digest()[0] & 1
