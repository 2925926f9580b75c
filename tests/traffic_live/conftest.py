"""One live run for all tests that only look at what it left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.traffic_live.live_runs import LiveRun, live_run, tables_of


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> LiveRun:
    """What a small live run leaves."""
    return live_run(tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="session")
def tables(live: LiveRun) -> Iterator[Any]:
    """What a reader finds in its recording."""
    with tables_of(live) as db:
        yield db
