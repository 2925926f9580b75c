"""Runs and streams that take turns, on executors of their own and over Spark Connect: one lake."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
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

from wirehouse.lake import planning, session
from wirehouse.lake.run import run
from wirehouse.lake.verify import verify


@pytest.fixture
def cluster() -> Iterator[SparkSession]:
    """A session whose executors are not this process; their folders are removed afterwards."""
    work = Path(pyspark.__file__).parent / "work"
    before = set(work.glob("*"))
    found = session("wirehouse cluster", master="local-cluster[2,1,1024]")
    yield found
    found.stop()
    for each in set(work.glob("*")) - before:
        shutil.rmtree(each, ignore_errors=True)


def check_in_turns(captures: Path, work: Path, advance: Callable[[Path, Path, bool], None]) -> None:
    """Makes a lake of the first captures of each source in a run, of the rest by a stream."""
    folder, lake = work / "in", work / "lake"
    folder.mkdir()
    for number, stream in ((0, False), (1, True)):
        for each in captures.glob(f"*-{number:08d}.pcap*"):
            age(Path(shutil.copy(each, folder)))
        advance(lake, folder, stream)
    assert untrue(lake, captures) == []
    assert verify(lake, keys=key_logs(captures), shares=1) == []


def key_logs(folder: Path) -> list[str]:
    """The key logs of a simulation."""
    return [str(path) for path in sorted(folder.glob("*.keys"))]


def test_executors(
    cluster: SparkSession, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_BYTES_OF_A_SHARE", 20_000)

    def advance(lake: Path, folder: Path, stream: bool) -> None:
        outcome = run(
            lake,
            folder,
            spark=lambda: cluster,
            keys=key_logs(captures),
            stream=stream,
            available_now=stream,
        )
        assert (outcome.commits, unread(outcome)) == (1, [])

    check_in_turns(captures, tmp_path, advance)


def test_spark_connect(captures: Path, tmp_path: Path) -> None:
    with connect_server(tmp_path) as address:

        def advance(lake: Path, folder: Path, stream: bool) -> None:
            order = Order(
                lake=str(lake),
                captures=str(folder),
                keys=key_logs(captures),
                remote=address,
                stream=stream,
            )
            with started(order, tmp_path / "work") as driver:
                done = driver.done()
            assert (done.commits, done.refused, done.waiting) == (1, [], [])

        check_in_turns(captures, tmp_path, advance)
