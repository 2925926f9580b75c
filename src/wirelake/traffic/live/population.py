"""Who comes, how many of each, and what they ask for."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from .phones import TEMPERS, Phone

__all__ = ["Owner", "Population", "deed", "every_deed", "owners"]

_DEEDS: Final = {"test/sleep": 40, "test/echo": 30, "test/add": 22, "test/fail": 8}
_LONGEST_MS: Final = 150
_WORDS: Final = ("a", "word", "and", "another", "make", "some", "text", "to", "send", "back")
_SEALED: Final = 0.35
"""The share of phones that exchange keys."""


@dataclass(frozen=True, slots=True)
class Population:
    """How many there are of each."""

    phones: int
    topics: int
    callers: dict[str, int]
    """By protocol: those who come, call and go."""
    listeners: dict[str, int]
    """By protocol: those who subscribe, beside the phones."""
    tunnels: int
    """Of each gateway."""
    publishes_per_s: float
    pause_s: float
    """Between two batches of calls, on average."""

    @classmethod
    def at(cls, scale: float) -> Population:
        """The population at a scale; somebody of each kind is always there."""

        def about(count: float, least: int = 1) -> int:
            return max(least, round(count * scale))

        return cls(
            phones=about(130, 6),
            topics=min(40, about(12, 3)),
            callers={"esnp": about(14, 2), "tny": about(9), "magline": about(7), "relay": about(2)},
            listeners={"esnp": about(6, 2), "tny": about(4), "magline": about(4)},
            tunnels=about(5, 2),
            publishes_per_s=min(60.0, max(6.0, 16.0 * scale)),
            pause_s=0.25,
        )


@dataclass(slots=True, eq=False)
class Owner:
    """Somebody who has a phone, which is on or off."""

    client: str
    temper: str
    sealed: bool
    topics: list[str]
    phone: Phone | None = None
    new: bool = True
    """Whether it has yet to subscribe."""


def owners(
    population: Population, names: list[str], topics: list[str], chance: random.Random
) -> list[Owner]:
    """The owners of phones; every temper and both ways of talking occur."""
    tempers = list(TEMPERS)
    made = []
    for number, name in enumerate(names[: population.phones]):
        if number < len(tempers):
            temper = tempers[number]
        else:
            temper = chance.choices(tempers, list(TEMPERS.values()))[0]
        sealed = number % 2 == 1 if number < len(tempers) else chance.random() < _SEALED
        wanted = {_skewed(topics, chance) for _ in range(chance.randint(1, 3))}
        if number < len(tempers):
            wanted.add(topics[0])
        made.append(Owner(name, temper, sealed, sorted(wanted)))
    return made


def _skewed(topics: list[str], chance: random.Random) -> str:
    """The first topics are the popular ones."""
    return topics[min(int(chance.expovariate(3.0 / len(topics))), len(topics) - 1)]


def every_deed(chance: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """One of each that somebody may ask for."""
    return [_arguments(name, chance) for name in _DEEDS]


def deed(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """What somebody asks for; most sleeps are short, some are long."""
    return _arguments(chance.choices(list(_DEEDS), list(_DEEDS.values()))[0], chance)


def _arguments(name: str, chance: random.Random) -> tuple[str, dict[str, Any]]:
    if name == "test/sleep":
        return name, {"ms": max(1, min(_LONGEST_MS, round(chance.lognormvariate(2.4, 1.0))))}
    if name == "test/add":
        return name, {"a": chance.randrange(1_000), "b": chance.randrange(1_000)}
    if name == "test/echo":
        return name, {"text": " ".join(chance.choices(_WORDS, k=chance.randint(2, 12)))}
    return name, {}
