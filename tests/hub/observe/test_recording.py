"""Recordings of the hub: files, facts, keys, and what happens when they cannot be written."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
from pathlib import Path
from typing import Any

import pytest
from tests.columnar.differential import differences
from tests.hub.cli.started_hub import FREE_PORTS, HubProcess, hub_process
from tests.hub.listeners_comet.phones import phone
from tests.hub.observe.recorded_run import Caller, publish
from tests.hub.running import free_config, running, until
from tests.hub.session_client import dial
from tests.hub_raw.hub_process import HubProcess as KilledHub
from tests.hub_raw.hub_process import wait_until

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format.writer import Output, is_being_written, open_files, sealed_files
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tools.repair import seal_abandoned
from wirelake.hub.config import ConfigError
from wirelake.hub.hub import Hub
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


# -- recordings that a kill leaves open ----------------------------------------------------------


def _leave_open(folder: Path, source: str, *, cut: int = 0) -> Path:
    """A recording as a kill leaves it, perhaps in the middle of a block."""
    recorder = Recorder(folder, source=source)
    recorder.open(7, ("10.0.0.9", 51000), ("10.0.0.1", 9600), "esnp", 1)
    for number in range(100):
        recorder.record(7, "c2s", b"frame %02d" % number, 2 + number)
    recorder.flush()
    path = recorder._output.path
    data = path.read_bytes()
    recorder.stop()
    (path.with_name(path.name.removesuffix(".open"))).unlink()
    path.write_bytes(data[: len(data) - cut])
    return path


def test_the_next_start_seals_what_a_killed_hub_has_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = _leave_open(tmp_path, "edge")
    cut = _leave_open(tmp_path, "edge", cut=10)
    other = _leave_open(tmp_path, "other")
    empty = tmp_path / "edge-00000002.pcapng.open"
    empty.write_bytes(b"")
    used = Output(tmp_path, "edge", 3)
    used.write(whole.read_bytes())
    assert [is_being_written(path) for path in (whole, used.path)] == [False, True]

    async def run() -> None:
        record = {"folder": str(tmp_path), "source": "edge"}
        async with running(listeners=["esnp"], record=record):
            assert not whole.exists()
            assert not cut.exists()
            assert not empty.exists()
            names = [path.name for path in sealed_files(tmp_path)]
            assert names == ["edge-00000000.pcapng", "edge-00000001.pcapng"]
            assert [path.name for path in open_files(tmp_path)] == [
                "edge-00000003.pcapng.open",
                "edge-00000004.pcapng.open",
                other.name,
            ]

    asyncio.run(run())
    used.discard()
    lost = int.from_bytes(other.read_bytes()[-4:], "little") - 10  # of the last block
    text = "which a hub that was killed had left open:"
    assert [record.message.partition(", ")[2] for record in caplog.records] == [
        f"{text} 102 packets, 0 bytes lost",
        f"{text} 101 packets, {lost} bytes lost",
    ]
    faults = [row for _, row in read_tables(sealed_files(tmp_path), tables=["faults"])]
    assert faults == []


def test_a_recording_damaged_in_the_middle_is_repaired(tmp_path: Path) -> None:
    path = _leave_open(tmp_path, "edge")
    data = bytearray(path.read_bytes())
    middle = data.index(b"frame 50")
    data[middle - 200 : middle] = bytes(200)
    path.write_bytes(data)
    sealed = seal_abandoned(path)
    assert sealed is not None
    assert sealed.faults >= 1
    assert 0 < sealed.packets < 102
    assert not path.exists()
    assert [each.name for each in sealed_files(tmp_path)] == ["edge-00000000.pcapng"]


def test_a_hub_that_is_killed_and_started_again_leaves_no_open_recording(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    hub = KilledHub(tmp_path, {"record": {"folder": str(folder)}})
    hub.start()
    for _ in range(20):
        hub.publish(topic="@news", content="x")
    wait_until(lambda: open_files(folder)[-1].stat().st_size, "the recording is flushed")
    hub.kill()
    assert len(open_files(folder)) == 1
    hub.start()
    assert hub.stop() == 0
    assert open_files(folder) == []
    published = [fact for fact in facts_of(folder) if fact["kind"] == "publish"]
    assert published


def test_a_start_that_fails_leaves_no_open_recording_and_no_lock(tmp_path: Path) -> None:
    key = tmp_path / "rsa.pem"
    key.write_text("not a key")
    record = {"folder": str(tmp_path / "recordings")}
    config = free_config(["comet"], comet={"key": "rsa", "rsa_key": str(key)}, record=record)

    async def go() -> None:
        with pytest.raises(ConfigError, match="not a PEM private key"):
            await Hub(config, tmp_path / "data").start()
        assert list(tmp_path.rglob("*.open")) == []
        async with running(listeners=["comet"], data=tmp_path / "data", record=record):
            pass

    asyncio.run(go())
