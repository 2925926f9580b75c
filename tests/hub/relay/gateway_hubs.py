"""Gateways and backends for tests, all in one loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.hub.listeners_tny.tny_client import TnyClient, body_of
from tests.hub.running import Running, running, until

from wirelake.hub.listeners.tny_gateway import GatewayListener
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Call, Services

OPEN = {"auth": "none"}
"""A listener that lets everybody in."""
MUCH = bytes(500_000)
"""What 2001 answers."""


def services_of(name: str) -> Services:
    """The services for trying out; 2000, which says the backend's name and how often this user has
    asked it; and 2001, which says much."""
    services = demo_services()
    asked: dict[int, int] = {}

    @services.service("test", "who", tny=2000)
    def who(call: Call) -> dict[str, Any]:
        number = call.connection.id
        asked[number] = asked.get(number, 0) + 1
        return {"name": name, "asked": asked[number], "peer": call.connection.peer[0]}

    @services.service("test", "much", tny=2001)
    def much(call: Call) -> bytes:  # noqa: ARG001
        return MUCH

    return services


@asynccontextmanager
async def backend(name: str, port: int = 0, **tables: Any) -> AsyncIterator[Running]:
    """A hub that takes links, perhaps on the port of one before it."""
    relay = {**tables.pop("relay", OPEN), "port": port}
    async with running(
        listeners=["relay"], services=services_of(name), relay=relay, **tables
    ) as it:
        yield it


@asynccontextmanager
async def gateway(
    *ports: int, links: int = 1, tls: bool = False, dialect: str = "seed", **tables: Any
) -> AsyncIterator[Running]:
    """A hub that relays to backends at these ports."""
    settings = {
        "enabled": True,
        "links": links,
        "dialect": dialect,
        "backends": [{"host": "127.0.0.1", "port": port, "tls": tls} for port in ports],
        **tables.pop("gateway", {}),
    }
    tny = {**OPEN, **tables.pop("tny", {})}
    async with running(listeners=["tny"], tny=tny, gateway=settings, **tables) as it:
        yield it


def listener_of(it: Running) -> GatewayListener:
    """The gateway's listener."""
    listener = it.hub.listeners["tny"]
    assert isinstance(listener, GatewayListener)
    return listener


def port_of(it: Running) -> int:
    """Where a backend takes links."""
    return it.address("relay")[1]


def links_up(gate: Running) -> int:
    """How many links of a gateway are open."""
    return sum(link.active for link in listener_of(gate).tunnels.links)


def cut(it: Running) -> None:
    """Cuts every link of a backend off, as a network does."""
    for connection in tuple(it.hub.connections.values()):
        if connection.protocol == "relay":
            connection.drop("cut by the test")


async def kill(it: Running, gate: Running) -> None:
    """Lets a backend be dead, and the gateway notice."""
    links = [link for link in listener_of(gate).tunnels.links if link.active]
    await it.hub.listeners["relay"].stop()
    cut(it)
    await until(lambda: not all(link.active for link in links), "a lost link")


async def who(client: TnyClient) -> dict[str, Any]:
    """Which backend serves a user, and for how long."""
    answer = await client.call(2000, {})
    assert answer.code == 100, answer
    found: dict[str, Any] = body_of(answer)
    return found
