"""Recordings say what their connections speak: both readers believe them, whatever the bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.capture.frames_made import PROTOCOLS, frames, talk
from tests.columnar.differential import _Talk, differences
from tests.columnar.steps import check_steps, split

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format import constants as f
from wirelake.capture.format.items import Direction
from wirelake.capture.format.writer import PcapngWriter
from wirelake.capture.record.recorder import Recorder
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.columnar.read.parallel import read_parallel
from wirelake.columnar.read.reader import ReadOptions
from wirelake.protocols import registry

pytestmark = pytest.mark.slow

ODD_PORT = 4_444
WITHOUT_TUNNELS = tuple(name for name in PROTOCOLS if name != "relay")
"""A tunnel of the same number on two links is one, and shares do not keep its messages in order."""
SECOND = 1_000_000_000
NOW = 1_767_225_600 * SECOND


def another(protocol: str) -> str:
    return PROTOCOLS[(PROTOCOLS.index(protocol) + 1) % len(PROTOCOLS)]


def ports_of(protocol: str) -> list[int]:
    """A port that nobody knows, and the usual one of another protocol."""
    usual = registry.find(another(protocol)).port
    assert usual is not None
    return [ODD_PORT, usual]


class Recorded:
    """A recording of connections that say what they speak, with numbers from 1 on."""

    def __init__(self, folder: Path, *, names: bool = True):
        self._folder = folder
        self._recorder = Recorder(folder, source="edge", sequence=0)
        self._names = names
        self._ts = NOW
        self._count = 0

    def open(self, protocol: str, port: int) -> int:
        self._count += 1
        said = protocol if self._names else None
        ends = ("10.0.0.9", 50_000 + self._count), ("10.0.0.1", port)
        self._recorder.open(self._count, *ends, said, self._next())
        return self._count

    def say(self, connection: int, way: Direction, said: bytes) -> None:
        self._recorder.record(connection, way, said, self._next())

    def close(self, connection: int) -> None:
        self._recorder.close(connection, self._next(), "eof")

    def rotate(self) -> None:
        self._recorder.rotate()

    def stop(self) -> list[str]:
        self._recorder.stop()
        return sorted(str(path) for path in self._folder.glob("*.pcapng"))

    def _next(self) -> int:
        self._ts += SECOND // 100
        return self._ts


def conversation(recorded: Recorded, protocol: str, port: int, *, first: bytes = b"") -> int:
    """All that is said in a talk; `first` is what the client says before."""
    number = recorded.open(protocol, port)
    if first:
        recorded.say(number, "c2s", first)
    for way, frame in talk(protocol):
        recorded.say(number, way, frame)
    recorded.close(number)
    return number


def scalar(paths: Sequence[str], table: str, **options: Any) -> list[dict[str, Any]]:
    return [row for _, row in read_tables(paths, tables=[table], **options)]


def columnar(paths: Sequence[str], table: str, **options: Any) -> list[dict[str, Any]]:
    batches = CapturePipeline(paths, tables=[table], **options).batches()
    return [row for _, batch in batches for row in batch.to_pylist()]  # type: ignore[union-attr]


def both(paths: Sequence[str], table: str, **options: Any) -> list[dict[str, Any]]:
    """The rows, after a look whether both readers have the same, in all tables."""
    assert differences(paths, **options) == []
    rows = scalar(paths, table, **options)
    assert len(columnar(paths, table, **options)) == len(rows)
    return rows


def protocols_of(rows: Sequence[dict[str, Any]]) -> set[tuple[int, str | None]]:
    """Who speaks what; messages in tunnels have connections of their own."""
    return {(row["connection"], row["protocol"]) for row in rows if row["connection"] < 1_000}


# -- all five, where the bytes say something else --------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_first_bytes_look_like_another_protocol(tmp_path: Path, protocol: str) -> None:
    """A frame of another protocol comes first: a fault. What the server says is read, all of it."""
    _, stranger = next(each for each in talk(another(protocol)) if each[0] == "c2s")
    recorded, silent = Recorded(tmp_path / "named"), Recorded(tmp_path / "silent", names=False)
    for each in (recorded, silent):
        numbers = [
            conversation(each, protocol, port, first=stranger) for port in ports_of(protocol)
        ]
    files = recorded.stop()
    rows = both(files, "messages")
    assert protocols_of(rows) == {(number, protocol) for number in numbers}
    answers = [row for row in rows if row["protocol"] == protocol and row["direction"] == "s2c"]
    assert len(answers) == len(numbers) * len(frames(protocol, "s2c"))
    faults = both(files, "faults")
    assert protocols_of(faults) == {(number, protocol) for number in numbers}
    wrong = {name for _, name in protocols_of(both(silent.stop(), "messages"))}
    assert wrong == {another(protocol)}  # so much for guessing


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_too_few_bytes_to_select_a_protocol(tmp_path: Path, protocol: str) -> None:
    """Half a frame, and one connection without any byte."""
    recorded = Recorded(tmp_path)
    for port in ports_of(protocol):
        for frame in (talk(protocol)[0][1], b""):
            number = recorded.open(protocol, port)
            if frame:
                recorded.say(number, "c2s", frame[: len(frame) // 2])
            recorded.close(number)
    files = recorded.stop()
    coverage = both(files, "coverage")
    assert {row["protocol"] for row in coverage} == {protocol}
    assert len(coverage) == 8
    assert sum(row["ignored_bytes"] for row in coverage) == 0
    faults = both(files, "faults")
    assert [(row["code"], row["protocol"]) for row in faults] == [
        ("truncated_stream", protocol)
    ] * 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_file_can_be_read_by_itself(tmp_path: Path, protocol: str) -> None:
    """A reader that begins with the second file, inside of a connection."""
    recorded = Recorded(tmp_path)
    number = recorded.open(protocol, ODD_PORT)
    _, stranger = talk(another(protocol))[0]
    recorded.say(number, "c2s", stranger)
    recorded.rotate()
    recorded.say(number, "c2s", b"?")
    for way, frame in talk(protocol):
        recorded.say(number, way, frame)
    files = recorded.stop()
    assert len(files) == 2
    assert protocols_of(both(files[1:], "messages")) == {(number, protocol)}
    assert protocols_of(both(files, "messages")) == {(number, protocol)}


# -- who is believed -------------------------------------------------------------------------


def test_options_of_a_reader_take_precedence(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    for port in (ODD_PORT, 9_620):
        conversation(recorded, "tny", port)
    files = recorded.stop()
    assert protocols_of(both(files, "messages")) == {(1, "tny"), (2, "tny")}
    result = both(files, "coverage", ports={ODD_PORT: "esnp", 9_620: "comet"})
    assert protocols_of(result) == {(1, "esnp"), (2, "tny")}
    assert protocols_of(both(files, "coverage", ports={9_620: "esnp"})) == {(1, "tny"), (2, "esnp")}
    assert protocols_of(both(files, "coverage", force_protocol="esnp")) == {
        (1, "esnp"),
        (2, "esnp"),
    }


def test_a_protocol_that_is_not_installed_is_ignored_and_not_guessed(tmp_path: Path) -> None:
    """Its bytes are counted, whichever window they come in; others are read as ever."""
    recorded = Recorded(tmp_path)
    stranger = recorded.open("klingon", ODD_PORT)
    usual = recorded.open("klingon", 9_620)
    size = 0
    for way, frame in talk("tny"):
        recorded.say(stranger, way, frame)
        recorded.say(usual, way, frame)
        size += 2 * len(frame)
    known = conversation(recorded, "tny", ODD_PORT)
    files = recorded.stop()
    assert protocols_of(both(files, "messages")) == {(known, "tny")}
    assert both(files, "faults") == []
    ignored = [row for row in both(files, "coverage") if row["connection"] != known]
    assert {row["protocol"] for row in ignored} == {None}
    assert sum(row["ignored_bytes"] for row in ignored) == size
    by_window = columnar(files, "coverage", window_bytes=300)
    assert sum(row["ignored_bytes"] for row in by_window) == size
    check_steps([(files, 2)], window_bytes=300)


def test_a_recording_without_protocols_is_read_by_its_bytes(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, names=False)
    conversation(recorded, "tny", ODD_PORT)
    conversation(recorded, "comet", 9_620)
    assert protocols_of(both(recorded.stop(), "messages")) == {(1, "tny"), (2, "comet")}


# -- in steps and in shares ------------------------------------------------------------------


def mixed(folder: Path, *, rotate: bool) -> list[str]:
    """Every protocol on odd ports, beside each other, some of it in a second file."""
    recorded = Recorded(folder)
    talks: list[tuple[int, list[tuple[Direction, bytes]]]] = []
    for protocol in PROTOCOLS:
        for port in ports_of(protocol):
            _, stranger = talk(another(protocol))[0]
            talks.append((recorded.open(protocol, port), [("c2s", stranger), *talk(protocol)]))
    half = True
    while any(left for _, left in talks):
        for number, left in talks:
            if left:
                recorded.say(number, *left.pop(0))
        if rotate and half:
            recorded.rotate()
            half = False
    for number, _ in talks[::2]:
        recorded.close(number)
    return recorded.stop()


@pytest.mark.parametrize("window_bytes", [1, 3_000, 1 << 20])
def test_a_pipeline_is_saved_and_restored(tmp_path: Path, window_bytes: int) -> None:
    """What was said in the first file holds for what goes on in the second."""
    files = mixed(tmp_path, rotate=True)
    assert len(files) == 2
    wanted = {(1 + 2 * at + each, name) for at, name in enumerate(PROTOCOLS) for each in (0, 1)}
    assert protocols_of(both(files, "messages")) == wanted
    check_steps([(files[:1], 2), (files[1:], 3)], window_bytes=window_bytes)


@pytest.mark.parametrize("seed", range(3))
def test_cut_anywhere(tmp_path: Path, seed: int) -> None:
    """Also between an introduction and the first packet, which then knows nothing of it."""
    rng = random.Random(seed)
    parts = split(Path(mixed(tmp_path, rotate=False)[0]), 5, rng)
    assert differences(parts) == []
    check_steps([(parts[:2], 1), (parts[2:], 3)], window_bytes=2_000)


@pytest.mark.parametrize("window_bytes", [1, 2_000, 1 << 20])
def test_messages_alone_and_in_shares(tmp_path: Path, window_bytes: int) -> None:
    """Without facts and faults most blocks are passed over; every share is told what it needs."""
    files = mixed(tmp_path, rotate=True)
    wanted = sorted(map(repr, columnar(files, "messages")))
    shares = [
        repr(row)
        for share in range(3)
        for row in columnar(files, "messages", share=share, shares=3, window_bytes=window_bytes)
    ]
    assert sorted(shares) == wanted
    reference = {
        (row["connection"], row["protocol"], row["ts_ns"]) for row in scalar(files, "messages")
    }
    assert {
        (row["connection"], row["protocol"], row["ts_ns"]) for row in columnar(files, "messages")
    } == reference


def test_several_processes(tmp_path: Path) -> None:
    files = mixed(tmp_path, rotate=True)
    options = ReadOptions(table="connections")
    rows = [
        row
        for batch in read_parallel(files, options, jobs=3, small_bytes=0)
        for row in batch.to_pylist()
    ]
    wanted = {(1 + 2 * at + each, name) for at, name in enumerate(PROTOCOLS) for each in (0, 1)}
    assert protocols_of(rows) == wanted


# -- introductions in strange places ---------------------------------------------------------


def strange_recording(path: Path, rng: random.Random, talks: list[_Talk], now: int) -> None:
    """Introductions before, between and behind packets, repeated, contradicted, and odd ones."""
    names: list[Any] = [*PROTOCOLS, "klingon", "", None, 5, ["tny"]]
    with path.open("wb") as out:
        writer = PcapngWriter(out, order=rng.choice(["little", "big"]))
        writer.interface(f.LINK_RAW)
        for _ in range(400):
            number = rng.randrange(1, len(talks))
            now += rng.choice([1, 1, SECOND, 20 * SECOND])
            match rng.randrange(8):
                case 0:
                    writer.fact("open", now, number, protocol=rng.choice(names))
                case 1:
                    text = (
                        b'{"kind": "\\u006fpen", "ts_ns": 1, "connection": %d, "protocol": "tny"}'
                    )
                    writer.custom(f.FACT_MAGIC + text % number)
                case 2:
                    writer.fact(rng.choice(["close", "opened"]), now, number, protocol="tny")
                case 3:
                    writer.custom(rng.choice([b"", b"WHF1", b"WHF1{open}", b"else open"]))
                case _:
                    way, frame = rng.choice(talk(rng.choice(WITHOUT_TUNNELS)))
                    part = frame[: rng.choice([3, 9_999])]
                    packet = talks[number].segment(int(way == "s2c"), part)
                    marks = writer.marks(number, way) if rng.random() < 0.8 else ()
                    writer.packet(now, packet, options=marks)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 8))]
)
def test_unusual_recordings(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    paths = [tmp_path / f"{number}.pcapng" for number in range(2)]
    talks = [_Talk(number, rng.choice([ODD_PORT, 9_620])) for number in range(30)]
    for at, path in enumerate(paths):
        strange_recording(path, rng, talks, NOW + at * 3_600 * SECOND)
    files = [str(path) for path in paths]
    assert differences(files) == []
    steps: list[tuple[list[str], int]] = [([file], 1 + at) for at, file in enumerate(files)]
    check_steps(steps, window_bytes=rng.choice([1, 700, 5_000]))


def test_the_id_of_an_unrecorded_connection_is_ignored(tmp_path: Path) -> None:
    """A capture of others, with a fact about a number that happens to be the hash of its ends."""
    path = tmp_path / "other.pcapng"
    each = _Talk(1, ODD_PORT)
    packets = [each.segment(int(way == "s2c"), frame) for way, frame in talk("tny")]

    def write(*facts: int) -> None:
        with path.open("wb") as out:
            writer = PcapngWriter(out)
            writer.interface(f.LINK_RAW)
            for number in facts:
                writer.fact("open", NOW, number, protocol="esnp")
            for packet in packets:
                writer.packet(NOW, packet)

    write()
    number = both([str(path)], "coverage")[0]["connection"]
    write(number)
    assert {row["protocol"] for row in both([str(path)], "coverage")} == {"tny"}
