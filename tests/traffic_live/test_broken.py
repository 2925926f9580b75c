"""The flaws of broken clients: each is what its code says, by the protocol's own codec."""

from __future__ import annotations

import pytest

from wirelake.traffic.live.broken import FLAWS, Flaw
from wirelake.wire.errors import CODES


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda each: f"{each.protocol}-{each.code}")
def test_a_code_of_the_reference(flaw: Flaw) -> None:
    assert flaw.code in CODES
    assert len(flaw.data) < 100


def test_several_codes_over_all_protocols() -> None:
    assert {each.protocol for each in FLAWS} == {"comet", "esnp", "tny", "relay", "magline"}
    assert len({each.code for each in FLAWS}) >= 8
