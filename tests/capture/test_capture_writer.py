"""Files that the writers make, as our reader, tshark and dpkt read them."""

from __future__ import annotations

import io
import socket
from pathlib import Path
from typing import Literal

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.capture.format import constants as f
from wirelake.capture.format.items import Segment
from wirelake.capture.format.writer import PcapngWriter, PcapWriter
from wirelake.capture.tcp.headers import ethernet, ipv4, ipv6, segment, tcp

from . import tshark
from .small_captures import CLIENT, SERVER, T0, packets
from .tcp_made import link_layer

pytestmark = pytest.mark.slow

CLIENT6, SERVER6 = socket.inet_pton(socket.AF_INET6, "2001:db8::9"), bytes(15) + b"\1"
Order = Literal["little", "big"]
ORDERS: list[Order] = ["little", "big"]
FIELDS = ["frame.time_epoch", "frame.len", "frame.cap_len", "tcp.srcport", "tcp.dstport", "tcp.len"]


def _seconds(ts_ns: int) -> str:
    return f"{ts_ns // 10**9}.{ts_ns % 10**9:09d}"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("nano", [False, True])
@pytest.mark.parametrize("link", [0, 1, 101, 108, 113, 276])
def test_pcap_as_tshark_reads_it(tmp_path: Path, order: Order, nano: bool, link: int) -> None:
    path = tmp_path / "a.pcap"
    four = link_layer(link, ipv4(CLIENT, SERVER, tcp(51_000, 7_300, payload=b"hello")))
    six = link_layer(link, ipv6(CLIENT6, SERVER6, tcp(51_001, 7_301, payload=b"goodbye")))
    with path.open("wb") as stream:
        writer = PcapWriter(stream, link=link, order=order, nano=nano)
        writer.packet(T0, four)
        writer.packet(T0 + 1_000_000, six[:-3], len(six))
    times = [T0, T0 + 1_000_000] if nano else [T0 // 1000 * 1000, (T0 + 1_000_000) // 1000 * 1000]
    assert tshark.fields(path, *FIELDS) == [
        [_seconds(times[0]), str(len(four)), str(len(four)), "51000", "7300", "5"],
        [_seconds(times[1]), str(len(six)), str(len(six) - 3), "51001", "7301", "7"],
    ]
    read = packets(path.read_bytes())
    assert [(p.ts_ns, p.original, len(p.data)) for p in read] == [
        (times[0], len(four), len(four)),
        (times[1], len(six), len(six) - 3),
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_pcapng_as_tshark_reads_it(tmp_path: Path, order: Order) -> None:
    path = tmp_path / "a.pcapng"
    data = ipv4(CLIENT, SERVER, tcp(51_000, 7_300, payload=b"hello"))
    with path.open("wb") as stream:
        writer = PcapngWriter(stream, order=order)
        writer.interface(f.LINK_RAW)
        writer.interface(f.LINK_ETHERNET, resolution=6, shift_s=5, snap_length=80)
        writer.fact("started", T0)
        writer.secrets("a line\n")
        writer.packet(T0, data, options=writer.marks(7, "c2s"))
        writer.packet(T0, ethernet(data, vlans=[3, 4]), interface=1)
        writer.simple_packet(data)
        writer.section("big" if order == "little" else "little")
        writer.interface(f.LINK_RAW)
        writer.packet(T0 + 1, data)
    found = tshark.fields(path, *FIELDS, "frame.packet_flags_direction")
    assert [[row[0][:20], *row[1:]] for row in found if row[0]] == [
        [_seconds(T0), "45", "45", "51000", "7300", "5", "0x00000001"],
        [_seconds(T0 // 1000 * 1000), "67", "67", "51000", "7300", "5", ""],
        [_seconds(T0 + 1), "45", "45", "51000", "7300", "5", ""],
    ]
    read = packets(path.read_bytes())
    assert [p.ts_ns for p in read] == [T0, T0 // 1000 * 1000, 0, T0 + 1]
    assert [p.connection for p in read] == [7, None, None, None]


def test_synthetic_packets_leave_tshark_content(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    with path.open("wb") as stream:
        writer = PcapWriter(stream, link=f.LINK_ETHERNET)
        options = bytes([1, 1, 8, 10]) + bytes(8)
        inner = tcp(51_000, 7_300, seq=9, payload=b"hello", options=options)
        writer.packet(T0, ethernet(ipv4(CLIENT, SERVER, inner, options=b"\x94\4\0\0")))
        hop = (0, b"\0" + bytes([1, 4]) + bytes(4))
        writer.packet(T0, ethernet(ipv6(CLIENT6, SERVER6, inner, extensions=[hop])))
    assert tshark.complaints(path) == []
    names = ["ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.payload"]
    assert tshark.fields(path, *names) == [
        ["10.0.0.9", "10.0.0.1", "", "", "68656c6c6f"],
        ["", "", "2001:db8::9", "::1", "68656c6c6f"],
    ]


times = st.integers(0, (1 << 32) * 10**9 - 1)
payloads = st.binary(max_size=80)


@given(
    st.lists(st.tuples(times, payloads, st.integers(0, 2**16 - 1)), max_size=12),
    st.sampled_from(ORDERS),
    st.booleans(),
)
def test_dpkt_reads_the_same(made: list[tuple[int, bytes, int]], order: Order, nano: bool) -> None:
    out = io.BytesIO()
    writer = PcapWriter(out, link=f.LINK_ETHERNET, order=order, nano=nano)
    for ts_ns, payload, port in made:
        writer.packet(ts_ns, ethernet(ipv4(CLIENT, SERVER, tcp(port, 7_300, payload=payload))))
    ours = packets(out.getvalue())
    out.seek(0)
    theirs = list(dpkt.pcap.Reader(out))
    assert [p.data for p in ours] == [data for _, data in theirs]
    for packet, (when, data) in zip(ours, theirs, strict=True):
        assert abs(packet.ts_ns - int(when * 10**9)) <= 1_000
        found, expected = segment(packet), dpkt.ethernet.Ethernet(data).data.data
        assert isinstance(found, Segment)
        assert (found.src_port, found.payload) == (expected.sport, expected.data)
