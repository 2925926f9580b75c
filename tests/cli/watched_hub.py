"""A hub as a process of its own, somebody who calls its services, and a terminal to look with."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hub.cli.started_hub import DEADLINE_S, HubProcess, hub_process
from tests.hub.stores import database_of

from wirelake.client import CallFailed, connect
from wirelake.hub.store import add_client

CALLER = "caller"


def admin_url(hub: HubProcess) -> str:
    """Where the hub's HTTP side is."""
    return "http://{}:{}".format(*hub.address("admin"))


@contextmanager
def busy_hub(folder: Path) -> Iterator[HubProcess]:
    """A hub, somebody who calls it until this ends, and a connection that ended badly."""
    with hub_process(folder, "--demo") as hub:
        token = add_client(database_of(hub.data), CALLER)
        ended = threading.Event()
        failed: list[BaseException] = []

        def work() -> None:
            try:
                asyncio.run(_call(hub, token, ended))
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield hub
        finally:
            ended.set()
            thread.join(DEADLINE_S)
        assert not failed, failed


async def _call(hub: HubProcess, token: str, ended: threading.Event) -> None:
    """Calls, publishes and fails, again and again."""
    await _break_in(hub)
    url = "esnp://{}:{}".format(*hub.address("esnp"))
    async with connect(url, id=CALLER, token=token, reconnect=False) as client:
        await client.subscribe("@news")
        while not ended.is_set():
            await client.call("test/add", {"a": 1, "b": 2})
            await client.call("test/sleep", {"ms": 5})
            await client.publish("rain", topic="@news")
            try:
                await client.call("test/fail")
            except CallFailed:
                await asyncio.sleep(0.01)


async def _break_in(hub: HubProcess) -> None:
    reader, writer = await asyncio.open_connection(*hub.address("tny"))
    writer.write(b"this is not tny")
    async with asyncio.timeout(DEADLINE_S):
        await reader.read()
    writer.close()
    await writer.wait_closed()


class Terminal:
    """A command that thinks somebody sits before it."""

    def __init__(self, process: subprocess.Popen[bytes], handle: int):
        self.process = process
        self._handle = handle
        self.seen = b""

    def until(self, text: bytes) -> None:
        """Waits until it has shown something."""
        self._read(lambda: text in self.seen, text.decode())

    def press(self, keys: bytes) -> None:
        """Forgets what was shown, and presses keys."""
        self.seen = b""
        os.write(self._handle, keys)

    def hear(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Waits for its end; the exit code."""
        self._read(lambda: False, "its end", until_end=True)
        return self.process.wait(DEADLINE_S)

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as it did at first."""
        return bool(termios.tcgetattr(self._handle)[3] & termios.ECHO)

    def _read(self, enough: Callable[[], bool], what: str, *, until_end: bool = False) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not enough():
            assert time.monotonic() < deadline, f"no {what} in {self.seen[-2000:]!r}"
            ready, _, _ = select.select([self._handle], [], [], 0.1)
            if ready:
                self.seen += os.read(self._handle, 65_536)
            elif self.process.poll() is not None:
                assert until_end, f"it ended without {what}: {self.seen[-2000:]!r}"
                return


@contextmanager
def terminal(*args: str, width: int = 100, height: int = 40) -> Iterator[Terminal]:
    """Runs a command in a terminal of its own; it is killed if the test does not end it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "wirelake.cli", *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(width), "LINES": str(height)},
    )
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(DEADLINE_S)
        os.close(theirs)
        os.close(ours)
