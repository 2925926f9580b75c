"""Small storms on a hub; `make soak` has large ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.adversity.reconnects import allow_many_files
from tests.hub_kills.storms import http_storm, tls_storm, unfinished_messages

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "storm",
    [
        pytest.param(partial(tls_storm, 400, 200), id="tls"),
        pytest.param(partial(http_storm, 400, 500), id="http"),
        pytest.param(partial(unfinished_messages, 20, 9_800_000), id="unfinished"),
    ],
)
def test_the_hub_stays_small_and_answers(storm: Callable[[], dict[str, Any]]) -> None:
    allow_many_files(65_536)
    found = storm()
    assert found["problems"] == [], found
