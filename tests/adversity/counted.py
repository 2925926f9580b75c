"""Counters of a hub since a point in time, by protocol."""

from __future__ import annotations

from typing import Any

from tests.hub_raw.hub_process import HubProcess, wait_until

__all__ = ["Counted"]


class Counted:
    """Differences of `/varz` since creation."""

    def __init__(self, hub: HubProcess):
        self._hub = hub
        self._before = hub.varz()

    def reasons(self, protocol: str) -> dict[str, int]:
        """Return the connections that ended, by reason."""
        return self._since("close_reasons", protocol)

    def failures(self, protocol: str) -> dict[str, int]:
        """Return the protocol errors, by code."""
        return self._since("failures", protocol)

    def drops(self, protocol: str) -> dict[str, int]:
        """Return the connections that the hub dropped, by reason."""
        return self._since("drops", protocol)

    def plain(self, name: str) -> dict[str, int]:
        """Return a counter with one label."""
        return _more(self._hub.varz()[name], self._before[name])

    def _since(self, name: str, protocol: str) -> dict[str, int]:
        now = self._hub.varz()[name].get(protocol, {})
        return _more(now, self._before[name].get(protocol, {}))

    def wait_for_ends(self, protocol: str, count: int, within_s: float = 30.0) -> dict[str, int]:
        """Wait until `count` connections ended; return their reasons."""

        def over() -> dict[str, int]:
            reasons = self.reasons(protocol)
            return reasons if sum(reasons.values()) >= count else {}

        reasons: dict[str, int] = wait_until(over, f"{count} ends of {protocol}", within_s)
        return reasons


def _more(now: dict[str, Any], before: dict[str, Any]) -> dict[str, int]:
    grown = {key: value - before.get(key, 0) for key, value in now.items()}
    return {key: value for key, value in grown.items() if value}
