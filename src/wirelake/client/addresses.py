"""The addresses of a client: which one is tried next, and after what delay.

A *round* tries each address once, without delays in between. Only a round that has failed is
followed by a delay, which doubles with each round. When a connection is lost, its address counts as
tried: the next one is dialled at once, so that a server that shuts down is left without a pause,
while a client of a single server waits before it dials again.
"""

from __future__ import annotations

import random
from typing import Final

from .errors import ClientError
from .settings import Settings, Where

__all__ = ["Addresses", "Backoff"]

_STEADY_S: Final = 5.0
"""A connection that lasted this long resets round and backoff. Two clients with the same id replace
each other's connection; each waits longer every time, instead of reconnecting in a loop."""


class Backoff:
    """Delays that double up to a limit; up to half of each is random."""

    def __init__(self, first_s: float, most_s: float):
        self._first = first_s
        self._most = most_s
        self._attempt = 0

    def next(self) -> float:
        """Return the next delay, in seconds."""
        # Jitter: after an outage thousands of clients must not reconnect in the same moment.
        wait = min(self._first * 2.0 ** min(self._attempt, 60), self._most)
        self._attempt += 1
        return wait * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start again with the first delay."""
        self._attempt = 0


class Addresses:
    """The servers of one client, in the order in which they are tried."""

    def __init__(self, settings: Settings):
        self._order = list(settings.addresses)
        if settings.shuffle:
            random.shuffle(self._order)
        self._at = -1
        self._tried = 0
        self._backoff = Backoff(settings.backoff_s, settings.max_backoff_s)
        self.failures: dict[str, ClientError] = {}
        """The last error of each address since the last connection, by `host:port`."""

    def __len__(self) -> int:
        return len(self._order)

    @property
    def current(self) -> Where:
        """The address that was tried last; before that, the first."""
        return self._order[max(self._at, 0)]

    @property
    def places(self) -> str:
        """All addresses, for messages."""
        return ", ".join(each.place for each in self._order)

    @property
    def more(self) -> bool:
        """Whether this round has addresses that were not tried yet."""
        return self._tried < len(self._order)

    def start_round(self) -> None:
        """Start a round: the next attempts are made without a delay."""
        self._tried = 0

    def next(self) -> tuple[Where, float]:
        """Return the next address, and the delay before it is dialled, in seconds."""
        delay = 0.0
        if not self.more:
            delay = self._backoff.next()
            self._tried = 0
        self._at = (self._at + 1) % len(self._order)
        self._tried += 1
        return self.current, delay

    def repeat(self) -> None:
        """Make the next attempt at the same address, without a delay."""
        self._at -= 1
        self._tried -= 1

    def failed(self, error: ClientError) -> None:
        """Note why the attempt has failed."""
        self.failures[self.current.place] = error

    def connected(self) -> None:
        """Note that there is a connection."""
        self.failures.clear()

    def lost(self, lasted_s: float) -> None:
        """Note that the connection was lost, and how long it lasted."""
        if lasted_s >= _STEADY_S:
            self._backoff.reset()
            self._tried = 1
