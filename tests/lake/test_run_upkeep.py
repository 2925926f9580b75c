"""A run also reports late captures, merges small files and removes old data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.lake.cut_captures import age
from tests.lake.lakes import rows
from tests.lake.local_engine import run_here

from wirelake.lake.engine import run as running
from wirelake.lake.engine import streaming
from wirelake.lake.engine.streaming import _batches
from wirelake.tables.log import Log
from wirelake.tables.paths import DamagedError, LakeError
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upkeep") / "captures"
    simulate(folder, size=200_000, seed=3, faults=0.0, style="tcpdump", jobs=1)
    return folder


def arrive(simulated: Path, folder: Path, name: str) -> None:
    """A capture arrives under a name."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(min(simulated.glob("*.pcap")).read_bytes())
    age(folder / name, 3_600)


def test_a_late_file_of_a_stream_is_reported_without_another(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "in"
    arrive(simulated, folder, "tap-5.pcap")
    run_here(lake, folder)
    arrive(simulated, folder, "tap-4.pcap")
    # A stream that is offered nothing.
    monkeypatch.setattr(streaming, "follow", lambda *_, idle, **__: idle())
    outcome = run_here(lake, folder, stream=True)
    assert [(each.name, each.fault) for each in outcome.refused] == [("tap-4.pcap", "late_file")]
    assert run_here(lake, folder, stream=True).commits == 0


def test_a_stream_calls_when_nothing_arrives() -> None:
    class Query:
        isActive = True  # noqa: N815
        lastProgress = None  # noqa: N815

    calls: list[int] = []
    query: Any = Query()
    assert list(_batches(query, lambda: len(calls) > 2, lambda: calls.append(1), each=False)) == []
    assert len(calls) == 3


def test_a_run_merges_small_files_and_removes_old_data(simulated: Path, tmp_path: Path) -> None:
    lake, plain, folder = tmp_path / "lake", tmp_path / "plain", tmp_path / "in"
    folder.mkdir()
    commits = []
    for path in sorted(simulated.glob("*.pcap")):
        (folder / path.name).write_bytes(path.read_bytes())
        age(folder / path.name, 3_600)
        options: dict[str, Any] = {"max_files": 1}
        run_here(plain, folder, compact_files=0, **options)
        run_here(
            lake,
            folder,
            compact_files=2,
            committed=lambda each: commits.append(each.record),
            **options,
        )
    assert "compact" in {each.kind for each in commits}
    for table in ("messages", "calls", "connections", "traffic_minutes"):
        assert rows(lake, table) == rows(plain, table)
    snapshot = Log(lake).snapshot()
    by_protocol = [each.protocol for each in snapshot.files("messages") if not each.provisional]
    assert len(by_protocol) == len(set(by_protocol))
    run_here(lake, folder, retention={"messages": 1.0}, compact_files=0)
    assert [each for each in Log(lake).snapshot().files("messages") if not each.provisional] == []
    assert rows(lake, "calls") == rows(plain, "calls")


def test_a_truncated_state_is_reported_before_spark_starts(simulated: Path, tmp_path: Path) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "in"
    arrive(simulated, folder, "tap-1.pcap")
    run_here(lake, folder)
    states = [each for each in Log(lake).snapshot().all_files() if each.table.startswith("_")]
    assert {Path(each.path).suffix for each in states} >= {".state", ".parquet"}
    for each in states:
        path = lake / each.path
        data = path.read_bytes()
        for size in {0, 10, 30, len(data) // 2, len(data) - 1}:
            path.write_bytes(data[:size])
            with pytest.raises(DamagedError) as found:
                running.run(lake, folder, spark=no_session)
            assert str(path) in str(found.value)
            assert "rebuild the lake from its captures" in str(found.value)
        path.write_bytes(data)
        path.unlink()
        with pytest.raises(LakeError, match="missing; the log lists this file"):
            running.run(lake, folder, spark=no_session)
        path.write_bytes(data)


def no_session() -> Any:
    raise AssertionError("started Spark")
