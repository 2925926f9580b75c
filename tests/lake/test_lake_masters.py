"""A lake on every kind of master equals the simulation's truth.

On executors in processes of their own, a run takes the first captures of each source and a stream
the rest; over Spark Connect, the command takes all in several steps. The data source is read on
both. `make soak` adds a stream over Spark Connect, the command on two cores, and a standalone
cluster (`test_standalone.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests import spark_sessions
from tests.lake import connect_client
from tests.lake.connect_server_process import connect_server
from tests.lake.cut_captures import age
from tests.lake.cut_examples import unread
from tests.lake.driver_processes import started
from tests.lake.lake_driver import Order
from tests.lake.lakes import untrue

from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.lake.engine import tasks as planning
from wirelake.lake.engine.run import run
from wirelake.lake.verify.verify import verify
from wirelake.tables.log import Log
from wirelake.traffic import simulate


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of both styles with faults, their key logs and the truth."""
    folder = tmp_path_factory.mktemp("masters") / "captures"
    simulate(folder, size=500_000, seed=12, faults=0.005, jobs=1)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkSession]:
    """A session whose executors are not this process."""
    with spark_sessions.executors() as found:
        yield found


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Spark Connect."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


def key_logs(captures: Path) -> list[str]:
    """The key logs of a simulation."""
    return [str(path) for path in sorted(captures.glob("*.keys"))]


def command(captures: Path, folder: Path, lake: Path, *options: str) -> None:
    """`wirelake lake run` over a folder with captures of a simulation."""
    keys = [part for path in key_logs(captures) for part in ("--keys", path)]
    program = [sys.executable, "-m", "wirelake.cli", "lake", "run"]
    done = subprocess.run(
        [*program, "--from", str(folder), "--to", str(lake), *keys, *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
        cwd=lake.parent,
        env={**os.environ, "SPARK_WORKER_DIR": str(lake.parent / "executors")},
    )
    assert done.returncode == 0, done.stderr


def come(captures: Path, folder: Path, number: int) -> None:
    """The captures with this number in their names arrive."""
    folder.mkdir(exist_ok=True)
    for each in captures.glob(f"*-{number:08d}.pcap*"):
        age(Path(shutil.copy(each, folder)))


def is_true(lake: Path, captures: Path) -> None:
    """The lake is what the simulation says, and came in several steps."""
    assert (Log(lake).last() or 0) > 1
    assert untrue(lake, captures) == []
    assert verify(lake, keys=key_logs(captures), shares=1).findings() == []


@pytest.mark.soak
def test_on_two_cores(simulated: Path, tmp_path: Path) -> None:
    three_a_step = ("--max-files", "3")
    command(simulated, simulated, tmp_path / "lake", "--master", "local[2]", *three_a_step)
    is_true(tmp_path / "lake", simulated)


def test_on_two_executors(
    cluster: SparkSession, simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_SHARE_BYTES", 20_000)
    lake, folder = tmp_path / "lake", tmp_path / "in"
    for number, stream in ((0, False), (1, True)):
        come(simulated, folder, number)
        outcome = run(
            lake,
            folder,
            spark=lambda: cluster,
            keys=key_logs(simulated),
            stream=stream,
            available_now=stream,
        )
        assert (outcome.commits, unread(outcome)) == (1, [])
    is_true(lake, simulated)


def test_executors_read_what_the_driver_would(cluster: SparkSession, simulated: Path) -> None:
    reader = cluster.read.format("wirelake").option("partitions", "4")
    reader = reader.option("keys", f"{simulated}/*.keys")
    found = reader.option("columns", "file,offset,connection").load(str(simulated)).collect()
    keys = sorted(simulated.glob("*.keys"))
    options = ReadOptions(columns=("file", "offset", "connection"), keys=keys)
    wanted = [
        tuple(row.values())
        for batch in read_batches(sorted(simulated.glob("*.pcap*")), options)
        for row in batch.to_pylist()
    ]
    assert len(wanted) > 100
    assert sorted(map(tuple, found)) == sorted(wanted)


def test_over_spark_connect(connect: str, simulated: Path, tmp_path: Path) -> None:
    three_a_step = ("--max-files", "3")
    command(simulated, simulated, tmp_path / "lake", "--remote", connect, *three_a_step)
    is_true(tmp_path / "lake", simulated)


@pytest.mark.soak
def test_a_stream_over_spark_connect(connect: str, simulated: Path, tmp_path: Path) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "in"
    come(simulated, folder, 0)
    command(simulated, folder, lake, "--remote", connect)
    come(simulated, folder, 1)
    order = Order(
        lake=str(lake), captures=str(folder), keys=key_logs(simulated), remote=connect, stream=True
    )
    with started(order, tmp_path / "work") as driver:
        done = driver.done()
    assert (done.commits, done.refused, done.waiting) == (1, [], [])
    is_true(lake, simulated)


def direct(captures: Path, **options: Any) -> list[list[Any]]:
    """The rows of each source, without Spark."""
    return sorted(
        list(row.values())
        for style in ("edge-a-*.pcapng", "tap-a-*.pcap")
        for batch in read_batches(sorted(captures.glob(style)), ReadOptions(**options))
        for row in batch.to_pylist()
    )


def test_a_client_reads_batches_and_streams(connect: str, captures: Path, tmp_path: Path) -> None:
    program = [sys.executable, connect_client.__file__, connect, str(captures), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = direct(captures, columns=connect_client.COLUMNS)
    assert len(wanted) > 100
    assert found["batch"] == wanted
    assert found["stream"] == wanted
    assert found["calls"] == len(
        [
            row
            for batch in read_batches(sorted(captures.glob("*.pcap*")), ReadOptions(table="calls"))
            for row in batch.to_pylist()
        ]
    )
    assert found["auths"] == len([row for row in wanted if row[-1] == "auth"]) > 0
    # In order of capture time: the first capture of each source comes first.
    assert found["steps"] == [{"edge-a": 0, "tap-a": 0}, {"edge-a": 1, "tap-a": 1}]
    assert found["zone"] == "UTC"
