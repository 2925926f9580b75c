"""Histograms of durations: every duration has one bucket, and services and calls keep them."""

from __future__ import annotations

import asyncio
import random
from time import perf_counter_ns
from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import esnp_hub, signed_on

from wirelake.hub.observe import counters as times_module
from wirelake.hub.observe.counters import BUCKETS, LatencyHistogram, bounds


def test_buckets_follow_each_other_without_a_gap() -> None:
    stop = 0
    for bucket in range(BUCKETS):
        start, end = bounds(bucket)
        assert start == stop
        assert end > start
        stop = end
    assert stop == 1 << 63
    assert all(bounds(each)[1] / bounds(each)[0] <= 1.25 for each in range(8, BUCKETS))


def test_a_duration_is_in_the_bucket_that_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    edges = [each for bucket in range(100) for each in bounds(bucket)]
    others = [chance.getrandbits(chance.randrange(1, 60)) for _ in range(500)]
    for took in (*edges, *others):
        times = LatencyHistogram()
        monkeypatch.setattr(times_module, "perf_counter_ns", lambda took=took: 1_000 + took)
        times.record(1_000)
        ((start, stop, count),) = times.filled()
        assert start <= took < stop
        assert (count, times.total_ns, times.failed) == (1, took, 0)


def test_failures_are_in_the_buckets_too() -> None:
    times = LatencyHistogram()
    times.record(perf_counter_ns())
    times.record_failure(perf_counter_ns())
    assert (times.count, times.failed) == (2, 1)


def test_services_and_calls_of_the_hub_note_how_long_they_took() -> None:
    asyncio.run(_noted())


async def _noted() -> None:
    async with esnp_hub(clients=["anna"]) as it, signed_on(it, "anna") as peer:
        for _ in range(3):
            await peer.call("test/add", a=1, b=2)
        await peer.call("test/add", a="no number", b=2)
        await peer.call("test/sleep", ms=20)
        await peer.call("test/sleep", ms=-1)
        await peer.call("test/fail")
        await peer.call("hub/subscribe", topic="@news", ack=True)
        await peer.call("hub/unsubscribe", topic="@news")
        await peer.call("hub/publish", topic="@news", content="x")
        for _ in range(3):
            await peer.call("hub/publish", topic="@news", content="x", ttl_s=0)
        await peer.call("hub/publish", content="to nobody")
        await peer.call("hub/ack", id="m0000000000000001")
        await peer.call("hub/serve", services=[{"name": "shop/price"}])  # no right
        await peer.call("hub/withdraw")
        await peer.call("hub/services")
        found: dict[str, Any] = {each.name: each.latency for each in it.hub.services.every}
        found |= it.hub.counters.hub_calls
        counts = {name: (each.count, each.failed) for name, each in found.items()}
    assert counts == {
        "test/echo": (0, 0),
        "test/add": (4, 1),
        "test/sleep": (2, 1),
        "test/fail": (1, 1),
        "auth": (1, 0),
        "subscribe": (1, 0),
        "unsubscribe": (1, 0),
        "publish": (5, 1),
        "ack": (1, 0),
        "serve": (1, 1),
        "withdraw": (1, 0),
        "services": (1, 0),
    }
    slept = found["test/sleep"].filled()[-1]
    assert slept[1] > 20_000_000, "it slept 20 ms"
