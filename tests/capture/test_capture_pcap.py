"""Reading pcap: byte orders, resolutions, cut packets, and finding the thread again."""

from __future__ import annotations

import struct

import pytest

from wirelake.capture.format.constants import Limits
from wirelake.capture.format.items import FileFault, Interface, Packet, Section
from wirelake.capture.format.reader import read_bytes

from .small_captures import faults, packets, small_pcap


def _file(
    sign: str, magic: int, records: list[tuple[int, int, bytes, int]], link: int = 1
) -> bytes:
    parts = [struct.pack(sign + "IHHiIII", magic, 2, 4, 0, 0, 96, link)]
    for seconds, fraction, data, original in records:
        parts.append(struct.pack(sign + "IIII", seconds, fraction, len(data), original) + data)
    return b"".join(parts)


@pytest.mark.parametrize("sign", ["<", ">"])
@pytest.mark.parametrize(("magic", "tick_ns"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_orders_and_resolutions(sign: str, magic: int, tick_ns: int) -> None:
    data = _file(sign, magic, [(5, 7, b"abc", 3), (6, 8, b"defgh", 900)], link=0x9400_0071)
    section, interface, first, second = read_bytes(data)
    assert section == Section(0, "pcap", "little" if sign == "<" else "big")
    assert interface == Interface(0, 0, 113, 96, 1_000_000_000 // tick_ns)
    assert first == Packet(5_000_000_000 + 7 * tick_ns, 24, 40, b"abc", 3, 0, 113)
    assert second == Packet(6_000_000_000 + 8 * tick_ns, 43, 59, b"defgh", 900, 0, 113)


def test_a_header_alone_is_an_empty_capture() -> None:
    assert [type(e) for e in read_bytes(_file("<", 0xA1B2C3D4, []))] == [Section, Interface]


@pytest.mark.parametrize("cut", range(4, 24))
def test_a_cut_header_is_a_truncated_file(cut: int) -> None:
    data = _file("<", 0xA1B2C3D4, [])[:cut]
    assert [(e.code, e.offset, e.present_bytes, e.bytes) for e in faults(read_bytes(data))] == [
        ("truncated_file", 0, cut, data)
    ]


def test_every_cut_inside_a_record_is_one_fault() -> None:
    data, offsets = small_pcap(3)
    for cut in range(25, len(data)):
        begun = [at for at in offsets if at < cut]
        whole = [
            at for at, stop in zip(offsets, [*offsets[1:], len(data)], strict=True) if stop <= cut
        ]
        found = [(e.code, e.offset, e.present_bytes) for e in faults(read_bytes(data[:cut]))]
        expected = [("truncated_file", begun[-1], cut - begun[-1])] if begun != whole else []
        assert found == expected, cut
        assert [p.offset for p in packets(data[:cut])] == whole


def test_a_wrong_length_costs_what_it_covers() -> None:
    data, offsets = small_pcap(5)
    broken = bytearray(data)
    struct.pack_into("<I", broken, offsets[1] + 8, (16 << 20) + 1)
    found = list(read_bytes(bytes(broken)))
    fault = next(e for e in found if isinstance(e, FileFault))
    assert fault.code == "bad_block"
    assert (fault.offset, fault.present_bytes) == (offsets[1], offsets[2] - offsets[1])
    assert fault.bytes == broken[offsets[1] : offsets[2]]
    assert [e.offset for e in found if isinstance(e, Packet)] == [offsets[i] for i in (0, 2, 3, 4)]


def test_garbage_between_records_is_one_fault() -> None:
    data, offsets = small_pcap(4)
    rubbish = b"\xff" * 1001
    broken = data[: offsets[2]] + rubbish + data[offsets[2] :]
    (fault,) = faults(read_bytes(broken))
    assert (fault.code, fault.offset, fault.present_bytes) == ("bad_block", offsets[2], 1001)
    assert fault.bytes == rubbish[:256]
    assert len(packets(broken)) == 4


def test_one_record_is_no_chain() -> None:
    data, offsets = small_pcap(3)
    broken = data[: offsets[2]] + b"\xff" * 40 + data[offsets[2] :]
    (fault,) = faults(read_bytes(broken))
    assert (fault.offset, fault.offset + fault.present_bytes) == (offsets[2], len(broken))


def test_the_search_continues_over_many_windows() -> None:
    data, offsets = small_pcap(4)
    rubbish = (b"\xff" * 37 + bytes(3)) * 50_000
    broken = data[: offsets[2]] + rubbish + data[offsets[2] :]
    limits = Limits(block_bytes=1 << 16, chunk_bytes=1 << 12)
    (fault,) = faults(read_bytes(broken, limits=limits))
    assert (fault.offset, fault.present_bytes) == (offsets[2], len(rubbish))


def test_a_record_of_just_16_mib_is_read() -> None:
    size = 16 << 20
    data = _file("<", 0xA1B2C3D4, [(1, 0, bytes(size), size), (2, 0, b"x", 1)])
    assert [len(p.data) for p in packets(data)] == [size, 1]
