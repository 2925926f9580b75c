"""Small captures of synthetic packets, shared by the tests of captures."""

from __future__ import annotations

import io
from collections.abc import Iterator

from wirelake.capture.format import constants as f
from wirelake.capture.format.items import Element, FileFault, Packet
from wirelake.capture.format.reader import read_bytes
from wirelake.capture.format.writer import PcapngWriter, PcapWriter
from wirelake.capture.tcp.headers import ipv4, tcp

CLIENT = bytes([10, 0, 0, 9])
SERVER = bytes([10, 0, 0, 1])
T0 = 1_700_000_000_123_456_789


def raw_packet(payload: bytes, seq: int = 1) -> bytes:
    """An IPv4 packet with a TCP segment from the client to the server."""
    return ipv4(CLIENT, SERVER, tcp(51_000, 7_300, seq=seq, payload=payload))


def small_pcap(count: int = 5) -> tuple[bytes, list[int]]:
    """A pcap file with packets of various sizes, and where its records begin."""
    out = io.BytesIO()
    writer = PcapWriter(out, link=f.LINK_RAW, nano=True)
    offsets = [writer.packet(T0 + i, raw_packet(b"x" * (7 * i))) for i in range(count)]
    return out.getvalue(), offsets


def small_pcapng(count: int = 5) -> tuple[bytes, list[int]]:
    """A pcapng file with packets of various sizes, and where their blocks begin."""
    out = io.BytesIO()
    writer = PcapngWriter(out)
    writer.interface(f.LINK_RAW)
    offsets = [writer.packet(T0 + i, raw_packet(b"x" * (7 * i))) for i in range(count)]
    return out.getvalue(), offsets


def packets(data: bytes) -> list[Packet]:
    """The packets of a file."""
    return [item for item in read_bytes(data) if isinstance(item, Packet)]


def faults(elements: Iterator[Element]) -> list[FileFault]:
    """The faults among what was read."""
    return [item for item in elements if isinstance(item, FileFault)]
