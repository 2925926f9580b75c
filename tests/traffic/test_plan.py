"""How a run is shared among shards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.traffic.plan import FILES, STYLES, Shard, SimulateError, parse_size, plan
from wirelake.traffic.scenes.provider import built_in, scenario

PROTOCOLS = built_in()


def _plan(**other: Any) -> list[Shard]:
    asked = {"size": 10**9, "seed": 1, "faults": 0.0, "protocols": PROTOCOLS, "style": "both"}
    return plan(**{**asked, **other})


@pytest.mark.parametrize(
    ("text", "size"),
    [("200MB", 200_000_000), ("1.5kb", 1_500), ("2GB", 2 * 10**9), ("17", 17), ("17B", 17)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "12XB", "-3MB", "0", "1e3QB", "nanMB", "1e999"])
def test_bad_sizes_name_good_ones(text: str) -> None:
    with pytest.raises(SimulateError, match=r"200MB|at least 1"):
        parse_size(text)


@given(
    st.integers(1, 10**11), st.sampled_from(STYLES), st.sets(st.sampled_from(PROTOCOLS), min_size=1)
)
def test_shards_make_the_size(size: int, style: str, protocols: set[str]) -> None:
    shards = _plan(size=size, style=style, protocols=sorted(protocols))
    total = sum(shard.size for shard in shards)
    assert size - len(shards) < total <= size
    assert max(shard.size for shard in shards) <= 64 << 20
    for shard in shards:
        assert abs(sum(part.share for part in shard.parts) - 1) < 1e-9
        assert all(part.templates for part in shard.parts)
        seen = {name for part in shard.parts for name in scenario(part.scenario).protocols}
        assert seen == protocols


def test_a_source_has_one_file_after_the_other() -> None:
    sequences: dict[str, list[int]] = {}
    for shard in _plan():
        sequences.setdefault(shard.source, []).append(shard.period)
    assert sequences.keys() == {"edge-a", "edge-b", "tap-a", "tap-b"}
    assert all(periods == list(range(len(periods))) for periods in sequences.values())
    assert FILES > 1


def test_users_of_a_gateway_are_seen_only_with_tny() -> None:
    names = {part.scenario for part in _plan(protocols=["relay"])[0].parts}
    assert names == {"link"}
    names = {part.scenario for part in _plan(protocols=["relay", "tny"])[0].parts}
    assert names == {"game", "gateway"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"size": 0}, "1 byte to 200 GB"),
        ({"size": 10**12}, "1 byte to 200 GB"),
        ({"faults": 0.5}, "expected 0 to 0.01"),
        ({"faults": -1}, "expected 0 to 0.01"),
        ({"style": "wireshark"}, "recorder, tcpdump, both"),
        (
            {"protocols": ["comet", "http"]},
            "'http'; expected one of comet, esnp, magline, relay, tny",
        ),
        ({"protocols": []}, "expected some of comet, esnp"),
    ],
)
def test_invalid_values_name_the_valid_ones(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SimulateError, match=words):
        _plan(**asked)
