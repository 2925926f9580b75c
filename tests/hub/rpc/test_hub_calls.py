"""The hub's own calls, with a JSON body; over ESNP they are in `listeners_esnp`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import esnp_hub, run, signed_on
from tests.hub.running import Running, until

from wirelake.hub.errors import HubError
from wirelake.hub.pubsub.notifications import Notification
from wirelake.protocols.hub_calls import BY_NUMBER, RESERVED_NUMBERS, notification_json


async def ask(it: Running, name: str, body: bytes | dict[str, Any]) -> Any:
    """Asks on the only connection there is."""
    (connection,) = it.hub.connections.values()
    answered = asyncio.get_running_loop().create_future()
    it.hub.context.calls.run(connection, name, body, answered.set_result)
    return await answered


def test_json_bodies() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            assert await ask(it, "subscribe", b'{"topic": "@t", "ack": true}') == {"topics": 1}
            sent = await ask(it, "publish", b'{"topic": "@t", "content_base64": "/w=="}')
            assert sent.audience == 1
            got = await peer.notified()
            assert (got["id"], got["content"]) == (sent.id, b"\xff")
            body = json.dumps({"ids": [sent.id]}).encode()
            assert await ask(it, "ack", body) == {"acked": 1}
            assert await ask(it, "unsubscribe", b'{"topics": ["@t"]}') == {"topics": 1}
            assert it.hub.services.running == 0

    run(test())


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("publish", b"", "either content"),
        ("publish", b"not JSON", "malformed"),
        ("publish", b'{"topic": "@t", "content": "a", "content_base64": "/w=="}', "either content"),
        ("publish", b'{"topic": "@t", "content_base64": "!"}', "base64"),
        ("publish", b'{"topic": "@t", "content": {"a": 1}}', "expected text"),
        ("subscribe", b"[]", "object"),
        ("nope", b"{}", "auth, subscribe, unsubscribe, publish, ack"),
    ],
)
def test_what_is_refused(name: str, body: bytes, words: str) -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice"):
            refusal = await ask(it, name, body)
            assert isinstance(refusal, HubError)
            assert words in refusal.text

    run(test())


def test_a_publish_in_flight_counts_as_running() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice"):
            await ask(it, "subscribe", b'{"topic": "@t"}')
            asking = asyncio.ensure_future(ask(it, "publish", b'{"topic": "@t", "content": "c"}'))
            await asyncio.sleep(0)
            assert it.hub.services.running == 1
            await asking
            await until(lambda: not it.hub.services.running)

    run(test())


def test_numbers() -> None:
    names = [call.name for call in BY_NUMBER.values()]
    topics = ["auth", "subscribe", "unsubscribe", "publish", "ack"]
    assert names == [*topics, "serve", "withdraw", "services"]
    assert list(BY_NUMBER) == [10, 11, 12, 13, 14, 15, 16, 17]
    assert set(BY_NUMBER) < set(RESERVED_NUMBERS)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (
            {"topic": "@t", "content": b"caf\xc3\xa9", "type": 0},
            {"id": "m1", "topic": "@t", "content": "café", "ts": 5},
        ),
        (
            {"topic": None, "content": b"\xff", "type": 3},
            {"id": "m1", "content_base64": "/w==", "ts": 5, "type": 3},
        ),
    ],
)
def test_notifications_in_json(fields: dict[str, Any], wanted: dict[str, Any]) -> None:
    notification = Notification(number=1, id="m1", ts_ms=5, expires_ms=0, **fields)
    assert json.loads(notification_json(notification)) == wanted
