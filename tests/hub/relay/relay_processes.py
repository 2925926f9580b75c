"""Hubs as processes of their own: backends that take links, and gateways that dial them."""

from __future__ import annotations

import http.client
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

START_S = 60.0
"""How long a hub may take to start, or to end."""
_OTHERS = "".join(f"[{name}]\nenabled = false\n" for name in ("esnp", "magline", "comet"))
_OTHERS += "[admin]\nport = 0\n"
BACKEND = _OTHERS + '[tny]\nenabled = false\n[relay]\nauth = "none"\nport = {port}\n'
GATEWAY = (
    _OTHERS
    + '[relay]\nenabled = false\n[tny]\nauth = "none"\nport = 0\n'
    + "[gateway]\nenabled = true\nlinks = 2\n"
)
LINKED = "[[gateway.backends]]\nhost = '127.0.0.1'\nport = {port}\n"


class HubProcess:
    """A hub that runs as `wirelake hub` does."""

    def __init__(self, process: subprocess.Popen[bytes], data: Path):
        self.process = process
        self.data = data
        self._said = b""

    def wait_ready(self) -> None:
        """Until it says so."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"ready" not in self._said.split(b"\n"):
                assert selector.select(deadline - time.monotonic()), f"not ready: {self._said!r}"
                data = os.read(descriptor, 4096)
                assert data, f"it ended: {self._said!r}"
                self._said += data

    def address(self, listener: str) -> tuple[str, int]:
        """Where a listener listens, as it said itself."""
        for line in self._said.decode().splitlines():
            words = line.split()
            if words[:2] == ["listening", listener]:
                host, _, port = words[2].rpartition(":")
                return host, int(port)
        raise AssertionError(f"no listener {listener} in {self._said!r}")

    def links(self) -> int:
        """How many links it has open, as its admin page says."""
        connection = http.client.HTTPConnection(*self.address("admin"), timeout=START_S)
        token = (self.data / "admin.token").read_text().strip()
        try:
            connection.request(
                "GET", "/connz?protocol=relay", headers={"Authorization": f"Bearer {token}"}
            )
            found: int = json.loads(connection.getresponse().read())["open"]
        finally:
            connection.close()
        return found

    def end(self, number: signal.Signals) -> tuple[int, bytes]:
        """Ends it; its exit code, and what it said on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=START_S)
        return self.process.returncode, errors


@contextmanager
def _hub(folder: Path, config: str, *args: str) -> Iterator[HubProcess]:
    folder.mkdir()
    file = folder / "hub.toml"
    file.write_text(config)
    command = [sys.executable, "-m", "wirelake.cli", "hub", "--data", str(folder / "data")]
    process = subprocess.Popen(
        [*command, "--config", str(file), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    hub = HubProcess(process, folder / "data")
    try:
        hub.wait_ready()
        yield hub
    finally:
        process.kill()
        with process:
            process.wait(START_S)


def backend_process(folder: Path, port: int = 0) -> AbstractContextManager[HubProcess]:
    """A backend with the services for trying out; perhaps at the port of one before it."""
    return _hub(folder, BACKEND.format(port=port), "--demo")


def gateway_process(
    folder: Path, backends: Sequence[HubProcess]
) -> AbstractContextManager[HubProcess]:
    """A gateway to these backends."""
    links = [LINKED.format(port=each.address("relay")[1]) for each in backends]
    return _hub(folder, GATEWAY + "".join(links))
