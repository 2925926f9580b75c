"""Rounds of a live run: clients connect and disconnect, then something is published, then idle.

While clients connect and disconnect nothing is published, and while something is published no
subscriber connects or disconnects. So the audience of every publication is known, and a subscriber
that disconnects has received everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from .calling import together
from .context import RunContext
from .population import ClientPopulation, Publish, Recipient
from .subscribers import Topics

__all__ = ["Rounds"]

_ROUND_S: Final = 2.0
_DIRECT_SHARE: Final = 0.15
"""Share of publications over HTTP that are for one client."""


class Rounds:
    """Alternates between publishing and turns, over all populations."""

    def __init__(
        self,
        run: RunContext,
        topics: Topics,
        populations: Sequence[ClientPopulation],
        publishes_per_s: float,
    ):
        self._run = run
        self._topics = topics
        self._populations = populations
        self._publishes_per_s = publishes_per_s

    async def open(self) -> None:
        """Connect the clients that stay for the whole run."""
        for each in self._populations:
            await each.open(self._run, self._topics)
        await self._idle()

    async def run(self) -> None:
        """Run rounds until the end."""
        while self._run.left_s > 0:
            await self._publish_for(min(_ROUND_S, self._run.left_s))
            await self._idle()
            if self._run.left_s > _ROUND_S / 2:
                await together([each.turn() for each in self._populations])
                await self._idle()

    async def close(self) -> None:
        """Disconnect all clients."""
        await together([each.close() for each in self._populations])

    async def _idle(self) -> None:
        """Wait until everything expected has arrived, and nothing is in flight."""
        present = [each for found in self._populations for each in found.subscribers()]
        await self._run.wait_until(
            lambda: all(each.idle for each in present), "delivery of all notifications"
        )
        for each in present:
            each.reset()

    # -- publishing --------------------------------------------------------------------------

    async def _publish_for(self, seconds: float) -> None:
        recipients = [each for found in self._populations for each in found.recipients()]
        ways = [way for found in self._populations for way in found.publishers()]
        until = asyncio.get_running_loop().time() + seconds
        rate = self._publishes_per_s / (1 + len(ways))
        await together(
            [
                self._publish(self._by_http, recipients, rate, until),
                *(self._publish(way, [], rate, until) for way in ways),
            ]
        )

    async def _publish(
        self, way: Publish, recipients: Sequence[Recipient], rate: float, until: float
    ) -> None:
        run, rng = self._run, self._run.rng
        loop = asyncio.get_running_loop()
        topic = self._topics.names[0]  # every topic's audience is served, however short the run
        while loop.time() < until:
            if recipients and rng.random() < _DIRECT_SHARE:
                await self._publish_to(rng.choice(recipients))
            else:
                asked_ns = time.time_ns()
                found, audience = await way(topic, _content(run))
                self._topics.published(topic, found, asked_ns, audience)
            await run.pause(rng.expovariate(rate))
            topic = self._topics.names[int(rng.random() ** 2 * len(self._topics.names))]

    async def _by_http(self, topic: str, content: str) -> tuple[str, int]:
        return await self._run.admin.publish(topic=topic, content=content)

    async def _publish_to(self, recipient: Recipient) -> None:
        asked_ns = time.time_ns()
        found, audience = await self._run.admin.publish(
            client=recipient.client, content=_content(self._run)
        )
        who = (recipient.protocol, recipient.client)
        self._topics.published_to(who, recipient.subscriber, found, asked_ns, audience)


def _content(run: RunContext) -> str:
    return f"notice {run.rng.randrange(10**6):06d}" + " …" * run.rng.randrange(20)
