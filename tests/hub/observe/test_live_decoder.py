"""Bytes of messages that are watched: secrets are zeros, and who signs on shows none."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.hub.admin.admin_client import AdminClient, admin_client, tailing
from tests.hub.listeners_comet.phones import phone
from tests.hub.listeners_esnp.peer import signed_on
from tests.hub.listeners_tny.tny_client import body_of, tny_client
from tests.hub.relay.gateway_hubs import backend, gateway, links_up, port_of
from tests.hub.running import Running, running, until

from wirelake.client import connect
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Services
from wirelake.protocols.comet import codec_seed as comet
from wirelake.protocols.comet.layout import Auth
from wirelake.protocols.registry import find
from wirelake.wire.views._trace_layouts import trace


def test_a_token_is_zeros_and_the_rest_is_as_it_was() -> None:
    asyncio.run(_zeros())


async def _zeros() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        async with tailing(admin, "?bytes=1") as events, phone(it, "anna") as made:
            host, port = made.writer.get_extra_info("sockname")
            _, row = await events.next()
        token = it.tokens["anna"]
    data = bytes.fromhex(row["frame_hex"])
    assert token.encode() not in data
    message, stop = comet.decode_frame_c2s(data, 0, len(data))
    assert stop == len(data) == row["size_bytes"]
    assert message == Auth(client_id="anna", token="\0" * len(token))
    assert row["dialect"] == "seed"
    assert row["peer"] == f"{host}:{port}"
    assert "frame" not in row


def test_bytes_are_sent_only_on_request() -> None:
    asyncio.run(_unasked())


async def _unasked() -> None:
    async with (
        running(clients=["anna"], listeners=["comet"]) as it,
        admin_client(it.hub) as admin,
        tailing(admin) as events,
        phone(it, "anna"),
    ):
        _, row = await events.next()
    assert not {"frame", "frame_hex", "dialect"} & row.keys()


def test_a_sign_on_by_a_call_shows_no_bytes() -> None:
    asyncio.run(_call())


async def _call() -> None:
    async with (
        running(clients=["anna"], listeners=["esnp"], services=demo_services()) as it,
        admin_client(it.hub) as admin,
        tailing(admin, "?bytes=1&protocol=esnp") as events,
        signed_on(it, "anna") as peer,
    ):
        await peer.call("test/add", a=1, b=2)
        found = [(await events.next())[1] for _ in range(4)]
    assert [row["target"] for row in found] == ["hub/auth", None, "test/add", None]
    assert [("frame_hex" in row) for row in found] == [False, True, True, True]
    assert found[0]["masked"]
    assert found[2]["signed_on"] == "anna"
    data = bytes.fromhex(found[2]["frame_hex"])
    layout = find("esnp").model(found[2]["dialect"])
    assert trace(layout, data).stop == len(data)


def test_links_are_decoded_in_the_dialect_that_they_use() -> None:
    asyncio.run(_links())


async def _links() -> None:
    services = Services()
    services.service("far", "ok")(lambda: None)
    go = {"auth": "none", "dialect": "go"}
    async with (
        running(listeners=["esnp"], services=services, esnp=go) as back,
        running(
            listeners=["esnp"], esnp={**go, "routes": [{"server": at(back), "service": "far"}]}
        ) as front,
        admin_client(front.hub) as admin,
        connect(f"esnp://{at(front)}", dialect="go") as client,
        tailing(admin, "?bytes=1") as events,
    ):
        await client.call("far/ok")
        found = [(await events.next())[1] for _ in range(4)]
    assert len({row["connection"] for row in found}) == 2
    assert {row["dialect"] for row in found} == {"go"}


def at(it: Running) -> str:
    return "{}:{}".format(*it.address("esnp"))


def test_nor_does_the_packet_of_the_link_that_carries_it() -> None:
    asyncio.run(_tunnel())


async def _tunnel() -> None:
    async with (
        backend("one", clients=["anna"], relay={"auth": "token"}) as one,
        gateway(port_of(one)) as gate,
        admin_client(one.hub) as admin,
    ):
        await until(lambda: links_up(gate) == 1)
        found = await _through(one.tokens["anna"], gate.address("tny"), admin)
    carried = [row for row in found if row["protocol"] == "tny"]
    links = [row for row in found if row["name"] == "tunnel_relay"]
    assert [row["target"] for row in carried[:2]] == ["10", "10"]
    assert all("frame_hex" not in row for row in carried)
    assert ["frame_hex" in row for row in links[:4]] == [False, False, True, True]
    said = "".join(row.get("frame_hex", "") for row in found)
    assert one.tokens["anna"].encode().hex() not in said
    assert [row["relay"] is None for row in links[:4]] == [True, True, False, False]


async def _through(
    token: str, address: tuple[str, int], admin: AdminClient
) -> list[dict[str, Any]]:
    async with tailing(admin, "?bytes=1") as events, tny_client(address) as client:
        signed = await client.call(10, {"id": "anna", "token": token})
        assert body_of(signed) == {"id": "anna"}
        assert body_of(await client.call(1002, {"a": 1, "b": 2})) == {"c": 3}
        found: list[dict[str, Any]] = []
        while sum(row["protocol"] == "tny" for row in found) < 4:
            found.append((await events.next())[1])
    return found
