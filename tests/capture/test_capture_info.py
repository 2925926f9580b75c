"""What `info` tells about a file."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import PcapngWriter, PcapWriter
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tcp.headers import ACK, SYN, ethernet, ipv4, tcp
from wirelake.capture.tools.info import info
from wirelake.protocols import registry

from .small_captures import CLIENT, SERVER, T0, raw_packet, small_pcapng


def test_a_plain_pcap(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    with path.open("wb") as stream:
        writer = PcapWriter(stream, link=f.LINK_ETHERNET, snap_length=100)
        for port in (51_000, 51_001):
            syn = ipv4(CLIENT, SERVER, tcp(port, 60_000, flags=SYN))
            writer.packet(T0 + port, ethernet(syn))
            answer = ipv4(SERVER, CLIENT, tcp(60_000, port, flags=SYN | ACK))
            writer.packet(T0, ethernet(answer))
            data = ethernet(ipv4(CLIENT, SERVER, tcp(port, 60_000, payload=b"hello")))
            writer.packet(T0 + 1_000_000, data[:-2], len(data))
        writer.packet(T0 + 2_000_000, bytes(60))
    result = info(path)
    assert (result.format, result.sections, result.packets, result.segments) == ("pcap", 1, 7, 6)
    assert result.size_bytes == path.stat().st_size
    assert result.original_bytes - result.captured_bytes == 4
    assert result.first_ns == T0 // 1000 * 1000
    assert result.last_ns == (T0 + 2_000_000) // 1000 * 1000
    assert result.notes == {"not_ip": 1}
    assert result.faults == {}
    (interface,) = result.interfaces
    assert (interface.link_name, interface.snap_length, interface.packets) == ("ethernet", 100, 7)
    (server,) = result.servers
    assert (server.port, server.protocol, server.connections) == (60_000, None, 2)
    assert (server.packets, server.payload_bytes) == (6, 6)


def test_a_recording(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge", sequence=3, keys=True)
    recorder.open(1, ("10.0.0.9", 51_000), ("10.0.0.1", 9), "comet", T0)
    recorder.open(2, ("10.0.0.9", 51_000), ("10.0.0.1", 9), "comet", T0)
    recorder.record(1, "c2s", b"hello", T0 + 5)
    recorder.secrets("one")
    recorder.secrets("two")
    recorder.fact("published", T0 + 9)
    path = recorder.stop()
    assert path is not None
    result = info(path)
    assert result.sources == [("edge", 3)]
    assert result.facts == {"open": 2, "published": 1}
    assert result.key_lines == 2
    (server,) = result.servers
    assert (server.port, server.protocol, server.connections) == (9, "comet", 2)
    assert (result.first_ns, result.last_ns) == (T0, T0 + 5)


def test_usual_ports_have_a_name(tmp_path: Path) -> None:
    port = registry.find("comet").port
    assert port is not None
    path = tmp_path / "a.pcap"
    with path.open("wb") as stream:
        writer = PcapWriter(stream, link=f.LINK_RAW)
        writer.packet(T0, ipv4(SERVER, CLIENT, tcp(port, 5, payload=b"x")))
    (server,) = info(path).servers
    assert (server.port, server.protocol) == (port, "comet")


def test_several_sections_and_packets_without_time(tmp_path: Path) -> None:
    out = io.BytesIO()
    writer = PcapngWriter(out)
    writer.interface(f.LINK_RAW)
    writer.simple_packet(raw_packet(b"a"))
    writer.section("big")
    writer.interface(f.LINK_ETHERNET)
    writer.interface(199, resolution=6)
    writer.packet(T0, b"?", interface=1)
    path = tmp_path / "a.pcapng"
    path.write_bytes(out.getvalue())
    result = info(path)
    assert (result.sections, result.first_ns, result.last_ns) == (
        2,
        T0 // 1000 * 1000,
        T0 // 1000 * 1000,
    )
    assert [(i.section, i.number, i.link_name, i.packets) for i in result.interfaces] == [
        (0, 0, "raw", 1),
        (1, 0, "ethernet", 0),
        (1, 1, None, 1),
    ]
    assert result.notes == {"unknown_link": 1}


def test_faults_and_json(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"rubbish")
    result = info(path)
    assert (result.format, result.faults, result.faulty_bytes) == (None, {"unknown_file": 1}, 7)
    assert json.loads(result.to_json())["faults"] == {"unknown_file": 1}
    with pytest.raises(FileNotFoundError):
        info(tmp_path / "no")


@given(st.data())
def test_nothing_raises(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = bytearray(small_pcapng(4)[0])
    for _ in range(3):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(bytes(whole))
    assert info(path).size_bytes == len(whole)
