"""A performance: everybody comes, calls, publishes, listens and goes, and the ledger has it all.

Callers (`callers.py`) come and go as they like. Those who subscribe (`rounds.py`) live in rounds,
so that nobody leaves with something on its way. At the end everybody leaves, and the hub is asked
until it knows that they have: whatever is recorded of them is then in the recording.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Final

from ..plan import SimulateError
from .broken import FLAWS
from .callers import (
    break_in,
    call,
    call_through,
)
from .context import House
from .hub_address import (
    Admin,
    Stage,
    let_in,
    look_at,
)
from .journal import Ledger
from .listeners import Topics
from .population import Population, owners
from .rounds import Rounds

__all__ = ["Told", "performed"]

Told = Callable[[float, float], None]
"""Is told how many seconds of the performance are over, and of how many."""

_TICK_S: Final = 0.25
_USERS: Final = 3
"""Users of the gateway who subscribe."""


def performed(
    stage: Stage, *, seconds: float, seed: int, scale: float, told: Told | None
) -> Ledger:
    """Performs on a stage; SimulateError says what is in the way."""
    try:
        return asyncio.run(_perform(stage, seconds, seed, scale, told))
    except* SimulateError as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[Any]) -> SimulateError:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return SimulateError(str(found))


async def _perform(
    stage: Stage, seconds: float, seed: int, scale: float, told: Told | None
) -> Ledger:
    if told is not None:
        told(0.0, seconds)
    admin = Admin(stage)
    doors = await look_at(admin)
    population = Population.at(scale)
    cast = _Cast(population)
    tokens = await asyncio.to_thread(let_in, stage.data, cast.clients)
    house = House(admin, doors, tokens, population, seed)
    try:
        await _play(house, cast, seconds, told)
    finally:
        house.abandon()
    return house.ledger


class _Cast:
    """The ids of clients, by what they do; they are new in each performance."""

    def __init__(self, population: Population):
        self._tag = secrets.token_hex(2)
        self.clients: list[str] = []
        self.phones = self._names("phone", population.phones)
        self.callers = [
            (protocol, name)
            for protocol in ("esnp", "tny", "magline")
            for name in self._names(f"{protocol}-caller", population.callers[protocol])
        ]
        self.gateways = [
            self._names(f"gate-{number}-user", population.tunnels)
            for number in range(population.callers["relay"])
        ]
        self.seats = [
            (protocol, name)
            for protocol in ("esnp", "tny", "magline")
            for name in self._names(f"{protocol}-listener", population.listeners[protocol])
        ]
        self.users = self._names("gate-listener", _USERS)
        self.publishers = [
            (protocol, self._names(f"{protocol}-publisher", 1)[0])
            for protocol in ("esnp", "tny", "magline")
        ]
        self.broken = self._names("broken", len(FLAWS))

    def _names(self, what: str, count: int) -> list[str]:
        made = [f"{what}-{self._tag}-{number:03d}" for number in range(count)]
        self.clients += made
        return made


async def _play(house: House, cast: _Cast, seconds: float, told: Told | None) -> None:
    names = [f"@topic-{number:02d}" for number in range(house.population.topics)]
    topics = Topics(house.ledger, names)
    rounds = Rounds(house, topics, owners(house.population, cast.phones, names, house.chance))
    loop = asyncio.get_running_loop()
    await rounds.open(cast.seats, cast.publishers, cast.users)
    begun = loop.time()
    house.until = begun + seconds
    async with asyncio.TaskGroup() as group:
        for protocol, client in cast.callers:
            group.create_task(call(house, protocol, client))
        for clients in cast.gateways:
            group.create_task(call_through(house, clients))
        for number, (flaw, client) in enumerate(zip(FLAWS, cast.broken, strict=True)):
            after_s = seconds * (number + 0.5) / (len(FLAWS) + 1)
            group.create_task(break_in(house, flaw, client, after_s))
        group.create_task(rounds.run())
        if told is not None:
            group.create_task(_tell(house, told, begun, seconds))
    await rounds.close()
    await house.forgotten()


async def _tell(house: House, told: Told, begun: float, seconds: float) -> None:
    while house.left_s > 0:
        told(asyncio.get_running_loop().time() - begun, seconds)
        await house.pause(_TICK_S)
    told(seconds, seconds)
