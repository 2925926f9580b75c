"""Limits of tunnels: what a gateway says about its users counts for nobody else."""

from __future__ import annotations

import asyncio

from tests.hub.relay.test_relay_backend import SERVICE, link_to, request
from tests.hub.running import running, until

from wirelake.protocols.tny.relay_gateway import GatewayTunnels
from wirelake.protocols.tny.relay_link import LinkUp, TunnelAnswered, TunnelClosed

_LOOPBACK = bytes([127, 0, 0, 1])


def test_a_claimed_address_is_not_locked_out() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        async with (
            running(listeners=["relay", "tny"], limits={"half_open_per_address": 2}) as it,
            link_to(it.address("relay"), tunnels) as link,
        ):
            await link.wait(LinkUp)
            for user in range(3):
                tunnels.connect(SERVICE, user, ip=_LOOPBACK, port=4_000 + user)
            link.flush()
            await link.wait(TunnelAnswered, 2)
            await link.wait(TunnelClosed)
            assert it.hub.counters.refused == {"half_open_per_address": 1}
            # Two half-open tunnels from 127.0.0.1, as the gateway says, and its own link.
            writers = [(await asyncio.open_connection(*it.address("tny")))[1] for _ in range(3)]
            await until(lambda: it.hub.counters.refused["half_open_per_address"] == 2)
            direct = [
                each
                for each in it.hub.connections.values()
                if each.protocol == "tny" and not each.gateway
            ]
            assert len(direct) == 2
            for writer in writers:
                writer.transport.abort()

    asyncio.run(go())


def test_wrong_tokens_in_a_tunnel_delay_nobody_else() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        async with (
            running(listeners=["relay"], clients=["anna"]) as it,
            link_to(it.address("relay"), tunnels) as link,
        ):
            await link.wait(LinkUp)
            tunnels.connect(SERVICE, 1, ip=_LOOPBACK, port=4_001)
            tunnels.relay(SERVICE, 1, request(1, 10, {"id": "anna", "token": "wrong"}))
            link.flush()
            await link.wait(TunnelClosed)
            authority = it.hub.authority
            assert authority.delay("127.0.0.1") == 0.0
            assert authority.delay("127.0.0.1 behind 127.0.0.1") > 0.0

    asyncio.run(go())


def test_a_gateway_leaves_half_of_the_half_open_connections() -> None:
    async def go() -> None:
        tunnels = GatewayTunnels(9)
        async with (
            running(listeners=["relay", "tny"], limits={"half_open": 6}) as it,
            link_to(it.address("relay"), tunnels) as link,
        ):
            await link.wait(LinkUp)
            for user in range(5):
                tunnels.connect(SERVICE, user, ip=bytes([10, 0, 0, user]), port=4_000)
            link.flush()
            await link.wait(TunnelAnswered, 3)
            await link.wait(TunnelClosed, 2)
            assert it.hub.counters.refused == {"half_open_per_gateway": 2}
            _, writer = await asyncio.open_connection(*it.address("tny"))
            await until(lambda: it.hub.table.count == 5)
            writer.transport.abort()
            await until(lambda: it.hub.table.count == 4)
            # A tunnel that ends makes room for another.
            tunnels.disconnect(0)
            tunnels.connect(SERVICE, 7, ip=bytes([10, 0, 0, 7]), port=4_000)
            link.flush()
            await link.wait(TunnelAnswered, 4)

    asyncio.run(go())
