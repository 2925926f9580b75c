"""The recorder: what it writes, as our reader and tshark see it; rotation, sealing and crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.capture.format import constants as f
from wirelake.capture.format.items import (
    Direction,
    Fact,
    FileFault,
    Item,
    Packet,
    Secrets,
    Section,
    Segment,
)
from wirelake.capture.format.reader import elements, read
from wirelake.capture.format.writer import Output, next_sequence, sealed_files
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tcp.headers import segment

from . import tshark
from .small_captures import T0

pytestmark = pytest.mark.slow

CLIENT, SERVER = ("10.0.0.9", 51_000), ("10.0.0.1", 7_300)
MS = 1_000_000


def _segments(items: list[Item]) -> list[Segment]:
    found = [segment(item) for item in items if isinstance(item, Packet)]
    assert all(isinstance(item, Segment) for item in found)
    return [item for item in found if isinstance(item, Segment)]


def _stopped(recorder: Recorder) -> Path:
    path = recorder.stop()
    assert path is not None
    return path


def test_a_conversation(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge", sequence=5)
    recorder.open(77, CLIENT, SERVER, "comet", T0)
    recorder.record(77, "c2s", b"hello", T0 + 1)
    recorder.fact("published", T0 + 2, 77, topic="news")
    recorder.record(77, "s2c", b"welcome!", T0 + 3)
    recorder.record(77, "c2s", b"bye", T0 + 4)
    recorder.close(77, T0 + 5, "eof")
    path = _stopped(recorder)
    assert path == tmp_path / "edge-00000005.pcapng"
    assert next(iter(elements(path))) == Section(0, "pcapng", "little", "edge", 5)
    items = list(read(path))
    assert [(s.flags, s.seq, s.ack, s.payload) for s in _segments(items)] == [
        (2, 999, 0, b""),
        (18, 999, 1000, b""),
        (24, 1000, 1000, b"hello"),
        (24, 1000, 1005, b"welcome!"),
        (24, 1005, 1008, b"bye"),
        (17, 1008, 1008, b""),
        (17, 1008, 1009, b""),
    ]
    packets = [item for item in items if isinstance(item, Packet)]
    assert {packet.connection for packet in packets} == {77}
    directions = ["c2s", "s2c", "c2s", "s2c", "c2s", "c2s", "s2c"]
    assert [packet.direction for packet in packets] == directions
    times = [0, 0, 1, 3, 4, 5, 5]
    assert [packet.ts_ns - T0 for packet in packets] == times
    facts = [
        (fact.kind, fact.ts_ns - T0, fact.connection) for fact in items if isinstance(fact, Fact)
    ]
    assert facts == [("open", 0, 77), ("published", 2, 77), ("close", 5, 77)]
    assert items[0] == Fact(
        T0,
        items[0].offset,
        "open",
        77,
        {
            "client": "10.0.0.9",
            "client_port": 51_000,
            "server": "10.0.0.1",
            "server_port": 7_300,
            "protocol": "comet",
        },
    )


def test_blocks_have_everything_at_a_fixed_distance_from_their_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    recorder.open(77, CLIENT, SERVER, None, T0)
    for size in range(1, 9):
        recorder.record(77, "s2c", bytes(size), T0)
    path = _stopped(recorder)
    data = path.read_bytes()
    for packet in (item for item in read(path) if isinstance(item, Packet)):
        end = packet.offset + int.from_bytes(data[packet.offset + 4 : packet.offset + 8], "little")
        assert data[end - 16 : end - 8] == (77).to_bytes(8, "little")
        assert data[end - 17] == 0
        assert data[end - 32] == (1 if packet.direction == "c2s" else 2)
        assert end - 4 - f.OPTIONS_SIZE == packet.data_offset + f.pad4(len(packet.data))


@pytest.mark.parametrize(
    ("client", "server", "src", "dst"),
    [
        ("10.0.0.9", "10.0.0.1", "10.0.0.9", "10.0.0.1"),
        ("2001:db8::9", "2001:db8::1", "2001:db8::9", "2001:db8::1"),
        ("10.0.0.9", "::1", "::ffff:10.0.0.9", "::1"),
        ("fe80::9%eth0", "10.0.0.1", "fe80::9", "::ffff:10.0.0.1"),
    ],
)
def test_tshark_follows_a_recording(
    tmp_path: Path, client: str, server: str, src: str, dst: str
) -> None:
    recorder = Recorder(tmp_path, source="edge")
    recorder.open(1, (client, 51_000), (server, 7_300), "comet", T0)
    recorder.open(2, (client, 51_001), (server, 7_300), "comet", T0)
    sent: dict[int, list[bytes]] = {1: [b"", b""], 2: [b"", b""]}
    for number in range(30):
        which, way = 1 + number % 2, number % 3 % 2
        data = bytes([number]) * (number * 37 + 1)
        recorder.record(which, "s2c" if way else "c2s", data, T0 + number * MS)
        sent[which][way] += data
    long = bytes(range(256)) * 1_000
    recorder.record(1, "s2c", long, T0 + 31 * MS)
    sent[1][1] += long
    recorder.close(1, T0 + 32 * MS, "eof")
    recorder.close(2, T0 + 33 * MS, "eof")
    path = _stopped(recorder)
    assert tshark.complaints(path) == []
    assert tshark.follow(path, 0) == tuple(sent[1])
    assert tshark.follow(path, 1) == tuple(sent[2])
    names = ("ipv6.src", "ipv6.dst") if ":" in src else ("ip.src", "ip.dst")
    first, *_, last = tshark.fields(path, *names, "frame.time_epoch", "tcp.dstport")
    assert first == [src, dst, "1700000000.123456789", "7300"]
    assert last[:2] == [dst, src]


def test_a_long_frame_continues_in_marked_packets(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    recorder.open(1, CLIENT, SERVER, None, T0)
    frame = os.urandom(3 * f.PACKET_LIMIT)
    for size in (f.PACKET_LIMIT, f.PACKET_LIMIT + 1, 3 * f.PACKET_LIMIT):
        recorder.record(1, "c2s", frame[:size], T0)
    packets = [item for item in read(_stopped(recorder)) if isinstance(item, Packet)][2:]
    assert [(packet.continues, packet.unfinished) for packet in packets] == [
        (False, False),
        *[(False, True), (True, False)],
        *[(False, True), (True, True), (True, False)],
    ]
    payloads = [found.payload for found in _segments(list(packets))]
    assert payloads[0] == frame[: f.PACKET_LIMIT]
    assert payloads[1] + payloads[2] == frame[: f.PACKET_LIMIT + 1]
    assert b"".join(payloads[3:]) == frame


def test_nothing_is_recorded_of_nothing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    recorder.open(1, CLIENT, SERVER, None, T0)
    recorder.record(1, "c2s", b"", T0)
    assert len(_segments(list(read(_stopped(recorder))))) == 2


def test_an_empty_recording_leaves_no_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "new", source="edge")
    recorder.tick(T0)
    assert recorder.rotate() is None
    assert recorder.stop() is None
    assert list((tmp_path / "new").iterdir()) == []


def test_every_file_can_be_read_by_itself(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge", keys=True)
    recorder.open(1, CLIENT, SERVER, "magline", T0)
    recorder.open(2, CLIENT, SERVER, "comet", T0)
    recorder.secrets('{"protocol": "magline"}', 1)
    recorder.secrets("for all")
    first = recorder.rotate()
    recorder.record(1, "c2s", b"hello", T0 + 1)
    recorder.record(1, "c2s", b"hello", T0 + 2)
    second = recorder.rotate()
    recorder.fact("seen", T0 + 3, 1)
    recorder.close(2, T0 + 4, "eof")
    third = recorder.stop()
    assert first is not None
    assert second is not None
    assert third is not None
    assert sealed_files(tmp_path) == [first, second, third]
    kinds = [
        [
            (item.kind, item.connection, item.data.get("continued"))
            if isinstance(item, Fact)
            else type(item).__name__
            for item in read(path)
        ]
        for path in (first, second, third)
    ]
    opened = [("open", 1, None), "Packet", "Packet", ("open", 2, None), "Packet", "Packet"]
    assert kinds == [
        [*opened, "Secrets", "Secrets"],
        [("open", 1, True), "Secrets", "Packet", "Packet"],
        [
            *[("open", 1, True), "Secrets", ("seen", 1, None)],
            *[("open", 2, True), ("close", 2, None), "Packet", "Packet"],
        ],
    ]
    texts = [
        item.text for path in (first, second) for item in read(path) if isinstance(item, Secrets)
    ]
    assert texts == ['{"protocol": "magline"}\n', "for all\n", '{"protocol": "magline"}\n']
    sections = [next(iter(elements(path))) for path in (first, second, third)]
    assert [s.sequence for s in sections if isinstance(s, Section)] == [0, 1, 2]


def test_keys_are_written_only_when_asked(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    recorder.open(1, CLIENT, SERVER, "magline", T0)
    recorder.secrets("a secret", 1)
    assert b"a secret" not in _stopped(recorder).read_bytes()


def test_rotation_by_size(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge", rotate_bytes=10_000, flush_bytes=2_000)
    recorder.open(1, CLIENT, SERVER, None, T0)
    for number in range(500):
        recorder.record(1, "c2s", number.to_bytes(2, "big") * 50, T0 + number)
    recorder.stop()
    files = sealed_files(tmp_path)
    assert all(10_000 <= path.stat().st_size < 12_500 for path in files[:-1])
    segments = [found for path in files for found in _segments(list(read(path)))]
    data = b"".join(found.payload for found in segments)
    assert data == b"".join(number.to_bytes(2, "big") * 50 for number in range(500))
    seqs = [found.seq for found in segments if found.payload]
    assert seqs == list(range(1000, 51_000, 100))
    assert not [item for path in files for item in read(path) if isinstance(item, FileFault)]


def test_rotation_by_time(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge", rotate_s=1)
    recorder.open(1, CLIENT, SERVER, None, T0)
    recorder.tick(T0 + 999 * MS)
    assert recorder.sequence == 0
    recorder.tick(T0 + 1000 * MS)
    assert recorder.sequence == 1
    recorder.tick(T0 + 5000 * MS)
    assert recorder.sequence == 1
    recorder.record(1, "c2s", b"x", T0 + 6000 * MS)
    recorder.record(1, "c2s", b"x", T0 + 7000 * MS)
    assert recorder.sequence == 2
    recorder.stop()
    assert len(sealed_files(tmp_path)) == 2


def test_flushes_by_size_and_time(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge", flush_bytes=1_000, flush_s=0.5)
    path = tmp_path / "edge-00000000.pcapng.open"

    def payloads() -> list[bytes]:
        return [found.payload for found in _segments(list(read(path))) if found.payload]

    recorder.open(1, CLIENT, SERVER, None, T0)
    recorder.record(1, "c2s", b"a", T0 + 1)
    assert payloads() == []
    recorder.tick(T0 + 499 * MS)
    assert payloads() == []
    recorder.tick(T0 + 500 * MS)
    assert payloads() == [b"a"]
    recorder.record(1, "c2s", b"b" * 500, T0 + 501 * MS)
    assert payloads() == [b"a"]
    recorder.record(1, "c2s", b"c" * 500, T0 + 501 * MS)
    assert payloads() == [b"a", b"b" * 500, b"c" * 500]
    recorder.record(1, "c2s", b"d", T0 + 502 * MS)
    recorder.flush()
    assert payloads()[-1] == b"d"
    recorder.stop()


def test_the_numbers_of_a_folder_go_on(tmp_path: Path) -> None:
    (tmp_path / "edge-00000007.pcapng").touch()
    (tmp_path / "edge-00000009.pcapng.open").touch()
    (tmp_path / "edge-2-00000042.pcapng").touch()
    (tmp_path / "edge-x.pcapng").touch()
    assert next_sequence(tmp_path, "edge") == 10
    assert next_sequence(tmp_path, "edge-2") == 43
    assert next_sequence(tmp_path, "other") == 0
    recorder = Recorder(tmp_path, source="edge")
    assert recorder.sequence == 10
    recorder.stop()
    with pytest.raises(FileExistsError):
        Recorder(tmp_path, source="edge", sequence=7)
    with pytest.raises(FileExistsError):
        Recorder(tmp_path, source="edge", sequence=9)


@pytest.mark.parametrize("source", ["", "a/b", "a\0b"])
def test_a_source_is_part_of_a_name(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match="source"):
        Recorder(tmp_path, source=source)


def test_misuse(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    with pytest.raises(ValueError, match="invalid connection id"):
        recorder.open(0, CLIENT, SERVER, None, T0)
    with pytest.raises(ValueError, match="address"):
        recorder.open(1, ("somewhere", 1), SERVER, None, T0)
    recorder.open(1, CLIENT, SERVER, None, T0)
    with pytest.raises(ValueError, match="already open"):
        recorder.open(1, CLIENT, SERVER, None, T0)
    with pytest.raises(KeyError):
        recorder.record(2, "c2s", b"x", T0)
    recorder.close(1, T0, "eof")
    with pytest.raises(KeyError):
        recorder.close(1, T0, "eof")
    recorder.stop()


def test_a_full_disk_loses_nothing_that_can_be_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path, source="edge", flush_bytes=1)
    recorder.open(1, CLIENT, SERVER, None, T0)
    write = os.write

    def half(file: int, data: memoryview) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(file, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            recorder.record(1, "c2s", b"first", T0)
    recorder.record(1, "c2s", b"second", T0)
    path = _stopped(recorder)
    assert [s.payload for s in _segments(list(read(path)))][2:] == [b"first", b"second"]


def test_output_is_complete_or_removed(tmp_path: Path) -> None:
    output = Output(tmp_path, "edge", 3)
    output.write(b"abc")
    assert [path.name for path in tmp_path.iterdir()] == ["edge-00000003.pcapng.open"]
    assert output.seal().read_bytes() == b"abc"
    Output(tmp_path, "edge", 4).discard()
    assert [path.name for path in tmp_path.iterdir()] == ["edge-00000003.pcapng"]


KILLED = """
import sys
from wirelake.capture.record.recorder import Recorder

T0 = 1_700_000_000_000_000_000
limits = {"rotate_bytes": 100_000, "flush_bytes": 1 << 20, "flush_s": 0.5}
recorder = Recorder(sys.argv[1], source="edge", **limits)
recorder.open(1, ("10.0.0.9", 51000), ("10.0.0.1", 7300), "comet", T0)
number = 0
while True:
    recorder.record(1, "c2s", number.to_bytes(8, "big") * 10, T0 + number * 1_000_000)
    number += 1
    if number % 100 == 0:
        print(number, flush=True)
"""


def test_killed_it_loses_at_most_the_last_flush(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    result = 0
    while result < 20_000:
        result = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    child.wait()
    rest = child.stdout.read().splitlines()
    child.stdout.close()
    result = max([result, *(int(line) for line in rest if line.isdigit())])
    sealed = sealed_files(tmp_path)
    opened = sorted(tmp_path.glob("*.open"))
    assert len(sealed) > 3
    assert not [item for path in sealed for item in read(path) if isinstance(item, FileFault)]
    items = [item for path in [*sealed, *opened] for item in read(path)]
    # A kill may cut the write that it meets; what is behind the cut was never flushed.
    assert [item.code for item in items[:-1] if isinstance(item, FileFault)] == []
    numbers = [int.from_bytes(s.payload[:8], "big") for s in _segments(items) if s.payload]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= result - 500  # half a second of the recording's own time


@given(st.lists(st.tuples(st.sampled_from(["c2s", "s2c"]), st.binary(max_size=300)), max_size=30))
def test_written_packets_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[Direction, bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("recording")
    recorder = Recorder(folder, source="edge", rotate_bytes=2_000, flush_bytes=500)
    recorder.open(1, CLIENT, SERVER, None, T0)
    sent = {"c2s": b"", "s2c": b""}
    for direction, data in calls:
        recorder.record(1, direction, data, T0)
        sent[direction] += data
    recorder.stop()
    got = {"c2s": b"", "s2c": b""}
    for path in sealed_files(folder):
        for found in _segments(list(read(path))):
            assert found.packet.direction is not None
            got[found.packet.direction] += found.payload
    assert got == sent
