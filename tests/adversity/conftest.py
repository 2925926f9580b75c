"""A hub with short deadlines, and healthy connections beside the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.adversity.healthy_peers import HealthyPeers
from tests.hub_raw.hub_process import HubProcess, running_hub

_LIMITS = {
    "auth_s": 2.0,
    "frame_s": 1.0,
    "frame_bytes_per_s": 10_000.0,
    "slow_reader_s": 1.5,
    "write_buffer": 262_144,
    "half_open_per_address": 4_096,
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """The hub, which must survive every test."""
    with running_hub(tmp_path_factory.mktemp("adversity"), {"limits": _LIMITS}) as process:
        yield process
        assert process.alive
        assert "Traceback" not in process.errors()


@pytest.fixture
def healthy_peers(hub: HubProcess) -> Iterator[HealthyPeers]:
    """Healthy connections, checked before and after."""
    others = HealthyPeers(hub)
    others.check()
    yield others
    others.check()
    others.leave()
