"""A real hub as a process of its own: started, asked over HTTP, killed and started again."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.hub.stores import database_of, store_table
from tests.hub_raw.line import Line, dial

from wirelake.hub.store import add_client

__all__ = ["Answer", "HubProcess", "running_hub", "toml_of", "wait_until"]

_DEADLINE_S = 30.0
_LISTENERS = ("esnp", "tny", "relay", "magline", "comet")


def wait_until(true: Callable[[], Any], what: str, within_s: float = _DEADLINE_S) -> Any:
    """Waits for something to become true, and returns what it became."""
    until = time.monotonic() + within_s
    while not (value := true()):
        assert time.monotonic() < until, f"never came true: {what}"
        time.sleep(0.01)
    return value


def toml_of(tables: Mapping[str, Any], name: str = "") -> str:
    """Nested mappings as TOML."""
    lines = [f"[{name}]"] if name else []
    deeper = []
    for key, value in tables.items():
        if isinstance(value, Mapping):
            deeper.append(toml_of(value, f"{name}.{key}" if name else key))
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join([*lines, *deeper]) + "\n"


class Answer:
    """What HTTP answered."""

    def __init__(self, status: int, body: bytes):
        self.status = status
        self.body = body

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


class HubProcess:
    """A hub in a folder; it may be started more than once."""

    def __init__(
        self, folder: Path, changes: Mapping[str, Any] | None = None, *, demo: bool = True
    ):
        self.data = folder / "data"
        self.addresses: dict[str, tuple[str, int]] = {}
        self._folder = folder
        self.config = folder / "hub.toml"
        self.config.write_text(toml_of(self._tables(changes or {})))
        self._demo = demo
        self._process: subprocess.Popen[bytes] | None = None
        self.store_may_fail = False
        """Whether its database is killed: calls may be refused meanwhile."""
        self._clients = 0

    def _tables(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        tables = _with_free_ports(changes)
        return {**tables, "store": {**store_table(self.data), **tables.get("store", {})}}

    # -- the process -------------------------------------------------------------------------

    @property
    def command(self) -> list[str]:
        """How it is started."""
        command = [sys.executable, "-m", "wirelake.cli", "hub", "--data", str(self.data)]
        return [*command, "--config", str(self.config), *(["--demo"] if self._demo else [])]

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts it and waits until it is ready."""
        with (self._folder / "hub.err").open("ab") as errors:
            self._process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=errors)
        addresses = {}
        for line in self._lines_until_ready():
            word, name, address = line.split()
            assert word == "listening"
            host, port = address.rsplit(":", 1)
            addresses[name] = (host.strip("[]"), int(port))
        self.addresses = addresses

    def _lines_until_ready(self) -> list[str]:
        assert self._process is not None
        assert self._process.stdout is not None
        number, said = self._process.stdout.fileno(), b""
        poll = select.poll()
        poll.register(number, select.POLLIN)
        until = time.monotonic() + _DEADLINE_S
        while b"ready\n" not in said:
            readable = poll.poll(max(0.0, until - time.monotonic()) * 1000)
            data = os.read(number, 65536) if readable else b""
            if not data:
                self.kill()
                raise AssertionError(f"the hub is not ready: {said.decode()}\n{self.errors()}")
            said += data
        return said.decode().splitlines()[:-1]

    def errors(self) -> str:
        """What it wrote to standard error."""
        return (self._folder / "hub.err").read_text()

    def kill(self) -> None:
        """Ends it without a chance to do anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Asks it to end, and waits."""
        return self._end(signal.SIGTERM)

    def tell(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        self.addresses = {}
        process.send_signal(number)
        try:
            return process.wait(_DEADLINE_S)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def memory_kb(self) -> int:
        """Its resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmRSS"))

    def descriptors(self) -> int:
        """How many descriptors it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    # -- those who come ----------------------------------------------------------------------

    def dial(self, listener: str, timeout_s: float = 20.0) -> Line:
        """A plain connection to a listener."""
        return dial(self.addresses[listener], timeout_s)

    def client(self, name: str = "") -> tuple[str, str]:
        """A new client's id and token."""
        self._clients += 1
        name = name or f"client-{self._clients}"
        return name, add_client(database_of(self.data), name)

    def command_line(self, *words: str) -> str:
        """Runs `wirelake WORDS --data …`; what it prints."""
        command = [sys.executable, "-m", "wirelake.cli", *words, "--data", str(self.data)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # -- HTTP --------------------------------------------------------------------------------

    def http(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Answer:
        """Asks the admin side; with the admin token unless told otherwise."""
        connection = http.client.HTTPConnection(*self.addresses["admin"], timeout=_DEADLINE_S)
        try:
            token = self.admin_token if token is None else token
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read())
        finally:
            connection.close()

    @property
    def admin_token(self) -> str:
        """What the admin side wants to see."""
        return (self.data / "admin.token").read_text().strip()

    def publish(self, **values: Any) -> dict[str, Any]:
        """Publishes over HTTP; it must be taken."""
        answer = self.http("POST", "/v1/publish", values)
        assert answer.status == 200, answer.body
        return dict(answer.json)

    def varz(self) -> dict[str, Any]:
        """What the hub counts."""
        return dict(self.http("GET", "/varz").json)

    def closed(self) -> list[dict[str, Any]]:
        """The connections that are over, as `/connz` tells it."""
        return list(self.http("GET", "/connz").json["closed"])


def _with_free_ports(changes: Mapping[str, Any]) -> dict[str, Any]:
    tables: dict[str, Any] = {name: {"port": 0} for name in (*_LISTENERS, "admin")}
    for name, table in changes.items():
        tables[name] = {**tables.get(name, {}), **table}
    return tables


@contextlib.contextmanager
def running_hub(
    folder: Path, changes: Mapping[str, Any] | None = None, *, demo: bool = True
) -> Iterator[HubProcess]:
    """A hub that runs meanwhile; it must end well."""
    hub = HubProcess(folder, changes, demo=demo)
    hub.start()
    try:
        yield hub
    except BaseException:
        hub.kill()
        raise
    else:
        running = hub.alive
        code = hub.stop()
        assert not running or code == 0, hub.errors()
