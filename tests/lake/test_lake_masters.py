"""One lake, wherever Spark runs: every table is the simulation's truth.

Each run is the command, in a process of its own, with captures that come in several steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lake.connecting import connect_server
from tests.lake.lakes import untrue

from wirehouse.lake.verify import verify
from wirehouse.tables.log import Log
from wirehouse.traffic import simulate


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of both styles with faults, their key logs and the truth."""
    folder = tmp_path_factory.mktemp("masters") / "captures"
    simulate(folder, size=1_500_000, seed=12, faults=0.005, jobs=1)
    return folder


def run(captures: Path, lake: Path, *options: str) -> None:
    """`wirehouse lake run`, three files a step."""
    keys = [part for path in captures.glob("*.keys") for part in ("--keys", str(path))]
    command = [sys.executable, "-m", "wirehouse.cli", "lake", "run", "--max-files", "3"]
    paths = ["--from", str(captures), "--to", str(lake)]
    done = subprocess.run(
        [*command, *paths, *keys, *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
        cwd=lake.parent,
        env={**os.environ, "SPARK_WORKER_DIR": str(lake.parent / "executors")},
    )
    assert done.returncode == 0, done.stderr


def is_true(lake: Path, captures: Path) -> None:
    """The lake is what the simulation says, and came in several steps."""
    keys = [str(path) for path in captures.glob("*.keys")]
    assert (Log(lake).last() or 0) > 1
    assert untrue(lake, captures) == []
    assert verify(lake, keys=keys, shares=1) == []


def test_on_two_cores(simulated: Path, tmp_path: Path) -> None:
    run(simulated, tmp_path / "lake", "--master", "local[2]")
    is_true(tmp_path / "lake", simulated)


def test_on_a_cluster_of_two_executors(simulated: Path, tmp_path: Path) -> None:
    run(simulated, tmp_path / "lake", "--master", "local-cluster[2,1,1024]")
    is_true(tmp_path / "lake", simulated)


def test_over_spark_connect(simulated: Path, tmp_path: Path) -> None:
    with connect_server(tmp_path) as address:
        run(simulated, tmp_path / "lake", "--remote", address)
    is_true(tmp_path / "lake", simulated)
