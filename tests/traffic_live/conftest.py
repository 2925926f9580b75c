"""One performance for all tests that only look at what it left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.traffic_live.performed import Performed, performed, tables_of


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Performed:
    """What a small performance left."""
    return performed(tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="session")
def tables(live: Performed) -> Iterator[Any]:
    """What a reader finds in its recording."""
    with tables_of(live) as db:
        yield db
