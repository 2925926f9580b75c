"""A complete protocol of another package, live: `examples/parcel`, found by its entry point.

A hub runs with a table `[parcel]`; it is called, subscribed to, pinged, recorded, tailed and shown
by `top`, all by the protocol's name. No file of Wirelake names it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from parcel_courier import BINDING, PROTOCOL, ParcelSettings
from parcel_courier.protocol import Answer, Ask, Bye, Frame, Hello, Notice
from parcel_courier.session import MAX_FRAME_BYTES, ParcelSession, Received
from tests.hub.cli.started_hub import HubProcess, eventually, hub_process, wirelake
from tests.hub.running import DEADLINE_S, Running, running, until

from wirelake.client import (
    AuthFailed,
    BadCall,
    CallFailed,
    Client,
    ConnectionLost,
    Timeout,
    connect,
)
from wirelake.hub.config import ConfigError, config_text, make_config
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.protocols import registry
from wirelake.protocols.sansio import Closed, Failed, Role, SessionError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "parcel"
CONFIG = """\
[esnp]
enabled = false
[tny]
enabled = false
[relay]
enabled = false
[magline]
enabled = false
[comet]
enabled = false
[admin]
port = 0
[parcel]
port = 0
[record]
rotate_s = 3600.0
"""


# -- the package ---------------------------------------------------------------------------------


def test_it_has_six_files_and_none_of_ours_names_it() -> None:
    assert len(list(EXAMPLE.glob("src/parcel_courier/*.py"))) == 6
    named = [
        path
        for folder in ("src", "benchmarks", "tools", "soak")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\bparcel_courier\b|[\"']parcel[\"']", path.read_text(encoding="utf-8"))
    ]
    assert named == []


def test_the_configuration_has_its_table_but_does_not_open_it() -> None:
    assert "\n#[parcel]\n" in config_text()
    assert "parcel" not in make_config({}).listeners
    settings = make_config({"parcel": {"idle_s": 5.0}}).listeners["parcel"]
    assert settings == ParcelSettings(idle_s=5.0)
    assert settings.port == PROTOCOL.port
    assert registry.binding("parcel").settings is ParcelSettings


def test_a_protocol_without_a_binding_has_no_table_and_no_url() -> None:
    with pytest.raises(ConfigError, match=r"unknown table .weather.; expected one of .*parcel"):
        make_config({"weather": {"port": 1}})
    with pytest.raises(BadCall, match=r"expected a URL with one of .*parcel://, parcels://"):
        connect("weather://127.0.0.1")


def test_a_binding_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.binding.cache_clear()
    monkeypatch.setattr(PROTOCOL, "binding", "parcel_courier:NOTHING")
    try:
        with pytest.raises(ConfigError, match="parcel_courier:NOTHING of protocol 'parcel'"):
            make_config({"parcel": {}})
        with pytest.raises(BadCall, match="does not load"):
            connect("parcel://127.0.0.1")
        found, broken = registry.all_bindings()
        assert "parcel" not in found
        assert ["does not load" in str(error) for error in broken] == [True]
    finally:
        registry.binding.cache_clear()


# -- the session ---------------------------------------------------------------------------------


def _pair() -> tuple[ParcelSession, ParcelSession]:
    client = ParcelSession(Role.CLIENT, idle_s=10.0)
    return client, ParcelSession(Role.SERVER, idle_s=10.0)


def test_sessions_back_to_back() -> None:
    client, server = _pair()
    number = client.send(Ask(target="a/b", body=b"{}"))
    data = client.to_send()
    server.receive(data[:5], 0.0)
    assert server.events() == []
    server.receive(data[5:], 0.0)
    assert server.events() == [Received(number, Ask(target="a/b", body=b"{}"))]
    server.send(Answer(to=number, status=0, body=b"1"))
    client.receive(server.to_send(), 0.0)
    assert client.events() == [Received(1, Answer(to=number, status=0, body=b"1"))]
    client.close()
    server.receive(client.to_send(), 0.0)
    (closed,) = server.events()
    assert isinstance(closed, Closed)
    assert closed.clean


def test_what_a_side_may_not_send() -> None:
    client, server = _pair()
    with pytest.raises(SessionError, match="bad_state"):
        client.send(Notice(id="1", topic="", sent_ms=0, type=0, content=b""))
    notice = Notice(id="1", topic="", sent_ms=0, type=0, content=b"")
    server.receive(PROTOCOL.encode(Frame(number=1, body=notice)), 0.0)
    failed, closed = server.events()
    assert isinstance(failed, Failed)
    assert isinstance(closed, Closed)
    assert failed.code == closed.reason == "bad_state"
    assert PROTOCOL.decode(server.to_send()).message.body == Bye(reason="bad_state")


@pytest.mark.parametrize("data", [b"XX", b"PX" + b"\xff" * 9])
def test_bad_bytes_close(data: bytes) -> None:
    _, server = _pair()
    server.receive(data, 0.0)
    assert server.closed


def test_an_idle_connection_is_pinged_and_then_closed() -> None:
    client, server = _pair()
    client.on_timer(5.0)
    server.receive(client.to_send(), 5.0)
    client.receive(server.to_send(), 5.0)
    server.on_timer(14.9)
    assert not server.closed
    server.on_timer(15.0)
    assert server.closed
    with pytest.raises(SessionError):
        server.send(Answer(to=1, status=0, body=b""))
    with pytest.raises(SessionError, match="bad_value"):
        client.send(Ask(target="x" * 256, body=b""))
    assert MAX_FRAME_BYTES > 0xFFFF


# -- the Python client ---------------------------------------------------------------------------


def test_calls_topics_and_refusals() -> None:
    async def go() -> None:
        clients = ["anna", "ben"]
        async with running(
            clients=clients, listeners=[], services=demo_services(), parcel={"port": 0}
        ) as it:
            url = "parcel://{}:{}".format(*it.address("parcel"))

            def courier(name: str) -> Client:
                return connect(url, id=name, token=it.tokens[name])

            async with courier("anna") as anna, courier("ben") as ben:
                assert (await anna.call("test/add", {"a": 1, "b": 2})).data == {"c": 3}
                assert (await anna.call("test/echo", b"\xff")).body == b"\xff"
                assert await anna.ping() > 0
                with pytest.raises(CallFailed, match="failed on request"):
                    await anna.call("test/fail")
                with pytest.raises(CallFailed, match="unknown service 'no/such'"):
                    await anna.call("no/such")
                with pytest.raises(Timeout):
                    await anna.call("test/sleep", {"ms": 5_000}, timeout_s=0.05)
                await anna.subscribe("@depot")
                assert (await ben.publish(b"\xfe", topic="@depot", type=3)).audience == 1
                (notice,) = [each async for each in _first(anna)]
                assert (notice.topic, notice.content, notice.type) == ("@depot", b"\xfe", 3)
                await anna.ack(notice)
                await until(lambda: it.hub.counters.calls["parcel", "ok"] >= 5)
            with pytest.raises(AuthFailed):
                async with connect(url, id="anna", token="wrong", reconnect=False):
                    pass
            async with connect(url, reconnect=False) as nobody:
                with pytest.raises(CallFailed, match="sign on first"):
                    await nobody.call("test/add", {"a": 1, "b": 2})

    asyncio.run(go())


async def _first(client: Client) -> Any:
    async for each in client.notifications():
        yield each
        return


def test_sign_on_is_optional_with_auth_none_and_otherwise_has_a_deadline() -> None:
    async def go() -> None:
        open_to_all = {"port": 0, "auth": "none"}
        async with running(listeners=[], services=demo_services(), parcel=open_to_all) as it:
            url = "parcel://{}:{}".format(*it.address("parcel"))
            async with connect(url) as client:
                assert (await client.call("test/add", {"a": 1, "b": 2})).data == {"c": 3}
        async with running(listeners=[], parcel={"port": 0}, limits={"auth_s": 0.05}) as it:
            url = "parcel://{}:{}".format(*it.address("parcel"))
            async with connect(url, reconnect=False) as late:
                (connection,) = it.hub.connections.values()
                connection.check_deadlines(it.hub.loop.time() + 1.0)
                with pytest.raises(ConnectionLost):
                    await late.ping()
            await until(lambda: it.hub.table.closed_connections)
            assert it.hub.table.closed_connections[0].reason == "auth_timeout"

    asyncio.run(go())


async def _raw(it: Running, data: bytes) -> bytes:
    """Send bytes to the listener; return everything that it sends until it closes."""
    reader, writer = await asyncio.open_connection(*it.address("parcel"))
    writer.write(data)
    received = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    return received


GUESS = Hello(courier="anna", token="wrong")


def test_tokens_are_tried_one_at_a_time() -> None:
    guesses = b"".join(PROTOCOL.encode(Frame(number=n, body=GUESS)) for n in range(1, 200))

    async def go() -> None:
        limits = {"auth_s": 0.5}
        async with running(clients=["anna"], listeners=[], parcel={"port": 0}, limits=limits) as it:
            await _raw(it, guesses)
            # The second waits for the delay of its address, and all others are refused meanwhile.
            assert it.hub.counters.auth_failures["parcel"] == 2

    asyncio.run(go())


def test_a_connection_has_few_attempts_to_sign_on() -> None:
    async def go() -> None:
        async with running(clients=["anna"], listeners=[], parcel={"port": 0}) as it:
            reader, writer = await asyncio.open_connection(*it.address("parcel"))
            attempts = it.hub.limits.auth_attempts
            for number in range(1, attempts + 1):
                writer.write(PROTOCOL.encode(Frame(number=number, body=GUESS)))
                assert await asyncio.wait_for(reader.read(1_000), DEADLINE_S)
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) is not None
            writer.close()
            assert it.hub.counters.auth_failures["parcel"] == attempts
            await until(lambda: it.hub.counters.close_reasons["parcel", "auth_failed"] == 1)

    asyncio.run(go())


def test_a_large_frame_before_sign_on_closes() -> None:
    whole = PROTOCOL.encode(Frame(number=1, body=Ask(target="a/b", body=bytes(60_000))))

    async def go() -> None:
        async with running(listeners=[], parcel={"port": 0}) as it:
            with contextlib.suppress(ConnectionError):
                assert await _raw(it, whole[:30_000]) == b""
            await until(lambda: it.hub.counters.close_reasons["parcel", "too_large"] == 1)

    asyncio.run(go())


def test_what_its_frames_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Content and topics that do not fit are refused while the hub has the listener."""
    name = "@" + "x" * 255  # a topic may have 256 characters, a notice has room for 255
    limited = replace(BINDING, max_content_bytes=100)

    async def go(listeners: list[str], **tables: Any) -> list[str]:
        refused: list[str] = []
        async with running(clients=["anna"], listeners=listeners, **tables) as it:
            url = "{}://{}:{}".format(listeners[0], *it.address(listeners[0]))
            async with connect(url, id="anna", token=it.tokens["anna"]) as anna:
                for attempt in (anna.subscribe(name), anna.publish(b"x" * 101, topic="@depot")):
                    try:
                        await attempt
                    except CallFailed as error:
                        refused.append(error.text)
        return refused

    registry.binding.cache_clear()
    monkeypatch.setattr("parcel_courier.BINDING", limited)
    try:
        assert asyncio.run(go(["esnp"])) == []
        with pytest.raises(ConfigError, match="a parcel frame holds at most 100 bytes"):
            asyncio.run(go(["esnp"], parcel={"port": 0}, limits={"content_bytes": 101}))
        assert asyncio.run(go(["esnp"], parcel={"port": 0})) == [
            "topics do not fit the frames of every protocol",
            "content is 101 bytes; maximum 100",
        ]
    finally:
        registry.binding.cache_clear()


# -- the command line ----------------------------------------------------------------------------


@contextmanager
def _tail(hub: HubProcess) -> Iterator[list[dict[str, Any]]]:
    """Messages that `wirelake tail` prints, as they come."""
    admin = "http://{}:{}".format(*hub.address("admin"))
    command = [sys.executable, "-m", "wirelake.cli", "tail", admin, "--data", str(hub.data)]
    process = subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    )
    rows: list[dict[str, Any]] = []

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            rows.append(json.loads(line))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield rows
    finally:
        process.terminate()
        process.wait(timeout=60)
        thread.join(timeout=60)
        if process.stdout is not None:
            process.stdout.close()


def test_the_command_line_with_a_hub_that_records(tmp_path: Path) -> None:
    record = tmp_path / "recordings"
    with hub_process(tmp_path, "--demo", "--record", str(record), config=CONFIG) as hub:
        added = wirelake("client", "add", "anna", "--data", str(hub.data))
        token = added.stdout.strip()
        url = "parcel://{}:{}".format(*hub.address("parcel"))
        sign_on = ("--id", "anna", "--token", token)
        with _tail(hub) as tailed:
            eventually(lambda: wirelake("ping", url, "--count", "1") and tailed, "tail sees a ping")
            called = wirelake("call", f"{url}/test/add", "a=1", "b=2", "--json", *sign_on)
            assert called.returncode == 0, called.stderr
            assert '"c"' in called.stdout
            pinged = wirelake("ping", url, "--count", "2", "--interval", "0", "--json")
            assert len(pinged.stdout.splitlines()) == 2, pinged.stderr
            other = wirelake("client", "add", "ben", "--data", str(hub.data)).stdout.strip()
            auth = wirelake("call", f"{url}/hub/auth", "id=ben", f"token={other}")
            assert auth.returncode == 0, auth.stderr
            sent = wirelake("publish", url, "--client", "anna", "parcel 7", *sign_on)
            assert sent.returncode == 0, sent.stderr
            args = ("subscribe", url, "@depot", "--count", "1", "--json", *sign_on)
            shown = wirelake(*args)
            assert json.loads(shown.stdout)["content"] == "parcel 7", shown.stderr
            eventually(lambda: any(row.get("name") == "notice" for row in tailed), "a notice")
        admin = "http://{}:{}".format(*hub.address("admin"))
        top = wirelake("top", admin, "--data", str(hub.data), "--once")
        assert "parcel" in top.stdout, top.stderr
        assert "test/add" in top.stdout
        assert hub.end()[0] == 0
    assert any(row["target"] == "hub/auth" for row in tailed)
    assert token not in json.dumps(tailed)
    assert other not in json.dumps(tailed)
    _recorded(record, token)


def _recorded(folder: Path, token: str) -> None:
    """What was recorded, read back: calls and connections by name and client."""
    calls = _rows(folder, "calls")
    assert {row["protocol"] for row in calls} == {"parcel"}
    (add,) = [row for row in calls if row["target"] == "test/add"]
    assert (add["status"], add["client"], add["outcome"]) == ("ok", "anna", "answered")
    assert add["latency_ns"] > 0
    assert {"hello", "hub/publish", "hub/subscribe", "hub/ack"} <= {row["target"] for row in calls}
    connections = _rows(folder, "connections")
    assert {row["protocol"] for row in connections} == {"parcel"}
    assert {"anna"} <= {row["client"] for row in connections}
    assert token not in json.dumps(_rows(folder, "messages"))


def _rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found = wirelake("read", str(folder), "--table", table, "--to", "json", "--jobs", "1")
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]
