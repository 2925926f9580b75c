"""The benchmarks of captures make what they say, compare it, and judge what they find.

No assertion here is about time.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.captures import main
from benchmarks.captures_answers import QUESTIONS, answers
from benchmarks.captures_cores import written, written_here
from benchmarks.captures_dpkt import read_with_dpkt
from benchmarks.captures_live import live_runs
from benchmarks.captures_made import PACKETS, many_connections, one_connection, prefix, simulated
from benchmarks.captures_parquet import finished_tables, through, write_finished
from benchmarks.captures_parts import PARTS, compare
from benchmarks.captures_reader import anonymous_mb, measured, reading
from benchmarks.captures_recorder import FRAME_BYTES, recorded
from benchmarks.captures_report import Findings, at_least, at_most, record, table

from wirelake.columnar.read.reader import ReadOptions, read_batches

pytestmark = pytest.mark.soak
"""A benchmark that breaks is seen when it is run; no user depends on it."""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small simulated capture."""
    return simulated(tmp_path_factory.mktemp("captures") / "small", 400_000)


def rows(path: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    found = read_batches([path], ReadOptions(table=name))
    return [row for batch in found for row in batch.to_pylist()]


def test_dpkt_reads_the_same_messages(capture: Path) -> None:
    compare(capture)
    protocols = Counter(row["protocol"] for row in rows(capture, "messages"))
    assert set(protocols) == {"comet", "esnp", "magline", "relay", "tny"}
    assert sum(batch.num_rows for batch in read_with_dpkt(capture)) == protocols.total()


def test_a_difference_is_noticed(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_less(path: Path) -> Iterator[Any]:
        first, *others = read_with_dpkt(path)
        yield first.slice(1)
        yield from others

    monkeypatch.setattr("benchmarks.captures_parts.read_with_dpkt", one_less)
    with pytest.raises(RuntimeError, match="one of them alone"):
        compare(capture)


def test_answers_are_compared_before_they_are_timed(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(answers(capture, 1)) == set(QUESTIONS)
    monkeypatch.setitem(QUESTIONS, "report", (("calls",), lambda _: object()))
    with pytest.raises(RuntimeError, match="report: the capture and the finished tables differ"):
        answers(capture, 1)


def test_a_prefix_ends_with_a_packet(capture: Path, tmp_path: Path) -> None:
    part = prefix(capture, 100_000, tmp_path / "part.pcap")
    assert 98_000 < part.stat().st_size <= 100_000
    assert rows(part, "faults") == []
    assert rows(part, "packets")[-1]["offset"] < part.stat().st_size


def test_many_connections_have_ten_packets_each(tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    assert many_connections(path, 1_200) == 12_000
    packets = rows(path, "packets")
    assert set(Counter(row["connection"] for row in packets).values()) == {PACKETS}
    assert [row["ts_ns"] for row in packets] == sorted(row["ts_ns"] for row in packets)
    assert rows(path, "faults") == []
    coverage = rows(path, "coverage")
    assert len(coverage) == 2_400
    assert all(row["decoded_bytes"] == row["span_bytes"] for row in coverage)
    assert len(rows(path, "messages")) == 1_200 * 6


def test_one_connection_is_one(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    packets = one_connection(path, 2_000_000)
    assert packets == len(rows(path, "messages"))
    (stream,) = rows(path, "coverage")
    assert stream["packets"] == packets
    assert stream["decoded_bytes"] == stream["span_bytes"] == stream["payload_bytes"]


def test_parquet_is_the_same_both_ways(capture: Path, tmp_path: Path) -> None:
    tables = finished_tables(capture)
    ways = tmp_path / "finished", tmp_path / "through"
    for way in ways:
        way.mkdir()
    write_finished(tables, ways[0])
    through(capture, ways[1])
    for name in tables:
        first, second = (pq.read_table(way / f"{name}.parquet") for way in ways)
        assert first.equals(second)
        assert first.num_rows == tables[name].num_rows


def test_a_recording_holds_all_frames(tmp_path: Path) -> None:
    for per_call in (1, 16):
        folder = tmp_path / str(per_call)
        recorded(folder, 320, per_call)
        (path,) = folder.glob("*.pcapng")
        messages = rows(path, "messages")
        assert [row["size_bytes"] for row in messages] == [FRAME_BYTES] * 320
        assert {row["name"] for row in messages} == {"message"}


def test_a_process_reads_what_is_read_here(capture: Path) -> None:
    here, there = measured(str(capture)), reading(capture, capture)
    assert here.rows == there.rows == len(rows(capture, "messages"))
    assert here.bytes == there.bytes == capture.stat().st_size
    assert there.peak_anonymous_mb > 10


def test_the_command_writes_the_same_on_one_core_and_two(capture: Path, tmp_path: Path) -> None:
    outs = [tmp_path / f"{cores}.parquet" for cores in (1, 2)]
    for cores, out in enumerate(outs, 1):
        found = written(capture, out, cores, capture)
        assert found.cpu_s > 0
        assert found.elapsed_s > 0
    first, second = map(pq.read_table, outs)
    assert first.equals(second)


def test_anonymous_memory_counts_what_is_allocated() -> None:
    before = anonymous_mb()
    held = bytearray(64_000_000)
    held[::4096] = b"x" * len(held[::4096])
    assert anonymous_mb() - before > 50


def test_rules_are_judged() -> None:
    found = Findings("something")
    found.add("speed", 12.3456789, "MB/s")
    found.rules += at_least("speed", 12.3456789, 10, 20)
    found.rules += at_most("memory", 1.2, 1.1)
    assert [rule.holds for rule in found.rules] == [True, False, False]
    text = table([found])
    assert "12.35 MB/s" in text
    assert [word in text for word in ("holds", "not yet", "MISSED")] == [True] * 3
    written = json.loads(json.dumps(record({"speed": found}, {"scale": 1.0})))
    assert written["results"]["speed"]["figures"][0]["value"] == 12.3457
    assert written["versions"]["dpkt"]


@pytest.mark.parametrize("name", PARTS)
def test_every_part_runs(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A process for each capture is for clean figures; the rest is the same here.
    monkeypatch.setattr(
        "benchmarks.captures_parts.reading", lambda capture, _: measured(str(capture))
    )
    monkeypatch.setattr(
        "benchmarks.captures_parts.written",
        lambda capture, out, count, _: written_here(str(capture), str(out), str(count)),
    )
    out = tmp_path / "results" / "captures.json"
    options = ["--scale", "0.0002", "--seconds", "0.01", "--rounds", "1", "--work", str(tmp_path)]
    assert main(["--json", str(out), "--only", name, *options]) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["results"][name]["figures"]
    assert bool(written["results"][name]["rules"]) == (name not in ("answers", "tshark"))
    assert PARTS[name].__doc__
    assert capsys.readouterr().out.startswith(written["results"][name]["title"])


def test_live_runs_print_what_is_in_the_pipe(capture: Path, tmp_path: Path) -> None:
    found = live_runs(capture, tmp_path)
    messages = sum(batch.num_rows for batch in read_batches([capture]))
    assert found["wirelake"].lines == messages
    assert found["tshark"].lines > 0
