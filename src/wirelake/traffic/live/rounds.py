"""Rounds of those who subscribe: they come and go, then something is published, then all is calm.

While phones and others come and go nothing is published, and while something is published nobody
comes or goes. So each publish has an audience that is known, and who leaves has heard everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from wirelake.protocols.comet import layout as comet

from .askers import Asker, Device
from .context import House
from .gateway import Gateway, TunnelUser
from .listeners import Listener, Topics
from .phones import TEMPERS
from .population import Owner

__all__ = ["Rounds"]

_ROUND_S: Final = 2.0
_TURNS: Final = 0.3
"""The share of phones that go off, or come on, before each round."""
_MOODS: Final = 0.06
"""The share of phones that give a topic up."""
_PRIVATE: Final = 0.15
"""Of what HTTP publishes: the share that is for one client alone."""
_OWED: Final = 100
"""Acknowledgements that a phone may owe before it goes off: a hub stops to push at 256."""
_MODELS: Final = ("A1 mini", "B2", "C3 pro", "D4 max")


class _Seat:
    """Somebody other than a phone who subscribes: there, or away and coming back."""

    def __init__(self, protocol: str, client: str, topics: list[str], acks: bool):
        self.protocol = protocol
        self.client = client
        self.topics = topics
        self.acks = acks
        self.line: Asker | None = None
        self.ticket: Any = None
        self.away: Listener | None = None
        """Collects what is published meanwhile."""


class Rounds:
    """Everybody who subscribes, and those who publish."""

    def __init__(self, house: House, topics: Topics, owners: list[Owner]):
        self._house = house
        self._topics = topics
        self._owners = owners
        self._seats: list[_Seat] = []
        self._publishers: list[Asker] = []
        self._gateway: Gateway | None = None
        self._users: list[TunnelUser] = []

    # -- the whole ---------------------------------------------------------------------------

    async def open(
        self, seats: list[tuple[str, str]], publishers: list[tuple[str, str]], users: list[str]
    ) -> None:
        """Everybody comes; each seat and publisher is a protocol and a client."""
        for number, (protocol, client) in enumerate(seats):
            self._seats.append(_Seat(protocol, client, self._some_topics(), number % 2 == 0))
        await _together([self._take_seat(each) for each in self._seats])
        self._publishers = await _together(
            [self._house.asker(protocol, client) for protocol, client in publishers]
        )
        self._gateway = await self._house.gateway()
        for number, client in enumerate(users, 1):
            self._users.append(await self._user(self._gateway, client, number))
        await self._publishers[0].must("test/echo", text="is everything here?")
        later = [each for each in self._owners[len(TEMPERS) :] if self._turns()]
        await _together([self._switch_on(each) for each in self._owners if each not in later])
        await self._calm()

    async def run(self) -> None:
        """Rounds until the end."""
        while self._house.left_s > 0:
            await self._publish_for(min(_ROUND_S, self._house.left_s))
            await self._calm()
            if self._house.left_s > _ROUND_S / 2:
                await self._turn()
                await self._calm()

    async def close(self) -> None:
        """Everybody goes."""
        house = self._house
        assert self._gateway is not None
        for user in self._users:
            user.leave()
        await self._gateway.close()
        house.lines.discard(self._gateway)
        phones = [each.phone for each in self._owners if each.phone is not None]
        others = [each.line for each in self._seats if each.line is not None]
        await _together([house.hang_up(each) for each in (*phones, *others, *self._publishers)])

    async def _calm(self) -> None:
        """Until everything that is due has come, and nothing is under way."""
        lines: list[Any] = [
            *(each.phone for each in self._owners if each.phone is not None),
            *(each.line for each in self._seats if each.line is not None),
            *self._users,
        ]
        await self._house.settled(
            lambda: all(each.calm for each in lines), "the pushes that are due"
        )
        for each in lines:
            each.settle()

    def _turns(self) -> bool:
        return self._house.chance.random() < _TURNS

    def _some_topics(self) -> list[str]:
        chance, names = self._house.chance, self._topics.names
        return sorted(chance.sample(names, min(2, len(names))))

    # -- publishing --------------------------------------------------------------------------

    async def _publish_for(self, seconds: float) -> None:
        ways: list[Callable[[str, str], Awaitable[tuple[str, int]]]]
        ways = [self._by_http, *(self._by(each) for each in self._publishers)]
        until = asyncio.get_running_loop().time() + seconds
        rate = self._house.population.publishes_per_s / len(ways)
        await _together([self._publish(way, rate, until) for way in ways])

    async def _publish(
        self, way: Callable[[str, str], Awaitable[tuple[str, int]]], rate: float, until: float
    ) -> None:
        house, chance = self._house, self._house.chance
        loop = asyncio.get_running_loop()
        topic = self._topics.names[0]  # everybody hears something, however short it is
        while loop.time() < until:
            if way == self._by_http and chance.random() < _PRIVATE:
                await self._to_one(chance.choice(self._owners))
            else:
                asked_ns = time.time_ns()
                found, audience = await way(topic, _content(house))
                self._topics.published(topic, found, asked_ns, audience)
            await house.pause(chance.expovariate(rate))
            topic = self._topics.names[int(chance.random() ** 2 * len(self._topics.names))]

    async def _by_http(self, topic: str, content: str) -> tuple[str, int]:
        return await self._house.admin.publish(topic=topic, content=content)

    def _by(self, line: Asker) -> Callable[[str, str], Awaitable[tuple[str, int]]]:
        async def publish(topic: str, content: str) -> tuple[str, int]:
            found = await line.must("hub/publish", topic=topic, content=content)
            return str(found["id"]), int(found["audience"])

        return publish

    async def _to_one(self, owner: Owner) -> None:
        asked_ns = time.time_ns()
        found, audience = await self._house.admin.publish(
            client=owner.client, content=_content(self._house)
        )
        self._topics.published_to(owner.client, owner.phone, found, asked_ns, audience)

    # -- coming and going --------------------------------------------------------------------

    async def _turn(self) -> None:
        """Some phones go off, some come on; one other leaves, who was away comes back."""
        chance = self._house.chance
        await _together([self._phone_turn(each) for each in self._owners])
        away = [each for each in self._seats if each.line is None]
        there = [each for each in self._seats if each.line is not None]
        await _together([self._take_seat(each) for each in away])
        if there:
            leaver = chance.choice(there)
            await self._leave_seat(leaver)
            there.remove(leaver)
        askers = [*self._publishers, *self._users, *(each.line for each in there if each.line)]
        await _together([each.ask("test/echo", text="still here") for each in askers])

    async def _phone_turn(self, owner: Owner) -> None:
        chance = self._house.chance
        turn, mood = self._turns(), chance.random()
        phone = owner.phone
        if phone is not None and phone.owed > _OWED:
            turn = True
        if phone is None:
            if turn:
                await self._switch_on(owner)
        elif turn:
            owner.phone = None
            self._topics.leave(phone)
            await self._house.hang_up(phone)
        elif mood < _MOODS and len(owner.topics) > 1:
            topic = owner.topics.pop()
            await phone.ask(comet.Unsubscribe(topics=(topic,)))
            self._topics.leave(phone)
            for name in owner.topics:
                self._topics.enter(name, phone)
        elif mood < 4 * _MOODS:
            await phone.ask(comet.Heartbeat())

    async def _switch_on(self, owner: Owner) -> None:
        chance = self._house.chance
        phone = await self._house.phone(owner.client, owner.temper)
        if owner.sealed:
            await phone.exchange_key()
        model = chance.choice(_MODELS)
        network, isp = chance.choice(tuple(comet.NetworkType)), chance.choice(tuple(comet.Isp))
        await phone.ask(comet.ReportEnviron(network_type=network, isp=isp, phone_type=model))
        if owner.new:
            owner.new = False
            await phone.ask(comet.Subscribe(topics=tuple(owner.topics)))
        elif chance.random() < _TURNS:
            await phone.ask(comet.GetTopicList())
        await phone.fetch()
        owner.phone = phone
        for name in owner.topics:
            self._topics.enter(name, phone)

    async def _take_seat(self, seat: _Seat) -> None:
        """Comes, or comes back: a device with its ticket, others by subscribing anew."""
        line = await self._house.asker(seat.protocol, seat.client, seat.ticket)
        line.acks = seat.acks
        if seat.away is not None:
            self._topics.leave(seat.away)
            for notification in seat.away.missing:
                line.expect(notification)
            seat.away = None
        seat.line = line
        if seat.ticket is None:
            await line.must("hub/subscribe", topics=seat.topics, ack=seat.acks)
        for name in seat.topics:
            self._topics.enter(name, line)

    async def _leave_seat(self, seat: _Seat) -> None:
        line, seat.line = seat.line, None
        assert line is not None
        self._topics.leave(line)
        seat.away = Listener()
        for name in seat.topics:
            self._topics.enter(name, seat.away)
        if isinstance(line, Device):
            seat.ticket = line.session.ticket
        await self._house.hang_up(line)

    async def _user(self, gateway: Gateway, client: str, number: int) -> TunnelUser:
        user = await gateway.connect(number)
        await user.sign_on(client, self._house.tokens[client])
        user.acks = number % 2 == 0
        topics = self._some_topics()
        await user.must("hub/subscribe", topics=topics, ack=user.acks)
        for name in topics:
            self._topics.enter(name, user)
        return user


def _content(house: House) -> str:
    return f"notice {house.chance.randrange(10**6):06d}" + " …" * house.chance.randrange(20)


async def _together(work: list[Any]) -> list[Any]:
    """Does all of it; the first that fails ends the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
    return [task.result() for task in tasks]
