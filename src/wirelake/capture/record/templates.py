"""Packet blocks of a recorder: headers that are prepared when a connection opens.

Of the headers of a recorded packet only the time, three lengths and two numbers change. A `Way`
holds the rest for one direction of a connection, and makes a block with one `Struct.pack`. The
layout of a block is in `format.py`.
"""

from __future__ import annotations

import functools
import ipaddress
import struct
from typing import Final, TypeAlias

from ..format import constants as f
from ..tcp.synthesis import ACK, PSH

__all__ = ["Address", "Link", "Way"]

Address: TypeAlias = tuple[str, int]
"""Host, as numbers, and port."""

_FIRST_SEQ: Final = 1_000
"""Sequence number of the first byte of every stream."""
_MASK: Final = 0xFFFF_FFFF
_BLOCK_REST: Final = 28 + f.OPTIONS_SIZE + 4
"""What a block has around the data of its packet."""
_HEAD4: Final = struct.Struct("<7I2s2s20s4s4s8s")
_HEAD6: Final = struct.Struct("<7I4s2s38s4s4s8s")
"""Block head, then IP and TCP: first bytes, length, addresses and ports, seq, ack, the rest."""
_HEADERS4: Final = 20 + 20
_HEADERS6: Final = 40 + 20
_TAIL: Final = struct.Struct("<I")


def _tcp_rest(flags: int) -> bytes:
    """Return the TCP header after the sequence numbers: flags, window, and no checksum."""
    return bytes([5 << 4, flags, 0xFF, 0xFF, 0, 0, 0, 0])


_PUSH: Final = _tcp_rest(PSH | ACK)


class Way:
    """One direction of an open connection."""

    __slots__ = (
        *("_first", "_fixed", "_flag", "_headers", "_options", "_pack", "_seq"),
        *("ack", "link", "lost_bytes", "peer"),
    )

    peer: Way
    """The other direction."""

    def __init__(self, link: Link, src: bytes, dst: bytes, ports: bytes, flag: int):
        self.link = link
        self.ack = _FIRST_SEQ.to_bytes(4, "big")
        """The next sequence number, as the other direction acknowledges it."""
        self.lost_bytes = 0
        """What crossed during an outage, and is missing in the stream."""
        wide = len(src) == 16
        self._seq = _FIRST_SEQ
        self._flag = flag
        self._pack = (_HEAD6 if wide else _HEAD4).pack
        self._headers = _HEADERS6 if wide else _HEADERS4
        self._first = b"\x60\0\0\0" if wide else b"\x45\0"
        before = b"\x06\x40" if wide else b"\0\0\x40\0\x40\x06\0\0"
        self._fixed = before + src + dst + ports
        self._options = tuple(bytes(pad) + _options(flag, 0, link.number) for pad in range(4))

    def put(self, parts: list[bytes], frames: bytes, ts_ns: int) -> int:
        """Append a block of whole frames that fit a packet. Return its size."""
        size = len(frames)
        total, captured, ip_length, pad, tail = _shape(self._headers, size)
        seq = self.ack
        self._seq = following = (self._seq + size) & _MASK
        self.ack = following.to_bytes(4, "big")
        head = self._pack(
            6,
            total,
            0,
            ts_ns >> 32,
            ts_ns & _MASK,
            captured,
            captured,
            self._first,
            ip_length,
            self._fixed,
            seq,
            self.peer.ack,
            _PUSH,
        )
        parts += (head, frames, self._options[pad], tail)
        return total

    def put_marked(
        self, parts: list[bytes], data: bytes, ts_ns: int, flags: int, marks: int
    ) -> int:
        """Append a block with any flags and marks. Return its size."""
        total, captured, ip_length, pad, tail = _shape(self._headers, len(data))
        head = self._pack(
            *(f.BLOCK_EPB, total, 0, ts_ns >> 32, ts_ns & _MASK, captured, captured),
            *(self._first, ip_length, self._fixed),
            *(self.ack, self.peer.ack if flags & ACK else bytes(4), _tcp_rest(flags)),
        )
        options = bytes(pad) + _options(self._flag, marks, self.link.number)
        parts += (head, data, options, tail)
        self.advance(len(data))
        return total

    def advance(self, size: int) -> None:
        """Advance the stream by a number of bytes."""
        self._seq = (self._seq + size) & _MASK
        self.ack = self._seq.to_bytes(4, "big")


class Link:
    """An open connection: both directions, and the packets that open it."""

    __slots__ = ("c2s", "file", "keys", "number", "open_data", "s2c")

    def __init__(self, number: int, client: Address, server: Address, protocol: str | None):
        self.number = number
        """Its id."""
        self.file = -1
        """The number of the last file that introduces it."""
        self.keys: list[str] = []
        """Its lines of the key log."""
        src, dst = _addresses(client[0], server[0])
        self.c2s = Way(self, src, dst, struct.pack(">HH", client[1], server[1]), 1)
        self.s2c = Way(self, dst, src, struct.pack(">HH", server[1], client[1]), 2)
        self.c2s.peer, self.s2c.peer = self.s2c, self.c2s
        self.open_data: dict[str, object] = {
            "client": client[0],
            "client_port": client[1],
            "server": server[0],
            "server_port": server[1],
            "protocol": protocol,
        }
        """What the fact `open` says."""


@functools.lru_cache(maxsize=8_192)
def _shape(headers: int, size: int) -> tuple[int, int, bytes, int, bytes]:
    """All that the size of a payload decides: size of the block, of the packet, the IP length (of
    IPv6, it does not count its own header), padding, and the end of the block. Remembered, because
    most frames have one of few sizes."""
    captured = headers + size
    pad = -captured & 3
    total = _BLOCK_REST + captured + pad
    ip_length = captured if headers == _HEADERS4 else captured - 40
    return total, captured, ip_length.to_bytes(2, "big"), pad, _TAIL.pack(total)


def _options(flag: int, marks: int, number: int) -> bytes:
    return f.RECORDED_OPTIONS.pack(
        *(f.OPTION_FLAGS, 4, flag),
        *(f.OPTION_CUSTOM_BINARY, 16, f.PEN, f.MARK_MAGIC, f.MARK_VERSION, marks, number),
        *(f.OPTION_END, 0),
    )


def _addresses(client: str, server: str) -> tuple[bytes, bytes]:
    """Return both addresses packed to one size. IPv4 is mapped when the other address is IPv6."""
    ends = [ipaddress.ip_address(host.partition("%")[0]) for host in (client, server)]
    packed = [end.packed for end in ends]
    if {len(end) for end in packed} == {4, 16}:
        packed = [bytes(10) + b"\xff\xff" + end if len(end) == 4 else end for end in packed]
    return packed[0], packed[1]
