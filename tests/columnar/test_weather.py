"""A protocol that another package declares comes out as rows, faults included."""

from __future__ import annotations

import random
from pathlib import Path

from tests.columnar import folding
from tests.columnar.differential import _Talk, differences, spoilt
from weather_buoy import PROTOCOL, Hello, Order, Report

from wirelake.capture import Recorder
from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import PcapWriter
from wirelake.columnar.read.reader import ReadOptions, read_batches

NOW = 1_767_225_600_000_000_000


def said() -> list[tuple[int, bytes]]:
    return [
        (0, PROTOCOL.encode(Hello(name="Anna", key=b"k"))),
        (1, PROTOCOL.encode(Hello(name="Kiel", key=b"h"))),
        (0, PROTOCOL.encode(Report(sky=2, battery=9, air=-310, gusts=(812, 40), wave=1.5))),
        (0, PROTOCOL.encode(Report(sky=1, battery=9, air=12, gusts=()))),
        (1, PROTOCOL.encode(Order(lamp=True))),
    ]


def write(path: Path, messages: list[tuple[int, bytes]]) -> None:
    with path.open("wb") as out:
        writer = PcapWriter(out, link=f.LINK_RAW)
        talk = _Talk(1, 9630)
        for number, (way, data) in enumerate(messages):
            writer.packet(NOW + number * 1_000_000, talk.segment(way, data))


def test_its_messages_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "buoys.pcap"
    write(path, said())
    rows = [
        row
        for batch in read_batches([path], ReadOptions(protocol="weather"))
        for row in batch.to_pylist()
    ]
    rows.sort(key=lambda row: row["ts_ns"])  # the beginnings of both streams need evidence
    assert [row["name"] for row in rows] == ["hello", "hello", "report", "report", "order"]
    assert rows[0]["weather"]["hello"] == {"name": "Anna", "key": None}
    assert rows[2]["weather"]["report"] == {
        "sky": 2,
        "battery": 9,
        "air": -310,
        "gusts": [812, 40],
        "wave": 1.5,
    }
    assert rows[3]["weather"]["report"]["wave"] is None
    assert rows[4]["weather"]["order"] == {"lamp": True}
    assert [row["direction"] for row in rows] == ["c2s", "s2c", "c2s", "c2s", "s2c"]


def test_both_readers_agree_on_corrupted_messages(tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "storm.pcap"
    write(path, [(way, spoilt(rng, data)) for _ in range(300) for way, data in said()])
    assert differences([str(path)]) == []


def test_requests_and_answers_are_calls_in_both_implementations(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="harbour")
    recorder.open(1, ("10.0.0.9", 51_000), ("10.0.0.1", 9630), "weather", NOW)
    for number, (way, data) in enumerate(said()):
        recorder.record(1, ("c2s", "s2c")[way], data, NOW + number * 1_000_000)
    recorder.close(1, NOW + 9_000_000, "eof")
    recorder.stop()
    files = [str(path) for path in sorted(tmp_path.glob("*.pcapng"))]
    windows = folding.windows_of(files)
    engines, [folds] = folding.engine_rows(windows), folding.fold_rows(windows, [(len(windows), 1)])
    assert folding.differences(engines, folds) == []
    assert {name: rows.total() for name, rows in folds.items()} == {
        "calls": 2,
        "connections": 1,
        "deliveries": 0,
        "tunnels": 0,
    }
    calls = [
        (row["target"], row["outcome"], row["status"], row["latency_ns"])
        for batch in read_batches(files, ReadOptions(table="calls"))
        for row in batch.to_pylist()
    ]
    assert sorted(calls, key=str) == [
        ("report", "answered", "ok", 2_000_000),
        ("report", "lost", None, None),
    ]
    (connection,) = (
        row
        for batch in read_batches(files, ReadOptions(table="connections"))
        for row in batch.to_pylist()
    )
    assert (connection["protocol"], connection["requests"]) == ("weather", 2)
    assert connection["handshake_ns"] == 1_000_000
