"""A step plans for the workers that its session has."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from wirelake.lake.engine.tasks import workers_of
from wirelake.lake.spark.session import settings


class Session:
    """A session with other settings, and the workers of a real one."""

    def __init__(self, spark: SparkSession, conf: dict[str, str]):
        self.conf = conf
        self.range = spark.range


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.master": "local[*]"},
        {"spark.master": "local[*,4]"},
        {"spark.master": "spark://head:7077"},
        {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"},
        {},
    ],
)
def test_a_session_that_sets_no_limit_is_asked(spark: SparkSession, conf: dict[str, str]) -> None:
    # The session of all tests has two cores; three partitions tell it from an assumed two.
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "3")
    try:
        session: Any = Session(spark, conf)
        assert workers_of(session) == 3
    finally:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
    assert workers_of(session) == 2


class Silent:
    """A session that cannot be asked."""

    def __init__(self, conf: dict[str, str]):
        self.conf = conf


@pytest.mark.parametrize(
    ("conf", "workers"),
    [
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3,4]"}, 3),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "spark://head:7077", "spark.cores.max": "16"}, 16),
        ({"spark.executor.instances": "4", "spark.executor.cores": "4"}, 16),
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "8",
                "spark.executor.instances": "1",
                "spark.executor.cores": "2",
            },
            16,
        ),
    ],
)
def test_settings_that_fix_the_number_of_workers(conf: dict[str, str], workers: int) -> None:
    session: Any = Silent(conf)
    assert workers_of(session) == workers


@pytest.mark.parametrize(
    ("master", "partitions"),
    [("local[3]", 6), ("local", 2), ("local-cluster[2,3,1024]", 12), ("local[*,4]", 10)],
)
def test_local_shuffles_have_two_partitions_per_core(
    master: str, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert settings(master)["spark.sql.shuffle.partitions"] == str(partitions)
