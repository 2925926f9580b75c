"""Callers come, make calls several at a time, and go; they subscribe to nothing.

Nearly all leave when everything is answered. One in eight is impatient: it asks for a long sleep
and hangs up, and that call is lost. Broken clients come here, too.
"""

from __future__ import annotations

import asyncio
from typing import Final

from .askers import (
    Asker,
    Asking,
    Device,
)
from .broken import Flaw, break_off
from .context import House
from .gateway import Gateway
from .population import deed, every_deed

__all__ = ["break_in", "call", "call_through"]

_IMPATIENT: Final = 0.125
_FORGETFUL: Final = 0.2
_DEPTH: Final = 6
"""Calls under way at a time, at most."""
_STAY_S: Final = (1.5, 6.0)
_LONG_MS: Final = 60_000
_TUNNELS: Final = 1_000
"""The step from one tunnel of a user to the next: no number comes again."""
_PING_S: Final = 2.0


async def call(house: House, protocol: str, client: str) -> None:
    """Comes, calls and goes, again and again until the end."""
    chance = house.chance
    await house.pause(chance.uniform(0.0, 0.5))
    while house.left_s > 0:
        line = await _come(house, protocol, client)
        stay_s = min(chance.uniform(*_STAY_S), house.left_s)
        await _work(house, line, stay_s)
        if chance.random() < _IMPATIENT:
            line.post("test/sleep", ms=_LONG_MS)
            line.lose_all()
            await house.hang_up(line)
        elif isinstance(line, Device) and chance.random() < 0.5:
            house.lines.discard(line)
            await line.say_goodbye()
        else:
            await house.hang_up(line)
        await house.pause(chance.uniform(0.1, 0.6))


async def _come(house: House, protocol: str, client: str) -> Asker:
    """Signs on; a service forgets that now and then, and is told."""
    if protocol != "esnp" or house.chance.random() > _FORGETFUL:
        return await house.asker(protocol, client)
    line = await house.stranger(protocol)
    await line.ask("test/add", a=1, b=2)
    await line.sign_on(client, house.tokens[client])
    return line


async def _work(house: House, asker: Asking, stay_s: float) -> None:
    """Batches of calls, with pauses between them, for a while."""
    chance = house.chance
    loop = asyncio.get_running_loop()
    until = loop.time() + stay_s
    deeds = every_deed(chance)
    while loop.time() < until:
        await asker.all_of([asker.post(name, **arguments) for name, arguments in deeds])
        deeds = [deed(chance) for _ in range(chance.randint(1, _DEPTH))]
        await house.pause(chance.expovariate(1.0 / house.population.pause_s))


async def call_through(house: House, clients: list[str]) -> None:
    """A gateway comes; its users call through tunnels, come and go."""
    gateway = await house.gateway()
    async with asyncio.TaskGroup() as users:
        for number, client in enumerate(clients):
            users.create_task(_user(house, gateway, client, number))
        users.create_task(_heartbeat(house, gateway))
    await house.settled(lambda: not gateway.pinged, "the answer to a ping of a gateway")
    await gateway.close()
    house.lines.discard(gateway)


async def _user(house: House, gateway: Gateway, client: str, number: int) -> None:
    tunnel = 1 + number
    while house.left_s > 0:
        user = await gateway.connect(tunnel)
        await user.sign_on(client, house.tokens[client])
        await _work(house, user, min(house.chance.uniform(*_STAY_S), house.left_s))
        user.leave()
        tunnel += _TUNNELS
        await house.pause(house.chance.uniform(0.1, 0.5))


async def _heartbeat(house: House, gateway: Gateway) -> None:
    while house.left_s > 0:
        gateway.ping()
        await house.pause(_PING_S)


async def break_in(house: House, flaw: Flaw, client: str, after_s: float) -> None:
    """A broken client comes, does what others do, and breaks a rule."""
    await house.pause(after_s)
    if flaw.protocol == "comet":
        phone = await house.phone(client)
        await break_off(phone, flaw)
        house.lines.discard(phone)
    elif flaw.protocol == "relay":
        gateway = await house.gateway()
        await break_off(gateway, flaw)
        house.lines.discard(gateway)
    else:
        line = await house.asker(flaw.protocol, client)
        await line.ask("test/add", a=house.chance.randrange(100), b=1)
        await break_off(line, flaw)
        house.lines.discard(line)
