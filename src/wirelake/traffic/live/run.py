"""A live run: clients connect to a hub, call, publish, receive and leave; their truth is written.

    summary = simulate_live(HubAddress("http://127.0.0.1:9680", Path("hub-data")), Path("live"))

Callers connect and disconnect as they like. Subscribers take part in rounds: clients connect and
disconnect, then something is published, then all wait until everything has arrived. So none of them
leaves with a notification in flight. At the end all clients leave, and the run waits
until the hub has noticed: everything it records of them is then in the recording.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..plan import SimulateError
from .calling import together
from .connection import RunContext
from .hub_address import Admin, HubAddress, add_clients, find_listeners
from .journal import Journal
from .population import (
    ClientNames,
    ClientPopulation,
    MalformedFrame,
    Publish,
    Recipient,
    Topics,
    populations,
    scaled,
)
from .truth import LiveSummary, write_truth

__all__ = [
    "Progress",
    "Rounds",
    "simulate_live",
]


# -- rounds ------------------------------------------------------------------------------------

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
        publishers = [publish for found in self._populations for publish in found.publishers()]
        until = asyncio.get_running_loop().time() + seconds
        rate = self._publishes_per_s / (1 + len(publishers))
        await together(
            [
                self._publish(self._by_http, recipients, rate, until),
                *(self._publish(publish, [], rate, until) for publish in publishers),
            ]
        )

    async def _publish(
        self, publish: Publish, recipients: Sequence[Recipient], rate: float, until: float
    ) -> None:
        run, rng = self._run, self._run.rng
        loop = asyncio.get_running_loop()
        topic = self._topics.names[0]  # every topic's audience is served, however short the run
        while loop.time() < until:
            if recipients and rng.random() < _DIRECT_SHARE:
                await self._publish_to(rng.choice(recipients))
            else:
                started_ns = time.time_ns()
                found, audience = await publish(topic, _content(run))
                self._topics.published(topic, found, started_ns, audience)
            await run.pause(rng.expovariate(rate))
            # Squared: the first topics are the popular ones, as for subscribers.
            topic = self._topics.names[int(rng.random() ** 2 * len(self._topics.names))]

    async def _by_http(self, topic: str, content: str) -> tuple[str, int]:
        return await self._run.admin.publish(topic=topic, content=content)

    async def _publish_to(self, recipient: Recipient) -> None:
        started_ns = time.time_ns()
        found, audience = await self._run.admin.publish(
            client=recipient.client, content=_content(self._run)
        )
        who = (recipient.protocol, recipient.client)
        self._topics.published_to(who, recipient.subscriber, found, started_ns, audience)


def _content(run: RunContext) -> str:
    return f"notice {run.rng.randrange(10**6):06d}" + " …" * run.rng.randrange(20)


# -- the run -----------------------------------------------------------------------------------

Progress: TypeAlias = Callable[[float, float], None]
"""Called with the seconds that have passed and the seconds in total."""

_MAX_SCALE: Final = 10.0
"""A few thousand connections; one process cannot serve more."""
_MAX_TOPICS: Final = 40
_PUBLISHES_PER_S: Final = (6.0, 16.0, 60.0)
"""Publications a second: at least, at scale 1, at most."""
_TICK_S: Final = 0.25


def simulate_live(
    hub: HubAddress,
    out: Path,
    *,
    seconds: float = 20.0,
    seed: int = 0,
    scale: float = 1.0,
    progress: Progress | None = None,
) -> LiveSummary:
    """Run clients against a hub, and write what a reader of its recording must find.

    `scale` 1 is a population for two cores: some hundreds of connections. The folder must be empty
    or new. Raises SimulateError with a message of one line.
    """
    if not 0 < seconds <= 86_400:
        raise SimulateError(f"invalid seconds {seconds:g}; expected more than 0, at most 86400")
    if not 0 < scale <= _MAX_SCALE:
        raise SimulateError(
            f"invalid scale {scale:g}; expected more than 0, at most {_MAX_SCALE:g}"
        )
    _check(out)
    try:
        journal = asyncio.run(_run(hub, seconds, seed, scale, progress))
    except* SimulateError as group:
        raise _first(group) from None
    try:
        out.mkdir(parents=True, exist_ok=True)
        asked = {"admin": hub.admin, "seconds": seconds, "seed": seed, "scale": scale}
        return write_truth(out, journal, asked)
    except OSError as error:
        raise SimulateError(f"{out}: {error.strerror or error}") from error


def _check(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise SimulateError(f"{out}: not a directory")
    if out.is_dir() and any(out.iterdir()):
        raise SimulateError(f"{out}: not empty")


def _first(group: BaseExceptionGroup[Any]) -> SimulateError:
    # The first failure cancels all other tasks, so the others are its consequences.
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return SimulateError(str(found))


async def _run(
    hub: HubAddress, seconds: float, seed: int, scale: float, progress: Progress | None
) -> Journal:
    if progress is not None:
        progress(0.0, seconds)
    admin = Admin(hub)
    names = ClientNames()
    found = [each(scale, names) for each in populations()]
    malformed = [(each, frame) for each in found for frame in each.malformed]
    clients = names.make("malformed", len(malformed))
    listeners = await find_listeners(admin, [each.listener for each in found])
    # In a thread: it blocks while the hub writes to the same database.
    tokens = await asyncio.to_thread(add_clients, hub.data, names.all)
    run = RunContext(admin, listeners, tokens, seed)
    topics = Topics(
        run.journal,
        [f"@topic-{number:02d}" for number in range(min(_MAX_TOPICS, scaled(12, scale, 3)))],
    )
    least, usual, most = _PUBLISHES_PER_S
    rounds = Rounds(run, topics, found, min(most, max(least, usual * scale)))
    try:
        await rounds.open()
        begun = asyncio.get_running_loop().time()
        run.until = begun + seconds
        async with asyncio.TaskGroup() as group:
            for population in found:
                for task in population.tasks():
                    group.create_task(task)
            for number, ((population, frame), client) in enumerate(
                zip(malformed, clients, strict=True)
            ):
                after_s = seconds * (number + 0.5) / (len(malformed) + 1)
                group.create_task(_send_malformed(run, population, frame, client, after_s))
            group.create_task(rounds.run())
            if progress is not None:
                group.create_task(_report(run, progress, begun, seconds))
        # Only then is everything that the hub knows of these clients in its recording.
        await rounds.close()
        await run.wait_gone()
    finally:
        run.abort()
    return run.journal


async def _send_malformed(
    run: RunContext,
    population: ClientPopulation,
    frame: MalformedFrame,
    client: str,
    after_s: float,
) -> None:
    """Connect a client that sends a malformed frame."""
    await run.pause(after_s)
    connection = await population.connect_malformed(client)
    await connection.send_malformed(frame.data, frame.code)
    run.connections.discard(connection)


async def _report(run: RunContext, progress: Progress, begun: float, seconds: float) -> None:
    while run.left_s > 0:
        progress(asyncio.get_running_loop().time() - begun, seconds)
        await run.pause(_TICK_S)
    progress(seconds, seconds)
