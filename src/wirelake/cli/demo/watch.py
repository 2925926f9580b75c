"""What the hub of the demo says about itself while somebody watches."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["HubWatch"]

_EVERY_S: Final = 0.5
_WAIT_S: Final = 5.0
_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without a proxy: the hub is on this machine."""


class HubWatch:
    """Asks a hub for its counters, again and again, in a thread that ends with the process."""

    def __init__(self, admin: str):
        self._address = f"{admin}/varz"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._now: dict[str, Any] = {}
        self._rates: dict[str, float] = {}
        self._at = 0.0

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def end(self) -> None:
        """Ends."""
        self._ended.set()

    def look(self) -> dict[str, Any]:
        """The counters, now."""
        with _DIRECT.open(self._address, timeout=_WAIT_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def connections(self) -> dict[str, int]:
        """Open connections by protocol."""
        return dict(self._now.get("connections", {}))

    def total(self, counter: str) -> int:
        """A counter; one with parts is their sum."""
        return _sum(self._now.get(counter, 0))

    def rate(self, counter: str) -> float:
        """How much it grows in a second."""
        return self._rates.get(counter, 0.0)

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            try:
                self._take(self.look(), time.monotonic())
            except (OSError, ValueError):
                continue  # it is busy, or drains

    def _take(self, found: dict[str, Any], now: float) -> None:
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
