"""The servers of `benchmarks.hub`: each on a free port, on one core, with a folder of its own."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

__all__ = ["PEERS", "Server", "on_core", "peer", "peer_versions", "raise_file_limit", "started"]

_START_S = 60.0
_STOP_S = 30.0
_SBIN = ("/usr/sbin", "/usr/local/sbin")
_MOSQUITTO = """\
listener {port} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
max_queued_messages 0
"""
_AMQTT = """\
listeners:
  default:
    type: tcp
    bind: 127.0.0.1:{port}
    max_connections: 20000
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin:
    allow_anonymous: true
"""


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    name: str
    process: subprocess.Popen[str]
    ports: dict[str, int]
    """By protocol."""

    @property
    def rss_kb(self) -> float:
        """Memory that is resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return float(found[1])


# -- processes ---------------------------------------------------------------------------------


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """What is started meanwhile runs on that core, and so does this process."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def raise_file_limit() -> int:
    """Lets this process and its children have as many sockets as they may; how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@contextmanager
def started(words: Sequence[str], folder: Path, core: int) -> Iterator[subprocess.Popen[str]]:
    """A process whose errors go to a file; it is ended, by its id, after all."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("w", encoding="utf-8") as log:
        with on_core(core):
            process = subprocess.Popen(
                words, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_STOP_S)
            process.kill()
            process.communicate()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(_SBIN))
    if found is None:
        raise RuntimeError(f"{name} is not installed: make system")
    return found


def _wait_until_open(process: subprocess.Popen[str], port: int, folder: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    log = (folder / "log").read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"{process.args!r} does not listen: {log[-2000:]}")


# -- peers -------------------------------------------------------------------------------------


def _nats(folder: Path, port: int) -> list[str]:  # noqa: ARG001 - needs no file
    return [_program("nats-server"), "--addr", "127.0.0.1", "--port", str(port)]


def _mosquitto(folder: Path, port: int) -> list[str]:
    path = folder / "mosquitto.conf"
    path.write_text(_MOSQUITTO.format(port=port), encoding="utf-8")
    return [_program("mosquitto"), "-c", str(path)]


def _redis(folder: Path, port: int) -> list[str]:
    words = [_program("redis-server"), "--bind", "127.0.0.1", "--port", str(port)]
    words += ["--save", "", "--appendonly", "no", "--maxclients", "15000"]
    return [*words, "--logfile", str(folder / "redis.log")]


def _amqtt(folder: Path, port: int) -> list[str]:
    path = folder / "amqtt.yaml"
    path.write_text(_AMQTT.format(port=port), encoding="utf-8")
    return [str(Path(sys.executable).with_name("amqtt")), "-c", str(path)]


PEERS: dict[str, tuple[str, Callable[[Path, int], list[str]]]] = {
    "nats": ("nats", _nats),
    "redis": ("redis", _redis),
    "mosquitto": ("mqtt", _mosquitto),
    "amqtt": ("mqtt", _amqtt),
}
"""Peers: what they speak, and how they are started."""


@contextmanager
def peer(name: str, folder: Path, core: int) -> Iterator[Server]:
    """A peer that takes connections."""
    protocol, words = PEERS[name]
    own = folder / name
    own.mkdir(parents=True, exist_ok=True, mode=0o755)
    port = free_port()
    with started(words(own, port), own, core) as process:
        _wait_until_open(process, port, own)
        yield Server(name, process, {protocol: port})


def peer_versions() -> dict[str, str]:
    """What the peers say that they are."""
    asked = {
        "nats": (_program("nats-server"), "--version"),
        "redis": (_program("redis-server"), "--version"),
        "mosquitto": (_program("mosquitto"), "-h"),
    }
    found = {"amqtt": version("amqtt")}
    for name, words in asked.items():
        said = subprocess.run(words, check=False, capture_output=True, text=True).stdout
        number = re.search(r"\d+\.\d+\.\d+", said)
        found[name] = number[0] if number is not None else ""
    return found
