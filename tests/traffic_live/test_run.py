"""A live run: its truth is what a reader finds in the recording."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.hub_raw.hub_process import wait_until
from tests.traffic_live.live_runs import LiveRun, address_of, recording_hub, tables_of

from wirelake.traffic.live import HubAddress, SimulateError, simulate_live
from wirelake.traffic.live.compare import compare_tables
from wirelake.traffic.live.journal import CLOCK_NS
from wirelake.traffic.live.population import populations
from wirelake.traffic.live.truth import TABLES

_NOBODY = HubAddress("http://127.0.0.1:1", Path("nowhere"))


def test_a_reader_finds_the_truth(live: LiveRun, tables: Any) -> None:
    found = compare_tables(tables, live.truth)
    assert found.differences == ()
    assert found.figures > 200


def test_all_clients_took_part(live: LiveRun) -> None:
    summary = live.summary
    assert set(summary.connections) == {"comet", "esnp", "tny", "relay", "magline"}
    assert {"answered", "failed", "orphan"} <= set(summary.calls)
    assert {"acked", "unacked"} <= set(summary.deliveries)
    assert sum(summary.faults.values()) == sum(len(each.malformed) for each in populations())
    assert summary.tunnels
    targets = {(each.protocol, each.target) for each in summary.targets}
    assert {("esnp", "test/sleep"), ("tny", "1003"), ("magline", str(0x1003))} <= targets
    assert {("esnp", "hub/publish"), ("tny", "13"), ("magline", "13")} <= targets


def test_the_truth_on_disk(live: LiveRun) -> None:
    figures = json.loads((live.truth / "truth.json").read_text())
    assert figures["asked"]["seed"] == 3
    assert figures["calls"] == live.summary.calls
    for name, columns in TABLES.items():
        assert pq.read_schema(live.truth / "truth" / f"{name}.parquet").names == columns.names
    calls = pq.read_table(live.truth / "truth" / "calls.parquet").to_pylist()
    slept = [row for row in calls if row["target"] == "test/sleep" and row["latency_max_ns"]]
    assert slept
    for row in slept:  # a hub's timers count from the beginning of a turn of its loop
        assert 0 < row["latency_min_ns"] <= row["latency_max_ns"] + CLOCK_NS
    assert not [row for row in calls if row["outcome"] == "open"]


def test_twice_on_one_hub(tmp_path: Path) -> None:
    """Clients have other names each time; what is told never goes back."""
    result: list[tuple[float, float]] = []
    with recording_hub(tmp_path) as hub:
        for name in ("one", "two"):
            hub_address = address_of(hub)
            simulate_live(
                hub_address,
                tmp_path / name,
                seconds=0.5,
                scale=0.01,
                progress=lambda *at: result.append(at),
            )
        waiting = hub.varz()["connections"]
    assert not waiting
    assert result[0] == (0.0, 0.5)
    assert result[-1] == (0.5, 0.5)


def test_a_hub_that_is_killed(tmp_path: Path) -> None:
    caught: list[SimulateError] = []
    with recording_hub(tmp_path) as hub:
        hub_address = address_of(hub)

        def run() -> None:
            try:
                simulate_live(hub_address, tmp_path / "out", seconds=60, scale=0.01)
            except SimulateError as error:
                caught.append(error)

        thread = Thread(target=run)
        thread.start()
        wait_until(lambda: hub.varz()["published"], "something is published")
        hub.tell(signal.SIGKILL)
        thread.join(60)
        assert not thread.is_alive()
        hub.kill()
    assert len(str(caught[0]).splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"seconds": 0}, "seconds"), ({"scale": -1}, "scale"), ({"scale": 1_000}, "scale")],
)
def test_what_cannot_be(tmp_path: Path, asked: dict[str, float], words: str) -> None:
    with pytest.raises(SimulateError, match=words):
        simulate_live(_NOBODY, tmp_path / "out", **asked)


def test_a_folder_that_is_not_empty(live: LiveRun, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "something").touch()
    with pytest.raises(SimulateError, match="not empty"):
        simulate_live(_NOBODY, tmp_path / "out")
    with pytest.raises(SimulateError, match="not a directory"):
        simulate_live(_NOBODY, tmp_path / "out" / "something")
    with (
        tables_of(live) as db,
        pytest.raises(SimulateError, match="expected tables"),
    ):
        compare_tables(db, tmp_path / "out")
