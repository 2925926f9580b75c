"""The hub of the demo: its configuration, its process, and where it listens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wirelake.protocols import registry

from ..errors import CommandError
from .processes import Child

__all__ = ["LISTENERS", "DemoHub"]

LISTENERS: Final = (*registry.BUILT_IN, "admin")
"""What a hub listens for."""
_CONFIG: Final = """\
# The hub of the demo. Recordings are short, so that a lake can read them while more are written.
[record]
keys = true
rotate_s = 2.0

[limits]
drain_s = 2.0
"""


class DemoHub:
    """A hub in a process of its own; it can be started again, and listens where it did before."""

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
        """By name: where it listens, once it is ready."""
        self.recordings.mkdir(mode=0o700)
        self._configure(dict.fromkeys(LISTENERS, 0) if any_port else {})

    def start(self) -> None:
        """Begins; `is_ready` says when it listens."""
        arguments = ("--data", str(self.data), "--config", str(self.config))
        self._child = Child(
            "hub",
            "wirelake.cli",
            ("hub", *arguments, "--record", str(self.recordings), "--demo"),
            self._logs,
        )

    def is_ready(self) -> bool:
        """Whether it listens. Raises CommandError when it has died."""
        self.check()
        assert self._child is not None
        lines = self._child.said()
        if "ready" not in lines:
            return False
        listening = [line.split() for line in lines if line.startswith("listening ")]
        self.addresses = {name: address for _, name, address in listening}
        return True

    @property
    def admin(self) -> str:
        """The address of its HTTP side."""
        return f"http://{self.addresses['admin']}"

    @property
    def ports(self) -> dict[int, str]:
        """The listeners by their ports."""
        return {
            int(address.rpartition(":")[2]): name
            for name, address in self.addresses.items()
            if name != "admin"
        }

    def check(self) -> None:
        """Raises CommandError when it has died."""
        if self._child is not None and self._child.code is not None:
            raise CommandError(f"the hub died: {self._child.last_words()}; start the demo again")

    def stop(self) -> None:
        """Drains it; its last recording is sealed then. Raises CommandError when it fails."""
        assert self._child is not None
        child, self._child = self._child, None
        code = child.end()
        if code != 0:
            raise CommandError(f"the hub did not end well: {child.last_words()}")

    def keep_ports(self) -> None:
        """Lets the next start listen at the same ports."""
        self._configure({name: port for port, name in self.ports.items()} | {
            "admin": int(self.addresses["admin"].rpartition(":")[2])
        })  # fmt: skip

    def end(self) -> None:
        """Ends it, whatever it does."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _configure(self, ports: Mapping[str, int]) -> None:
        listeners = "".join(f"\n[{name}]\nport = {port}\n" for name, port in ports.items())
        self.config.write_text(_CONFIG + listeners, encoding="utf-8")
