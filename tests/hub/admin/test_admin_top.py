"""`GET /v1/top`: counters, durations, busy topics, and connections that ended badly."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.hub.admin.admin_client import AdminClient, admin_client
from tests.hub.listeners_comet.phones import phone
from tests.hub.listeners_esnp.peer import signed_on
from tests.hub.running import Running, running, until
from tests.hub.session_client import dial

from wirelake.hub.admin.metrics import TARGETS
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Services


async def _top(admin: AdminClient, query: str = "") -> dict[str, Any]:
    answer = await admin.get(f"/v1/top{query}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


def test_only_the_administrator_may_look() -> None:
    asyncio.run(_guarded())


async def _guarded() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        assert (await admin.get("/v1/top", token=None)).status == 401
        assert (await admin.get("/v1/top?limit=1001")).status == 400


def test_calls_have_durations_and_metrics_have_the_same() -> None:
    asyncio.run(_durations())


async def _durations() -> None:
    async with (
        running(clients=["anna"], listeners=["esnp"], services=demo_services()) as it,
        admin_client(it.hub) as admin,
        signed_on(it, "anna") as peer,
    ):
        before = await _top(admin)
        for _ in range(5):
            await peer.call("test/add", a=1, b=2)
        await peer.call("test/fail")
        found = await _top(admin)
        text = (await admin.get("/metrics")).body.decode()
    assert {each["name"] for each in before["targets"]} == {"hub/auth"}
    targets = {each["name"]: each for each in found["targets"]}
    assert targets.keys() == {"hub/auth", "test/add", "test/fail"}
    added = targets["test/add"]
    assert (added["calls"], added["failed"]) == (5, 0)
    assert sum(count for _, _, count in added["times"]) == 5
    low = sum(start * count for start, _, count in added["times"])
    high = sum(stop * count for _, stop, count in added["times"])
    assert low <= added["total_ns"] <= high
    assert (targets["test/fail"]["calls"], targets["test/fail"]["failed"]) == (1, 1)
    assert found["clock_ns"] > before["clock_ns"]
    assert found["calls"]["esnp"] == {"ok": 6, "failed": 1}
    assert found["bytes_in"]["esnp"] > before["bytes_in"]["esnp"]
    _check_histogram(text, "test/add", added)


def _check_histogram(text: str, target: str, shown: dict[str, Any]) -> None:
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("wirelake_call_seconds") and sample.labels["target"] == target
    ]
    series = {(each.name, each.labels.get("le", "")): each.value for each in samples}
    assert series["wirelake_call_seconds_count", ""] == shown["calls"]
    assert abs(series["wirelake_call_seconds_sum", ""] - shown["total_ns"] / 1e9) < 1e-9
    buckets = [
        (float(upper), value)
        for (name, upper), value in series.items()
        if name == "wirelake_call_seconds_bucket"
    ]
    for upper, value in buckets:
        below = sum(count for _, stop, count in shown["times"] if stop <= upper * 1e9)
        assert value == below
    assert buckets[-1] == (float("inf"), shown["calls"])


def test_series_are_bounded_however_many_services_there_are() -> None:
    asyncio.run(_bounded())


async def _bounded() -> None:
    services = Services()
    for number in range(TARGETS + 5):
        services.service("many", str(number))(_nothing)
    for each in services.every:
        each.now(None, None, {})
    async with running(listeners=["esnp"], services=services) as it, admin_client(it.hub) as admin:
        text = (await admin.get("/metrics")).body.decode()
        shown = await _top(admin)
    counted = {
        sample.labels["target"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "wirelake_call_seconds_count"
    }
    assert len(counted) == TARGETS + 1
    assert counted["other"] == 5
    assert len(shown["targets"]) == TARGETS + 5


def _nothing() -> None:
    return None


def test_topics_count_published_and_pushed() -> None:
    asyncio.run(_topics())


async def _topics() -> None:
    async with (
        running(clients=["anna", "ben"], listeners=["comet"]) as it,
        admin_client(it.hub) as admin,
        phone(it, "anna") as first,
    ):
        await first.subscribe("@news", "@quiet")
        async with phone(it, "ben") as second:
            await second.subscribe("@news")
            await it.publish("@news", b"stored")
            await it.publish("@news", b"not stored", ttl_s=0)
            for made in (first, second):
                assert [await made.content(), await made.content()] == [b"stored", b"not stored"]
        await until(lambda: len(it.hub.connections) == 1)
        await it.publish("@news", b"for who is away as well")
        assert await first.content() == b"for who is away as well"
        found = await _top(admin)
        only = await _top(admin, "?limit=1")
    topics = {each["name"]: each for each in found["topics"]}
    news = topics["@news"]
    assert (news["published"], news["delivered"]) == (3, 5)
    assert (news["subscribers"], news["online"], news["stored"]) == (2, 1, 2)
    assert (topics["@quiet"]["published"], topics["@quiet"]["delivered"]) == (0, 0)
    assert [each["name"] for each in only["topics"]] == ["@news"], "the busiest"
    assert only["topic_count"] == 2


def test_what_waited_counts_when_it_is_pushed() -> None:
    asyncio.run(_waited())


async def _waited() -> None:
    async with (
        running(clients=["anna"], listeners=["esnp"]) as it,
        admin_client(it.hub) as admin,
    ):
        async with signed_on(it, "anna") as peer:
            await peer.call("hub/subscribe", topic="@news", ack=True)
        await until(lambda: not it.hub.connections)
        for _ in range(3):
            await it.publish("@news", b"later")
        assert (await _top(admin))["topics"][0]["delivered"] == 0
        async with signed_on(it, "anna") as peer:
            await peer.call("hub/subscribe", topic="@news", ack=True)
            await until(lambda: it.hub.counters.delivered["esnp"] == 3)
            topic = (await _top(admin))["topics"][0]
    assert (topic["published"], topic["delivered"]) == (3, 3)


def test_only_failed_connections_are_listed() -> None:
    asyncio.run(_failed_connections())


async def _failed_connections() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        await _break_in(it)
        for _ in range(3):
            async with phone(it, "anna"):
                pass
        await until(lambda: len(it.hub.table.closed_connections) == 4)
        found = await _top(admin)
    assert found["closed"] == {"comet": 4}
    (failed,) = found["failed_connections"]
    assert (failed["protocol"], failed["reason"]) == ("comet", "unknown_type")
    assert failed["peer"].startswith("127.0.0.1:")
    assert found["failures"] == {"comet": {"unknown_type": 1}}


async def _break_in(it: Running) -> None:
    """Says something that is not allowed."""
    _, writer = await dial(it.address("comet"))
    writer.write(b"\x00\x01\x63")
    await until(lambda: it.hub.counters.close_reasons["comet", "unknown_type"] == 1)
    writer.close()
    await writer.wait_closed()
