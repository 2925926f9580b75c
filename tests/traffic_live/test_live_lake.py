"""A live run, streamed into a lake: its tables equal the truth."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.traffic_live.live_runs import LiveRun

from wirelake.lake.engine.run import run
from wirelake.lake.engine.settings import Settings
from wirelake.traffic.live import compare


def test_a_lake_finds_the_truth(
    live: LiveRun, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake = tmp_path_factory.mktemp("live-lake") / "lake"
    settings = Settings(ports=live.ports)
    done = run(str(lake), str(live.recordings), spark=lambda: spark, settings=settings, settle_s=0)
    assert not done.refused
    found = compare(lake, live.truth)
    assert found.differences == ()
    assert found.figures > 200
