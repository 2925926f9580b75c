"""Who comes at which scale."""

from __future__ import annotations

import random

from wirelake.traffic.live.phones import TEMPERS
from wirelake.traffic.live.population import (
    Population,
    deed,
    owners,
)


def test_somebody_of_each_kind_is_there() -> None:
    small, usual = Population.at(0.01), Population.at(1.0)
    assert min(small.callers.values()) >= 1
    assert min(small.listeners.values()) >= 1
    assert small.phones >= len(TEMPERS)
    assert usual.phones > 100


def test_every_temper_occurs() -> None:
    population = Population.at(0.01)
    names = [f"phone-{number}" for number in range(population.phones)]
    topics = ["@a", "@b", "@c"]
    made = owners(population, names, topics, random.Random(1))
    assert {each.temper for each in made} == set(TEMPERS)
    assert {each.sealed for each in made} == {True, False}
    assert all(each.topics and set(each.topics) <= set(topics) for each in made)


def test_most_sleeps_are_short() -> None:
    chance = random.Random(1)
    drawn = [deed(chance) for _ in range(3_000)]
    slept = sorted(arguments["ms"] for name, arguments in drawn if name == "test/sleep")
    assert slept[0] >= 1
    assert slept[-1] <= 150
    assert slept[len(slept) // 2] < 20 < slept[-len(slept) // 20]
    assert {name for name, _ in drawn} == {"test/sleep", "test/echo", "test/add", "test/fail"}
