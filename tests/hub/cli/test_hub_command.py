"""`wirelake hub`, as a process."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import stat
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from tests.hub.cli.started_hub import FREE_PORTS, HubProcess, eventually, hub_process, wirelake
from tests.hub.listeners_comet.phones import Phone
from tests.hub.session_client import dial
from tests.hub.stores import database_of, named

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format.writer import sealed_files
from wirelake.cli.main import main
from wirelake.hub.store import add_client
from wirelake.protocols import registry
from wirelake.protocols.comet.layout import AuthSuccess
from wirelake.protocols.comet.session import ClientSession

pytestmark = pytest.mark.slow

SERVICES = """
from wirelake.hub.rpc.services import Services

services = Services()
not_services = 7


@services.service("greetings", "hello", tny=2001)
def hello(name: str) -> dict[str, str]:
    return {"text": f"hello, {name}"}
"""


def ask(hub: HubProcess, path: str, body: dict[str, Any] | None = None) -> Any:
    line = http.client.HTTPConnection(*hub.address("admin"), timeout=20)
    token = (hub.data / "admin.token").read_text().strip()
    data = None if body is None else json.dumps(body)
    line.request(
        "GET" if body is None else "POST", path, data, {"Authorization": f"Bearer {token}"}
    )
    try:
        return json.loads(line.getresponse().read())
    finally:
        line.close()


def test_it_prints_addresses_then_ready_and_ends_on_a_signal(tmp_path: Path) -> None:
    with hub_process(tmp_path) as hub:
        names = [line.split()[1] for line in hub.lines[:-1]]
        assert names == ["esnp", "tny", "relay", "magline", "comet", "admin"]
        for name in names:
            with socket.create_connection(hub.address(name), timeout=20):
                pass
        assert stat.S_IMODE(hub.data.stat().st_mode) == 0o700
        assert hub.end() == (0, "")


def test_ctrl_c_drains_too(tmp_path: Path) -> None:
    with hub_process(tmp_path) as hub:
        assert hub.end(signal.SIGINT) == (0, "")


def test_clients_come_while_it_runs_and_what_waits_survives(tmp_path: Path) -> None:
    with hub_process(tmp_path) as hub:
        added = wirelake("client", "add", "anna", *named(hub.data))
        assert added.returncode == 0, added.stderr
        assert len(added.stdout.strip()) == 44
        wanted = {"client": "anna", "content": "kept"}
        assert ask(hub, "/v1/publish", wanted)["id"].startswith("p")
        hub.end(signal.SIGKILL)
    with hub_process(tmp_path) as hub:
        found = ask(hub, "/v1/inbox/anna")["notifications"]
        assert [each["content"] for each in found] == ["kept"]


def test_sighup_takes_over_limits_and_refuses_what_cannot_work(tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    with hub_process(tmp_path, "--verbose") as hub:
        ask(hub, "/varz")
        config.write_text(f"{FREE_PORTS}[limits]\ncontent_bytes = 10\n")
        hub.hear(signal.SIGHUP)
        wanted = {"topic": "@news", "content": "more than ten bytes"}
        eventually(lambda: ask(hub, "/v1/publish", wanted).get("error") == "too_large", "reloaded")
        config.write_text("[limits]\nno_such_limit = 10\n")
        hub.hear(signal.SIGHUP)
        code, errors = hub.end()
        assert code == 0
        assert "not reloaded" in errors
        assert "no_such_limit" in errors
        assert "Traceback" not in errors


def test_sighup_sends_removed_clients_away(tmp_path: Path) -> None:
    with hub_process(tmp_path) as hub:
        data = named(hub.data)
        token = wirelake("client", "add", "anna", *data).stdout.strip()
        asyncio.run(_removed(hub, token, lambda: wirelake("client", "remove", "anna", *data)))
        closed = ask(hub, "/connz")["closed"]
        assert [(each["client"], each["reason"]) for each in closed] == [("anna", "revoked")]


async def _removed(hub: HubProcess, token: str, remove: Callable[[], Any]) -> None:
    reader, writer = await dial(hub.address("comet"))
    made = Phone(ClientSession(now=asyncio.get_running_loop().time()), reader, writer)
    assert isinstance(await made.sign_on("anna", token), AuthSuccess)
    assert (await asyncio.to_thread(remove)).returncode == 0
    hub.hear(signal.SIGHUP)
    await made.ended()
    await made.hang_up()


def test_demo_and_record(tmp_path: Path) -> None:
    recordings = tmp_path / "recordings"
    with hub_process(tmp_path, "--demo", "--record", str(recordings)) as hub:
        with socket.create_connection(hub.address("comet"), timeout=20):
            pass
        eventually(lambda: ask(hub, "/connz")["closed"], "the connection is over")
        assert ask(hub, "/varz")["recording"] == "on"
        assert hub.end() == (0, "")
    facts = [row for table, row in read_tables(sealed_files(recordings), tables=["facts"])]
    assert [fact["kind"] for fact in facts] == ["open", "close"]
    assert facts[1]["data"] == {"reason": "eof", "side": "client"}
    assert stat.S_IMODE(sealed_files(recordings)[0].stat().st_mode) == 0o600


def test_services_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "greetings.py").write_text(SERVICES)
    with hub_process(tmp_path, "--services", "greetings:services", cwd=tmp_path) as hub:
        assert hub.end() == (0, "")


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("greetings", "expected MODULE:NAME"),
        ("no_such_module_here:services", "No module named"),
        ("greetings:nothing", "unknown name 'nothing' of greetings; expected services"),
        ("greetings:not_services", "is not a wirelake.hub.rpc.services.Services"),
    ],
)
def test_services_that_are_none_are_one_line(tmp_path: Path, named: str, text: str) -> None:
    (tmp_path / "greetings.py").write_text(SERVICES)
    done = wirelake("hub", "--data", "data", "--services", named, cwd=tmp_path)
    assert_one_line(done.returncode, done.stdout, done.stderr, text)


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a start that fails, in this process and in an empty folder with `hub.toml`."""
    monkeypatch.chdir(tmp_path)
    # The command sets both for its process, which here is that of the tests.
    monkeypatch.setattr("wirelake.cli.commands.hub._log_to_stderr", lambda _: None)
    monkeypatch.setattr("os.umask", lambda _: 0)

    def start(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["hub", "--data", "data", "--config", "hub.toml", *args])
        assert [path.name for path in tmp_path.iterdir()] == ["hub.toml"], "it left files behind"
        return code, *capfd.readouterr()

    return start


@pytest.mark.parametrize("listener", [*registry.BUILT_IN, "admin"])
def test_a_port_that_is_taken_is_one_line(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path, listener: str
) -> None:
    (tmp_path / "hub.toml").write_text(FREE_PORTS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"{listener}: address 127.0.0.1:{port} is already in use"
        assert_one_line(*here("--port", f"{listener}={port}"), text)
        (tmp_path / "hub.toml").write_text(
            FREE_PORTS.replace(f"[{listener}]\nport = 0", f"[{listener}]\nport = {port}")
        )
        assert_one_line(*here("--record", "recordings"), text)


def test_one_port_for_two_listeners(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "hub.toml").write_text(FREE_PORTS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    twice = ("--port", f"tny={port}", "--port", f"admin={port}")
    assert_one_line(*here(*twice), f"admin: port {port} is also the port of tny: choose another")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ('[comet]\nhost = "192.0.2.1"\n', "comet.host: 192.0.2.1 is not an address of this mac"),
        ('[comet]\nhost = "no-such-host.invalid"\n', "comet.host: unknown host 'no-such-host."),
        ('[record]\nfolder = "hub.toml"\n', "hub.toml: not a folder"),
        ('[admin]\ntls = { certificate = "hub.toml", key = "no.pem" }\n', "admin.tls.key: no.pem:"),
        ('[tny]\ntls = { certificate = "hub.toml", key = "hub.toml" }\n', "tny.tls: hub.toml"),
    ],
)
def test_a_start_that_cannot_work_leaves_nothing_behind(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path, config: str, text: str
) -> None:
    table = config.partition("]")[0] + "]\n"
    rest = FREE_PORTS.replace(f"{table}port = 0\n", "")
    (tmp_path / "hub.toml").write_text(
        f"{config}port = 0\n{rest}" if table in FREE_PORTS else config + rest
    )
    assert_one_line(*here(), text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("comet", "invalid --port 'comet'; expected NAME=PORT"),
        ("9620=comet", "invalid --port '9620=comet'; expected NAME=PORT"),
        ("comet=65536", "expected NAME=PORT with a port 0-65535"),
        ("comit=1", "did you mean comet?"),
    ],
)
def test_ports_that_are_none(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path, given: str, text: str
) -> None:
    (tmp_path / "hub.toml").write_text(FREE_PORTS)
    assert_one_line(*here("--port", given), text)


def test_verbose_logs_who_came(tmp_path: Path) -> None:
    with hub_process(tmp_path, "--verbose") as hub:
        token = add_client(database_of(hub.data), "anna")
        asyncio.run(_sign_on_and_leave(hub, token))
        ask(hub, "/v1/publish", {"topic": "@news", "content": "rain"})
        with socket.create_connection(hub.address("tny"), timeout=20) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n" * 1_000)
            place = "{}:{}".format(*peer.getsockname())
            while peer.recv(1_000):
                pass
        code, errors = hub.end()
    assert code == 0
    assert token not in errors
    assert (hub.data / "admin.token").read_text().strip() not in errors
    for pattern in (
        r"INFO wirelake.access: connection \d+ comet from 127.0.0.1:\d+ opened\n",
        r"INFO wirelake.access: connection \d+ comet from 127.0.0.1:\d+ signed on as \"anna\"\n",
        r"comet from 127.0.0.1:\d+ closed by \w+: \w+, after \d+\.\d+ s, client \"anna\"\n",
        r"INFO wirelake.access: published m\w+ to \"@news\", audience 0\n",
        r"INFO uvicorn.access: 127.0.0.1:\d+ - \"POST /v1/publish HTTP/1.1\" 200\n",
        rf"tny from {place} closed by \w+: \w+, after",
    ):
        assert re.search(pattern, errors), (pattern, errors)


async def _sign_on_and_leave(hub: HubProcess, token: str) -> None:
    reader, writer = await dial(hub.address("comet"))
    made = Phone(ClientSession(now=asyncio.get_running_loop().time()), reader, writer)
    assert isinstance(await made.sign_on("anna", token), AuthSuccess)
    await made.hang_up()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("[comet]\nprt = 1\n", "prt"),
        ("[comet\n", "hub.toml"),
        ('[comet]\nport = "x"\n', "port"),
        ('[esnp]\nhost = "0.0.0.0"\nauth = "none"\n', "esnp.auth"),
        ('[comet]\ntls = { certificate = "no.pem", key = "no.pem" }\n', "no.pem"),
    ],
)
def test_a_configuration_that_cannot_work_is_one_line(
    tmp_path: Path, config: str, text: str
) -> None:
    (tmp_path / "hub.toml").write_text(config + FREE_PORTS.replace("[comet]\nport = 0\n", ""))
    if config.startswith("[esnp]"):
        (tmp_path / "hub.toml").write_text(config)
    done = wirelake("hub", "--data", "data", "--config", "hub.toml", cwd=tmp_path)
    assert_one_line(done.returncode, done.stdout, done.stderr, text)


def assert_one_line(code: int, output: str, errors: str, text: str) -> None:
    assert code == 2
    assert "ready" not in output
    assert text in errors
    assert errors.startswith("wirelake: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("args", [("hub", "init"), ("hub", "--data", "data")])
def test_protocols_that_do_not_load_are_reported(
    args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [EntryPoint("thermo", "no_such_module:PROTOCOL", registry.GROUP)]
    monkeypatch.setattr(registry, "_points", lambda: points)
    monkeypatch.setattr("wirelake.hub.run.run_hub", lambda *_, **__: None)
    # The command sets both for its process, which here is that of the tests.
    monkeypatch.setattr("wirelake.cli.commands.hub._log_to_stderr", lambda _: None)
    monkeypatch.setattr("os.umask", lambda _: 0)
    assert main(args) == 0
    errors = capsys.readouterr().err
    assert errors.startswith("wirelake: skipping protocol 'thermo' of package no_such_module:PROT")
    assert errors.count("\n") == 1


def test_init_writes_a_file_once(tmp_path: Path) -> None:
    done = wirelake("hub", "init", "-o", "hub.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "hub.toml\n")
    again = wirelake("hub", "init", "-o", "hub.toml", cwd=tmp_path)
    assert_one_line(again.returncode, again.stdout, again.stderr, "already exists")
    for args in ((), ("-o", "-")):
        shown = wirelake("hub", "init", *args, cwd=tmp_path)
        assert shown.stdout == (tmp_path / "hub.toml").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["hub.toml"]
