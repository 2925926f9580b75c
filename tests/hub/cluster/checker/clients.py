"""Publishers and subscribers of every protocol, which wander from hub to hub."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.hub.cluster.checker.history import History
from tests.hub.cluster.checker.nodes import Node

from wirelake.client import ClientError, connect

__all__ = ["CALLING", "PROTOCOLS", "Publisher", "Subscriber"]

CALLING = ("esnp", "tny", "magline")
"""Protocols that can publish."""
PROTOCOLS = (*CALLING, "comet")
TOPICS = ("@a", "@b")
_TIMES: dict[str, Any] = {
    "timeout_s": 2.0,
    "connect_timeout_s": 1.0,
    "sign_on_timeout_s": 3.0,
    "reconnect": False,
}


class Wanderer:
    """A client of one protocol, with one connection at a time."""

    def __init__(
        self, name: str, protocol: str, token: str, nodes: list[Node], history: History, seed: int
    ):
        self.name = name
        self.protocol = protocol
        self.over = False
        self._token = token
        self._nodes = nodes
        self._history = history
        self._random = random.Random(seed)

    def _url(self) -> tuple[str, dict[str, Any]]:
        """One of the hubs; or all, of which the client chooses one."""
        options: dict[str, Any] = {"id": self.name, "token": self._token, **_TIMES}
        nodes = self._random.sample(self._nodes, len(self._nodes))
        if self.protocol == "magline":
            # Each hub has a key of its own.
            options["pinned"] = (nodes[0].data / "magline.pub").read_text()
        if self.protocol == "magline" or self._random.random() < 0.7:
            nodes = nodes[:1]
        places = ",".join(f"127.0.0.1:{each.ports[self.protocol]}" for each in nodes)
        return f"{self.protocol}://{places}", options


class Publisher(Wanderer):
    """Publishes to topics and clients. With a key it repeats until it is confirmed, anywhere."""

    async def run(self, clients: list[str]) -> None:
        """Publish until it is over."""
        number = 0
        while not self.over:
            url, options = self._url()
            try:
                async with connect(url, **options) as client:
                    for _ in range(self._random.randrange(1, 60)):
                        if self.over:
                            return
                        number += 1
                        await self._publish(client, f"{self.name}/{number}", clients)
                        await asyncio.sleep(self._random.uniform(0.0, 0.12))
            except (ClientError, OSError):
                await asyncio.sleep(0.05)

    async def _publish(self, client: Any, content: str, clients: list[str]) -> None:
        to = self._random.choice(clients) if self._random.random() < 0.25 else None
        topic = None if to else self._random.choice(TOPICS)
        key = content if self._random.random() < 0.5 else None
        self._history.add("send", content=content, topic=topic, to=to, key=bool(key))
        given = {"client": to} if to else {"topic": topic}
        try:
            done = await client.publish(content, id=key, **given)
        except ClientError as error:
            self._history.add("fail", content=content, error=str(error))
            if key is not None:
                await self._repeat(content, given)
            raise
        self._history.add("confirm", content=content, id=done.id)

    async def _repeat(self, content: str, given: dict[str, Any]) -> None:
        """Publish the same with the same key, at other hubs, until it is confirmed."""
        for _ in range(40):
            url, options = self._url()
            with suppress(ClientError, OSError):
                async with connect(url, **options) as client:
                    done = await client.publish(content, id=content, **given)
                    self._history.add("confirm", content=content, id=done.id)
                    return
            await asyncio.sleep(0.1)


class Subscriber(Wanderer):
    """Visits hubs, for a moment or for long; acknowledges most of what it gets."""

    def __init__(self, *values: Any):
        super().__init__(*values)
        self._visit = 0

    async def run(self) -> None:
        """Visit hubs until it is over and nothing is missing."""
        while not (self.over and not self._history.missing(self.name)):
            try:
                await self._one_visit(self._random.choice((0.1, 0.5, 2.0, 60.0)))
            except (ClientError, OSError) as error:
                self._history.add(
                    "lost", client=self.name, visit=self._visit, error=f"{error!r:.120}"
                )
            await asyncio.sleep(self._random.uniform(0.0, 0.1))

    async def subscribe(self) -> None:
        """Subscribe, and go away again."""
        url, options = self._url()
        self._history.add("asks", client=self.name, topics=TOPICS)
        async with connect(url, **options) as client:
            await client.subscribe(*TOPICS)
            self._history.add("subscribed", client=self.name, topics=TOPICS)

    async def _one_visit(self, length_s: float) -> None:
        self._visit += 1
        visit, (url, options) = self._visit, self._url()
        self._history.add("dial", client=self.name, visit=visit, url=url)
        until = asyncio.get_running_loop().time() + length_s * self._random.uniform(0.5, 1.5)
        async with connect(url, **options) as client:
            if self.protocol != "comet" or self._random.random() < 0.3:
                await client.subscribe(*TOPICS)
            place = client.address.place
            self._history.add("visits", client=self.name, visit=visit, place=place)
            # One that leaves pages of comet unacknowledged gets no more of them: it has to leave.
            careless = self._random.random() < 0.3
            await self._read(
                client,
                visit,
                lambda: not (careless and self.over) and self._goes_on(until),
                careless=careless,
            )
        self._history.add("leaves", client=self.name, visit=visit)

    def _goes_on(self, until: float) -> bool:
        # In the end it stays where it is: a connection must not be forgotten by its hub.
        if self.over:
            return bool(self._history.missing(self.name))
        return asyncio.get_running_loop().time() < until

    async def _read(
        self, client: Any, visit: int, goes_on: Callable[[], bool], *, careless: bool
    ) -> None:
        notifications = aiter(client.notifications())
        coming: asyncio.Future[Any] | None = None
        try:
            while goes_on():
                if coming is None:
                    coming = asyncio.ensure_future(anext(notifications))
                done, _ = await asyncio.wait([coming], timeout=0.05)
                if not done:
                    continue
                got, coming = coming.result(), None
                self._history.add(
                    "deliver", client=self.name, visit=visit, id=got.id, content=got.text
                )
                if careless and self._random.random() < 0.2:
                    continue
                self._history.add("ack", client=self.name, visit=visit, id=got.id)
                await client.ack(got)
                self._history.add("acked", client=self.name, visit=visit, id=got.id)
        except StopAsyncIteration:
            return
        finally:
            if coming is not None:
                coming.cancel()
                with suppress(BaseException):
                    await coming
