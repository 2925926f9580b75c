"""Recorder-style captures: pcapng with whole frames, ids, facts and keys.

The blocks are those that `wirelake.capture.record.recorder` would write, had it been told what the
tap saw; a test holds the two together, byte for byte.
"""

from __future__ import annotations

import io
import struct
from typing import Any, Final

from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import (
    PcapngWriter,
    fact_text,
    origin_option,
)
from wirelake.capture.tcp.synthesis import (
    ACK,
    FIN,
    PSH,
    SYN,
    ipv4,
    tcp,
)
from wirelake.protocols import registry

from ..scenes.scene import C2S, Happening
from ..scenes.template import Connection, Mould
from .hosts import SERVER
from .numbers import Bytes
from .packet_template import (
    SPACING_S,
    Item,
    Plate,
)
from .placement import engrave

__all__ = ["RecordedStyle"]

_FIRST_SEQ: Final = 1_000
_HEADERS: Final = 40
_TIME_AT: Final = 12
_DATA_AT: Final = 28
_ID_BEFORE_END: Final = 16
"""Where the id stands, counted from the end of the block."""
_SOMEONE: Final = bytes((10, 128, 128, 128))
_PORT: Final = 16_384
_NUMBER: Final = 10**18
"""Stand for the address, port and id of a cast; they have the same width."""


def server_port(protocol: str) -> int:
    """The port of a protocol."""
    port = registry.find(protocol).port
    assert port is not None
    return port


class RecordedStyle:
    """Makes plates and the heads of files."""

    suffix: str = ".pcapng"
    resolution_ns: int = 1
    numbered: bool = True
    """Whether packets carry the id of their connection, and facts stand between them."""

    def head(self, source: str, sequence: int) -> bytes:
        """What a file begins with."""
        out = io.BytesIO()
        PcapngWriter(out, options=[origin_option(source, sequence)]).interface(f.LINK_RAW)
        return out.getvalue()

    def plate(self, mould: Mould) -> Plate:
        """The blocks of a mould."""
        return _Maker(mould).make()

    def introduction(
        self, connection: Connection, address: str, port: int, number: int, ts_ns: int
    ) -> bytes:
        """The fact with which a further file introduces a connection again."""
        said = {**_open_facts(connection, address, port), "continued": True}
        return _custom(fact_text("open", ts_ns, number, said))

    def can_shorten(self, item: Item) -> bool:  # noqa: ARG002 - the same shape for every style
        """Every packet can be cut: its options move."""
        return True

    def shortened(self, packet: bytes, size: int, *, on_wire: bool) -> bytes:
        """A block whose packet has so many bytes less."""
        captured, original = struct.unpack_from("<II", packet, 20)
        data = bytearray(packet[_DATA_AT : _DATA_AT + captured - size])
        options = packet[_DATA_AT + f.pad4(captured) : -4]
        if on_wire:
            data[2:4] = (int.from_bytes(data[2:4], "big") - size).to_bytes(2, "big")
            original -= size
        body = bytes(data).ljust(f.pad4(len(data)), b"\0") + options
        total = _DATA_AT + len(body) + 4
        lengths = struct.pack("<II", len(data), original)
        head = packet[:4] + struct.pack("<I", total) + packet[8:20] + lengths
        return head + body + struct.pack("<I", total)

    def retimed(self, packet: bytes, ts_ns: int) -> bytes:
        """A packet that was captured at another time."""
        time = struct.pack("<II", ts_ns >> 32, ts_ns & 0xFFFF_FFFF)
        return packet[:_TIME_AT] + time + packet[_TIME_AT + 8 :]

    def damage(self, packet: Bytes) -> bool:
        """The length at the end of the block is not the one in front."""
        packet[-4] ^= 0x40
        return True

    def damage_detail(self, packet: bytes) -> str:
        """What a reader says of it."""
        front, end = struct.unpack("<I", packet[4:8])[0], struct.unpack("<I", packet[-4:])[0]
        return f"a block of {front} bytes in front, of {end} at its end"


class _Maker:
    """Turns what the tap saw into blocks."""

    def __init__(self, mould: Mould):
        self.mould = mould
        self.items: list[Item] = []
        self.seqs = [[_FIRST_SEQ - 1, _FIRST_SEQ - 1] for _ in mould.connections]
        self.clocks = [0.0] * len(mould.connections)

    def make(self) -> Plate:
        for n, happening in enumerate(self.mould.happenings):
            match happening.kind:
                case "open":
                    self._open(n, happening)
                case "data":
                    self._data(n, happening)
                case "close":
                    self._close(n, happening)
                case "fact":
                    said = {key: value for key, value in happening.facts.items() if key != "kind"}
                    self._fact(n, happening.at, happening.facts["kind"], -1, said)
                case "keys":
                    self._keys(n, happening)
        return engrave(self.mould, self.items)

    def _place(self, happening: Happening) -> int:
        assert happening.line is not None
        return self.mould.places[happening.line.number]

    def _next(self, place: int, at: float) -> float:
        """A time that no earlier packet of the connection has."""
        self.clocks[place] = max(at, self.clocks[place] + SPACING_S)
        return self.clocks[place]

    def _open(self, n: int, happening: Happening) -> None:
        place = self._place(happening)
        said = _open_facts(self.mould.connections[place], "10.128.128.128", _PORT)
        self._fact(n, happening.at, "open", place, said)
        for direction, flags in ((0, SYN), (1, SYN | ACK)):
            self._packet(happening.at, place, direction, flags)
            self.seqs[place][direction] += 1

    def _close(self, n: int, happening: Happening) -> None:
        place = self._place(happening)
        at = self._next(place, happening.at)
        self._fact(n, at, "close", place, {"reason": happening.reason})
        for direction in (0, 1):
            self._packet(at, place, direction, FIN | ACK)
            self.seqs[place][direction] += 1

    def _data(self, n: int, happening: Happening) -> None:
        place, way = self._place(happening), happening.direction
        at = self._next(place, happening.at)
        for start in range(happening.start, happening.stop, f.PACKET_LIMIT):
            stop = min(start + f.PACKET_LIMIT, happening.stop)
            marks = f.MARK_CONTINUES if start > happening.start else 0
            marks |= f.MARK_UNFINISHED if stop < happening.stop else 0
            self._packet(at, place, way, PSH | ACK, (start, stop), marks, n)
            self.seqs[place][way] += stop - start

    def _packet(
        self,
        at: float,
        place: int,
        way: int,
        flags: int,
        payload: tuple[int, int] = (0, 0),
        marks: int = 0,
        happening: int = -1,
    ) -> None:
        connection = self.mould.connections[place]
        port = server_port(connection.protocol)
        ports = (_PORT, port) if way == C2S else (port, _PORT)
        ends = (_SOMEONE, SERVER) if way == C2S else (SERVER, _SOMEONE)
        data = connection.streams[way].data[slice(*payload)]
        acknowledged = self.seqs[place][1 - way] if flags & ACK else 0
        segment = tcp(
            *ports, seq=self.seqs[place][way], ack=acknowledged, flags=flags, payload=data
        )
        packet = ipv4(*ends, segment)
        options = f.RECORDED_OPTIONS.pack(
            *(f.OPTION_FLAGS, 4, 1 + way),
            *(f.OPTION_CUSTOM_BINARY, 16, f.PEN, f.MARK_MAGIC, f.MARK_VERSION, marks, _NUMBER),
            *(f.OPTION_END, 0),
        )
        body = packet.ljust(f.pad4(len(packet)), b"\0") + options
        total = _DATA_AT + len(body) + 4
        head = struct.pack("<7I", f.BLOCK_EPB, total, 0, 0, 0, len(packet), len(packet))
        block = head + body + struct.pack("<I", total)
        columns = {
            "ts_epb": _TIME_AT,
            "address": _DATA_AT + (12 if way == C2S else 16),
            "port": _DATA_AT + (20 if way == C2S else 22),
            "connection": len(block) - _ID_BEFORE_END,
        }
        self.items.append(
            Item(at, block, place, way, payload, _DATA_AT + _HEADERS, happening, flags, columns)
        )

    def _fact(self, n: int, at: float, kind: str, place: int, said: dict[str, Any]) -> None:
        block = _custom(fact_text(kind, _NUMBER, _NUMBER if place >= 0 else None, said))
        columns = {"ns": block.index(b'"ts_ns":') + 8}
        if place >= 0:
            columns["connection_text"] = block.index(b'"connection":') + 13
        if kind == "open":
            columns["address_text"] = block.index(b'"client":"') + 10
            columns["port_text"] = block.index(b'"client_port":') + 14
        self.items.append(Item(at, block, place, happening=n, columns=columns))

    def _keys(self, n: int, happening: Happening) -> None:
        text = happening.text.encode() + b"\n"
        total = 20 + f.pad4(len(text))
        head = struct.pack("<IIII", f.BLOCK_SECRETS, total, f.SECRETS_TYPE, len(text))
        block = head + text.ljust(f.pad4(len(text)), b"\0") + struct.pack("<I", total)
        place = self._place(happening)
        self.items.append(Item(max(happening.at, self.clocks[place]), block, place, happening=n))


def _custom(text: bytes) -> bytes:
    total = 16 + len(text)
    return struct.pack("<III", f.BLOCK_CUSTOM, total, f.PEN) + text + struct.pack("<I", total)


def _open_facts(connection: Connection, address: str, port: int) -> dict[str, Any]:
    return {
        "client": address,
        "client_port": port,
        "server": ".".join(map(str, SERVER)),
        "server_port": server_port(connection.protocol),
        "protocol": connection.protocol,
    }
