"""Recordings of the hub: files, facts, keys, and what happens when they cannot be written."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
from pathlib import Path
from typing import Any

from tests.columnar.differential import differences
from tests.hub.cli.started_hub import FREE_PORTS, HubProcess, hub_process
from tests.hub.listeners_comet.phones import phone
from tests.hub.observe.recorded_run import Caller, publish
from tests.hub.running import running, until
from tests.hub.session_client import dial

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format.writer import sealed_files
from wirelake.protocols.esnp.session import EsnpSession
from wirelake.protocols.sansio import Role

CALLS = 64


def facts_of(folder: Path) -> list[dict[str, Any]]:
    return [row for _, row in read_tables(sealed_files(folder), tables=["facts"])]


def test_facts_contain_what_the_wire_does_not_carry(tmp_path: Path) -> None:
    asyncio.run(_facts(tmp_path))


async def _facts(folder: Path) -> None:
    record = {"folder": str(folder), "source": "edge-7"}
    async with running(clients=["anna", "ben"], listeners=["comet"], record=record) as it:
        async with phone(it, "anna") as made:
            await made.subscribe("@news")
            public = await publish(it, topic="@news", content=b"to many")
            private = await publish(it, client="anna", content=b"to one")
            await made.content()
            await made.content()
        await until(lambda: not it.hub.connections)
        async with phone(it, "ben") as made:
            it.hub.connections[next(iter(it.hub.connections))].end("maintenance")
            await made.ended()
        await until(lambda: not it.hub.connections)
    assert [path.name for path in sealed_files(folder)] == ["edge-7-00000000.pcapng"]
    facts = facts_of(folder)
    published = [fact["data"] for fact in facts if fact["kind"] == "publish"]
    assert published == [
        {"id": public, "audience": 1, "topic": "@news"},
        {"id": private, "audience": 1, "client": "anna", "protocol": "comet"},
    ]
    closed = [fact["data"] for fact in facts if fact["kind"] == "close"]
    assert closed == [
        {"reason": "eof", "side": "client"},
        {"reason": "maintenance", "side": "server"},
    ]


def test_without_record_keys_what_is_sealed_stays_so(tmp_path: Path) -> None:
    asyncio.run(_sealed(tmp_path))


async def _sealed(folder: Path) -> None:
    record = {"folder": str(folder)}
    async with running(clients=["anna"], listeners=["comet"], record=record) as it:
        ports = {it.address("comet")[1]: "comet"}
        async with phone(it, "anna") as made:
            await made.exchange_key()
            await publish(it, client="anna", content=b"for your eyes")
            assert await made.content() == b"for your eyes"
    files = sealed_files(folder)
    rows = [row for _, row in read_tables(files, tables=["messages"], ports=ports)]
    pushes = [row for row in rows if row["kind"] == "push"]
    assert [row["sealed"] for row in pushes] == [True]
    assert b"content_key" not in files[0].read_bytes()


def test_files_follow_each_other_and_each_can_be_read(tmp_path: Path) -> None:
    asyncio.run(_rotated(tmp_path))


async def _rotated(folder: Path) -> None:
    record = {"folder": str(folder), "rotate_bytes": 4_096, "keys": True}
    async with running(clients=["anna"], listeners=["comet"], record=record) as it:
        ports = {it.address("comet")[1]: "comet"}
        async with phone(it, "anna") as made:
            await made.exchange_key()
            for _ in range(50):
                await publish(it, client="anna", content=b"x" * 200)
                await made.content()
    files = sealed_files(folder)
    assert len(files) > 2
    for file in files[1:]:
        rows = [row for _, row in read_tables([file], tables=["messages"], ports=ports)]
        assert not [row for row in rows if row["sealed"]]


def test_a_recording_continues_when_it_can_be_written_again(tmp_path: Path) -> None:
    """The hub serves meanwhile; the recording says itself how much of that it does not have."""
    config = FREE_PORTS.replace("[esnp]\n", '[esnp]\nauth = "none"\n')
    folder = tmp_path / "recordings"
    record = ("--record", str(folder))
    with hub_process(tmp_path, "--demo", *record, config=config) as hub:
        assert state_of(hub) == "on"
        asyncio.run(_much(hub))
        limits = resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
        asyncio.run(_much(hub))
        assert state_of(hub) == "failed: File too large"
        resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, limits)
        asyncio.run(until(lambda: state_of(hub) == "on"))
        asyncio.run(_much(hub))
        code, errors = hub.end()
    assert code == 0
    assert errors.count("recording failed: File too large") == 1
    assert errors.count("recording resumed") == 1
    assert "Traceback" not in errors
    assert differences([str(path) for path in sealed_files(folder)]) == []
    (lost,) = [fact["data"] for fact in facts_of(folder) if fact["kind"] == "lost"]
    assert (lost["reason"], lost["frames"] > 0) == ("File too large", True)
    rows = [row for _, row in read_tables(sealed_files(folder), tables=["messages"])]
    calls = [row for row in rows if row["kind"] == "request"]
    assert 2 * CALLS <= len(calls) < 3 * CALLS


async def _much(hub: HubProcess) -> None:
    """A megabyte each way, and every call is answered."""
    reader, writer = await dial(hub.address("esnp"))
    now = asyncio.get_running_loop().time()
    made = Caller(EsnpSession(Role.CLIENT, now=now), reader, writer)
    for _ in range(CALLS):
        await made.call("test", "echo", text="x" * 16_384)
    await made.hang_up()


def state_of(hub: HubProcess) -> str:
    line = http.client.HTTPConnection(*hub.address("admin"), timeout=20)
    line.request("GET", "/varz")
    try:
        return str(json.loads(line.getresponse().read())["recording"])
    finally:
        line.close()
