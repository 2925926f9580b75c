"""Calls that a hub sends to service processes, in its live tables and in a recording.

They are calls of the other direction: a call of a client that a process answers has two rows.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hub.cli.started_hub import wirelake
from tests.hub.listeners_esnp.peer import run
from tests.hub.running import until
from tests.serving.providers import KINDS, alice, names, offered, serving_hub

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format.writer import sealed_files
from wirelake.client import CallFailed
from wirelake.hub.observe.live_decoder import LiveDecoder

pytestmark = pytest.mark.slow

_ROWS = ("target", "direction", "protocol", "outcome", "parts")
Row = tuple[Any, ...]


def expected_rows() -> Counter[Row]:
    both = {
        ("demo/add", "answered", 1): 2,
        ("demo/add", "failed", 1): 1,
        ("demo/count", "answered", 21): 1,
        ("demo/never", "failed", 1): 1,
    }
    found: Counter[Row] = Counter()
    for (target, outcome, parts), count in both.items():
        for direction in ("c2s", "s2c"):
            found[target, direction, "esnp", outcome, parts] = count
    return found


def rows_of(calls: list[dict[str, Any]]) -> Counter[Row]:
    """Calls of services, without those of the hub itself."""
    chosen = [each for each in calls if each["target"].startswith("demo/")]
    return Counter(tuple(each[name] for name in _ROWS) for each in chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_both_directions_have_their_rows(kind: str, tmp_path: Path) -> None:
    live: list[dict[str, Any]] = []
    ports: dict[int, str] = {}

    async def test() -> None:
        record = {"folder": str(tmp_path), "tables": True}
        limits = {"service_s": 0.2}
        async with serving_hub(record=record, limits=limits) as it:
            decoder = it.hub.tap.find(LiveDecoder)
            assert decoder is not None
            assert decoder.tables is not None
            ports[it.address("esnp")[1]] = "esnp"
            async with offered(kind, it), alice(it) as client:
                await asyncio.gather(*[client.call("demo/add", {"a": n, "b": 1}) for n in (1, 2)])
                for target in ("demo/add", "demo/never"):
                    with pytest.raises(CallFailed):
                        await client.call(target)
                parts = [part async for part in client.stream("demo/count", {"n": 20})]
                assert len(parts) == 20
                (provider,) = it.hub.offers.providers
                await until(lambda: not provider.running, "the cancelled call is answered")
            await until(lambda: not names(it) and not it.hub.connections, "all have left")
            live.extend(map(msgspec.to_builtins, decoder.tables.rows("calls")))

    run(test())
    assert rows_of(live) == expected_rows()
    files = sealed_files(tmp_path)
    assert list(read_tables(files, tables=["faults"], ports=ports)) == []
    ((port, name),) = ports.items()
    read = wirelake("read", str(tmp_path), "--table", "calls", "--port", f"{port}={name}", "--json")
    assert read.stderr == ""
    assert rows_of([json.loads(line) for line in read.stdout.splitlines()]) == expected_rows()
