"""Malformed frames: each has a code of the reference."""

from __future__ import annotations

import pytest

from wirelake.protocols import registry
from wirelake.traffic.live.population import MalformedFrame, populations
from wirelake.wire.errors import CODES

FRAMES = [(each.listener, frame) for each in populations() for frame in each.malformed]


@pytest.mark.parametrize(("listener", "frame"), FRAMES)
def test_a_code_of_the_reference(listener: str, frame: MalformedFrame) -> None:
    assert listener in registry.BUILT_IN
    assert frame.code in CODES
    assert len(frame.data) < 100


def test_several_codes_over_all_protocols() -> None:
    assert {listener for listener, _ in FRAMES} == set(registry.BUILT_IN)
    assert len({frame.code for _, frame in FRAMES}) >= 8
