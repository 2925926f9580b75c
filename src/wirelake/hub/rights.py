"""Rights and rates of clients: which topics they may publish to and subscribe to, which clients
they may publish to, which services they may call and offer, and how often.

`[[rights.clients]]` of `hub.toml` (`config.ClientRights`) has an entry per group of clients; the
first one whose `ids` match the client applies. A client that no entry matches may do everything but
offer services: `Client.rights` is None, and a check costs one comparison.

A signed token (`signed_tokens`) may have rights as well. They can only restrict those of the
configuration: both have to allow what a client does, and the lower of two rates applies.

A pattern is a text in which `*` stands for any characters but `/`, and `**` for any characters.

Every call of a service goes through `Service` (`rpc.services`), every publish of a client through
`HubCalls` (`rpc.hub_calls`), every change of subscriptions through `Subscriber`
(`pubsub.subscribing`). Each of these asks here, so no listener can forget it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from .config import ClientRights
from .errors import HubError

__all__ = ["Patterns", "Rate", "Rights", "RightsTable"]

_CACHED: Final = 1_024
"""Names whose result is kept for each list of patterns. Clients choose the names of topics, so the
number is bounded."""
_SHOWN: Final = 40
"""Characters of a name in an error."""


class Patterns:
    """A list of patterns."""

    __slots__ = ("_exact", "_known", "_patterns")

    def __init__(self, patterns: Sequence[str]):
        self._exact = frozenset(each for each in patterns if "*" not in each)
        self._patterns = [_Pattern(each) for each in patterns if "*" in each]
        self._known: dict[str, bool] = {}

    def match(self, name: str) -> bool:
        """Return whether one of the patterns matches the whole name."""
        if name in self._exact:
            return True
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            found = self._known[name] = any(each.match(name) for each in self._patterns)
        return found


class _Pattern:
    """A pattern with wildcards."""

    # All positions in the pattern are tried at the same time, as bits of an integer, so the time is
    # proportional to the length of the name. A regular expression would backtrack: clients choose
    # the names, and could block the loop for seconds with one that almost matches.

    __slots__ = ("_end", "_letters", "_stars", "_wide_stars")

    def __init__(self, pattern: str):
        self._letters: dict[str, int] = {}
        """By letter: the positions that it may be at."""
        self._stars = 0
        """The positions of wildcards."""
        self._wide_stars = 0
        """Those of `**`."""
        position = 0
        for part in re.split(r"(\*+)", pattern):
            if part.startswith("*"):
                self._stars |= 1 << position
                self._wide_stars |= (len(part) > 1) << position
                position += 1
                continue
            for letter in part:
                self._letters[letter] = self._letters.get(letter, 0) | 1 << position
                position += 1
        self._end = 1 << position

    def match(self, name: str) -> bool:
        """Return whether the pattern matches the whole name."""
        letters, stars, wide_stars = self._letters, self._stars, self._wide_stars
        # A bit is set when the name so far matches the pattern up to that position. A wildcard may
        # match nothing: its bit also sets the next one. No wildcard follows another.
        positions = 1 | (stars & 1) << 1
        for letter in name:
            stays = positions & (wide_stars if letter == "/" else stars)
            positions = (positions & letters.get(letter, 0)) << 1 | stays
            positions |= (positions & stars) << 1
            if not positions:
                return False
        return bool(positions & self._end)


class Rate:
    """A token bucket: a number per second on average, with bursts of twice that."""

    __slots__ = ("_at", "_clock", "_credit", "_most", "per_s")

    def __init__(self, per_s: float, clock: Callable[[], float]):
        self.per_s = per_s
        self._most = max(1.0, 2 * per_s)
        self._clock = clock
        self._at = clock()
        self._credit = self._most

    def take(self) -> bool:
        """Take one; return False when the rate is exceeded."""
        now = self._clock()
        self._credit = min(self._credit + (now - self._at) * self.per_s, self._most)
        self._at = now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True


class _Group:
    """One entry of the configuration, with its patterns."""

    __slots__ = ("call", "entry", "ids", "publish", "publish_to", "serve", "subscribe")

    def __init__(self, entry: ClientRights):
        self.entry = entry
        self.ids = Patterns(entry.ids)
        self.publish = Patterns(entry.publish)
        self.publish_to = Patterns(entry.publish_to)
        self.subscribe = Patterns(entry.subscribe)
        self.call = Patterns(entry.call)
        self.serve = Patterns(entry.serve)


class Rights:
    """The rights of one client: those of the configuration, and within them those of its token."""

    __slots__ = ("_calls", "_groups", "_publishes", "claimed")

    def __init__(
        self,
        groups: Sequence[_Group],
        clock: Callable[[], float],
        claimed: ClientRights | None = None,
        before: Rights | None = None,
    ):
        self._groups = tuple(groups)
        self.claimed = claimed
        """What its token allows at most; None: the token does not say."""
        # A rate that stays the same goes on: other rights must not give a new burst.
        entries = [each.entry for each in groups]
        calls, publishes = (None, None) if before is None else (before._calls, before._publishes)
        self._calls: Rate | None = _rate([each.calls_per_s for each in entries], clock, calls)
        self._publishes: Rate | None = _rate(
            [each.publishes_per_s for each in entries], clock, publishes
        )

    def belongs_to(self, groups: Sequence[_Group], claimed: ClientRights | None) -> bool:
        """Return whether these are rights of these entries, whatever file they were read from."""
        return self.claimed == claimed and [each.entry for each in self._groups] == [
            each.entry for each in groups
        ]

    def call(self, target: str) -> HubError | None:
        """Count a call of `service/op`; return the error when it is refused."""
        for group in self._groups:
            if not group.call.match(target):
                return HubError("forbidden", f"no right to call {target[:_SHOWN]!r}")
        return self.change()

    def may_call(self, target: str) -> bool:
        """Return whether the client may call `service/op`; nothing is counted."""
        return all(each.call.match(target) for each in self._groups)

    def may_serve(self, target: str) -> bool:
        """Return whether the client may offer `service/op`."""
        return all(each.serve.match(target) for each in self._groups)

    def change(self) -> HubError | None:
        """Count a change of subscriptions, which is a call without a name."""
        if self._calls is not None and not self._calls.take():
            return HubError("too_busy", f"more than {self._calls.per_s:g} calls/s")
        return None

    def publish(self, topic: str | None, client: str | None) -> HubError | None:
        """Count a publish to a topic or a client; return the error when it is refused."""
        for group in self._groups:
            if topic is not None and not group.publish.match(topic):
                return HubError("forbidden", f"no right to publish to {topic[:_SHOWN]!r}")
            if client is not None and not group.publish_to.match(client):
                return HubError("forbidden", f"no right to publish to client {client[:_SHOWN]!r}")
        if self._publishes is not None and not self._publishes.take():
            return HubError("too_busy", f"more than {self._publishes.per_s:g} publishes/s")
        return None

    def subscribes(self, topic: str) -> bool:
        """Return whether the client may subscribe to a topic."""
        return all(group.subscribe.match(topic) for group in self._groups)

    def check_subscribe(self, topics: Sequence[str]) -> None:
        """Raise HubError unless the client may subscribe to all of these topics."""
        for topic in topics:
            if not self.subscribes(topic):
                raise HubError("forbidden", f"no right to subscribe to {topic[:_SHOWN]!r}")


def _rate(per_s: Sequence[float], clock: Callable[[], float], before: Rate | None) -> Rate | None:
    """Return the lowest of several rates, or the one before if it is the same; 0 is no rate."""
    lowest = min(filter(None, per_s), default=0.0)
    if before is not None and before.per_s == lowest:
        return before
    return Rate(lowest, clock) if lowest else None


class RightsTable:
    """The rights of all clients, as configured."""

    def __init__(self, entries: Sequence[ClientRights], clock: Callable[[], float]):
        self._groups = [_Group(each) for each in entries]
        self._clock = clock

    def of(
        self, client_id: str, current: Rights | None = None, claimed: ClientRights | None = None
    ) -> Rights | None:
        """Return the rights of a client; None when it may do everything.

        `current` are its rights until now: they stay if their entry has not changed, so that a
        reload or another sign-on gives no new burst. `claimed` is what its token allows at most.
        """
        configured = next((each for each in self._groups if each.ids.match(client_id)), None)
        groups = [] if configured is None else [configured]
        if claimed is not None:
            groups.append(_Group(claimed))
        if not groups:
            return None
        if current is not None and current.belongs_to(groups, claimed):
            return current
        return Rights(groups, self._clock, claimed, current)
