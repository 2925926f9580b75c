"""The hub as a relay backend: links come in, and tunnels are clients like others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.hub.running import DEADLINE_S, free_config, running, until

from wirelake.hub.config import ConfigError
from wirelake.hub.listeners.relay import RelayListener
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.protocols.sansio import Event
from wirelake.protocols.tny.layout import (
    LinkClose,
    LinkOpen,
    LinkOpened,
    LinkPing,
    LinkPong,
    Message,
    Mode,
    RelayPacket,
)
from wirelake.protocols.tny.protocol import RELAY
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import LinkUp, Relayed, TunnelAnswered, TunnelClosed
from wirelake.wire import Protobuf

OPEN = {"auth": "none"}
SERVICE = "game"


class Link:
    """A gateway's link over a real socket."""

    def __init__(
        self,
        tunnels: GatewayTunnels,
        key: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ):
        self.session = GatewayLink(
            tunnels, service=SERVICE, opening=LinkOpen(service="gate", instance=9, key=key)
        )
        self.events: list[Event] = []
        self.writer = writer
        self._reader = reader
        self._task = asyncio.ensure_future(self._read())
        self.flush()

    async def _read(self) -> None:
        with suppress(ConnectionError):
            while data := await self._reader.read(65_536):
                self.session.receive(data, asyncio.get_running_loop().time())
                self.flush()
        self.session.receive_eof()
        self.flush()

    def flush(self) -> None:
        """Fetches events and bytes."""
        self.events += self.session.events()
        if data := self.session.to_send():
            self.writer.write(data)

    async def wait(self, kind: type[Event], count: int = 1) -> list[Event]:
        """The events of a kind, when there are so many."""
        await until(lambda: len(self._of(kind)) >= count, f"{count} {kind.__name__}")
        return self._of(kind)

    def _of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    async def answers(self, count: int) -> list[Message]:
        """What was relayed back."""
        found = await self.wait(Relayed, count)
        return [event.message for event in found if isinstance(event, Relayed)]

    async def close(self) -> None:
        """Cuts the link off."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()


@asynccontextmanager
async def link_to(
    address: tuple[str, int], tunnels: GatewayTunnels, key: str = "one"
) -> AsyncIterator[Link]:
    """A link that is dialled."""
    reader, writer = await asyncio.open_connection(*address)
    link = Link(tunnels, key, reader, writer)
    try:
        yield link
    finally:
        await link.close()


def request(number: int, protocol: int, body: object = None) -> Message:
    data = json.dumps(body).encode() if body is not None else None
    return Message(id=number, protocol=protocol, time=1, body=data)


def test_tunnels_have_the_rights_of_their_client() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        rights = {"clients": [{"ids": ["~**"], "call": ["test/echo"], "publish": ["@own"]}]}
        async with (
            running(listeners=["relay"], services=demo_services(), relay=OPEN, rights=rights) as it,
            link_to(it.address("relay"), tunnels) as link,
        ):
            await link.wait(LinkUp)
            tunnels.connect(SERVICE, 1, ip=bytes([10, 0, 0, 1]), port=4001)
            asked = [(1001, {}), (1002, {"a": 1, "b": 2}), (13, {"topic": "@a", "content": "x"})]
            for number, (protocol, body) in enumerate(asked, 1):
                tunnels.relay(SERVICE, 1, request(number, protocol, body))
            link.flush()
            answers = await link.answers(3)
            codes = [json.loads(each.body or b"{}").get("code") for each in answers]
            assert codes == [None, "forbidden", "forbidden"]

    asyncio.run(go())


def test_tunnels_call_services() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        async with (
            running(listeners=["relay"], services=demo_services(), relay=OPEN) as it,
            link_to(it.address("relay"), tunnels) as link,
        ):
            await link.wait(LinkUp)
            for user in (1, 2):
                tunnels.connect(SERVICE, user, ip=bytes([10, 0, 0, user]), port=4000 + user)
                tunnels.relay(SERVICE, user, request(1, 1002, {"a": user, "b": 10}))
            link.flush()
            await link.wait(TunnelAnswered, 2)
            first, second = await link.answers(2)
            assert (first.mode, first.code, first.to_message) == (Mode.RESPONSE, 100, 1)
            assert [json.loads(each.body or b"") for each in (first, second)] == [
                {"c": 11},
                {"c": 12},
            ]
            found = [each for each in it.hub.connections.values() if each.protocol == "tny"]
            assert sorted(each.peer for each in found) == [("10.0.0.1", 4001), ("10.0.0.2", 4002)]
            tunnels.disconnect(1)
            link.flush()
            await until(lambda: it.hub.counters.close_reasons["tny", "disconnected"] == 1)

    asyncio.run(go())


def test_a_tunnel_signs_on_like_other_connections() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        async with (
            running(listeners=["relay"], services=demo_services(), clients=["alice"]) as it,
            link_to(it.address("relay"), tunnels) as link,
        ):
            await link.wait(LinkUp)
            tunnels.connect(SERVICE, 1)
            sign_on = {"id": "alice", "token": it.tokens["alice"]}
            tunnels.relay(SERVICE, 1, request(1, 10, sign_on))
            tunnels.relay(SERVICE, 1, request(2, 1002, {"a": 1, "b": 1}))
            tunnels.connect(SERVICE, 2)
            tunnels.relay(SERVICE, 2, request(1, 1002, {"a": 1, "b": 1}))
            link.flush()
            answers = await link.answers(3)
            # Tunnels do not wait for each other.
            assert sorted(each.code for each in answers) == [100, 100, 210]
            closed = await link.wait(TunnelClosed)
            assert closed == [TunnelClosed(tunnels.key(2), "disconnected")]
            assert it.hub.counters.close_reasons["tny", "code_210"] == 1

    asyncio.run(go())


def test_a_tunnel_that_does_not_sign_on_in_time_is_closed() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        async with (
            running(listeners=["relay"], limits={"auth_s": 0.05}) as it,
            link_to(it.address("relay"), tunnels) as link,
        ):
            await link.wait(LinkUp)
            tunnels.connect(SERVICE, 1)
            link.flush()
            await link.wait(TunnelClosed)
            (said,) = await link.answers(1)
            assert (said.mode, said.code) == (Mode.PUSH, 210)
            assert it.hub.counters.close_reasons["tny", "auth_timeout"] == 1

    asyncio.run(go())


def test_a_tunnel_outlives_its_link() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        async with running(listeners=["relay"], services=demo_services(), clients=["alice"]) as it:
            async with link_to(it.address("relay"), tunnels) as link:
                await link.wait(LinkUp)
                tunnels.connect(SERVICE, 1)
                sign_on = {"id": "alice", "token": it.tokens["alice"]}
                tunnels.relay(SERVICE, 1, request(1, 10, sign_on))
                link.flush()
                await link.answers(1)
            link.session.receive_eof()
            await until(lambda: it.hub.counters.close_reasons["relay", "eof"] == 1)
            async with link_to(it.address("relay"), tunnels, "two") as link:
                await link.wait(LinkUp)
                tunnels.relay(SERVICE, 1, request(2, 1002, {"a": 4, "b": 4}))
                link.flush()
                (answer,) = await link.answers(1)
                assert (answer.code, answer.to_message) == (100, 2)

    asyncio.run(go())


def test_a_tunnel_without_a_new_link_is_closed() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        async with running(listeners=["relay"], relay=OPEN) as it:
            async with link_to(it.address("relay"), tunnels) as link:
                await link.wait(LinkUp)
                tunnels.connect(SERVICE, 1)
                link.flush()
                await link.wait(TunnelAnswered)
            await until(lambda: not any(e.protocol == "relay" for e in it.hub.connections.values()))
            listener = it.hub.listeners["relay"]
            assert isinstance(listener, RelayListener)
            assert len(it.hub.connections) == 1
            listener.check_deadlines(it.hub.loop.time() + listener.registry.limits.keep_s - 1)
            assert len(it.hub.connections) == 1
            listener.check_deadlines(it.hub.loop.time() + listener.registry.limits.keep_s)
            assert it.hub.counters.close_reasons["tny", "expired"] == 1
            assert not it.hub.connections

    asyncio.run(go())


def test_gateways_from_other_addresses_are_refused() -> None:
    async def go() -> None:
        relay = {**OPEN, "allow": ["10.1.0.0/16", "fd00::1"]}
        async with running(listeners=["relay"], relay=relay) as it:
            reader, writer = await asyncio.open_connection(*it.address("relay"))
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
            writer.close()
            assert it.hub.counters.refused == {"not_allowed": 1}
            listener = it.hub.listeners["relay"]
            assert isinstance(listener, RelayListener)
            found = [listener.allows(each) for each in ("10.1.2.3", "::ffff:10.1.9.9", "fd00::1")]
            assert found == [True, True, True]
            assert not listener.allows("10.2.0.1")

    asyncio.run(go())


def test_an_address_that_is_none_is_named() -> None:
    async def go() -> None:
        with pytest.raises(ConfigError, match=r"relay.allow: .*'gateway-7'"):
            async with running(listeners=["relay"], relay={"allow": ["gateway-7"]}):
                pass

    asyncio.run(go())


def test_tunnels_that_need_not_sign_on_are_for_loopback() -> None:
    with pytest.raises(ConfigError, match=r'relay.auth: "none" is allowed on loopback'):
        free_config(["relay"], relay={**OPEN, "host": "0.0.0.0", "allow": ["10.0.0.1"]})


@pytest.mark.parametrize("dialect", ["seed", "upstream"])
def test_bytes_in_void_packets_are_ignored_in_upstream_only(dialect: str) -> None:
    """The original reads no arguments of a ping, a pong and a close (section 8.11)."""

    def packet(number: int, arguments: Protobuf) -> bytes:
        made: bytes = RELAY.encode(RelayPacket(id=number, arguments=arguments), dialect=dialect)
        return made

    async def story() -> None:
        async with running(listeners=["relay"], relay={**OPEN, "dialect": dialect}) as it:
            reader, writer = await asyncio.open_connection(*it.address("relay"))

            async def answer() -> Protobuf:
                head = await reader.readexactly(7)
                data = head + await reader.readexactly(int.from_bytes(head[3:], "little"))
                found, _ = RELAY.decode(data, dialect=dialect)
                return found.arguments  # type: ignore[no-any-return]

            writer.write(packet(1, LinkOpen(service="gate", instance=9, key="k")))
            assert await answer() == LinkOpened(result=True)
            # A protobuf field that nobody knows is no error in either dialect.
            writer.write(packet(2, LinkPing(unknown=b"\xa8\x06\x01")))
            assert await answer() == LinkPong()
            for number, void in enumerate((LinkPong, LinkPing, LinkClose), 3):
                writer.write(packet(number, void(unknown=b"\xff\xff")))
            if dialect == "upstream":
                assert await answer() == LinkPong()
                assert await answer() == LinkClose()
            assert await reader.read() == b""
            writer.close()
            await until(lambda: not it.hub.connections, "the link ends")
            failures = [code for (_, code), times in it.hub.counters.failures.items() if times]
            assert failures == (["varint_truncated"] if dialect == "seed" else [])

    asyncio.run(story())


def test_nothing_but_opening_is_taken_from_a_new_link() -> None:
    async def go() -> None:
        async with running(listeners=["relay"]) as it:
            reader, writer = await asyncio.open_connection(*it.address("relay"))
            writer.write(b"rpk\x0d\x00\x00\x00\x01\x00\x00\x00\x05" + bytes(8))  # LINK_PING
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
            writer.close()
            await until(lambda: it.hub.counters.close_reasons["relay", "bad_state"] == 1)

    asyncio.run(go())
