"""However captures are cut into files, and in whatever order and steps these come: one result."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.lake.cut_examples import at_every_commit, cut_here, cut_with_spark, tunnels_here


@pytest.mark.parametrize("seed", range(4))
def test_cut_at_random(tmp_path: Path, seed: int) -> None:
    assert cut_here(tmp_path, seed) == []


@pytest.mark.parametrize("seed", range(6))
def test_tunnels_that_move_from_link_to_link(tmp_path: Path, seed: int) -> None:
    assert tunnels_here(tmp_path, seed) == []


def test_what_is_in_is_all_there_is_at_every_commit(tmp_path: Path) -> None:
    assert at_every_commit(tmp_path, 1) == []


@pytest.mark.parametrize("seed", range(2))
def test_streams_and_runs_that_take_turns(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    assert cut_with_spark(spark, tmp_path, seed) == []
