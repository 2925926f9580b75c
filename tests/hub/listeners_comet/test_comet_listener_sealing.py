"""Sealed contents: who gets them, from when on, and that nothing in the clear slips through."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.hub.listeners_comet.phones import contents, phone
from tests.hub.running import running, until

from wirelake.hub.pubsub.notifications import Publication
from wirelake.protocols.comet.codec_seed import encode_frame
from wirelake.protocols.comet.layout import Error, ExchangeKey, GetMessageList
from wirelake.protocols.comet.limits import ClientOptions
from wirelake.protocols.comet.session import KeyExchanged, Notified

TOPIC = "@news"


def test_sealed_and_open_connections_of_one_topic() -> None:
    asyncio.run(_sealed_and_open())


async def _sealed_and_open() -> None:
    async with (
        running(clients=["alice", "bob"], listeners=["comet"]) as it,
        phone(it, "alice") as alice,
        phone(it, "bob") as bob,
    ):
        await alice.exchange_key()
        await alice.subscribe(TOPIC)
        await bob.subscribe(TOPIC)
        for ttl_s in (None, 0):
            await it.publish(TOPIC, b"a secret", ttl_s=ttl_s)
            sealed = await alice.next(Notified)
            assert sealed.content == b"a secret"
            assert b"a secret" not in sealed.notification.content
            assert (await bob.next(Notified)).notification.content == b"a secret"
        assert contents(await alice.ask(GetMessageList())) == [b"a secret"]


def test_what_was_published_just_before_a_key_exchange_leaves_before_it() -> None:
    asyncio.run(_just_before())


async def _just_before() -> None:
    """Publish, exchange and publish happen in one turn of the loop: the client, which refuses what
    is not sealed after the answer, takes them all."""
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it, "alice") as alice:
        await alice.subscribe(TOPIC)
        (connection,) = it.hub.connections.values()
        alice.session.exchange_key(secret=os.urandom(32), eph_private=os.urandom(32))
        frame = alice.session.to_send()
        for content in (b"one", b"two"):
            it.hub.topics.publish(
                Publication(topic=TOPIC, client=None, content=content, ttl_s=0), lambda _: None
            )
        connection.data_received(frame)
        it.hub.topics.publish(
            Publication(topic=TOPIC, client=None, content=b"three", ttl_s=0), lambda _: None
        )
        assert [await alice.content() for _ in range(3)] == [b"one", b"two", b"three"]
        await alice.next(KeyExchanged)
        assert not alice.session.closed


def test_nothing_is_pushed_before_the_exchange_if_encryption_is_required() -> None:
    asyncio.run(_required())


async def _required() -> None:
    settings = {"require_encryption": True}
    async with (
        running(clients=["alice"], listeners=["comet"], comet=settings) as it,
        phone(it, "alice") as alice,
    ):
        await alice.subscribe(TOPIC)
        await it.publish(TOPIC, b"one")
        refused = await alice.ask(GetMessageList())
        assert refused == Error(error_code=7, reason="key required")
        assert not [each for each in alice.events if isinstance(each, Notified)]
        await alice.exchange_key()
        assert contents(await alice.ask(GetMessageList())) == [b"one"]
        await it.publish(TOPIC, b"two")
        result = await alice.next(Notified, lambda each: each.content == b"two")
        assert b"two" not in result.notification.content


def test_a_static_key_is_made_and_pinned(tmp_path: Path) -> None:
    asyncio.run(_static_key(tmp_path / "comet.key"))


async def _static_key(path: Path) -> None:
    settings = {"static_key": str(path)}
    async with running(clients=["alice"], listeners=["comet"], comet=settings) as it:
        public = bytes.fromhex(path.with_suffix(".pub").read_text())
        async with phone(it, "alice", options=ClientOptions(pinned=public)) as alice:
            await alice.exchange_key()
            await alice.subscribe(TOPIC)
            await it.publish(TOPIC, b"from that server")
            assert await alice.content() == b"from that server"


def test_a_bad_key_is_answered_with_an_error_and_closes() -> None:
    asyncio.run(_bad_key())


async def _bad_key() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it, "alice") as alice:
        alice.writer.write(encode_frame(ExchangeKey(secret_key=os.urandom(80))))
        assert await alice.reader.read() == encode_frame(Error(error_code=4, reason="bad key"))
        await until(lambda: it.hub.counters.close_reasons["comet", "bad_key"] == 1)
