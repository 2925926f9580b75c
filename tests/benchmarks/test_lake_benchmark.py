"""The benchmarks of the lake make what they say, compare it, and judge what they find.

No assertion here is about time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.captures_report import at_least
from benchmarks.lake import main
from benchmarks.lake_jobs import JOBS
from benchmarks.lake_made import lopsided, pieces
from benchmarks.lake_memory import Memory, event_log, spilled
from benchmarks.lake_parts import PARTS, compare
from benchmarks.lake_plan import Plan, turns
from benchmarks.lake_stream import Arrivals
from benchmarks.lake_worker import Taken, Worker

from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.tables.inputs import discover
from wirelake.traffic import simulate

pytestmark = pytest.mark.soak
"""A benchmark that breaks is seen when it is run; no user depends on it."""

ONLY_REPORTED = ("stream", "calls")


class Here:
    """Does the jobs of a worker in this process: the same work without clean figures."""

    pid = os.getpid()

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._pool = ThreadPoolExecutor(1)
        self._future: Future[Taken] = Future()

    def start(self, job: str, **arguments: Any) -> None:
        """Begins a job."""
        self._future = self._pool.submit(JOBS[job], self._spark, **arguments)

    def result(self) -> Taken:
        """What it took."""
        return self._future.result()

    def do(self, job: str, **arguments: Any) -> Taken:
        """Does a job."""
        self.start(job, **arguments)
        return self.result()


def rows(paths: list[Path], name: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    found = read_batches(paths, ReadOptions(table=name))
    return [row for batch in found for row in batch.to_pylist()]


def kinds(messages: list[dict[str, Any]]) -> Counter[tuple[str, str, int]]:
    """What messages there are, wherever they stand."""
    return Counter((row["protocol"], row["name"], row["ts_ns"]) for row in messages)


# -- captures ----------------------------------------------------------------------------------


def test_one_connection_has_most_of_a_lopsided_capture(tmp_path: Path) -> None:
    path = lopsided(tmp_path / "one.pcap", 4_000_000)
    assert [each.name for each in tmp_path.iterdir()] == ["one.pcap"]
    sizes: Counter[int] = Counter()
    for row in rows([path], "packets"):
        sizes[row["connection"]] += row["payload_bytes"] + 70
    assert len(sizes) > 10
    assert sizes.most_common(1)[0][1] / path.stat().st_size == pytest.approx(0.6, abs=0.1)
    assert {row["code"] for row in rows([path], "faults")} <= {"no_keys"}


def test_pieces_are_a_recording_in_many_files(tmp_path: Path) -> None:
    simulate(tmp_path / "whole", size=600_000, seed=2, style="recorder")
    found = pieces(tmp_path / "pieces", 600_000, 50_000)
    assert len(found) >= 10
    assert all(each.stat().st_size < 100_000 for each in found)
    captures = discover(tmp_path / "pieces")
    assert [each.path for each in captures] == [str(each) for each in found]
    assert [each.sequence for each in captures] == list(range(len(found)))
    assert all(each.is_recording for each in captures)
    whole = rows(sorted((tmp_path / "whole").glob("*.pcapng")), "messages")
    assert kinds(rows(found, "messages")) == kinds(whole)


# -- figures -----------------------------------------------------------------------------------


def test_contenders_take_turns_and_the_best_counts() -> None:
    asked: list[str] = []
    times = {"a": iter([3.0, 1.0]), "b": iter([2.0, 5.0])}

    def take(name: str) -> Taken:
        asked.append(name)
        return Taken(next(times[name]), 4_000_000, 1)

    found = turns({"a": lambda: take("a"), "b": lambda: take("b")}, 2)
    assert asked == ["a", "b", "b", "a"]
    assert {name: each.seconds for name, each in found.items()} == {"a": 1.0, "b": 2.0}
    assert found["b"].mb_per_s == 2.0


def test_an_aim_needs_no_floor() -> None:
    (rule,) = at_least("two cores", 1.8, None, 1.7)
    assert (rule.kind, rule.wanted, rule.holds) == ("target", ">= 1.7", True)


def test_memory_is_reported_by_kind_of_process() -> None:
    code = "held = bytearray(b'x' * 64_000_000); print(flush=True); input()"
    command = [sys.executable, "-c", code]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child,
        Memory(os.getpid()) as memory,
    ):
        assert child.stdout is not None
        child.stdout.readline()
        memory.look()
        child.communicate(b"\n")
    assert memory.peaks_mb["worker"] > 60
    assert memory.peaks_mb["driver"] > 10
    assert memory.peaks_mb["all"] >= memory.peaks_mb["worker"] + 10


def test_what_was_spilled_is_added_up(tmp_path: Path) -> None:
    def ended(memory: int, disk: int) -> dict[str, Any]:
        metrics = {"Memory Bytes Spilled": memory, "Disk Bytes Spilled": disk}
        return {"Event": "SparkListenerTaskEnd", "Task Metrics": metrics}

    failed = {"Event": "SparkListenerTaskEnd", "Task Metrics": None}
    lines = [{"Event": "SparkListenerJobStart"}, ended(5, 2), failed, ended(7, 1)]
    log = "\n".join(json.dumps(each, separators=(",", ":")) for each in lines)
    (tmp_path / "local-1").write_text(log, encoding="utf-8")
    assert spilled(tmp_path) == (12, 3)


def test_lags_that_grow_are_noticed() -> None:
    def arrived(lags: list[float]) -> Arrivals:
        named = {str(number): lag for number, lag in enumerate(lags)}
        return Arrivals(Path(), Path(), 2.0, _came_s=dict.fromkeys(named, 0.0), _lags_s=named)

    assert arrived([9.0, 9.0, 2.0, 2.0, 2.0, 2.0]).growth == 1.0
    assert arrived([1.0, 1.0, 2.0, 2.0, 4.0, 4.0]).growth == 2.0
    assert arrived([1.0]).growth == 1.0
    assert arrived([1.0, 2.0, 3.0]).lag_s(50) == 2.0


# -- processes ---------------------------------------------------------------------------------


def test_a_worker_has_a_spark_of_its_own(tmp_path: Path) -> None:
    captures, lake = tmp_path / "captures", tmp_path / "lake"
    simulate(captures, size=200_000, seed=1)
    with Worker(1, event_log(tmp_path / "events")) as worker:
        done = worker.do("lake", captures=str(captures), to=str(lake), tables=["messages"])
        with pytest.raises(RuntimeError, match="no such folder of captures"):
            worker.do("lake", captures=str(tmp_path / "nowhere"), to=str(lake))
    truth = json.loads((captures / "truth.json").read_text(encoding="utf-8"))
    assert done.rows == truth["messages"]
    assert done.bytes == sum(path.stat().st_size for path in captures.glob("*.pcap*"))
    (log,) = (tmp_path / "events").iterdir()
    assert '"SparkListenerTaskEnd"' in log.read_text(encoding="utf-8")
    assert spilled(tmp_path / "events") == (0, 0)


# -- parts -------------------------------------------------------------------------------------


def test_rows_that_differ_are_noticed() -> None:
    with pytest.raises(RuntimeError, match="copy: 7 messages, and not 8"):
        compare("copy", 7, 8)


@pytest.mark.parametrize("name", PARTS)
def test_every_part_of_the_lake_runs(
    name: str,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def here(*_: object, **__: object) -> Iterator[Here]:
        yield Here(spark)

    monkeypatch.setattr(Plan, "worker", here)
    monkeypatch.setattr("benchmarks.lake_stream.RATES", (2,))
    out = tmp_path / "results" / "lake.json"
    options = ["--scale", "0.0002", "--seconds", "2", "--rounds", "1", "--work", str(tmp_path)]
    assert main(["--json", str(out), "--only", name, *options]) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["results"]
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["versions"]["pyspark"]
    assert written["results"][name]["figures"]
    assert bool(written["results"][name]["rules"]) == (name not in ONLY_REPORTED)
    assert PARTS[name].__doc__
    assert capsys.readouterr().out.startswith(written["results"][name]["title"])
