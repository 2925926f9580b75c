"""Blocks: the scan agrees with the reference on clocks, options, orders and lengths."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wirelake.capture.format import constants as f
from wirelake.capture.format.constants import Limits
from wirelake.capture.format.items import Packet
from wirelake.capture.format.reader import read
from wirelake.capture.format.writer import PcapngWriter
from wirelake.columnar.scan import blocks as b
from wirelake.columnar.scan.scanner import PacketRows, Scanner

_EXAMPLES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def scanned(path: Path, window_bytes: int) -> tuple[list[tuple[object, ...]], list[object]]:
    """What the scan says: a tuple for each packet, and everything else."""
    scanner = Scanner(str(path), window_bytes=window_bytes, limits=Limits())
    packets: list[tuple[object, ...]] = []
    others: list[object] = []
    for rows in scanner.windows():
        packets += [_packet(rows, i) for i in range(rows.count)]
        others += [item for _, item in rows.items]
    scanner.close()
    return packets, others


def _packet(rows: PacketRows, i: int) -> tuple[object, ...]:
    ts_ns, offset, at, size, original, connection = rows.packet_i64[:, i].tolist()
    marks = int(rows.marks[i])
    recorded = bool(marks & b.MARK_RECORDED)
    way = {b.MARK_C2S: "c2s", b.MARK_S2C: "s2c"}.get(marks & (b.MARK_C2S | b.MARK_S2C))
    data = rows.data[at : at + size].tobytes()
    return (
        ts_ns,
        offset,
        rows.base + at,
        data,
        original,
        int(rows.packet_i32[b.INTERFACE, i]),
        int(rows.packet_i32[b.LINK, i]),
        connection if recorded else None,
        way,
        bool(marks & b.MARK_CONTINUES),
        bool(marks & b.MARK_UNFINISHED),
    )


def check(path: Path, data: bytes) -> int:
    """Both read the same; gives how many packets there are."""
    path.write_bytes(data)
    items = list(read(path))
    expected = [tuple(_fields(item)) for item in items if isinstance(item, Packet)]
    others = [item for item in items if not isinstance(item, Packet)]
    for window_bytes in (1, 150, 1 << 20):
        assert scanned(path, window_bytes) == (expected, others)
    return len(expected)


def _fields(packet: Packet) -> list[object]:
    return [getattr(packet, name) for name in packet.__struct_fields__]


_TICKS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
    st.integers(0, 2**34),
)


@_EXAMPLES
@given(
    st.integers(0, 255),
    st.sampled_from([0, 1, -1, 1 << 33, -(1 << 33), 2**63 - 1, -(2**63)]),
    st.lists(_TICKS, min_size=1, max_size=8),
    st.sampled_from(["little", "big"]),
)
def test_every_clock(
    tmp_path: Path, resolution: int, shift_s: int, ticks: list[int], order
) -> None:  # type: ignore[no-untyped-def]
    stream = io.BytesIO()
    writer = PcapngWriter(stream, order=order)
    writer.interface(f.LINK_RAW, resolution=resolution, shift_s=shift_s)
    sign = "<" if order == "little" else ">"
    for count in ticks:
        high, low = count >> 32, count & 0xFFFFFFFF
        writer.block(f.BLOCK_EPB, struct.pack(sign + "5I", 0, high, low, 0, 0))
    assert check(tmp_path / "clocks", stream.getvalue()) == len(ticks)


_OPTION = st.tuples(
    st.sampled_from([0, 1, 2, 2988, 2989]),
    st.one_of(
        st.binary(max_size=20),
        st.integers(0, 7).map(lambda flags: struct.pack("<I", flags)),
        st.integers(0, 7).map(lambda flags: struct.pack(">I", flags)),
        st.tuples(
            st.sampled_from([f.PEN.to_bytes(4, "little"), f.PEN.to_bytes(4, "big"), bytes(4)]),
            st.sampled_from([b"WH\x01", b"WH\x02", b"WX\x01"]),
            st.integers(0, 255).map(lambda marks: bytes([marks])),
            st.sampled_from([0, 1, 77, 2**63 - 1, 2**63]).map(lambda i: i.to_bytes(8, "little")),
        ).map(b"".join),
    ),
)


@_EXAMPLES
@given(
    st.lists(_OPTION, max_size=5),
    st.binary(max_size=9),
    st.sampled_from(["little", "big"]),
    st.integers(0, 40),
    st.sampled_from([f.BLOCK_EPB, f.BLOCK_PACKET]),
)
def test_options_of_packets(  # type: ignore[no-untyped-def]
    tmp_path: Path, options, data: bytes, order, cut: int, kind: int
) -> None:
    sign = "<" if order == "little" else ">"
    stream = io.BytesIO()
    writer = PcapngWriter(stream, order=order)
    writer.interface(f.LINK_RAW)
    body = struct.pack(sign + "5I", 0, 0, 5, len(data), len(data))
    body += data.ljust(f.pad4(len(data)), b"\0")
    for code, value in options:
        body += struct.pack(sign + "HH", code, len(value)) + value.ljust(f.pad4(len(value)), b"\0")
    body = body[: max(20, len(body) - cut // 4 * 4)]
    writer.block(kind, body)
    writer.packet(7, b"after")
    check(tmp_path / "options", stream.getvalue())


@pytest.mark.parametrize("kind", [f.BLOCK_EPB, f.BLOCK_PACKET, f.BLOCK_SPB])
def test_blocks_that_are_too_short_or_claim_too_much(tmp_path: Path, kind: int) -> None:
    rng = random.Random(3)
    stream = io.BytesIO()
    writer = PcapngWriter(stream)
    writer.interface(f.LINK_RAW, snap_length=40)
    for _ in range(200):
        body = bytearray(rng.randbytes(4 * rng.randrange(14)))
        for at in rng.sample(range(0, len(body) or 1, 4), min(3, (len(body) + 3) // 4)):
            body[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 8, 40, 41, 2**31]))
        writer.block(kind, bytes(body[: len(body) // 4 * 4]))
        writer.packet(1, b"between")
    assert check(tmp_path / "short", stream.getvalue()) > 200


def test_sections_in_both_orders_with_many_interfaces(tmp_path: Path) -> None:
    stream = io.BytesIO()
    writer = PcapngWriter(stream, order="big")
    for section in range(4):
        for number in range(20):
            writer.interface(number, resolution=6 + number % 4, snap_length=number)
            writer.packet(section * 10**9, bytes(number), interface=number)
        writer.simple_packet(b"simple")
        writer.fact("open", section, 5)
        writer.section("little" if section % 2 else "big")
    writer.simple_packet(b"there is no interface")
    assert check(tmp_path / "sections", stream.getvalue()) == 4 * 21


def test_a_section_of_the_other_order_between_blocks_that_python_reads(tmp_path: Path) -> None:
    """Facts are read in the order of their own section, even when they lie in one window."""
    stream = io.BytesIO()
    writer = PcapngWriter(stream, order="little")
    writer.fact("one", 1)
    writer.section("big")
    writer.fact("two", 2)
    writer.section("little")
    writer.secrets("three")
    check(tmp_path / "facts", stream.getvalue())
