"""Every command of comet over a real socket, and what the hub does between them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.listeners_comet.phones import OPEN, Phone, contents, phone
from tests.hub.running import Running, running, until

from wirelake.hub.config import ConfigError
from wirelake.hub.listeners import comet
from wirelake.protocols.comet.codec_seed import encode_frame
from wirelake.protocols.comet.layout import (
    AuthSuccess,
    Error,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    MessageAck,
    MessageList,
    Ok,
    ReportEnviron,
    Subscribe,
    TopicList,
    Unsubscribe,
)
from wirelake.protocols.comet.limits import SEND_COUNT, ClientOptions
from wirelake.protocols.comet.session import Notified

TOPIC = "@news"
LIST = GetMessageList()
LISTED = MessageList(messages=())


def test_all_nine_commands() -> None:
    asyncio.run(_all_nine_commands())


async def _all_nine_commands() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it) as alice:
        assert isinstance(await alice.sign_on("alice", it.tokens["alice"]), AuthSuccess)
        await alice.exchange_key()
        assert await alice.ask(GetTopicList()) == TopicList(topics=())
        assert await alice.subscribe(TOPIC, "@sport$1") == Ok()
        assert await alice.ask(GetTopicList()) == TopicList(topics=(TOPIC, "@sport$1"))
        published = await it.publish(TOPIC, b"hello", type=7)
        assert published.audience == 1
        result = await alice.next(Notified)
        assert result.content == b"hello"
        assert (result.notification.msg_id, result.notification.msg_type) == (published.id, 7)
        assert contents(await alice.ask(LIST)) == [b"hello"]
        assert await alice.ask(MessageAck(msg_ids=(published.id, "unknown"))) == Ok()
        assert await alice.ask(LIST) == LISTED
        assert await alice.ask(Heartbeat()) == Ok()
        environ = ReportEnviron(network_type=3, isp=1, phone_type="test", extra=("a=b",))
        assert await alice.ask(environ) == Ok()
        assert _connection(it).environ == environ
        assert await alice.ask(Unsubscribe(topics=("@sport$1", "@never"))) == Ok()
        assert await alice.ask(GetTopicList()) == TopicList(topics=(TOPIC,))
        assert it.hub.counters.acked == 1


def _connection(it: Running) -> comet.CometConnection:
    (connection,) = it.hub.connections.values()
    assert isinstance(connection, comet.CometConnection)
    return connection


def test_stored_notifications_are_fetched_in_pages() -> None:
    asyncio.run(_what_waited_comes_in_pages())


async def _what_waited_comes_in_pages() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it:
        async with phone(it, "alice") as alice:
            await alice.subscribe(TOPIC)
        await until(lambda: not it.hub.connections)
        sent = [b"%04d" % n + bytes(300) for n in range(300)]
        await asyncio.gather(*(it.publish(TOPIC, each) for each in sent))
        async with phone(it, "alice") as alice:
            got: list[bytes] = []
            sizes = []
            while True:
                page = await alice.ask(LIST)
                assert await alice.ask(LIST) == page, "a list removes nothing"
                if not page.messages:
                    break
                sizes.append(len(page.messages))
                got += contents(page)
                await alice.ack(*(each.msg_id for each in page.messages))
            assert got == sent
            assert max(sizes) < SEND_COUNT, "a page is as large as its frame, not as its count"


def test_one_client_and_all_online_clients() -> None:
    asyncio.run(_one_client_alone())


async def _one_client_alone() -> None:
    async with (
        running(clients=["alice", "bob"], listeners=["comet"]) as it,
        phone(it, "alice") as alice,
        phone(it, "bob") as bob,
    ):
        await alice.subscribe(TOPIC)
        private = await it.publish(client="alice", content=b"for you")
        assert private.id.startswith("p")
        assert await alice.content() == b"for you"
        fleeting = await it.publish(TOPIC, b"now or never", ttl_s=0)
        assert fleeting.audience == 1
        assert await alice.content() == b"now or never"
        assert contents(await alice.ask(LIST)) == [b"for you"]
        assert contents(await bob.ask(LIST)) == []
        assert not _told(bob)


def test_a_wrong_token_and_an_unknown_client_get_the_same_answer() -> None:
    asyncio.run(_wrong_token())


async def _wrong_token() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it) as mallory:
        refused = Error(error_code=0, reason="token expired or illegal")
        assert await mallory.sign_on("alice", "t-throw-away") == refused
        assert await mallory.sign_on("nobody", "t-throw-away") == refused
        assert await mallory.sign_on("alice", "t-throw-away") == refused
        await mallory.ended()
        await until(lambda: not it.hub.connections)
        assert it.hub.counters.auth_failures["comet"] == 3
        assert it.hub.counters.close_reasons["comet", "auth_failed"] == 1


def test_answers_keep_their_order_while_an_address_is_slowed_down() -> None:
    asyncio.run(_answers_keep_their_order())


async def _answers_keep_their_order() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it) as alice:
        await alice.sign_on("alice", "t-throw-away")
        await alice.sign_on("alice", "t-throw-away")
        assert it.hub.authority.delay("127.0.0.1") > 0
        alice.session.send(Heartbeat())
        reply = await alice.sign_on("alice", it.tokens["alice"])
        assert reply == Ok(), "the heartbeat was asked first"
        assert isinstance(await alice.reply(), AuthSuccess)
        assert await alice.subscribe(TOPIC) == Ok()


def test_nothing_but_signing_on_is_allowed_before_it() -> None:
    asyncio.run(_nothing_before_signing_on())


async def _nothing_before_signing_on() -> None:
    async with running(listeners=["comet"]) as it, phone(it) as nobody:
        commands = (Subscribe(topics=(TOPIC,)), LIST, GetTopicList(), MessageAck(msg_ids=("m",)))
        for command in commands:
            nobody.writer.write(encode_frame(command))
            expected = encode_frame(Error(error_code=5, reason="auth required"))
            assert await nobody.reader.readexactly(len(expected)) == expected
        assert await nobody.ask(Heartbeat()) == Ok()
        environ = ReportEnviron(network_type=0, isp=0, phone_type="test")
        assert await nobody.ask(environ) == Ok()


def test_a_second_connection_replaces_the_first() -> None:
    asyncio.run(_replaces())


async def _replaces() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it, "alice") as first:
        await first.subscribe(TOPIC)
        async with phone(it, "alice") as second:
            await first.ended()
            await until(lambda: it.hub.counters.close_reasons["comet", "replaced"] == 1)
            await it.publish(TOPIC, b"to the second")
            assert await second.content() == b"to the second"
            assert len(it.hub.connections) == 1


def test_a_second_connection_is_rejected_where_that_is_wanted() -> None:
    asyncio.run(_rejected())


async def _rejected() -> None:
    settings = {"on_duplicate": "reject"}
    async with running(clients=["alice"], listeners=["comet"], comet=settings) as it:
        async with phone(it, "alice") as first:
            await first.subscribe(TOPIC)
            async with phone(it) as second:
                refused = await second.sign_on("alice", it.tokens["alice"])
                assert refused == Error(error_code=2, reason="clientId already online")
                await second.ended()
            await it.publish(TOPIC, b"to the first")
            assert await first.content() == b"to the first"
        await until(lambda: not it.hub.connections)
        async with phone(it, "alice") as third:
            assert contents(await third.ask(LIST)) == [b"to the first"]


def test_pushes_wait_for_the_first_list_where_that_is_wanted() -> None:
    asyncio.run(_pushes_after_a_list())


async def _pushes_after_a_list() -> None:
    settings = {"push_after": "list"}
    async with (
        running(clients=["alice"], listeners=["comet"], comet=settings) as it,
        phone(it, "alice") as alice,
    ):
        await alice.subscribe(TOPIC)
        await it.publish(TOPIC, b"one")
        await it.publish(TOPIC, b"lost", ttl_s=0)
        assert contents(await alice.ask(LIST)) == [b"one"]
        assert not _told(alice)
        await it.publish(TOPIC, b"two")
        assert await alice.content() == b"two"


def test_a_broken_frame_ends_one_connection_and_no_other() -> None:
    asyncio.run(_a_broken_frame())


async def _a_broken_frame() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it, "alice") as alice:
        async with phone(it) as broken:
            broken.writer.write(b"\x00\x01\xff" * 100)
            expected = encode_frame(Error(error_code=4, reason="message format illegal"))
            assert await broken.reader.read() == expected
        await until(lambda: it.hub.counters.close_reasons["comet", "unknown_type"] == 1)
        assert it.hub.counters.failures["comet", "unknown_type"] == 1
        assert await alice.ask(Heartbeat()) == Ok()


def test_a_connection_without_sign_on_is_closed() -> None:
    asyncio.run(_who_does_not_sign_on())


async def _who_does_not_sign_on() -> None:
    async with running(listeners=["comet"], limits={"auth_s": 0.1}) as it, phone(it) as silent:
        await silent.ended()
        await until(lambda: it.hub.counters.close_reasons["comet", "timeout"] == 1)


@pytest.mark.parametrize("command", [Heartbeat(), MessageAck(msg_ids=("unknown",))])
def test_thousands_of_tiny_frames_in_one_write(command: object) -> None:
    asyncio.run(_thousands_of_tiny_frames(command))


async def _thousands_of_tiny_frames(command: object) -> None:
    """Heartbeats are all answered; commands that wait for an answer are too many at some point."""
    async with (
        running(clients=["alice", "bob"], listeners=["comet"]) as it,
        phone(it, "alice") as alice,
        phone(it, "bob") as bob,
    ):
        alice.writer.write(encode_frame(command) * 20_000)
        ok = encode_frame(Ok())
        if isinstance(command, Heartbeat):
            assert await alice.reader.readexactly(20_000 * len(ok)) == ok * 20_000
        else:
            await until(lambda: it.hub.counters.close_reasons["comet", "too_busy"] == 1)
        assert await bob.ask(Heartbeat()) == Ok()


def test_a_heartbeat_resends_old_unacknowledged_notifications(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comet, "RESEND_S", 0.0)
    asyncio.run(_a_heartbeat_resends([b"old"]))


def test_a_heartbeat_resends_no_recent_notifications() -> None:
    asyncio.run(_a_heartbeat_resends([]))


async def _a_heartbeat_resends(expected: list[bytes]) -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it, "alice") as alice:
        await alice.subscribe(TOPIC)
        published = await it.publish(TOPIC, b"old")
        assert await alice.content() == b"old"
        assert await alice.ask(Heartbeat()) == Ok()
        if expected:  # the store is read after the answer
            await until(lambda: it.hub.counters.delivered["comet"] == 2)
        assert await alice.ask(GetTopicList()) == TopicList(topics=(TOPIC,))
        assert _told(alice) == expected
        alice.events.clear()
        await alice.ack(published.id)
        await alice.ask(Heartbeat())
        await alice.ask(GetTopicList())
        assert not _told(alice)


def test_over_ipv6_and_tls(tmp_path: Path) -> None:
    asyncio.run(_over_ipv6_and_tls(tmp_path))


async def _over_ipv6_and_tls(folder: Path) -> None:
    made = make_certificate(folder)
    settings = {"host": ["127.0.0.1", "::1"], "tls": made.settings}
    async with running(clients=["alice"], listeners=["comet"], comet=settings) as it:
        addresses = it.hub.listeners["comet"].addresses
        assert {host for host, _ in addresses} == {"127.0.0.1", "::1"}
        for address in addresses:
            async with phone(it, "alice", tls=made.trusting(), address=address) as alice:
                await alice.exchange_key()
                await alice.subscribe(TOPIC)
                published = await it.publish(TOPIC, address[0].encode())
                assert await alice.content() == address[0].encode()
                await alice.ack(published.id)


def test_the_original_s_layout() -> None:
    asyncio.run(_hipush())


async def _hipush() -> None:
    settings = {"dialect": "hipush", "key": "none"}
    options = ClientOptions(dialect="hipush", allow_plaintext=True)
    async with (
        running(clients=["alice"], listeners=["comet"], comet=settings) as it,
        phone(it, "alice", options=options) as alice,
    ):
        await alice.subscribe(TOPIC)
        await it.publish(TOPIC, b"hello")
        assert await alice.content() == b"hello"
        assert contents(await alice.ask(LIST)) == [b"hello"]


def test_no_key_is_offered_where_none_is_wanted() -> None:
    asyncio.run(_no_key())


async def _no_key() -> None:
    async with (
        running(clients=["alice"], listeners=["comet"], comet={"key": "none"}) as it,
        phone(it, options=OPEN) as alice,
    ):
        reply = await alice.sign_on("alice", it.tokens["alice"])
        assert reply == AuthSuccess(encrypt_key=b"")


def test_the_hub_closes_connections_when_it_stops() -> None:
    asyncio.run(_goodbye())


async def _goodbye() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it, "alice") as alice:
        await it.hub.drain()
        await alice.ended()
        assert it.hub.counters.close_reasons["comet", "shutdown"] == 1
        assert it.hub.listeners["comet"].addresses == []


def test_settings_that_cannot_work_are_refused() -> None:
    asyncio.run(_bad_settings())


async def _bad_settings() -> None:
    with pytest.raises(ConfigError, match=r"comet\.require_encryption"):
        async with running(listeners=["comet"], comet={"key": "none", "require_encryption": True}):
            pass
    with pytest.raises(ConfigError, match=r"limits\.content_bytes.*32709"):
        async with running(listeners=["comet"], limits={"content_bytes": 40_000}):
            pass


def test_a_subscription_too_many_is_refused_and_nothing_changes() -> None:
    asyncio.run(_a_subscription_too_many())


async def _a_subscription_too_many() -> None:
    async with running(clients=["alice"], listeners=["comet"]) as it, phone(it, "alice") as alice:
        assert await alice.subscribe(*(f"@{n}" for n in range(127))) == Ok()
        refused = await alice.subscribe("@0", "@more")
        assert isinstance(refused, Error)
        assert refused.error_code in {4, 6}
        assert len((await alice.ask(GetTopicList())).topics) == 127
        assert "@more" not in (await alice.ask(GetTopicList())).topics
        await _still_there(alice)


def _told(who: Phone) -> list[bytes]:
    """What has come and was not asked for."""
    return [each.content for each in who.events if isinstance(each, Notified)]


async def _still_there(alice: Phone) -> None:
    assert await alice.ask(Heartbeat()) == Ok()
