"""The table of captures reads only the start of each file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.tcp.headers import ethernet, ipv4, tcp
from wirelake.lake.datasource.paths import FILE_SCHEMA, file_rows, first_ns, listings
from wirelake.tables.inputs import Capture, discover

HUGE = 1 << 42


def write(path: Path, *times: int) -> Path:
    with path.open("wb") as out:
        writer = PcapWriter(out)
        for each in times:
            writer.packet(each, ethernet(ipv4(bytes(4), bytes(4), tcp(1, 2))))
    return path


def test_first_packet_gives_the_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", 7_000, 5_000)
    assert first_ns(path) == 7_000
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert first_ns(packed) == 7_000


def test_a_huge_file_costs_no_more_than_a_small_one(tmp_path: Path) -> None:
    capture = write(tmp_path / "a.pcap", 7_000)
    for path in (capture, tmp_path / "zeros.pcap"):
        with path.open("ab") as out:
            out.truncate(HUGE)
    assert [(each.source, each.bytes) for each in discover(tmp_path)] == [
        ("a", HUGE),
        ("zeros.pcap", HUGE),
    ]
    assert first_ns(capture) == 7_000
    assert first_ns(tmp_path / "zeros.pcap") is None


@pytest.mark.parametrize("data", [b"", b"\n\r\r\n", b"nothing", bytes.fromhex("d4c3b2a1")])
def test_what_has_no_packet_has_no_time(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pcap").write_bytes(data)
    assert first_ns(tmp_path / "a.pcap") is None
    assert first_ns(tmp_path / "gone.pcap") is None


def test_many_files_are_several_tasks() -> None:
    files = [
        Capture(source="tap", sequence=number, path=f"/{number}", bytes=1, mtime_ns=2)
        for number in range(600)
    ]
    tasks = listings(files)
    assert [len(task.files) for task in tasks] == [256, 256, 88]
    [batch] = file_rows(tasks[-1].files)
    assert batch.schema.equals(FILE_SCHEMA)
    assert batch.column("sequence").to_pylist() == list(range(512, 600))
