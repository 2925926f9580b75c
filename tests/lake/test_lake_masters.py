"""One lake, wherever Spark runs: every table is the simulation's truth.

On two cores it is the command, in several steps. On executors of their own, and over Spark Connect,
a run takes the first captures of each source and a stream the rest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.lake.connecting import connect_server
from tests.lake.cut_captures import age
from tests.lake.cut_examples import unread
from tests.lake.killing import started
from tests.lake.lake_driver import Order
from tests.lake.lakes import untrue

from wirelake.lake import session
from wirelake.lake.engine import tasks as planning
from wirelake.lake.engine.run import run
from wirelake.lake.verify.verify import verify
from wirelake.tables.log import Log
from wirelake.traffic import simulate


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of both styles with faults, their key logs and the truth."""
    folder = tmp_path_factory.mktemp("masters") / "captures"
    simulate(folder, size=1_500_000, seed=12, faults=0.005, jobs=1)
    return folder


@pytest.fixture
def cluster() -> Iterator[SparkSession]:
    """A session whose executors are not this process; their folders are removed afterwards."""
    work = Path(pyspark.__file__).parent / "work"
    before = set(work.glob("*"))
    light = {"spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"]}
    found = session("wirelake cluster", master="local-cluster[2,1,1024]", **light)
    yield found
    found.stop()
    for each in set(work.glob("*")) - before:
        shutil.rmtree(each, ignore_errors=True)


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
    assert verify(lake, keys=key_logs(captures), shares=1) == []


def test_on_two_cores(simulated: Path, tmp_path: Path) -> None:
    three_a_step = ("--max-files", "3")
    command(simulated, simulated, tmp_path / "lake", "--master", "local[2]", *three_a_step)
    is_true(tmp_path / "lake", simulated)


def test_on_two_executors(
    cluster: SparkSession, simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_BYTES_OF_A_SHARE", 20_000)
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


def test_over_spark_connect(simulated: Path, tmp_path: Path) -> None:
    lake, folder = tmp_path / "lake", tmp_path / "in"
    with connect_server(tmp_path) as address:
        come(simulated, folder, 0)
        command(simulated, folder, lake, "--remote", address)
        come(simulated, folder, 1)
        order = Order(
            lake=str(lake),
            captures=str(folder),
            keys=key_logs(simulated),
            remote=address,
            stream=True,
        )
        with started(order, tmp_path / "work") as driver:
            done = driver.done()
        assert (done.commits, done.refused, done.waiting) == (1, [], [])
    is_true(lake, simulated)
