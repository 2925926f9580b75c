"""One hub for each file of flows, and clients that hang up when their test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.hub_raw.hub_process import HubProcess, running_hub
from tests.hub_raw.line import Line


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub with the demo's services."""
    with running_hub(tmp_path_factory.mktemp("hub")) as process:
        yield process


@pytest.fixture
def dialled(hub: HubProcess) -> Iterator[Callable[..., Line]]:
    """Dials a listener of the hub; hangs up at the end."""
    lines: list[Line] = []

    def dial(listener: str, **options: Any) -> Line:
        lines.append(hub.dial(listener, **options))
        return lines[-1]

    yield dial
    for line in lines:
        line.close()
