"""A gateway at its edges: dialects, certificates, users that do not read, nobody to relay to."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.listeners_tny.tny_client import body_of, tny_client
from tests.hub.relay.gateway_hubs import (
    OPEN,
    backend,
    gateway,
    kill,
    links_up,
    listener_of,
    port_of,
    services_of,
    who,
)
from tests.hub.running import running, until

from wirelake.client import connect
from wirelake.hub.config import ConfigError
from wirelake.protocols.tny.layout import Attribute, TracingHeader
from wirelake.protocols.tny.limits import ClientOptions
from wirelake.protocols.tny.message import encode_header
from wirelake.protocols.tny.session import ClientSession


@pytest.mark.parametrize("links", ["seed", "upstream"])
@pytest.mark.parametrize("users", ["seed", "upstream"])
def test_users_and_links_may_use_different_dialects(users: str, links: str) -> None:
    async def go() -> None:
        relay = {**OPEN, "dialect": links}
        options = ClientOptions(dialect=users)  # type: ignore[arg-type]
        async with (
            backend("one", relay=relay) as one,
            gateway(port_of(one), dialect=links, tny={"dialect": users}) as gate,
            tny_client(gate.address("tny"), options) as client,
        ):
            await client.ping()
            assert body_of(await client.call(1002, {"a": 1, "b": 2})) == {"c": 3}
            assert (await client.call(1004)).code == 500

    asyncio.run(go())


def test_links_with_certificates_at_both_ends(tmp_path: Path) -> None:
    async def go() -> None:
        tls = make_certificate(tmp_path)
        trusted = {**tls.settings, "client_ca": str(tls.certificate)}
        async with (
            backend("one", relay={**OPEN, "tls": trusted}) as one,
            gateway(port_of(one), tls=True, relay={"tls": trusted}) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            assert (await who(client))["name"] == "one"

    asyncio.run(go())


def test_a_link_without_a_certificate_is_refused(tmp_path: Path) -> None:
    async def go() -> None:
        tls = make_certificate(tmp_path)
        trusted = {**tls.settings, "client_ca": str(tls.certificate)}
        async with (
            backend("one", relay={**OPEN, "tls": trusted}) as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            assert (await client.call(2000, {})).code == 225
            assert not one.hub.connections

    asyncio.run(go())


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    async def go() -> None:
        missing = {"certificate": str(tmp_path / "none.crt"), "key": str(tmp_path / "none.key")}
        with pytest.raises(ConfigError, match=r"relay.tls: .*No such file"):
            async with gateway(1, tls=True, relay={"tls": missing}):
                pass

    asyncio.run(go())


def test_the_last_backend_is_lost() -> None:
    async def go() -> None:
        async with (
            backend("one") as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as busy,
            tny_client(gate.address("tny")) as quiet,
        ):
            for client in (busy, quiet):
                assert (await who(client))["name"] == "one"
            port = port_of(one)
            await kill(one, gate)
            assert (await busy.call(2000, {})).code == 225
            assert await busy.ended() == "code_225"
            async with backend("new", port):
                await until(lambda: links_up(gate) == 1)
                assert await who(quiet) == {"name": "new", "asked": 1, "peer": "127.0.0.1"}

    asyncio.run(go())


def test_only_the_user_that_does_not_read_is_dropped() -> None:
    async def go() -> None:
        limits = {"write_buffer": 65_536}
        async with (
            backend("one") as one,
            gateway(port_of(one), limits=limits) as gate,
            tny_client(gate.address("tny")) as other,
        ):
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.connect(gate.address("tny"))
            session = ClientSession(access_id=7)
            for _ in range(40):
                session.request(2001)
            deaf.sendall(session.to_send())
            await until(lambda: gate.hub.counters.drops["tny", "slow_reader"] == 1, "a drop")
            deaf.close()
            assert (await who(other))["name"] == "one"
            await until(lambda: listener_of(gate).tunnels.tunnel_count == 1)

    asyncio.run(go())


def test_a_drained_gateway_closes_users_and_links() -> None:
    async def go() -> None:
        async with backend("one") as one, gateway(port_of(one)) as gate:
            async with tny_client(gate.address("tny")) as client:
                await who(client)
                await gate.hub.drain()
                await client.ended()
            await until(lambda: not gate.hub.connections and not one.hub.connections)
            assert one.hub.counters.close_reasons == {
                ("tny", "disconnected"): 1,
                ("relay", "link_close"): 1,
            }

    asyncio.run(go())


def test_a_drained_gateway_waits_for_responses() -> None:
    services = services_of("one")
    released = asyncio.Event()

    @services.service("test", "held", tny=2002)
    async def held() -> dict[str, bool]:
        await released.wait()
        return {"held": True}

    async def go() -> None:
        async with (
            running(listeners=["relay"], services=services, relay=OPEN) as one,
            gateway(port_of(one)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            response = client.ask(2002, {})
            await until(lambda: services.running == 1)
            drain = asyncio.ensure_future(gate.hub.drain())
            await until(lambda: gate.hub.draining)
            await asyncio.sleep(0.1)
            assert not drain.done()
            assert gate.hub.connections
            released.set()
            assert body_of(await response) == {"held": True}
            await drain

    asyncio.run(go())


def test_users_of_a_stopped_backend_move_to_others() -> None:
    async def go() -> None:
        async with (
            backend("two") as two,
            backend("one") as one,
            gateway(port_of(one), port_of(two)) as gate,
            tny_client(gate.address("tny")) as client,
        ):
            assert (await who(client))["name"] == "one"
            await one.hub.drain()
            await until(lambda: links_up(gate) == 1)
            assert (await who(client))["name"] == "two"

    asyncio.run(go())


def test_a_gateway_serves_nothing_itself() -> None:
    async def go() -> None:
        async with running(listeners=["relay"], relay=OPEN) as one, gateway(port_of(one)) as gate:
            assert set(gate.hub.listeners) == {"tny"}
            async with tny_client(gate.address("tny")) as client:
                assert (await client.call(1001, b"x")).code == 205

    asyncio.run(go())


@pytest.mark.parametrize(("user", "link"), [("seed", "upstream"), ("upstream", "seed")])
def test_headers_cross_between_dialects(user: str, link: str) -> None:
    async def go() -> None:
        header = encode_header(TracingHeader(attributes=(Attribute(key="k", value="v"),)))
        given: dict[str, Any] = (
            {"forward_header": header} if user == "seed" else {"headers": (header,)}
        )
        async with (
            backend("one", relay={"auth": "none", "dialect": link}) as one,
            gateway(port_of(one), dialect=link, tny={"dialect": user}) as gate,
            connect("tny://{}:{}".format(*gate.address("tny")), dialect=user) as client,
        ):
            result = await client.call(1001, b"body", **given)
            message = result.message
            assert result.body == b"body"
            carried = message.forward_header if user == "seed" else (message.headers or (None,))[0]
            assert carried == header

    asyncio.run(go())
