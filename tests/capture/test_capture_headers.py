"""From packets to segments: every link type, IP options and extensions, cuts and lies."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.capture.format import constants as f
from wirelake.capture.format.items import Packet, Segment
from wirelake.capture.tcp.headers import ethernet, ipv4, ipv6, segment, tcp

from .tcp_made import cooked, cooked2, link_layer, loopback

CLIENT, SERVER = bytes([10, 0, 0, 9]), bytes([10, 0, 0, 1])
CLIENT6, SERVER6 = bytes(range(16)), bytes(range(16, 32))
TCP = tcp(51_000, 7_300, seq=5, ack=6, flags=24, payload=b"hello")
IP4 = ipv4(CLIENT, SERVER, TCP)
IP6 = ipv6(CLIENT6, SERVER6, TCP)
LINKS = [0, 1, 12, 14, 101, 108, 113, 276]
NOTES = {"unknown_link", "short", "not_ip", "bad_header", "fragment", "not_tcp"}


def _packet(data: bytes, link: int = 101, original: int | None = None) -> Packet:
    return Packet(1, 100, 128, data, len(data) if original is None else original, 0, link)


def _segment(data: bytes, link: int = 101, original: int | None = None) -> Segment:
    found = segment(_packet(data, link, original))
    assert isinstance(found, Segment), found
    return found


def _check(found: Segment, data: bytes, src: bytes, dst: bytes) -> None:
    assert (found.src, found.dst, found.src_port, found.dst_port) == (src, dst, 51_000, 7_300)
    assert (found.seq, found.ack, found.flags) == (5, 6, 24)
    assert (found.payload, found.missing) == (b"hello", 0)
    at = found.payload_offset - 128
    assert data[at : at + 5] == b"hello"


@pytest.mark.parametrize("link", LINKS)
def test_links(link: int) -> None:
    for packet, src, dst in ((IP4, CLIENT, SERVER), (IP6, CLIENT6, SERVER6)):
        data = link_layer(link, packet)
        _check(_segment(data, link), data, src, dst)


def test_links_of_one_version() -> None:
    _check(_segment(IP4, 228), IP4, CLIENT, SERVER)
    _check(_segment(IP6, 229), IP6, CLIENT6, SERVER6)
    assert segment(_packet(IP6, 228)) == "bad_header"
    assert segment(_packet(IP4, 229)) == "bad_header"


@pytest.mark.parametrize("family", [10, 24, 28, 30])
@pytest.mark.parametrize("order", ["<", ">"])
def test_loopback_families(order: str, family: int) -> None:
    for link in (f.LINK_NULL, f.LINK_LOOP):
        data = loopback(IP6, order=order, family6=family)
        _check(_segment(data, link), data, CLIENT6, SERVER6)
    assert segment(_packet(struct.pack(order + "I", 7) + IP4, 0)) == "not_ip"


@pytest.mark.parametrize("count", [1, 2, 5])
def test_vlan_tags(count: int) -> None:
    data = ethernet(IP4, vlans=range(count))
    _check(_segment(data, 1), data, CLIENT, SERVER)


@pytest.mark.parametrize("tag", [0x8100, 0x88A8, 0x9100, 0x9200])
def test_kinds_of_vlan_tags(tag: int) -> None:
    data = bytes(12) + struct.pack(">HH", tag, 7) + ethernet(IP4)[12:]
    _check(_segment(data, 1), data, CLIENT, SERVER)


@pytest.mark.parametrize("kind", [0x0806, 0x88CC, 60])
def test_what_is_not_ip(kind: int) -> None:
    word = struct.pack(">H", kind)
    assert segment(_packet(bytes(12) + word + IP4, 1)) == "not_ip"
    assert segment(_packet(cooked(IP4)[:14] + word + IP4, 113)) == "not_ip"
    assert segment(_packet(word + cooked2(IP4)[2:], 276)) == "not_ip"


def test_raw_ip_of_no_version() -> None:
    assert segment(_packet(b"\x55" + IP4[1:])) == "not_ip"
    assert segment(_packet(b"")) == "short"


def test_unknown_links() -> None:
    assert segment(_packet(IP4, 105)) == "unknown_link"


def test_ethernet_padding_is_no_payload() -> None:
    data = ethernet(ipv4(CLIENT, SERVER, tcp(1, 2, payload=b"")), padded=True)
    assert len(data) == 60
    assert _segment(data, 1).payload == b""
    data = ethernet(IP4, padded=True) + b"FCS!"
    _check(_segment(data, 1), data, CLIENT, SERVER)


def test_options_of_ip_and_tcp() -> None:
    inner = tcp(51_000, 7_300, seq=5, ack=6, payload=b"hello", options=bytes(range(12)))
    data = ipv4(CLIENT, SERVER, inner, options=bytes(40))
    _check(_segment(data), data, CLIENT, SERVER)


def test_segmentation_offload() -> None:
    data = ethernet(ipv4(CLIENT, SERVER, TCP + b"x" * 100_000, total=0))
    found = _segment(data, 1)
    assert (len(found.payload), found.missing) == (100_005, 0)
    cut = _segment(data[:80], 1, len(data))
    assert (len(cut.payload), cut.missing) == (80 - 54, 100_005 - 26)


def test_extension_headers() -> None:
    eight, sixteen = b"\0" + bytes(6), b"\1" + bytes(14)
    authentication = b"\4" + bytes(22)
    chain = [(0, eight), (60, sixteen), (43, eight), (51, authentication), (135, sixteen)]
    data = ipv6(CLIENT6, SERVER6, TCP, extensions=chain)
    _check(_segment(data), data, CLIENT6, SERVER6)


@pytest.mark.parametrize("fragment", [0x2000, 0x0001, 0x3FFF, 0x6000])
def test_fragments(fragment: int) -> None:
    assert segment(_packet(ipv4(CLIENT, SERVER, TCP, fragment=fragment))) == "fragment"
    assert segment(_packet(ipv4(CLIENT, SERVER, TCP, fragment=fragment, protocol=17))) == "fragment"


@pytest.mark.parametrize("before", [[], [(0, b"\0" + bytes(6))]])
def test_fragments_of_ipv6(before: list[tuple[int, bytes]]) -> None:
    data = ipv6(CLIENT6, SERVER6, TCP, extensions=[*before, (44, b"\0" + bytes(6))])
    assert segment(_packet(data)) == "fragment"


def test_other_protocols() -> None:
    assert segment(_packet(ipv4(CLIENT, SERVER, TCP, protocol=17))) == "not_tcp"
    for protocol in (17, 58, 59, 50):
        assert segment(_packet(ipv6(CLIENT6, SERVER6, TCP, protocol=protocol))) == "not_tcp"


def test_lengths_that_contradict() -> None:
    for total in (1, 19, 20, 39, len(IP4) + 1, 65_535):
        assert segment(_packet(ipv4(CLIENT, SERVER, TCP, total=total))) == "bad_header", total
    for size in (0, 19, len(TCP) + 1):
        assert segment(_packet(ipv6(CLIENT6, SERVER6, TCP, size=size))) == "bad_header", size
    assert segment(_packet(b"\x44" + IP4[1:])) == "bad_header"
    assert segment(_packet(b"\x4f" + IP4[1:])) == "bad_header"
    for words in (0, 4, 15):
        broken = IP4[:32] + bytes([words << 4]) + IP4[33:]
        assert segment(_packet(broken)) == "bad_header", words
    assert segment(_packet(ethernet(IP4)[:12] + b"\x86\xdd" + IP4 + bytes(9), 1)) == "bad_header"
    long = ipv6(CLIENT6, SERVER6, TCP, extensions=[(0, b"\x10" + bytes(6))])
    assert segment(_packet(long)) == "bad_header"


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("packet", [IP4, IP6])
def test_every_cut_is_short_or_misses_payload(link: int, packet: bytes) -> None:
    data = link_layer(link, packet)
    headers = len(data) - 5
    for cut in range(len(data)):
        found = segment(_packet(data[:cut], link, len(data)))
        if cut < headers:
            assert found == "short", cut
        else:
            assert isinstance(found, Segment)
            assert found.payload == b"hello"[: cut - headers]
            assert found.missing == len(data) - cut


def test_a_packet_longer_than_its_original_length_counts_as_it_is() -> None:
    assert _segment(IP4, original=3).payload == b"hello"


@given(
    st.binary(max_size=120),
    st.sampled_from([*LINKS, 228, 229, 5]),
    st.integers(0, 2**32 - 1),
)
def test_any_bytes_are_a_segment_or_a_note(data: bytes, link: int, original: int) -> None:
    found = segment(_packet(data, link, original))
    assert isinstance(found, Segment) or found in NOTES


@given(st.data(), st.sampled_from(LINKS), st.sampled_from([IP4, IP6]))
def test_mutated_packets(data: st.DataObject, link: int, packet: bytes) -> None:
    mutated = bytearray(link_layer(link, packet))
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    found = segment(_packet(bytes(mutated), link))
    if isinstance(found, Segment):
        at = found.payload_offset - 128
        assert mutated[at : at + len(found.payload)] == found.payload
        assert found.missing == 0
    else:
        assert found in NOTES
