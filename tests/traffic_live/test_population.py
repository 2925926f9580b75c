"""The clients of each population at a scale."""

from __future__ import annotations

import random
from collections import Counter

from wirelake.protocols import registry
from wirelake.traffic.live.calling import random_call
from wirelake.traffic.live.population import ClientNames, populations
from wirelake.traffic.live.protocols.comet import ACK_POLICIES, owners


def _clients(scale: float) -> Counter[str]:
    names = ClientNames()
    for each in populations():
        each(scale, names)
    assert len(set(names.all)) == len(names.all)
    return Counter(name.rsplit("-", 2)[0] for name in names.all)


def test_there_is_at_least_one_of_each_kind() -> None:
    small, usual = _clients(0.01), _clients(1.0)
    for protocol in ("esnp", "tny", "magline"):
        for role in ("caller", "subscriber", "publisher"):
            assert small[f"{protocol}-{role}"] >= 1
    assert small["gate-0-user"] >= 2
    assert small["phone"] >= len(ACK_POLICIES)
    assert usual["phone"] > 100
    assert usual["esnp-caller"] > small["esnp-caller"]


def test_every_protocol_has_a_population() -> None:
    assert {each.listener for each in populations()} == set(registry.BUILT_IN)


def test_every_ack_policy_occurs() -> None:
    names = [f"phone-{number}" for number in range(6)]
    topics = ["@a", "@b", "@c"]
    made = owners(names, topics, random.Random(1))
    assert {each.ack_policy for each in made} == set(ACK_POLICIES)
    assert {each.sealed for each in made} == {True, False}
    assert all(each.topics and set(each.topics) <= set(topics) for each in made)


def test_most_sleeps_are_short() -> None:
    rng = random.Random(1)
    drawn = [random_call(rng) for _ in range(3_000)]
    slept = sorted(arguments["ms"] for name, arguments in drawn if name == "test/sleep")
    assert slept[0] >= 1
    assert slept[-1] <= 150
    assert slept[len(slept) // 2] < 20 < slept[-len(slept) // 20]
    assert {name for name, _ in drawn} == {"test/sleep", "test/echo", "test/add", "test/fail"}
