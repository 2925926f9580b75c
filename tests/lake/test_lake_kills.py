"""Killed runs leave the lake before or after a commit, and the next run continues.

A driver and a worker are killed here, at every named step in `make soak`, which also kills at
random moments. What a writer does when it is killed at each part of a commit is tested without
Spark (`tests/tables/test_tables_kills.py`).
"""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from tests.lake.cut_captures import arrive, cut
from tests.lake.cut_examples import captures_in
from tests.lake.driver_processes import killed_at, killed_writing, left_over, started, worker_killed
from tests.lake.lake_driver import Order
from tests.lake.lakes import PLACES, miscounted, unlike_engines

from wirelake.lake.verify.verify import verify
from wirelake.tables.check import check
from wirelake.tables.log import Log
from wirelake.traffic import simulate


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """A lake that takes a few steps."""
    simulate(tmp_path / "sim", size=600_000, seed=8, faults=0.005, jobs=1)
    arrive(tmp_path / "in", cut(tmp_path / "sim", random.Random(3), most_files=2))
    return Order(
        lake=str(tmp_path / "lake"),
        captures=str(tmp_path / "in"),
        keys=[str(path) for path in sorted((tmp_path / "sim").glob("*.keys"))],
        max_files=3,
        share_bytes=100_000,
        window_bytes=2_000,
    )


def damaged(lake: Path) -> list[str]:
    """Return the problems of the visible state of a lake."""
    return [str(each) for each in check(lake) if not each.harmless] + miscounted(lake)


def at(order: Order, step: str) -> Order:
    """The same run, which kills itself at a step."""
    return msgspec.structs.replace(order, die_at=step)


def finishes(order: Order, tmp_path: Path) -> None:
    """A run whose first worker is killed finishes the lake, and the lake is right."""
    lake = Path(order.lake)
    with started(order, tmp_path / "last") as driver:
        assert worker_killed(driver)
        assert driver.done().waiting == []
    assert unlike_engines(lake, captures_in(tmp_path / "sim"), order.keys, without=PLACES) == []
    assert check(lake) == []
    assert verify(lake, keys=order.keys, shares=1).findings() == []
    assert left_over(lake) == []


def test_killed_between_two_commits(order: Order, tmp_path: Path) -> None:
    lake = Path(order.lake)
    here = msgspec.structs.replace(order, master="here")  # the kill is the same without a JVM
    assert killed_at(at(here, "forward:calls"), tmp_path / "work")
    assert left_over(lake)
    assert Log(lake).last() == 1
    assert damaged(lake) == []
    finishes(order, tmp_path)


@pytest.mark.soak
def test_killed_at_every_step(order: Order, tmp_path: Path) -> None:
    lake = Path(order.lake)
    assert killed_writing(order, tmp_path / "work0")
    assert Log(lake).last() == 0

    assert killed_at(at(order, "join"), tmp_path / "work1")
    assert left_over(lake)
    assert Log(lake).last() == 0

    assert killed_at(at(order, "forward:calls"), tmp_path / "work2")
    assert Log(lake).last() == 1

    assert killed_at(at(order, "link"), tmp_path / "work3")
    assert Log(lake).last() == 1
    assert damaged(lake) == []

    impatient = msgspec.structs.replace(order, master="local[2]")  # no task may fail
    with started(impatient, tmp_path / "work4") as driver:
        assert worker_killed(driver)
        assert driver.wait() == 1
        assert "Spark failed: " in driver.last_words()
        assert "Python worker exited unexpectedly (crashed);" in driver.last_words()
    assert Log(lake).last() == 1
    finishes(order, tmp_path)
