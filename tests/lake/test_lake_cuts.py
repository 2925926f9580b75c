"""The result does not depend on how captures are split, ordered or grouped into steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.lake.cut_examples import (
    at_every_commit,
    cut_here,
    cut_with_spark,
    lossy_here,
    tunnels_here,
)

SOAK = pytest.mark.soak
SOME_OF_FOUR = [0, 1, *(pytest.param(seed, marks=SOAK) for seed in (2, 3))]
SOME_OF_SIX = [0, 1, 2, *(pytest.param(seed, marks=SOAK) for seed in (3, 4, 5))]


@pytest.mark.parametrize("seed", SOME_OF_FOUR)
def test_cut_at_random(tmp_path: Path, seed: int) -> None:
    assert cut_here(tmp_path, seed) == []


@pytest.mark.parametrize("seed", SOME_OF_SIX)
def test_tunnels_that_move_from_link_to_link(tmp_path: Path, seed: int) -> None:
    assert tunnels_here(tmp_path, seed) == []


def test_every_commit_is_complete(tmp_path: Path) -> None:
    assert at_every_commit(tmp_path, 1) == []


@pytest.mark.parametrize("seed", range(10))
def test_lossy_traffic(tmp_path: Path, seed: int) -> None:
    assert lossy_here(tmp_path, seed, quick=seed > 1) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 1])
def test_streams_and_runs_that_take_turns(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    assert cut_with_spark(spark, tmp_path, seed) == []
