"""Captures in the style of the recorder: pcapng with whole frames, ids, facts and keys.

The blocks equal what `wirelake.capture.record.recorder` writes for the same events, byte for byte;
a test compares the two.
"""

from __future__ import annotations

import io
import struct
from typing import Any, Final

from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import PcapngWriter, fact_text, origin_option
from wirelake.capture.tcp.headers import ACK, FIN, PSH, SYN, ipv4, tcp

from ..scenes.provider import Connection, SceneTemplate
from ..scenes.scene import C2S, SceneEvent
from .numbers import SERVER, Bytes
from .packet_template import SPACING_S, Item, PacketTemplate, build_packet_template

__all__ = ["RecordedStyle"]

_FIRST_SEQ: Final = 1_000
_HEADERS: Final = 40
_TIME_AT: Final = 12
_DATA_AT: Final = 28
_ID_BEFORE_END: Final = 16
"""Offset of the connection id from the end of the block."""
_CLIENT_ADDRESS: Final = bytes((10, 128, 128, 128))
_PORT: Final = 16_384
_NUMBER: Final = 10**18
"""Placeholders for the address, port and id of an instance; they have the same width."""


class RecordedStyle:
    """Makes packet templates and file headers."""

    suffix: str = ".pcapng"
    resolution_ns: int = 1
    numbered: bool = True
    """Whether packets carry the id of their connection, with facts between them."""

    def head(self, source: str, sequence: int) -> bytes:
        """Return the header of a file."""
        out = io.BytesIO()
        PcapngWriter(out, options=[origin_option(source, sequence)]).interface(f.LINK_RAW)
        return out.getvalue()

    def packets(self, template: SceneTemplate) -> PacketTemplate:
        """Return the blocks of a template."""
        return _BlockMaker(template).make()

    def introduction(
        self, connection: Connection, address: str, port: int, number: int, ts_ns: int
    ) -> bytes:
        """Return the fact that introduces a connection again in a further file."""
        facts = {**_open_facts(connection, address, port), "continued": True}
        return _custom(fact_text("open", ts_ns, number, facts))

    def can_shorten(self, item: Item) -> bool:  # noqa: ARG002 - the same shape for every style
        """Return True: any packet can be cut, because its options move."""
        return True

    def shortened(self, packet: bytes, size: int, *, on_wire: bool) -> bytes:
        """Return a block whose packet is `size` bytes shorter."""
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
        """Return a packet with another timestamp."""
        time = struct.pack("<II", ts_ns >> 32, ts_ns & 0xFFFF_FFFF)
        return packet[:_TIME_AT] + time + packet[_TIME_AT + 8 :]

    def damage(self, packet: Bytes) -> bool:
        """Make the trailing length of a block differ from the leading one."""
        packet[-4] ^= 0x40
        return True

    def damage_detail(self, packet: bytes) -> str:
        """Return the detail that a reader reports."""
        front, end = struct.unpack("<I", packet[4:8])[0], struct.unpack("<I", packet[-4:])[0]
        return f"a block of {front} bytes in front, of {end} at its end"


class _BlockMaker:
    """Turns the events of a scene into blocks."""

    def __init__(self, template: SceneTemplate):
        self.template = template
        self.items: list[Item] = []
        self.seqs = [[_FIRST_SEQ - 1, _FIRST_SEQ - 1] for _ in template.connections]
        self.clocks = [0.0] * len(template.connections)

    def make(self) -> PacketTemplate:
        for n, event in enumerate(self.template.events):
            match event.kind:
                case "open":
                    self._open(n, event)
                case "data":
                    self._data(n, event)
                case "close":
                    self._close(n, event)
                case "fact":
                    facts = {key: value for key, value in event.facts.items() if key != "kind"}
                    self._fact(n, event.at, event.facts["kind"], -1, facts)
                case "keys":
                    self._keys(n, event)
        return build_packet_template(self.template, self.items)

    def _place(self, event: SceneEvent) -> int:
        assert event.connection is not None
        return self.template.places[event.connection.number]

    def _next(self, place: int, at: float) -> float:
        """Return a time later than all earlier packets of the connection."""
        self.clocks[place] = max(at, self.clocks[place] + SPACING_S)
        return self.clocks[place]

    def _open(self, n: int, event: SceneEvent) -> None:
        place = self._place(event)
        facts = _open_facts(self.template.connections[place], "10.128.128.128", _PORT)
        self._fact(n, event.at, "open", place, facts)
        for direction, flags in ((0, SYN), (1, SYN | ACK)):
            self._packet(event.at, place, direction, flags)
            self.seqs[place][direction] += 1

    def _close(self, n: int, event: SceneEvent) -> None:
        place = self._place(event)
        at = self._next(place, event.at)
        self._fact(n, at, "close", place, {"reason": event.reason})
        for direction in (0, 1):
            self._packet(at, place, direction, FIN | ACK)
            self.seqs[place][direction] += 1

    def _data(self, n: int, event: SceneEvent) -> None:
        place, direction = self._place(event), event.direction
        at = self._next(place, event.at)
        for start in range(event.start, event.stop, f.PACKET_LIMIT):
            stop = min(start + f.PACKET_LIMIT, event.stop)
            marks = f.MARK_CONTINUES if start > event.start else 0
            marks |= f.MARK_UNFINISHED if stop < event.stop else 0
            self._packet(at, place, direction, PSH | ACK, (start, stop), marks, n)
            self.seqs[place][direction] += stop - start

    def _packet(
        self,
        at: float,
        place: int,
        direction: int,
        flags: int,
        payload: tuple[int, int] = (0, 0),
        marks: int = 0,
        event: int = -1,
    ) -> None:
        connection = self.template.connections[place]
        port = connection.scenes.server_port
        ports = (_PORT, port) if direction == C2S else (port, _PORT)
        ends = (_CLIENT_ADDRESS, SERVER) if direction == C2S else (SERVER, _CLIENT_ADDRESS)
        data = connection.streams[direction].data[slice(*payload)]
        acknowledged = self.seqs[place][1 - direction] if flags & ACK else 0
        segment = tcp(
            *ports, seq=self.seqs[place][direction], ack=acknowledged, flags=flags, payload=data
        )
        packet = ipv4(*ends, segment)
        options = f.RECORDED_OPTIONS.pack(
            *(f.OPTION_FLAGS, 4, 1 + direction),
            *(f.OPTION_CUSTOM_BINARY, 16, f.PEN, f.MARK_MAGIC, f.MARK_VERSION, marks, _NUMBER),
            *(f.OPTION_END, 0),
        )
        body = packet.ljust(f.pad4(len(packet)), b"\0") + options
        total = _DATA_AT + len(body) + 4
        head = struct.pack("<7I", f.BLOCK_EPB, total, 0, 0, 0, len(packet), len(packet))
        block = head + body + struct.pack("<I", total)
        columns = {
            "ts_epb": _TIME_AT,
            "address": _DATA_AT + (12 if direction == C2S else 16),
            "port": _DATA_AT + (20 if direction == C2S else 22),
            "connection": len(block) - _ID_BEFORE_END,
        }
        self.items.append(
            Item(at, block, place, direction, payload, _DATA_AT + _HEADERS, event, flags, columns)
        )

    def _fact(self, n: int, at: float, kind: str, place: int, facts: dict[str, Any]) -> None:
        block = _custom(fact_text(kind, _NUMBER, _NUMBER if place >= 0 else None, facts))
        columns = {"ns": block.index(b'"ts_ns":') + 8}
        if place >= 0:
            columns["connection_text"] = block.index(b'"connection":') + 13
        if kind == "open":
            columns["address_text"] = block.index(b'"client":"') + 10
            columns["port_text"] = block.index(b'"client_port":') + 14
        self.items.append(Item(at, block, place, event=n, columns=columns))

    def _keys(self, n: int, event: SceneEvent) -> None:
        text = event.text.encode() + b"\n"
        total = 20 + f.pad4(len(text))
        head = struct.pack("<IIII", f.BLOCK_SECRETS, total, f.SECRETS_TYPE, len(text))
        block = head + text.ljust(f.pad4(len(text)), b"\0") + struct.pack("<I", total)
        place = self._place(event)
        self.items.append(Item(max(event.at, self.clocks[place]), block, place, event=n))


def _custom(text: bytes) -> bytes:
    total = 16 + len(text)
    return struct.pack("<III", f.BLOCK_CUSTOM, total, f.PEN) + text + struct.pack("<I", total)


def _open_facts(connection: Connection, address: str, port: int) -> dict[str, Any]:
    return {
        "client": address,
        "client_port": port,
        "server": ".".join(map(str, SERVER)),
        "server_port": connection.scenes.server_port,
        "protocol": connection.protocol,
    }
