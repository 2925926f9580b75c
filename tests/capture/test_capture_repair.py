"""Repairing what a crash or a bad disk left behind."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from wirelake.capture.format.items import Element, FileFault, Interface, Packet, Section
from wirelake.capture.format.reader import elements, read, read_bytes
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tools.repair import repair, repaired_name

from . import tshark
from .small_captures import T0, small_pcap, small_pcapng
from .test_capture_corruption import corrupted


def _placeless(found: list[Element]) -> list[Element]:
    """Without offsets, which change when something is left out."""
    return [
        msgspec.structs.replace(item, offset=0, data_offset=0)
        if isinstance(item, Packet)
        else msgspec.structs.replace(item, offset=0)
        for item in found
        if not isinstance(item, FileFault)
    ]


def test_an_open_recording_becomes_a_sealed_one(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    recorder.open(1, ("10.0.0.9", 51_000), ("10.0.0.1", 7_300), "comet", T0)
    recorder.record(1, "c2s", b"hello", T0)
    recorder.record(1, "s2c", b"answer", T0)
    recorder.flush()
    path = tmp_path / "edge-00000000.pcapng.open"
    crashed = tmp_path / "edge-00000007.pcapng.open"
    crashed.write_bytes(path.read_bytes()[:-10])
    recorder.stop()
    result = repair(crashed)
    sealed = tmp_path / "edge-00000007.pcapng"
    assert result.path == str(sealed)
    assert [type(item).__name__ for item in read(sealed)] == ["Fact", *["Packet"] * 3]
    assert result.packets == 3
    (lost,) = result.lost
    assert (lost.code, result.faults, result.lost_bytes) == (
        "truncated_file",
        1,
        lost.present_bytes,
    )
    assert result.kept_bytes == sealed.stat().st_size
    assert result.kept_bytes + result.lost_bytes == crashed.stat().st_size
    assert tshark.follow(sealed, 0) == (b"hello", b"")
    with pytest.raises(FileExistsError):
        repair(crashed)


def test_names() -> None:
    names = {
        "x/edge-1.pcapng.open": "x/edge-1.pcapng",
        "x/a.pcap": "x/a.repaired.pcap",
        "x/a.b.pcapng.gz": "x/a.b.repaired.pcapng",
        "x/a.pcap.zst": "x/a.repaired.pcap",
        "x/a": "x/a.repaired",
    }
    assert {name: str(repaired_name(Path(name))) for name in names} == names


def test_a_whole_file_stays_as_it_is(tmp_path: Path) -> None:
    data, _ = small_pcapng()
    path = tmp_path / "a.pcapng.gz"
    path.write_bytes(gzip.compress(data))
    result = repair(path)
    assert Path(result.path).read_bytes() == data
    assert (result.faults, result.lost_bytes, result.packets) == (0, 0, 5)


def test_faults_in_the_middle_are_left_out(tmp_path: Path) -> None:
    data, offsets = small_pcap(6)
    broken = bytearray(data)
    struct.pack_into("<I", broken, offsets[2] + 8, 0xFFFFFFFF)
    path = tmp_path / "a.pcap"
    path.write_bytes(bytes(broken))
    result = repair(path, tmp_path / "out.pcap")
    kept = (tmp_path / "out.pcap").read_bytes()
    assert kept == data[: offsets[2]] + data[offsets[3] :]
    assert (result.faults, result.lost_bytes) == (1, offsets[3] - offsets[2])


def test_a_broken_first_section_is_rewritten(tmp_path: Path) -> None:
    data, _ = small_pcapng(4)
    broken = bytearray(data)
    broken[4] = 0
    path = tmp_path / "a.pcapng"
    path.write_bytes(bytes(broken))
    result = repair(path)
    found = list(elements(result.path))
    assert [type(item) for item in found] == [Section, Interface, *[Packet] * 4]


@pytest.mark.parametrize("data", [b"", b"rubbish", b"\xa1\xb2\xc3\xd4", b"\x0a\x0d\x0d\x0a"])
def test_what_is_no_capture_cannot_be_repaired(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="nothing to repair"):
        repair(path)
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


def test_many_faults_are_counted_and_the_first_listed(tmp_path: Path) -> None:
    data, offsets = small_pcapng(3)
    bad = struct.pack("<III", 6, 12, 12)
    path = tmp_path / "a.pcapng"
    path.write_bytes(data[: offsets[1]] + bad * 500 + data[offsets[1] :])
    result = repair(path)
    assert (result.faults, len(result.lost), result.lost_bytes) == (500, 100, 6_000)
    assert Path(result.path).read_bytes() == data


@settings(max_examples=60)
@given(corrupted())
def test_a_repaired_file_has_no_faults_and_all_the_rest(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path, out = folder / "broken", folder / "whole"
    out.unlink(missing_ok=True)
    path.write_bytes(data)
    before = list(read_bytes(data))
    try:
        result = repair(path, out)
    except ValueError:
        assert isinstance(before[0], FileFault)
        return
    after = list(elements(out))
    assert [item for item in after if isinstance(item, FileFault)] == []
    expected = _placeless(before)
    if not any(isinstance(item, Section) for item in expected[:1]):
        after = after[1:]  # a new section takes the place of the broken one
    assert _placeless(after) == expected
    assert result.kept_bytes + result.lost_bytes == len(data)
