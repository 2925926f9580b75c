"""A page of the store that cannot be read: an error for clients and probes, never an empty answer;
and a hub that shuts down or has too many topics refuses by the same rule in every protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.hub.admin.admin_client import admin_client
from tests.hub.listeners_comet.phones import phone
from tests.hub.running import Running, running, until
from tests.hub.stores import database_of

from wirelake.client import Client, ClientError, ConnectionLost, connect
from wirelake.hub.hub import Hub
from wirelake.hub.pubsub.notifications import Publication
from wirelake.hub.store import StoreError
from wirelake.protocols.comet.binding import BINDING
from wirelake.protocols.comet.layout import Error, GetMessageList

_FILE = pytest.mark.sqlite_only("it damages the file")
_PUSHING = ("esnp", "tny", "magline")
_MARK = b"stored notification "


def _client(it: Running, protocol: str, name: str = "anna") -> Client:
    host, port = it.address(protocol)
    keys: dict[str, Any] = {"allow_plaintext": True} if protocol == "comet" else {}
    if protocol == "magline":
        keys["pinned"] = (it.data / "magline.pub").read_text()
    return connect(
        f"{protocol}://{host}:{port}",
        id=name,
        token=it.tokens[name],
        reconnect=False,
        **keys,
    )


@asynccontextmanager
async def _unreadable(data: Path, protocol: str) -> AsyncIterator[Running]:
    """A hub that has started well, and then cannot read the log."""
    async with running(clients=["anna"], listeners=["esnp"], data=data) as it:
        tokens = it.tokens
        async with _client(it, "esnp") as client:
            await client.subscribe("@news", ack=True)
        await until(lambda: not it.hub.connections)
        for number in range(30):
            await it.publish("@news", _MARK * 25 + b"%d" % number)
    async with running(listeners=[protocol], data=data) as it:
        it.tokens.update(tokens)
        path = database_of(data)
        found = bytearray(path.read_bytes())
        for at in range(0, len(found), 4096):
            if _MARK in found[at : at + 4096]:
                found[at : at + 4096] = b"\xff" * 4096
        path.write_bytes(found)
        yield it


@_FILE
def test_a_list_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    async def run() -> None:
        async with _unreadable(tmp_path, "comet") as it, admin_client(it.hub) as admin:
            async with phone(it, "anna") as made:
                for _ in range(3):
                    reply = await made.ask(GetMessageList())
                    assert isinstance(reply, Error)
                    assert reply.error_code == BINDING.error_number("storage_failed")
            answer = await admin.get("/readyz")
            assert (answer.status, answer.json["error"]) == (503, "storage_failed")
            assert "malformed" in answer.json["message"]
            assert (await admin.get("/v1/inbox/anna")).status == 503
            assert (await admin.get("/healthz")).status == 200
            assert (await admin.get("/varz")).json["store_failures"] == {"read": 5}
            text = (await admin.get("/metrics")).body.decode()
            assert 'wirelake_store_failures_total{operation="read"} 5.0' in text
            size = (database_of(tmp_path)).stat().st_size
            assert f"wirelake_store_bytes {float(size)}" in text

    asyncio.run(run())


@_FILE
@pytest.mark.parametrize("protocol", _PUSHING)
def test_a_backlog_that_cannot_be_read_closes_the_connection(tmp_path: Path, protocol: str) -> None:
    async def run() -> None:
        async with _unreadable(tmp_path, protocol) as it:
            async with _client(it, protocol) as client:
                await client.subscribe("@news", ack=True)
                with pytest.raises(ConnectionLost):
                    await anext(client.notifications())
            await until(lambda: not it.hub.connections)
            assert [each.reason for each in it.hub.table.failed_connections] == ["storage_failed"]
            _, (client,) = await it.hub.topics.client_page(0, 10)
            assert client.waiting == 30  # nothing counts as sent

    asyncio.run(run())


@_FILE
def test_a_store_that_cannot_be_loaded_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with running(listeners=["esnp"], data=tmp_path) as it:
            config = it.hub.config
        monkeypatch.setattr(
            "wirelake.hub.store.sqlite.SqliteReader.key_counts",
            lambda self: self._read("SELECT nonsense"),
        )
        for _ in range(2):  # the lock is released
            with pytest.raises(StoreError, match="cannot read the store; restore a backup"):
                await Hub(config, tmp_path).start()

    asyncio.run(run())


# -- the same refusal in every protocol ----------------------------------------------------------


@pytest.mark.parametrize("protocol", _PUSHING)
def test_a_hub_that_shuts_down_confirms_no_publish(protocol: str) -> None:
    async def run() -> None:
        async with (
            running(clients=["anna"], listeners=[protocol]) as it,
            _client(it, protocol) as client,
        ):
            await client.subscribe("@news")
            for ttl_s in (0, None):  # twice: the second one takes the fast path, if there is one
                await client.publish(b"before", topic="@news", ttl_s=ttl_s)
                await client.publish(b"before", topic="@news", ttl_s=ttl_s)
            published = it.hub.counters.published
            it.hub.topics.close()  # as `drain` does first
            for ttl_s in (0, None):
                with pytest.raises(ClientError):
                    await client.publish(b"after", topic="@news", ttl_s=ttl_s)
            with pytest.raises(ClientError):
                await client.subscribe("@more")
            assert it.hub.counters.published == published

    asyncio.run(run())


def test_a_drain_closes_publishing_first() -> None:
    async def run() -> None:
        async with running(listeners=["esnp"]) as it:
            drain = asyncio.ensure_future(it.hub.drain())
            await asyncio.sleep(0)
            results: list[Any] = []
            it.hub.topics.publish(Publication("@news", None, b"x", ttl_s=0), results.append)
            assert results[0].code == "closing"
            await drain

    asyncio.run(run())


@pytest.mark.parametrize("protocol", [*_PUSHING, "comet"])
def test_too_many_topics_are_refused(protocol: str) -> None:
    async def run() -> None:
        limits = {"subscriptions": 3, "topics": 4}
        async with (
            running(clients=["anna", "ben"], listeners=[protocol], limits=limits) as it,
            _client(it, protocol) as anna,
            _client(it, protocol, "ben") as ben,
        ):
            await anna.subscribe("@1", "@2", "@3")
            with pytest.raises(ClientError):
                await anna.subscribe("@4")
            await ben.subscribe("@4")
            with pytest.raises(ClientError):
                await ben.subscribe("@5")
            assert set(it.hub.topics.registry.topics) == {"@1", "@2", "@3", "@4"}
            await anna.unsubscribe("@1")
            await ben.subscribe("@5")

    asyncio.run(run())
