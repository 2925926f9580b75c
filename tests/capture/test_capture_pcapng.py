"""Reading pcapng: sections, interfaces, every kind of block, and finding the thread again."""

from __future__ import annotations

import io
import struct
from typing import Literal

import pytest

from wirelake.capture.format import constants as f
from wirelake.capture.format.constants import Limits
from wirelake.capture.format.items import Fact, FileFault, Interface, Packet, Secrets, Section
from wirelake.capture.format.reader import read_bytes
from wirelake.capture.format.writer import Option, PcapngWriter, origin_option

from .small_captures import T0, faults, packets, small_pcapng


def _block(sign: str, kind: int, body: bytes) -> bytes:
    size = struct.pack(sign + "I", len(body) + 12)
    return struct.pack(sign + "I", kind) + size + body + size


def _section(sign: str) -> bytes:
    return _block(sign, 0x0A0D0D0A, struct.pack(sign + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def _interface(sign: str, link: int, snap: int, options: bytes = b"") -> bytes:
    return _block(sign, 1, struct.pack(sign + "HHI", link, 0, snap) + options)


def _option(sign: str, code: int, value: bytes) -> bytes:
    return struct.pack(sign + "HH", code, len(value)) + value.ljust(-(-len(value) // 4) * 4, b"\0")


def _enhanced(sign: str, number: int, ticks: int, data: bytes, original: int) -> bytes:
    head = struct.pack(sign + "5I", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original)
    return _block(sign, 6, head + data.ljust(-(-len(data) // 4) * 4, b"\0"))


@pytest.mark.parametrize("sign", ["<", ">"])
def test_sections_interfaces_and_packets(sign: str) -> None:
    head = _section(sign)
    first = _interface(sign, 1, 64)
    second = _interface(sign, 101, 0, _option(sign, 9, b"\x09") + bytes(4))
    one = _enhanced(sign, 1, T0, b"abcde", 5)
    two = _enhanced(sign, 0, T0 // 1000, b"x" * 70, 90)
    found = list(read_bytes(head + first + second + one + two))
    order: Literal["little", "big"] = "little" if sign == "<" else "big"
    at = [0, 28, 48, 80, 80 + len(one)]
    assert found == [
        Section(0, "pcapng", order),
        Interface(at[1], 0, 1, 64, 1_000_000),
        Interface(at[2], 1, 101, 0, 1_000_000_000),
        Packet(T0, at[3], at[3] + 28, b"abcde", 5, 1, 101),
        Packet(T0 // 1000 * 1000, at[4], at[4] + 28, b"x" * 70, 90, 0, 1),
    ]


@pytest.mark.parametrize(
    ("resolution", "ticks", "ts_ns"),
    [
        (0x00, 5, 5_000_000_000),
        (0x03, 5_001, 5_001_000_000),
        (0x06, 7, 7_000),
        (0x0C, 5_000_000_001_999, 5_000_000_001),
        (0x7F, 1 << 63, 0),
        (0x80, 3, 3_000_000_000),
        (0x8A, 512, 500_000_000),
        (0xFF, 1 << 63, 0),
        (0x00, 1 << 63, (1 << 63) - 1),
    ],
)
def test_time_resolutions(resolution: int, ticks: int, ts_ns: int) -> None:
    option = _option("<", 9, bytes([resolution])) + bytes(4)
    data = _section("<") + _interface("<", 101, 0, option) + _enhanced("<", 0, ticks, b"", 0)
    assert [p.ts_ns for p in packets(data)] == [ts_ns]


def test_time_offset() -> None:
    option = _option(">", 14, struct.pack(">q", -3)) + bytes(4)
    data = _section(">") + _interface(">", 101, 0, option) + _enhanced(">", 0, 5_000_000, b"", 0)
    assert [p.ts_ns for p in packets(data)] == [2_000_000_000]


def test_a_section_may_change_the_byte_order_and_resets_interfaces() -> None:
    data = (
        _section("<")
        + _interface("<", 101, 0)
        + _section(">")
        + _enhanced(">", 0, 1, b"lost", 4)
        + _interface(">", 1, 0)
        + _enhanced(">", 0, 1, b"good", 4)
    )
    (fault,) = faults(read_bytes(data))
    assert (fault.code, fault.offset, fault.present_bytes) == ("bad_block", 76, 36)
    assert [(p.data, p.link) for p in packets(data)] == [(b"good", 1)]


def test_simple_and_obsolete_packets() -> None:
    out = io.BytesIO()
    writer = PcapngWriter(out, order="big")
    writer.interface(f.LINK_RAW, snap_length=10, resolution=6)
    simple = writer.simple_packet(b"abcdef")
    cut = writer.simple_packet(b"0123456789", original=50)
    old = writer.obsolete_packet(T0, b"xyz", original=9)
    assert packets(out.getvalue()) == [
        Packet(0, simple, simple + 12, b"abcdef", 6, 0, 101),
        Packet(0, cut, cut + 12, b"0123456789", 50, 0, 101),
        Packet(T0 // 1000 * 1000, old, old + 28, b"xyz", 9, 0, 101),
    ]


def test_a_lying_snap_length_is_no_fault() -> None:
    data = _section("<") + _interface("<", 101, 4) + _enhanced("<", 0, 1, b"longer than four", 16)
    assert [p.data for p in packets(data)] == [b"longer than four"]


@pytest.mark.parametrize("order", ["little", "big"])
def test_recorder_marks(order: Literal["little", "big"]) -> None:
    out = io.BytesIO()
    writer = PcapngWriter(out, order=order, options=[origin_option("edge", 7, order)])
    writer.interface(f.LINK_RAW)
    writer.packet(1, b"a", options=writer.marks(77, "c2s"))
    writer.packet(2, b"b", options=writer.marks(78, "s2c", f.MARK_CONTINUES | f.MARK_UNFINISHED))
    writer.packet(3, b"c", options=[writer.marks(79, "s2c")[0]])
    section, _, one, two, three = read_bytes(out.getvalue())
    assert section == Section(0, "pcapng", order, "edge", 7)
    assert isinstance(one, Packet)
    assert isinstance(two, Packet)
    assert isinstance(three, Packet)
    assert (one.connection, one.direction, one.continues, one.unfinished) == (
        77,
        "c2s",
        False,
        False,
    )
    assert (two.connection, two.direction, two.continues, two.unfinished) == (78, "s2c", True, True)
    assert (three.connection, three.direction) == (None, None)


def _mark(pen: int = 32473, magic: bytes = b"WH", version: int = 1, number: int = 5) -> Option:
    return 2989, struct.pack("<I2sBBQ", pen, magic, version, 0, number)


@pytest.mark.parametrize(
    "option",
    [
        _mark(pen=32474),
        _mark(magic=b"WX"),
        _mark(version=2),
        _mark(number=0),
        _mark(number=1 << 63),
        (2989, b"short"),
        (2988, _mark()[1]),
    ],
)
def test_what_is_not_our_mark_is_ignored(option: Option) -> None:
    out = io.BytesIO()
    writer = PcapngWriter(out)
    writer.interface(f.LINK_RAW)
    writer.packet(1, b"a", options=[option])
    (packet,) = packets(out.getvalue())
    assert packet.connection is None


def test_facts_secrets_and_unknown_blocks() -> None:
    out = io.BytesIO()
    writer = PcapngWriter(out)
    writer.interface(f.LINK_RAW)
    fact = writer.fact("published", T0, 77, topic="news", sizes=[1, 2])
    bare = writer.fact("started", T0)
    keys = writer.secrets('{"protocol": "magline"}\nzwei ü\n')
    writer.secrets("CLIENT_RANDOM 00 00", kind=0x544C534B)
    writer.custom(b"WHF1{}", pen=1)
    writer.custom(b"WHAT")
    writer.block(5, bytes(12))
    writer.block(0x7FFF0001, b"whatever")
    assert list(read_bytes(out.getvalue()))[2:] == [
        Fact(T0, fact, "published", 77, {"topic": "news", "sizes": [1, 2]}),
        Fact(T0, bare, "started", None, {}),
        Secrets(keys, '{"protocol": "magline"}\nzwei ü\n'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"kind":"a"}',
        b'{"ts_ns":1}',
        b'{"kind":1,"ts_ns":1}',
        b'{"kind":"a","ts_ns":true}',
        b'{"kind":"a","ts_ns":9223372036854775808}',
        b'{"kind":"a","ts_ns":1,"connection":0}',
        b'{"kind":"a","ts_ns":1,"connection":"1"}',
        b'{"kind":"\xff","ts_ns":1}',
        b'{"kind":"a","ts_ns":1}}',
        b'{"a":' * 50_000,
        b"[" * 50_000,
    ],
)
def test_bad_facts(text: bytes) -> None:
    out = io.BytesIO()
    writer = PcapngWriter(out)
    at = writer.custom(b"WHF1" + text)
    (fault,) = faults(read_bytes(out.getvalue()))
    assert (fault.code, fault.offset, fault.present_bytes) == ("bad_fact", at, writer.offset - at)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (1, bytes(4)),
        (3, b""),
        (6, bytes(16)),
        (2, bytes(16)),
        (6, struct.pack("<5I", 0, 0, 0, 5, 5) + bytes(4)),
        (2, struct.pack("<HH4I", 0, 0, 0, 0, 5, 5) + bytes(4)),
        (3, struct.pack("<I", 5) + bytes(4)),
        (6, struct.pack("<5I", 1, 0, 0, 0, 0)),
        (10, bytes(4)),
        (10, struct.pack("<II", 0x57484B4C, 5) + bytes(4)),
        (0xBAD, b""),
    ],
)
def test_a_block_with_wrong_content_is_a_fault_by_itself(kind: int, body: bytes) -> None:
    bad = _block("<", kind, body)
    begin = _section("<") + _interface("<", 101, 0)
    data = begin + bad + _enhanced("<", 0, 1, b"good", 4)
    (fault,) = faults(read_bytes(data))
    assert (fault.code, fault.offset, fault.bytes) == ("bad_block", len(begin), bad)
    assert [p.data for p in packets(data)] == [b"good"]


@pytest.mark.parametrize("length", [0, 8, 11, 30, 61, (16 << 20) + 4])
def test_a_wrong_length_costs_what_it_covers(length: int) -> None:
    data, offsets = small_pcapng(5)
    broken = bytearray(data)
    struct.pack_into("<I", broken, offsets[1] + 4, length)
    found = list(read_bytes(bytes(broken)))
    fault = next(e for e in found if isinstance(e, FileFault))
    assert fault.code == "bad_block"
    assert (fault.offset, fault.present_bytes) == (offsets[1], offsets[2] - offsets[1])
    assert [e.offset for e in found if isinstance(e, Packet)] == [offsets[i] for i in (0, 2, 3, 4)]


def test_a_contradicting_copy_of_the_length() -> None:
    data, offsets = small_pcapng(5)
    broken = bytearray(data)
    struct.pack_into("<I", broken, offsets[3] - 4, 12)
    (fault,) = faults(read_bytes(bytes(broken)))
    assert (fault.code, fault.offset, fault.present_bytes) == (
        "bad_block",
        offsets[2],
        offsets[3] - offsets[2],
    )


def test_a_section_of_the_other_order_can_be_the_next_place() -> None:
    data, offsets = small_pcapng(3)
    broken = bytearray(data)
    struct.pack_into("<I", broken, offsets[1] + 4, 0)
    struct.pack_into("<I", broken, offsets[2] + 4, 0)
    more = _section(">") + _interface(">", 1, 0) + _enhanced(">", 0, 1, b"good", 4)
    (fault,) = faults(read_bytes(bytes(broken) + more))
    assert (fault.offset, fault.offset + fault.present_bytes) == (offsets[1], len(data))
    assert packets(bytes(broken) + more)[-1].data == b"good"


def test_a_section_without_a_byte_order_is_a_bad_block() -> None:
    data, offsets = small_pcapng(3)
    bad = bytearray(_section("<"))
    bad[8] = 0
    broken = data[: offsets[1]] + bytes(bad) + data[offsets[1] :]
    (fault,) = faults(read_bytes(broken))
    assert (fault.code, fault.offset, fault.present_bytes) == ("bad_block", offsets[1], 28)


def test_one_block_is_no_chain() -> None:
    data, offsets = small_pcapng(3)
    broken = bytearray(data)
    struct.pack_into("<I", broken, offsets[1] + 4, 0)
    (fault,) = faults(read_bytes(bytes(broken)))
    assert (fault.offset, fault.offset + fault.present_bytes) == (offsets[1], len(data))


def test_the_search_continues_over_many_windows() -> None:
    data, offsets = small_pcapng(4)
    rubbish = (b"\xff" * 36 + struct.pack("<I", 4096)) * 20_000
    broken = data[: offsets[2]] + rubbish + data[offsets[2] :]
    limits = Limits(block_bytes=1 << 16)
    (fault,) = faults(read_bytes(broken, limits=limits))
    assert (fault.offset, fault.present_bytes) == (offsets[2], len(rubbish))


def test_every_cut_is_at_most_one_fault() -> None:
    data, _ = small_pcapng(3)
    starts = [e.offset for e in read_bytes(data)] + [len(data)]
    for cut in range(4, len(data)):
        begun = max(at for at in starts if at <= cut)
        found = [(e.code, e.offset, e.present_bytes) for e in faults(read_bytes(data[:cut]))]
        assert found == ([("truncated_file", begun, cut - begun)] if begun < cut else []), cut


def test_interfaces_are_bounded() -> None:
    data = _section("<") + _interface("<", 1, 0) * 5
    found = faults(read_bytes(data, limits=Limits(interfaces=3)))
    assert [(e.code, e.offset) for e in found] == [("bad_block", 88), ("bad_block", 108)]
