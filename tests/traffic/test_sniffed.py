"""Captures in the style of tcpdump, read by a program that others wrote."""

from __future__ import annotations

import subprocess
from pathlib import Path

import dpkt
import pytest
from tests.traffic.readers import captures

from wirelake.traffic import simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run."""
    found = tmp_path_factory.mktemp("sniffed")
    simulate(found, size="700KB", seed=2, style="tcpdump", jobs=1)
    return found


def test_headers_are_right(folder: Path) -> None:
    packets = 0
    first_numbers: set[int] = set()
    for path in sorted(folder.glob("*.pcap")):
        with path.open("rb") as file:
            last = 0.0
            for at, data in dpkt.pcap.Reader(file):
                assert at >= last
                last = at
                frame = dpkt.ethernet.Ethernet(data)
                packet = frame.data
                assert isinstance(packet, dpkt.ip.IP)
                assert isinstance(packet.data, dpkt.tcp.TCP)
                stated, packet.sum = packet.sum, 0
                assert dpkt.in_cksum(packet.pack_hdr()) == stated
                if packet.data.flags & 2:
                    first_numbers.add(packet.data.seq)
                packets += 1
    assert packets > 1_000
    assert len(first_numbers) > 50


def test_tcpdump_reads_it(folder: Path) -> None:
    for path in sorted(folder.glob("*.pcap")):
        found = subprocess.run(
            ["tcpdump", "-nn", "-r", str(path)], capture_output=True, check=True, text=True
        )
        assert "bad" not in found.stdout
        assert len(found.stdout.splitlines()) > 500


def test_some_packets_have_a_vlan_and_some_are_padded(folder: Path) -> None:
    data = b"".join(path.read_bytes() for path in folder.glob("*.pcap"))
    assert b"\x81\x00" in data
    with captures(folder)[0][0].open("rb") as file:
        sizes = [len(packet) for _, packet in dpkt.pcap.Reader(file)]
    assert sizes.count(60) > 10


def test_keys_are_logged(folder: Path) -> None:
    lines = [line for path in folder.glob("*.keys") for line in path.read_text().splitlines()]
    assert any('"magline"' in line for line in lines)
    assert any('"comet"' in line for line in lines)
