"""What a hub has counted since a moment, by protocol."""

from __future__ import annotations

from typing import Any

from tests.hub_raw.hub_process import HubProcess, wait_until

__all__ = ["Counted"]


class Counted:
    """Looks at `/varz` and remembers what was there before."""

    def __init__(self, hub: HubProcess):
        self._hub = hub
        self._before = hub.varz()

    def reasons(self, protocol: str) -> dict[str, int]:
        """Connections that ended since, by reason."""
        return self._since("close_reasons", protocol)

    def failures(self, protocol: str) -> dict[str, int]:
        """Rules that were broken since, by code."""
        return self._since("failures", protocol)

    def drops(self, protocol: str) -> dict[str, int]:
        """Connections that were cut off since, by reason."""
        return self._since("drops", protocol)

    def plain(self, name: str) -> dict[str, int]:
        """A count with one label."""
        return _more(self._hub.varz()[name], self._before[name])

    def _since(self, name: str, protocol: str) -> dict[str, int]:
        now = self._hub.varz()[name].get(protocol, {})
        return _more(now, self._before[name].get(protocol, {}))

    def wait_for_ends(self, protocol: str, count: int, within_s: float = 30.0) -> dict[str, int]:
        """Waits until so many connections are over; their reasons."""

        def over() -> dict[str, int]:
            reasons = self.reasons(protocol)
            return reasons if sum(reasons.values()) >= count else {}

        reasons: dict[str, int] = wait_until(over, f"{count} ends of {protocol}", within_s)
        return reasons


def _more(now: dict[str, Any], before: dict[str, Any]) -> dict[str, int]:
    grown = {key: value - before.get(key, 0) for key, value in now.items()}
    return {key: value for key, value in grown.items() if value}
