"""What lists and counters say about services and processes."""

from __future__ import annotations

import pytest
from tests.hub.admin.admin_client import admin_client
from tests.hub.listeners_esnp.peer import run, signed_on
from tests.serving.providers import NUMBERS, alice, process, raw_process, serving_hub

from wirelake.client import CallFailed
from wirelake.hub.observe.counters import LatencyHistogram, bounds
from wirelake.hub.rpc.services import Services
from wirelake.protocols.hub_calls import SERVICES


def test_the_admin_page_and_the_metrics() -> None:
    local = Services()
    local.service("test", "one", tny=1)(lambda: None)

    async def test() -> None:
        async with (
            serving_hub(services=local) as it,
            process(it, calls=5),
            raw_process(it, [{"name": "demo/raw"}], calls=2),
            alice(it) as client,
            admin_client(it.hub) as admin,
        ):
            await client.call("demo/add", {"a": 1, "b": 2})
            with pytest.raises(CallFailed):
                await client.call("demo/add", {"a": 1})
            page = (await admin.get("/v1/services")).json
            assert page["count"] == 2 + len(NUMBERS)
            assert [each["name"] for each in page["services"]] == [
                "demo/add", "demo/cancelled", "demo/count", "demo/never", "demo/raw", "test/one",
            ]  # fmt: skip
            found = page["services"][0]
            assert found["signature"] == "(a: int, b: int) -> dict[str, int]"
            assert found["numbers"] == {"tny": 3001, "magline": 3001}
            assert (found["where"], found["calls"], found["failed"]) == (["demo-1"], 2, 1)
            assert page["services"][-1]["where"] == ["hub"]
            first, second = page["processes"]
            assert first["peer"].startswith("127.0.0.1:")
            del first["peer"], second["peer"]
            empty = {"client": "demo-1", "running": 0, "unexpected": 0}
            assert first == {**empty, "services": len(NUMBERS), "limit": 5}
            assert second == {**empty, "services": 1, "limit": 2}
            (last,) = (await admin.get("/v1/services?limit=1&offset=5")).json["services"]
            assert last["name"] == "test/one"
            text = (await admin.get("/metrics")).body.decode()
            assert 'wirelake_provided_calls_total{outcome="ok"} 1.0' in text
            assert 'wirelake_provided_calls_total{outcome="failed"} 1.0' in text
            assert "wirelake_service_processes 2.0" in text
            assert f"wirelake_offered_services {len(NUMBERS) + 1}.0" in text
            assert "wirelake_provided_calls_running 0.0" in text
            assert 'wirelake_call_seconds_count{target="demo/add"} 2.0' in text

    run(test())


def test_a_client_lists_what_it_may_call() -> None:
    rights = {
        "clients": [
            {"ids": ["demo-*"], "serve": ["**"]},
            {"ids": ["alice"], "call": ["demo/count", "hub/**"]},
        ]
    }

    async def test() -> None:
        async with (
            serving_hub(rights=rights, listeners=["esnp", "tny"]) as it,
            process(it),
            alice(it) as client,
            alice(it, "tny") as other,
        ):
            found = (await client.call(SERVICES.target)).data
            assert [each["name"] for each in found["services"]] == ["demo/count"]
            assert found["count"] == 1
            assert (await other.call(SERVICES.number)).data == found

    run(test())


@pytest.mark.parametrize("arguments", [{"offset": -1}, {"limit": 0}, {"limit": 1001}])
def test_pages_of_a_list(arguments: dict[str, int]) -> None:
    async def test() -> None:
        async with serving_hub() as it, process(it), signed_on(it, "alice") as peer:
            assert "an offset from 0 and a limit" in await peer.refusal("hub/services", **arguments)
            page = await peer.ok("hub/services", offset=1, limit=2)
            assert [each["name"] for each in page["services"]] == ["demo/cancelled", "demo/count"]
            assert page["count"] == len(NUMBERS)

    run(test())


def test_quantiles() -> None:
    histogram = LatencyHistogram()
    assert histogram.quantile_ns(0.5) == 0
    histogram.buckets[40] = 98
    histogram.buckets[80] = 2
    for part, bucket in ((0, 40), (0.5, 40), (0.98, 40), (0.99, 80), (1, 80)):
        start, stop = bounds(bucket)
        assert start <= histogram.quantile_ns(part) < stop
