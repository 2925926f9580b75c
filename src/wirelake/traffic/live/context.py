"""What everybody in a performance shares: the doors, the clients' tokens, the ledger, the time."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable
from typing import Final, TypeVar

from wirelake.protocols.magline.session import ClientKey, Ticket

from ..plan import SimulateError
from .askers import (
    Asker,
    Device,
    Player,
    Service,
)
from .connection import Line, dial
from .gateway import Gateway
from .hub_address import DEADLINE_S, Admin
from .journal import Ledger
from .phones import Phone
from .population import Population

__all__ = ["House"]

_AT_THE_DOOR: Final = 16
"""How many may connect and sign on at a time: a hub allows twice as many handshakes."""
_LOOK_S: Final = 0.01
_Line = TypeVar("_Line", bound=Line)


class House:
    """A performance that is under way."""

    def __init__(
        self,
        admin: Admin,
        doors: dict[str, tuple[str, int]],
        tokens: dict[str, str],
        population: Population,
        seed: int,
    ):
        self.admin = admin
        self.tokens = tokens
        self.population = population
        self.ledger = Ledger()
        self.chance = random.Random(f"wirelake live {seed}")
        self.lines: set[Line] = set()
        """Connections that may be open."""
        self.until = 0.0
        """When, by the loop's clock, nothing new is begun."""
        self._doors = doors
        self._at_the_door = asyncio.Semaphore(_AT_THE_DOOR)
        self._loop = asyncio.get_running_loop()
        self._gateways = 1_000

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self.until - self._loop.time()

    async def pause(self, seconds: float) -> None:
        """Does nothing for a while, at most until the end."""
        await asyncio.sleep(max(0.0, min(seconds, self.left_s)))

    async def settled(self, calm: Callable[[], bool], what: str) -> None:
        """Waits for something that has to come."""
        deadline = self._loop.time() + DEADLINE_S
        while not calm():
            if self._loop.time() > deadline:
                raise SimulateError(
                    f"{what}: not within {DEADLINE_S:.0f} s; the hub may be too busy"
                )
            await asyncio.sleep(_LOOK_S)

    # -- coming ------------------------------------------------------------------------------

    async def asker(self, protocol: str, client: str, ticket: Ticket | None = None) -> Asker:
        """Somebody who calls, signed on or back with a ticket."""
        async with self._at_the_door:
            line = await self.stranger(protocol, ticket)
            if ticket is None:
                await line.sign_on(client, self.tokens[client])
            else:
                line.contact.client = client
        return line

    async def stranger(self, protocol: str, ticket: Ticket | None = None) -> Asker:
        """The same, who has not said who it is."""
        if protocol == "esnp":
            return await self._dial("esnp", lambda: Service(self.ledger, self.chance))
        if protocol == "tny":
            return await self._dial("tny", lambda: Player(self.ledger, self.chance))
        key = ClientKey(allow_anonymous=True)
        device = await self._dial("magline", lambda: Device(self.ledger, key, ticket))
        await device.shake_hands()
        return device

    async def phone(self, client: str, temper: str = "prompt") -> Phone:
        """A phone that has signed on."""
        async with self._at_the_door:
            made = await self._dial(
                "comet", lambda: Phone(self.ledger, self.chance, client, temper)
            )
            await made.sign_on(self.tokens[client])
        return made

    async def gateway(self) -> Gateway:
        """A link that is open."""
        self._gateways += 1
        number, key = self._gateways, secrets.token_hex(8)
        async with self._at_the_door:
            made = await self._dial("relay", lambda: Gateway(self.ledger, number, key))
            await made.open()
        return made

    async def _dial(self, door: str, make: Callable[[], _Line]) -> _Line:
        line = await dial(self._doors[door], make)
        self.lines.add(line)
        return line

    # -- going -------------------------------------------------------------------------------

    async def hang_up(self, line: Line) -> None:
        """Somebody leaves."""
        self.lines.discard(line)
        await line.hang_up()

    def abandon(self) -> None:
        """Everybody leaves at once: the performance is given up."""
        for line in self.lines:
            line.abandon()

    async def forgotten(self) -> None:
        """Waits until the hub knows that everybody has left."""
        ours = {f"{each.address}:{each.port}" for each in self.ledger.contacts}
        deadline = self._loop.time() + DEADLINE_S
        while ours & await self.admin.peers():
            if self._loop.time() > deadline:
                raise SimulateError(
                    "the hub does not see that everybody has left; is it overloaded?"
                )
            await asyncio.sleep(_LOOK_S)
