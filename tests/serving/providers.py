"""Service processes for tests: the same services in Python, and in a process with sockets alone.

    async with offered(kind, it): ...

offers demo/add, demo/count, demo/never and demo/cancelled to a hub, until the block ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.hub.listeners_esnp.peer import Peer, signed_on
from tests.hub.running import DEADLINE_S, Running, running, until

from wirelake.client import Client, connect
from wirelake.hub.rpc.services import Services
from wirelake.serving import ServiceProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "services" / "socket_service.py"
KINDS = ("python", "socket")
RIGHTS = {"clients": [{"ids": ["demo-*"], "serve": ["demo/*"]}]}
NUMBERS = {"add": 3001, "count": 3002, "never": 3003, "cancelled": 3004}


def serving_hub(**options: Any) -> AbstractAsyncContextManager[Running]:
    """A hub whose clients demo-1 to demo-3 may offer demo/*, and alice, who calls."""
    options.setdefault("rights", RIGHTS)
    options.setdefault("listeners", ["esnp"])
    return running(clients=["alice", "demo-1", "demo-2", "demo-3"], **options)


def demo_services() -> Services:
    """What `examples/services/socket_service.py` offers, in Python."""
    services = Services()
    cancelled = 0

    def numbers(op: str) -> dict[str, int]:
        return {"tny": NUMBERS[op], "magline": NUMBERS[op]}

    @services.service("demo", "add", thread=False, **numbers("add"))
    def add(a: int, b: int) -> dict[str, int]:
        return {"c": a + b}

    @services.service("demo", "count", thread=False, **numbers("count"))
    async def count(n: int) -> Any:
        for i in range(n):
            yield {"i": i}

    @services.service("demo", "never", thread=False, **numbers("never"))
    async def never() -> None:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        finally:
            cancelled += 1

    @services.service("demo", "cancelled", thread=False, **numbers("cancelled"))
    def how_many() -> dict[str, int]:
        return {"n": cancelled}

    return services


def url_of(it: Running, protocol: str = "esnp") -> str:
    return "{}://{}:{}".format(protocol, *it.address(protocol))


def process(it: Running, client: str = "demo-1", **options: Any) -> ServiceProcess:
    """A process in Python, with these services unless others are given."""
    services = options.pop("services", None) or demo_services()
    options.setdefault("backoff_s", 0.01)
    return ServiceProcess(services, url_of(it), id=client, token=it.tokens[client], **options)


@asynccontextmanager
async def offered(kind: str, it: Running, client: str = "demo-1") -> AsyncIterator[Any]:
    """A process that offers the services; what it yields ends it with `kill`."""
    if kind == "python":
        async with process(it, client) as made:
            yield made
        return
    host, port = it.address("esnp")
    started = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), host, str(port), client, it.tokens[client]
    )
    try:
        await until(lambda: names(it), "it offers its services")
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await asyncio.wait_for(started.wait(), DEADLINE_S)


def names(it: Running) -> list[str]:
    """The names of services that some process offers."""
    return [each.name for each in it.hub.services.every if each.where]


async def lose(kind: str, made: Any) -> None:
    """Ends a process without a word."""
    if kind == "python":
        made._connection.abort()
    else:
        made.kill()


def alice(it: Running, protocol: str = "esnp", **options: Any) -> Client:
    """A client that calls."""
    return connect(url_of(it, protocol), id="alice", token=it.tokens["alice"], **options)


@asynccontextmanager
async def raw_process(
    it: Running, offers: Sequence[dict[str, Any]], calls: int = 8
) -> AsyncIterator[Peer]:
    """A process by hand: a connection that has offered services, and obeys no other rule."""
    async with signed_on(it, "demo-1") as peer:
        await peer.ok("hub/serve", services=offers, calls=calls)
        yield peer
