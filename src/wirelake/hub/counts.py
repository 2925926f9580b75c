"""What the hub counts: plain numbers, read by the admin pages and by nobody on the way."""

from __future__ import annotations

from collections import Counter

from .times import Times

__all__ = ["Counts"]


class Counts:
    """Totals since the start. Labels come from fixed lists, so they are bounded."""

    __slots__ = (
        "accepted",
        "acked",
        "auth_failures",
        "bytes_in",
        "bytes_out",
        "calls",
        "close_reasons",
        "dead",
        "delivered",
        "drops",
        "failures",
        "hub_calls",
        "published",
        "refused",
        "refused_publishes",
        "skipped",
        "stored",
    )

    def __init__(self) -> None:
        self.accepted: Counter[str] = Counter()
        """Connections, by protocol."""
        self.refused: Counter[str] = Counter()
        """Connections that were one too many, by limit."""
        self.close_reasons: Counter[tuple[str, str]] = Counter()
        """Connections that are over, by protocol and reason."""
        self.failures: Counter[tuple[str, str]] = Counter()
        """Broken rules, by protocol and code."""
        self.drops: Counter[tuple[str, str]] = Counter()
        """Connections that were cut off, by protocol and reason."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls, by protocol and outcome: `ok`, or the code of the refusal."""
        self.hub_calls: dict[str, Times] = {
            name: Times() for name in ("auth", "subscribe", "unsubscribe", "publish", "ack")
        }
        """How long the hub's own calls take, by name."""
        self.auth_failures: Counter[str] = Counter()
        """By protocol."""
        self.bytes_in: Counter[str] = Counter()
        """Of connections that are over, by protocol."""
        self.bytes_out: Counter[str] = Counter()
        """The same."""
        self.published = 0
        self.refused_publishes = 0
        self.stored = 0
        self.delivered: Counter[str] = Counter()
        """Notifications written, by protocol."""
        self.skipped: Counter[str] = Counter()
        """Notifications that were not stored and met a slow reader, by protocol."""
        self.acked = 0
        self.dead: Counter[str] = Counter()
        """Dead letters, by reason."""

    def failed(self, protocol: str, code: str) -> None:
        """A peer broke a rule."""
        self.failures[protocol, code] += 1

    def dropped(self, protocol: str, reason: str) -> None:
        """A connection was cut off."""
        self.drops[protocol, reason] += 1
