"""What the tests of Spark share: simulated captures, and a session for each module.

A JVM is slow to start. It lives as long as the tests; sessions in it come and go quickly.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from wirelake.lake import session
from wirelake.traffic import simulate


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of captures in both styles, with their key logs and the truth."""
    folder = tmp_path_factory.mktemp("lake") / "captures"
    simulate(folder, size="400kB", seed=5, jobs=1)
    return folder


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session on two cores."""
    found = session("wirelake tests")
    yield found
    found.stop()
