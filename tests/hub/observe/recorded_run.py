"""A run of a hub over all five protocols, recorded with keys, and what its engines made of it.

run = asyncio.run(recorded_run(folder))
run.files, run.ports      for whoever reads the recording
run.rows["calls"]         what the hub said about the same run
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from tests.hub.listeners_comet.phones import phone
from tests.hub.listeners_magline.nodes import node
from tests.hub.running import Running, running, until
from tests.hub.session_client import SessionClient, dial

from wirelake.capture.format.writer import sealed_files
from wirelake.hub.observe.live_decoder import LiveDecoder
from wirelake.hub.pubsub.notifications import Publication
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.protocols.comet.layout import GetMessageList, Heartbeat, ReportEnviron
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp import session as esnp_session
from wirelake.protocols.esnp.values import data_rows
from wirelake.protocols.sansio import Role
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny import session as tny_session
from wirelake.protocols.tny.limits import ClientOptions
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import LinkUp, Relayed
from wirelake.protocols.tny.transform import TransformConfig

TABLES = ("calls", "deliveries", "connections", "tunnels")
CLIENTS = ("anna", "ben", "carl", "dora", "emil", "fay", "gone")
SECURITY = ("one throw-away key", "another", "a third")
TUNNEL = 12_345
_SECURE = TransformConfig(security_keys=SECURITY, verify=True, encrypt=True, waste=True)


@dataclass(frozen=True)
class RecordedRun:
    """What is left of a run."""

    files: list[Path]
    ports: dict[int, str]
    rows: dict[str, list[dict[str, Any]]]
    """By table: what the hub's engines gave."""


async def recorded_run(folder: Path, **record: Any) -> RecordedRun:
    """Runs a hub with somebody at every listener, and stops it."""
    settings = {"folder": str(folder), "keys": True, "tables": True, **record}
    secure = {"security_keys": SECURITY, "verify": True, "encrypt": True, "waste": True}
    async with running(
        clients=CLIENTS,
        services=demo_services(),
        record=settings,
        tny=secure,
        magline={"anonymous": True},
    ) as it:
        ports = {it.address(name)[1]: name for name in it.hub.listeners}
        watch = it.hub.tap.find(LiveDecoder)
        assert watch is not None
        await _everybody(it)
        await until(lambda: not it.hub.connections, "everybody has left")
    assert watch.tables is not None
    rows = {
        table: [msgspec.to_builtins(row) for row in watch.tables.rows(table)] for table in TABLES
    }
    return RecordedRun(sealed_files(folder), ports, rows)


async def _everybody(it: Running) -> None:
    await _phones(it)
    await _services(it)
    await _games(it)
    await _devices(it)
    await _gateways(it)
    await _strangers(it)


async def publish(it: Running, **what: Any) -> str:
    """Publishes; gives the id once it is stored."""
    answer: asyncio.Future[Any] = it.hub.loop.create_future()
    publication = Publication(**{"topic": None, "client": None, **what})
    it.hub.topics.publish(publication, answer.set_result)
    found = await asyncio.wait_for(answer, 20)
    if isinstance(found, Exception):
        raise found
    return str(found.id)


# -- comet -----------------------------------------------------------------------------------


async def _phones(it: Running) -> None:
    """One in the clear, one sealed, one that is never there, one that comes again."""
    async with phone(it, "anna") as clear, phone(it, "ben") as sealed:
        await sealed.exchange_key()
        await clear.subscribe("@news", "@sport")
        await sealed.subscribe("@news")
        await clear.ask(ReportEnviron(network_type=1, isp=2, phone_type="a throw-away phone"))
        for number in range(3):
            found = await publish(it, topic="@news", content=b"number %d" % number)
            assert await clear.content() == await sealed.content() == b"number %d" % number
            await clear.ack(found)
            if number != 1:
                await sealed.ack(found)
        await publish(it, topic="@sport", content=b"not kept", ttl_s=0)
        assert await clear.content() == b"not kept"
        await publish(it, client="ben", content=b"for you alone")
        assert await sealed.content() == b"for you alone"
        await publish(it, client="gone", content=b"nobody is there")
        await clear.ask(Heartbeat())
    await publish(it, topic="@news", content=b"while nobody listens")
    async with phone(it, "ben") as again:
        await again.ask(GetMessageList())


# -- ESNP ------------------------------------------------------------------------------------


class Caller(SessionClient):
    """A client of ESNP."""

    session: esnp_session.EsnpSession

    async def call(self, service: str, op: str, **arguments: Any) -> esnp.Message:
        """Calls, and waits for the answer."""
        self.session.request((*_target(service, op), *data_rows(arguments)))
        self.write()
        return (await self.next(esnp_session.Answered)).message


def _target(service: str, op: str) -> tuple[esnp.Address, ...]:
    return (
        esnp.Address(kind=esnp.AddressKind.SERVICE, value=service),
        esnp.Address(kind=esnp.AddressKind.OP, value=op),
    )


async def _services(it: Running) -> None:
    reader, writer = await dial(it.address("esnp"))
    made = Caller(esnp_session.EsnpSession(Role.CLIENT, now=it.hub.loop.time()), reader, writer)
    await made.call("test", "add", a=1, b=2)  # nobody has signed on
    await made.call("hub", "auth", id="carl", token=it.tokens["carl"])
    await made.call("test", "add", a=1, b=2)
    await made.call("test", "fail")
    await made.call("test", "no such op")
    await made.call("hub", "subscribe", topic="@news")
    await made.call("hub", "publish", topic="@news", content="from a service")
    await made.next(esnp_session.Announced)
    await publish(it, client="carl", content=b"for a service alone")
    await made.next(esnp_session.Announced)
    made.session.request((*_target("test", "sleep"), *data_rows({"ms": 60_000})))
    made.write()
    await until(lambda: it.hub.services.running == 1, "the call has begun")
    await made.hang_up()
    await until(lambda: it.hub.services.running == 0, "the call is cancelled")


# -- tny, its relay, magline -----------------------------------------------------------------


class Player(SessionClient):
    """A client of tny."""

    session: tny_session.ClientSession

    async def ask(self, protocol: int, body: Any) -> tny.Message:
        """Asks, and waits for the answer."""
        self.session.request(protocol, json.dumps(body).encode(), now=0.0)
        self.write()
        return (await self.next(tny_session.Replied)).response


async def _games(it: Running) -> None:
    reader, writer = await dial(it.address("tny"))
    options = ClientOptions(reading=_SECURE, writing=_SECURE)
    session = tny_session.ClientSession(
        options, access_id=TUNNEL, random=os.urandom, now=it.hub.loop.time()
    )
    made = Player(session, reader, writer)
    await made.ask(10, {"id": "dora", "token": it.tokens["dora"]})
    await made.ask(1002, {"a": 1, "b": 2})
    await made.ask(1004, {})
    await made.ask(11, {"topic": "@news"})
    await publish(it, topic="@news", content=b"for players")
    await made.next(tny_session.Pushed)
    await made.hang_up()


async def _devices(it: Running) -> None:
    async with node(it, "emil") as made:
        await made.ask(0x1002, {"a": 1, "b": 2})
        await made.fail(0x1004, {})
        await made.ask(11, {"topic": "@news"})
        await publish(it, topic="@news", content=b"for devices")
        await made.pushed()


async def _gateways(it: Running) -> None:
    reader, writer = await dial(it.address("relay"))
    users = GatewayTunnels(1001)
    opening = tny.LinkOpen(service="gate", instance=1001, key="throw-away")
    now = it.hub.loop.time()
    link = SessionClient(
        GatewayLink(users, service="game", opening=opening, now=now), reader, writer
    )
    link.write()
    await link.next(LinkUp)
    users.connect("game", TUNNEL, ip=bytes([127, 0, 0, 1]), port=8080)
    asked = [(10, {"id": "fay", "token": it.tokens["fay"]}), (1002, {"a": 1, "b": 2}), (1004, {})]
    for number, (protocol, body) in enumerate(asked, 1):
        message = tny.Message(id=number, protocol=protocol, body=json.dumps(body).encode())
        users.relay("game", TUNNEL, message)
        link.write()
        await link.next(Relayed)
    users.disconnect(TUNNEL)
    link.write()
    await link.hang_up()


# -- who does not belong there ---------------------------------------------------------------


async def _strangers(it: Running) -> None:
    """A wrong token, and bytes that are no frame."""
    async with phone(it) as stranger:
        await stranger.sign_on("anna", "a throw-away token that is wrong")
    for listener in ("comet", "esnp", "tny"):
        reader, writer = await dial(it.address(listener))
        writer.write(b"\xff" * 64)
        await asyncio.wait_for(reader.read(), 20)
        writer.close()
        await writer.wait_closed()
