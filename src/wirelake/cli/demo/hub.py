"""The hub of the demo: its configuration, its process, and its counters."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import CommandError
from .processes import Child

__all__ = ["DemoHub", "HubWatch", "default_ports"]

_POLL_S: Final = 0.5
_TIMEOUT_S: Final = 5.0
_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without a proxy: the hub is on this machine."""
_CONFIG: Final = """\
# The hub of the demo. Recordings are short, so that the lake can read them while more are written.
[record]
keys = true
rotate_s = 2.0

[limits]
drain_s = 2.0
"""


def default_ports() -> dict[str, int]:
    """Return the ports of a hub's listeners and of its admin server, by name."""
    from wirelake.hub.config import Config

    return Config().ports


class DemoHub:
    """A hub in a process of its own; when started again it listens on the same ports."""

    def __init__(self, folder: Path, logs: Path, *, any_port: bool):
        self.data = folder / "hub"
        """Its data directory."""
        self.config = folder / "hub.toml"
        """Its configuration."""
        self.recordings = folder / "recordings"
        """Where its recordings go."""
        self._logs = logs
        self._child: Child | None = None
        self.addresses: dict[str, str] = {}
        """Addresses of its listeners by name, once it is ready."""
        self.recordings.mkdir(mode=0o700)
        self._configure(dict.fromkeys(default_ports(), 0) if any_port else {})

    def start(self) -> None:
        """Start it; `is_ready` says when it listens."""
        arguments = ("--data", str(self.data), "--config", str(self.config))
        self._child = Child(
            "hub",
            "wirelake.cli",
            ("hub", *arguments, "--record", str(self.recordings), "--demo"),
            self._logs,
        )

    def is_ready(self) -> bool:
        """Return whether it listens. Raises CommandError if it has ended."""
        self.check()
        assert self._child is not None
        lines = self._child.output_lines()
        if "ready" not in lines:
            return False
        listening = [line.split() for line in lines if line.startswith("listening ")]
        self.addresses = {name: address for _, name, address in listening}
        return True

    @property
    def admin(self) -> str:
        """URL of its admin server."""
        return f"http://{self.addresses['admin']}"

    @property
    def ports(self) -> dict[int, str]:
        """Listeners by port, without the admin server."""
        return {
            int(address.rpartition(":")[2]): name
            for name, address in self.addresses.items()
            if name != "admin"
        }

    def check(self) -> None:
        """Raise CommandError if it has ended."""
        if self._child is not None and self._child.code is not None:
            raise CommandError(f"the hub ended: {self._child.error()}; start the demo again")

    def stop(self) -> None:
        """Drain and stop it, which completes its last recording. Raises CommandError."""
        assert self._child is not None
        child, self._child = self._child, None
        code = child.end()
        if code != 0:
            raise CommandError(f"the hub did not stop cleanly: {child.error()}")

    def keep_ports(self) -> None:
        """Let the next start listen on the same ports."""
        self._configure({name: port for port, name in self.ports.items()} | {
            "admin": int(self.addresses["admin"].rpartition(":")[2])
        })  # fmt: skip

    def end(self) -> None:
        """End it in any state."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _configure(self, ports: Mapping[str, int]) -> None:
        listeners = "".join(f"\n[{name}]\nport = {port}\n" for name, port in ports.items())
        self.config.write_text(_CONFIG + listeners, encoding="utf-8")


class HubWatch:
    """Polls the counters of a hub, in a daemon thread."""

    def __init__(self, admin: str):
        self._address = f"{admin}/varz"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._now: dict[str, Any] = {}
        self._rates: dict[str, float] = {}
        self._at = 0.0

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def end(self) -> None:
        """Stop polling."""
        self._ended.set()

    def counters(self) -> dict[str, Any]:
        """Return the current counters."""
        with _DIRECT.open(self._address, timeout=_TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def connections(self) -> dict[str, int]:
        """Return the open connections by protocol."""
        return dict(self._now.get("connections", {}))

    def total(self, counter: str) -> int:
        """Return a counter; one with parts is their sum."""
        return _sum(self._now.get(counter, 0))

    def rate(self, counter: str) -> float:
        """Return the increase of a counter per second."""
        return self._rates.get(counter, 0.0)

    def _poll(self) -> None:
        while not self._ended.wait(_POLL_S):
            try:
                self._update(self.counters(), time.monotonic())
            except (OSError, ValueError):
                continue  # it is busy or draining

    def _update(self, found: dict[str, Any], now: float) -> None:
        if self._at:
            seconds = max(now - self._at, 1e-3)
            self._rates = {
                name: max(0, _sum(value) - self.total(name)) / seconds
                for name, value in found.items()
                if isinstance(value, int | dict) and name != "listeners"
            }
        self._now, self._at = found, now


def _sum(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_sum, value.values()))
    return value if isinstance(value, int) else 0
