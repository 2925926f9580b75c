"""Whatever is done to a file, reading it ends, tells every byte, and finds the thread again."""

from __future__ import annotations

import io
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.capture.format import constants as f
from wirelake.capture.format.items import Element, FileFault, Interface, Packet, Section
from wirelake.capture.format.reader import read_bytes
from wirelake.capture.format.writer import PcapngWriter, PcapWriter
from wirelake.capture.tcp.headers import segment

from .small_captures import T0, raw_packet

FILE_CODES = {"bad_block", "truncated_file", "unknown_file", "bad_fact"}


def _pcap() -> bytes:
    out = io.BytesIO()
    writer = PcapWriter(out, link=f.LINK_RAW)
    for number in range(12):
        writer.packet(T0 + number * 1000, raw_packet(bytes([number]) * number * 5))
    return out.getvalue()


def _pcapng() -> bytes:
    out = io.BytesIO()
    writer = PcapngWriter(out)
    writer.interface(f.LINK_RAW)
    for number in range(5):
        packet = raw_packet(bytes([number]) * number * 5)
        writer.packet(T0 + number, packet, options=writer.marks(number + 1, "c2s"))
        writer.fact("opened", T0, number + 1)
    writer.section("big")
    writer.interface(f.LINK_RAW, resolution=6)
    for number in range(5):
        writer.packet(T0 + number, raw_packet(bytes([number]) * number * 5))
    return out.getvalue()


FILES = [_pcap(), _pcapng()]
whole = st.sampled_from(FILES)


@st.composite
def corrupted(draw: st.DrawFn) -> bytes:
    """A file with bytes changed, cut out, put in, or the end cut off."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["flip", "flip", "insert", "remove", "cut"]))
        if kind == "flip" and at < len(data):
            data[at] ^= draw(st.integers(1, 255))
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=64))
        elif kind == "remove":
            del data[at : at + draw(st.integers(1, 64))]
        elif kind == "cut":
            del data[at:]
    return bytes(data)


def _size(element: Element) -> int:
    """How many bytes of the file an element stands for; 0 when it does not say."""
    if isinstance(element, FileFault):
        return element.present_bytes
    if isinstance(element, Packet):
        return element.data_offset + len(element.data) - element.offset
    return 0


def _check(data: bytes) -> list[Element]:
    found = list(read_bytes(data))
    end = 0
    for element in found:
        if isinstance(element, Interface) and element.offset == 0:
            continue  # of pcap: it shares the header with the section
        assert element.offset >= end
        end = element.offset + _size(element)
        assert end <= len(data)
        if isinstance(element, Packet):
            assert (
                element.data == data[element.data_offset : element.data_offset + len(element.data)]
            )
            segment(element)
        if isinstance(element, FileFault):
            assert element.code in FILE_CODES
            covered = data[element.offset : element.offset + element.present_bytes]
            assert element.bytes == covered[:256]
    return found


@settings(max_examples=400)
@given(corrupted())
def test_reading_ends_and_offsets_increase(data: bytes) -> None:
    found = _check(data)
    last = [e.code for e in found if isinstance(e, FileFault)]
    assert last.count("truncated_file") <= 1
    assert last.count("unknown_file") <= 1


@given(st.binary(max_size=300), st.sampled_from([b"", FILES[0][:24], FILES[1][:60]]))
def test_random_bytes(data: bytes, head: bytes) -> None:
    _check(head + data)


@settings(max_examples=300)
@given(whole, st.data())
def test_one_wrong_byte_costs_one_block_at_most(whole_file: bytes, data: st.DataObject) -> None:
    """All that lies before the byte is as it was; behind it, everything from the second block or
    record on, unless the byte made the length reach beyond the end of the file."""
    starts = sorted({e.offset for e in read_bytes(whole_file)})
    blocks = [at for at in starts if at]
    number = data.draw(st.integers(0, len(blocks) - 4))
    begin, end = blocks[number], blocks[number + 1]
    at = data.draw(st.integers(begin, end - 1))
    changed = bytearray(whole_file)
    changed[at] ^= data.draw(st.integers(1, 255))
    good, found = list(read_bytes(whole_file)), _check(bytes(changed))
    assert [e for e in found if e.offset < begin] == [e for e in good if e.offset < begin]
    if any(isinstance(e, FileFault) and e.code == "truncated_file" for e in found):
        return
    if _is_structure(good, begin) or whole_file is FILES[0]:
        return  # a changed interface changes its packets; a changed pcap length is believed
    assert [e for e in found if e.offset >= end] == [e for e in good if e.offset >= end]


def _is_structure(elements: list[Element], offset: int) -> bool:
    return any(isinstance(e, Section | Interface) and e.offset == offset for e in elements)


@given(st.integers(0, 10), st.integers((16 << 20) + 1, 2**32 - 1))
def test_a_wrong_record_length_costs_that_record(number: int, length: int) -> None:
    data = bytearray(FILES[0])
    good = [e for e in read_bytes(FILES[0]) if isinstance(e, Packet)]
    struct.pack_into("<I", data, good[number].offset + 8, length)
    found = [e for e in _check(bytes(data)) if isinstance(e, Packet)]
    kept = good[:number] + (good[number + 1 :] if number < 10 else [])
    assert found == kept
