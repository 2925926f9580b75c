"""Topics over ESNP: subscribe, publish, notifications as events, acknowledgements."""

from __future__ import annotations

from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import (
    ASYNC,
    REQUEST,
    connected,
    error_of,
    esnp_hub,
    run,
    signed_on,
)
from tests.hub.running import until

from wirelake.protocols.esnp.message import source_message_id
from wirelake.protocols.esnp.values import values_of


def test_publish_and_be_notified() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice", "bob"]) as it,
            signed_on(it, "alice") as alice,
            signed_on(it, "bob") as bob,
        ):
            assert await alice.ok("hub/subscribe", topics=["@news", "@sport"]) == {"topics": 2}
            sent = await bob.ok("hub/publish", topic="@news", content="hello")
            assert sent["audience"] == 1
            got = await alice.notified()
            assert got.pop("ts") > 1_600_000_000_000
            assert got == {"id": sent["id"], "topic": "@news", "content": "hello"}
            sent = await bob.ok("hub/publish", topic="@sport", content=b"\xff\x00", type=7)
            got = await alice.notified()
            assert (got["id"], got["content"], got["type"]) == (sent["id"], b"\xff\x00", 7)
            assert await alice.ok("hub/unsubscribe", topic="@news") == {"topics": 1}
            assert (await bob.ok("hub/publish", topic="@news", content="x"))["audience"] == 0

    run(test())


@pytest.mark.parametrize("ttl_s", [None, 0])
def test_order_and_number_of_many(ttl_s: int | None) -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice", "bob"]) as it,
            signed_on(it, "alice") as alice,
            signed_on(it, "bob") as bob,
        ):
            await alice.ok("hub/subscribe", topic="@news")
            options: dict[str, Any] = {} if ttl_s is None else {"ttl_s": ttl_s}
            for number in range(200):
                bob.ask("hub/publish", topic="@news", content=str(number), **options)
            got = [(await alice.notified())["content"] for _ in range(200)]
            assert got == [str(number) for number in range(200)]
            for _ in range(200):
                await bob.message()
            assert it.hub.counters.published == 200

    run(test())


def test_what_is_acknowledged_does_not_come_again() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice", "bob"]) as it, signed_on(it, "bob") as bob:
            async with signed_on(it, "alice") as alice:
                await alice.ok("hub/subscribe", topic="@news", ack=True)
                for content in ("one", "two", "three"):
                    await bob.ok("hub/publish", topic="@news", content=content)
                got = [await alice.notified() for _ in range(3)]
                assert await alice.ok("hub/ack", id=got[0]["id"]) == {"acked": 1}
                assert await alice.ok("hub/ack", ids=[got[2]["id"], "m-unknown"]) == {"acked": 1}
            await until(lambda: len(it.hub.connections) == 1)
            await bob.ok("hub/publish", topic="@news", content="four")
            async with signed_on(it, "alice") as alice:
                await alice.ok("hub/subscribe", topic="@news", ack=True)
                again = [(await alice.notified())["content"] for _ in range(2)]
                assert again == ["two", "four"]

    run(test())


def test_one_client_alone() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice", "bob"]) as it,
            signed_on(it, "alice") as alice,
            signed_on(it, "bob") as bob,
        ):
            await alice.ok("hub/subscribe", topic="@any")
            await bob.ok("hub/publish", client="alice", content="psst")
            got = await alice.notified()
            assert "topic" not in got
            assert got["content"] == "psst"
            text = await bob.refusal("hub/publish", client="nobody", content="psst")
            assert text == "unknown client 'nobody'"

    run(test())


def test_the_same_key_is_the_same_notification() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice", "bob"]) as it,
            signed_on(it, "alice") as alice,
            signed_on(it, "bob") as bob,
        ):
            await alice.ok("hub/subscribe", topic="@news")
            first = await bob.ok("hub/publish", topic="@news", content="x", id="key-1")
            assert await bob.ok("hub/publish", topic="@news", content="x", id="key-1") == first
            await bob.ok("hub/publish", topic="@news", content="last")
            assert [(await alice.notified())["content"] for _ in range(2)] == ["x", "last"]

    run(test())


@pytest.mark.parametrize(
    ("url", "values", "words"),
    [
        ("hub/publish", {"content": "x"}, "topic"),
        ("hub/publish", {"topic": "@a", "client": "b", "content": "x"}, "topic"),
        ("hub/publish", {"topic": "@a"}, "either content or content_base64"),
        ("hub/publish", {"topic": "@a", "content": 5}, "content: expected text"),
        ("hub/publish", {"topic": "@a", "content": "x", "type": 256}, "type"),
        ("hub/publish", {"topic": "@a", "content": "x", "what": 1}, "unknown argument 'what'"),
        ("hub/publish", {"topic": "bad topic", "content": "x"}, "topic"),
        ("hub/publish", {"topic": "@a", "content": "x" * 20_000}, ""),
        ("hub/subscribe", {}, "expected topic"),
        ("hub/subscribe", {"topics": []}, "expected topic"),
        ("hub/subscribe", {"topic": "$inner"}, ""),
        ("hub/unsubscribe", {"ack": True}, "unknown argument 'ack'"),
        ("hub/ack", {}, "expected id"),
        ("hub/ack", {"ids": [1]}, "ids"),
        ("hub/nope", {}, "unknown call 'nope'"),
    ],
)
def test_what_is_refused(url: str, values: dict[str, Any], words: str) -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            assert words in await peer.refusal(url, **values)
            assert await peer.ok("test/add", a=1, b=2) == {"c": 3}
            assert it.hub.services.running == 0

    run(test())


def test_many_publishes_out_of_order() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice", "bob"]) as it,
            signed_on(it, "alice") as alice,
            signed_on(it, "bob") as bob,
        ):
            await alice.ok("hub/subscribe", topic="@news")
            await bob.ok("hub/publish", topic="@news", content="first")
            flags = (REQUEST, ASYNC)
            asked = [
                bob.ask("hub/publish", flags=flags, topic="@news", content=str(number), **more)
                for number in range(100)
                for more in ({}, {"ttl_s": 0}, {"type": 999})
            ]
            answers = [await bob.message() for _ in asked]
            assert sorted(map(source_message_id, answers)) == asked  # type: ignore[type-var]
            assert sum(error_of(each) is None for each in answers) == 200
            ids = {values_of(each.rows).get("id") for each in answers}
            got = [await alice.notified() for _ in range(201)]
            assert {each["id"] for each in got[1:]} == ids - {None}
            (connection,) = (c for c in it.hub.connections.values() if c.client.id == "bob")
            assert connection.session.pending == 0

    run(test())


def test_a_publisher_that_leaves_before_the_answer() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice", "bob"]) as it, signed_on(it, "alice") as alice:
            await alice.ok("hub/subscribe", topic="@news")
            async with signed_on(it, "bob") as bob:
                await bob.ok("hub/publish", topic="@news", content="0")
                for number in range(1, 50):
                    content = str(number)
                    bob.ask("hub/publish", flags=(REQUEST, ASYNC), topic="@news", content=content)
            got = [(await alice.notified())["content"] for _ in range(50)]
            assert got == [str(number) for number in range(50)]
            assert it.hub.services.running == 0

    run(test())


def test_an_event_may_publish() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice", "bob"]) as it,
            signed_on(it, "alice") as alice,
            connected(it) as stranger,
        ):
            await alice.ok("hub/subscribe", topic="@news")
            stranger.tell("hub/publish", topic="@news", content="from nobody")
            await until(lambda: it.hub.counters.failures["esnp", "auth_required"])
            alice.tell("hub/publish", topic="@news", content="to all")
            assert (await alice.notified())["content"] == "to all"

    run(test())


@pytest.mark.parametrize("wrong", [{"ttl_s": True}, {"ttl_s": False}, {"type": True}])
def test_a_wrong_argument_is_refused_however_often(wrong: dict[str, Any]) -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            for _ in range(4):  # the hub learns the shape of repeated publishes
                given = {"topic": "@news", "content": "hello", **wrong}
                text = await peer.refusal("hub/publish", flags=(REQUEST, ASYNC), **given)
                assert "got bool" in text
            assert it.hub.counters.published == 0

    run(test())
