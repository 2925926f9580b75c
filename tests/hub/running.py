"""A hub of its own for a test: every port free, a folder that goes away, tokens at hand.

    async with running(clients=["alice"], listeners=["comet"], comet={"push_after": "list"}) as it:
        reader, writer = await asyncio.open_connection(*it.address("comet"))
        it.tokens["alice"]; it.hub.counters ...

Tables of the configuration are given by name, as dicts; what a table does not say has its default,
except that every port is 0.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hub.stores import database_of, store_table

from wirelake.hub.config import Config, make_config
from wirelake.hub.errors import HubError
from wirelake.hub.hub import Hub
from wirelake.hub.pubsub.notifications import Publication, Published
from wirelake.hub.rpc.services import Services
from wirelake.hub.store import add_client

LISTENERS = ("esnp", "tny", "relay", "magline", "comet")
"""Every listener there is."""
DEADLINE_S = 20.0
"""How long anything may take before a test gives up."""


@dataclass(frozen=True)
class Running:
    """A hub that runs in this loop."""

    hub: Hub
    data: Path
    tokens: dict[str, str]
    """The token of each client."""

    @property
    def database(self) -> Any:
        """Its database: a path, or an address."""
        return database_of(self.data)

    def address(self, listener: str) -> tuple[str, int]:
        """Where a listener listens."""
        return self.hub.listeners[listener].addresses[0]

    async def publish(
        self,
        topic: str | None = None,
        content: bytes = b"hello",
        *,
        client: str | None = None,
        ttl_s: float | None = None,
        type: int = 0,  # noqa: A002 - as in the publication
    ) -> Published:
        """Publishes, and waits for the confirmation."""
        done: asyncio.Future[Published | HubError] = self.hub.loop.create_future()
        publication = Publication(
            topic=topic, client=client, content=content, type=type, ttl_s=ttl_s
        )
        self.hub.topics.publish(publication, done.set_result)
        outcome = await asyncio.wait_for(done, DEADLINE_S)
        if isinstance(outcome, HubError):
            raise outcome
        return outcome


def free_config(listeners: Iterable[str] = LISTENERS, **tables: Any) -> Config:
    """A configuration with these listeners open, on free ports; `tables` change it."""
    data: dict[str, dict[str, Any]] = {name: {"port": 0} for name in (*LISTENERS, "admin")}
    for name in LISTENERS:
        data[name]["enabled"] = name in tuple(listeners)
    for name, changes in tables.items():
        data.setdefault(name, {}).update(changes)
    return make_config(data)


@asynccontextmanager
async def running(
    *,
    clients: Iterable[str] = (),
    listeners: Iterable[str] = LISTENERS,
    services: Services | None = None,
    data: str | Path | None = None,
    **tables: Any,
) -> AsyncIterator[Running]:
    """Runs a hub in this loop; its data stays when `data` says where it is to be."""
    with tempfile.TemporaryDirectory(prefix="wirelake-hub-") as scratch:
        folder = Path(scratch if data is None else data)
        folder.mkdir(parents=True, exist_ok=True)
        tables["store"] = {**store_table(folder), **tables.get("store", {})}
        config = free_config(listeners, **tables)
        tokens = {name: add_client(database_of(folder), name) for name in clients}
        hub = Hub(config, folder, services)
        await hub.start()
        try:
            yield Running(hub, folder, tokens)
        finally:
            await hub.stop()


async def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Waits until something is true; a test that waits for ever fails."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"{what}: not within {DEADLINE_S:.0f} s")
        await asyncio.sleep(0.005)
