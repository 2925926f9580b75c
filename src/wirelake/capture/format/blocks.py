"""`Reader`: decodes the blocks of a pcapng file: sections, interfaces, packets, facts and secrets.

The result of `Reader.block` depends only on the block's bytes and the section so far. The bytes are
a complete block: `reader.py` has checked its length. Invalid content is a fault of that block
alone. `columnar/scan` uses the same class for all blocks that its kernels do not handle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from . import constants as fmt
from .constants import FAULT_BYTES, Limits
from .items import Direction, Element, Fact, FileFault, Interface, Order, Packet, Secrets, Section

__all__ = ["Reader", "options"]

_MARK_SIZE: Final = 16
_MOST_ID: Final = (1 << 63) - 1
_DIRECTIONS: Final[dict[int, Direction]] = {1: "c2s", 2: "s2c"}
_FACT: Final = msgspec.json.Decoder(dict[str, Any])

_Read: TypeAlias = Callable[[bytes, int, int, int], Element | None]


class _BadBlockError(Exception):
    """The content of a block breaks a rule; the arguments are code and detail of the fault."""


def options(buf: bytes, begin: int, end: int, order: Order) -> Iterator[tuple[int, int, int]]:
    """Yield the options between two positions: code, position of the value, its size.

    Stops silently at an invalid option: options are hints, and the packet is valid without them.
    """
    head = struct.Struct("<HH" if order == "little" else ">HH")
    while begin + 4 <= end:
        code, size = head.unpack_from(buf, begin)
        if code == fmt.OPTION_END or begin + 4 + size > end:
            return
        yield code, begin + 4, size
        begin += 4 + fmt.pad4(size)


class Reader:
    """Decodes blocks in file order; knows the current section."""

    def __init__(self, order: Order, limits: Limits):
        self.order: Order = order
        """The byte order of the section."""
        self.interfaces: list[Interface] = []
        """The interfaces of the section so far."""
        self._limits = limits
        self._kinds: dict[int, _Read] = {
            fmt.BLOCK_SHB: self._section,
            fmt.BLOCK_IDB: self._interface,
            fmt.BLOCK_EPB: self._enhanced,
            fmt.BLOCK_SPB: self._simple,
            fmt.BLOCK_PACKET: self._obsolete,
            fmt.BLOCK_SECRETS: self._secrets,
            fmt.BLOCK_CUSTOM: self._custom,
        }
        self._use(order)

    def block(self, buf: bytes, begin: int, end: int, offset: int) -> Element | None:
        """Return the content of the block in `buf` from `begin` to `end`, which is at `offset` in
        the file; None for blocks that carry nothing for us."""
        # Unknown block types are skipped, as the pcapng specification demands of readers.
        read = self._kinds.get(self._u32(buf, begin))
        if read is None:
            return None
        try:
            return read(buf, begin, end, offset)
        except _BadBlockError as error:
            code, detail = error.args
            first = buf[begin : min(end, begin + FAULT_BYTES)]
            return FileFault(offset, end - begin, code, detail, first)

    # -- the section -------------------------------------------------------------------------

    def _use(self, order: Order) -> None:
        sign = "<" if order == "little" else ">"
        self.order = order
        self._packet_head = struct.Struct(sign + "5I")
        self._obsolete_head = struct.Struct(sign + "HH4I")
        self._two = struct.Struct(sign + "II")
        self._fact_head = struct.pack(sign + "I", fmt.PEN) + fmt.FACT_MAGIC

    def _u32(self, buf: bytes, at: int) -> int:
        return int.from_bytes(buf[at : at + 4], self.order)

    def _need(self, begin: int, end: int, size: int) -> None:
        if end - begin < size:
            raise _BadBlockError("bad_block", f"a block of {end - begin} bytes, {size} needed")

    def _section(self, buf: bytes, begin: int, end: int, offset: int) -> Section:
        self._need(begin, end, 28)
        # The reader has checked that one of both byte orders fits.
        self._use("little" if buf[begin + 8] == fmt.BYTE_ORDER_MAGIC & 0xFF else "big")
        self.interfaces = []
        source, sequence = self._origin(buf, begin + 24, end - 4)
        return Section(offset, "pcapng", self.order, source, sequence)

    def _origin(self, buf: bytes, begin: int, end: int) -> tuple[str | None, int | None]:
        for code, at, size in options(buf, begin, end, self.order):
            prefix_end = at + 4 + len(fmt.ORIGIN_PREFIX)
            # As for packets: the PEN alone does not make it ours.
            ours = code == fmt.OPTION_CUSTOM_TEXT and self._u32(buf, at) == fmt.PEN
            if ours and buf[at + 4 : prefix_end] == fmt.ORIGIN_PREFIX:
                origin = _json(buf[prefix_end : at + size]) or {}
                source, sequence = origin.get("source"), origin.get("sequence")
                if isinstance(source, str) and type(sequence) is int:
                    return source, sequence
        return None, None

    def _interface(self, buf: bytes, begin: int, end: int, offset: int) -> Interface:
        self._need(begin, end, 20)
        if len(self.interfaces) >= self._limits.interfaces:
            raise _BadBlockError("bad_block", "too many interfaces")
        # Without if_tsresol, microseconds (pcapng specification).
        ticks_per_s, shift_s = 1_000_000, 0
        for code, at, size in options(buf, begin + 16, end - 4, self.order):
            if code == fmt.OPTION_TSRESOL and size == 1:
                power = buf[at] & 0x7F
                ticks_per_s = 2**power if buf[at] & 0x80 else 10**power
            elif code == fmt.OPTION_TSOFFSET and size == 8:
                shift_s = int.from_bytes(buf[at : at + 8], self.order, signed=True)
        link = int.from_bytes(buf[begin + 8 : begin + 10], self.order)
        snap_length = self._u32(buf, begin + 12)
        number = len(self.interfaces)
        found = Interface(offset, number, link, snap_length, ticks_per_s, shift_s)
        self.interfaces.append(found)
        return found

    def _on(self, number: int) -> Interface:
        if number >= len(self.interfaces):
            raise _BadBlockError("bad_block", f"a packet of unknown interface {number}")
        return self.interfaces[number]

    # -- packets -----------------------------------------------------------------------------

    def _enhanced(self, buf: bytes, begin: int, end: int, offset: int) -> Packet:
        self._need(begin, end, 32)
        number, high, low, captured, original = self._packet_head.unpack_from(buf, begin + 8)
        ts_ns = self._on(number).time_ns(high << 32 | low)
        return self._packet(buf, begin, end, offset, number, ts_ns, captured, original)

    def _obsolete(self, buf: bytes, begin: int, end: int, offset: int) -> Packet:
        self._need(begin, end, 32)
        number, _, high, low, captured, original = self._obsolete_head.unpack_from(buf, begin + 8)
        ts_ns = self._on(number).time_ns(high << 32 | low)
        return self._packet(buf, begin, end, offset, number, ts_ns, captured, original)

    def _packet(
        self,
        buf: bytes,
        begin: int,
        end: int,
        offset: int,
        number: int,
        ts_ns: int,
        captured: int,
        original: int,
    ) -> Packet:
        data_at = begin + 28
        if captured > end - 4 - data_at:
            raise _BadBlockError("bad_block", f"{captured} captured bytes do not fit their block")
        data = buf[data_at : data_at + captured]
        link = self.interfaces[number].link
        # Options are read for every packet: most captures of other tools have none, and the loop
        # ends at once.
        flags, marks, connection = self._marks(buf, data_at + fmt.pad4(captured), end - 4)
        data_offset = offset + 28
        if connection is None:
            return Packet(ts_ns, offset, data_offset, data, original, number, link)
        return Packet(
            ts_ns,
            offset,
            data_offset,
            data,
            original,
            number,
            link,
            connection,
            _DIRECTIONS.get(flags & 3),
            bool(marks & fmt.MARK_CONTINUES),
            bool(marks & fmt.MARK_UNFINISHED),
        )

    def _marks(self, buf: bytes, begin: int, end: int) -> tuple[int, int, int | None]:
        """Return epb_flags, and the recorder's marks and connection id; None without a recorder."""
        flags, marks, connection = 0, 0, None
        for code, at, size in options(buf, begin, end, self.order):
            if code == fmt.OPTION_FLAGS and size == 4:
                flags = self._u32(buf, at)
            elif code == fmt.OPTION_CUSTOM_BINARY and size == _MARK_SIZE:
                # All of PEN, magic and version must match: the PEN is shared by all who have none
                # of their own.
                known = buf[at + 4 : at + 7] == fmt.MARK_MAGIC + bytes([fmt.MARK_VERSION])
                found = int.from_bytes(buf[at + 8 : at + 16], "little")
                if known and self._u32(buf, at) == fmt.PEN and 0 < found <= _MOST_ID:
                    marks, connection = buf[at + 7], found
        return flags, marks, connection

    def _simple(self, buf: bytes, begin: int, end: int, offset: int) -> Packet:
        self._need(begin, end, 16)
        interface = self._on(0)
        original = self._u32(buf, begin + 8)
        # Simple packet blocks have no captured length.
        captured = min(original, interface.snap_length or original)
        if captured > end - begin - 16:
            raise _BadBlockError("bad_block", f"{captured} captured bytes do not fit their block")
        data = buf[begin + 12 : begin + 12 + captured]
        return Packet(0, offset, offset + 12, data, original, 0, interface.link)

    # -- secrets and facts -------------------------------------------------------------------

    def _secrets(self, buf: bytes, begin: int, end: int, offset: int) -> Secrets | None:
        self._need(begin, end, 20)
        kind, size = self._two.unpack_from(buf, begin + 8)
        if kind != fmt.SECRETS_TYPE:
            return None
        if size > end - begin - 20:
            raise _BadBlockError("bad_block", f"{size} bytes of secrets do not fit their block")
        return Secrets(offset, buf[begin + 16 : begin + 16 + size].decode("utf-8", "replace"))

    def _custom(self, buf: bytes, begin: int, end: int, offset: int) -> Fact | None:
        self._need(begin, end, 16)
        text_at = begin + 8 + len(self._fact_head)
        ours = buf[begin + 8 : text_at] == self._fact_head
        return _fact(buf[text_at : end - 4], offset) if ours else None


def _fact(text: bytes, offset: int) -> Fact:
    # Other tools may rewrite the file and pad with zeros instead of spaces.
    data = _json(text.rstrip(b"\0"))
    if data is None:
        raise _BadBlockError("bad_fact", "invalid fact: not a JSON object")
    kind, ts_ns = data.pop("kind", None), data.pop("ts_ns", None)
    connection = data.pop("connection", None)
    if not isinstance(kind, str):
        raise _BadBlockError("bad_fact", "invalid fact: missing kind")
    if type(ts_ns) is not int or not -_MOST_ID <= ts_ns <= _MOST_ID:
        raise _BadBlockError("bad_fact", "invalid fact: missing time")
    if connection is not None and (type(connection) is not int or not 0 < connection <= _MOST_ID):
        raise _BadBlockError("bad_fact", "invalid fact: invalid connection")
    return Fact(ts_ns, offset, kind, connection, data)


def _json(text: bytes) -> dict[str, Any] | None:
    try:
        return _FACT.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
