"""Idempotency keys: what each publisher has published with them, and how many there are.

A key belongs to its publisher: a client, or the HTTP API. It is kept for as long as its
notification, at least for a day, so a publisher that tries again gets its first answer. Keys are
rows of the store, which finds a key that exists when it would add it; only the number of keys of
each publisher is in memory.

Their number is limited (`Limits.keys_per_client`, `Limits.keys`). Beyond it, a publish with a new
key is refused. No key is deleted early to make room: a publisher that tries again would then
publish a second time, and could not notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from wirelake.protocols.hub_calls import ANONYMOUS

from ..config import ActiveLimits
from ..errors import HubError
from ..store import KeyRow, Store
from ..store.interface import ExpireKeys, NewKey, RemoveKeys
from .notifications import Publication, Published, id_of

__all__ = ["Keys", "PublishDone"]

PublishDone: TypeAlias = Callable[[Published | HubError], None]
"""Called once, on the loop, with the result of a publish."""

_KEY_MS: Final = 86_400_000
"""How long an idempotency key is kept at least. A publisher that was cut off may try again much
later than a short `ttl_s`; a day is what payment APIs promise."""
_EXPIRED: Final = 10_000
"""Expired keys deleted in one batch: about 50 milliseconds of the writer."""


class Keys:
    """The idempotency keys of all publishers."""

    def __init__(self, store: Store, limits: ActiveLimits, now_ms: Callable[[], int], server: int):
        self._store = store
        self._limits = limits
        self._now_ms = now_ms
        self._server = server
        self._counts: Counter[str] = Counter()
        self.total = 0
        """The number of keys."""

    async def load(self) -> None:
        """Count the keys of the store, and delete those of connections without sign-on: they ended
        with this hub. Where other hubs use the store, such keys may be of theirs, and expire."""
        for publisher, count in await self._store.key_counts():
            self._counts[publisher] = count
            self.total += count
        if self._store.cluster is not None:
            return
        for publisher in [each for each in self._counts if each.startswith(ANONYMOUS)]:
            self.forget(publisher)

    def publishers(self) -> list[str]:
        """Return the clients that have keys."""
        return [each for each in self._counts if each and not each.startswith(ANONYMOUS)]

    def forget(self, publisher: str) -> None:
        """Delete the keys of a client that was removed, or that no connection will have again."""
        count = self._counts.pop(publisher, 0)
        if count:
            self.total -= count
            self._store.write(RemoveKeys(publisher))

    def expire(self, done: Callable[[bool], None]) -> None:
        """Delete some expired keys; `done` gets whether there may be more."""
        if not self.total:
            done(False)
            return

        def deleted(counts: Mapping[str, int] | HubError) -> None:
            if isinstance(counts, HubError):
                counts = {}
            for publisher, count in counts.items():
                self._subtract(publisher, count)
            done(sum(counts.values()) >= _EXPIRED)

        self._store.write(ExpireKeys(self._now_ms(), _EXPIRED), deleted)

    def new(self, publication: Publication, ttl_s: float, now_ms: int) -> NewKey:
        """Count the key of a publication that is being stored.

        One of `repeated` and `refusal` takes the count back, when the key was not added.
        """
        # A publisher may try again for longer than a short-lived notification is kept.
        expires_ms = now_ms + max(_KEY_MS, int(ttl_s * 1000))
        publisher = publication.publisher
        allowed = not self._reached_limit(publisher)
        if allowed:
            # A key that has expired, and that the sweep has not deleted within the last half
            # minute, is replaced and counted twice, until the next start.
            self._counts[publisher] += 1
            self.total += 1
        return NewKey(publisher, publication.key, publication.digest(), expires_ms, allowed)

    def repeated(self, key: NewKey, row: KeyRow) -> Published | HubError:
        """Return the answer to a publish whose key was used before."""
        self._take_back(key)
        if row.digest and row.digest != key.digest:
            return HubError("conflict", f"id {key.key[:40]!r} was used for another notification")
        return Published(id_of(row.number, server=self._server, private=row.private), row.audience)

    def refusal(self, key: NewKey, error: HubError) -> HubError:
        """Return the error of a publish whose key was not added."""
        self._take_back(key)
        if error.code != "too_busy":
            return error
        limit = self._reached_limit(key.publisher) or "keys"
        count = getattr(self._limits.current, limit)
        return HubError(
            "too_busy",
            f"{count} ids of publishes are kept (limits.{limit}), each for a day at least; try "
            "again later, or publish without an id",
        )

    def _take_back(self, key: NewKey) -> None:
        if key.allowed:
            self._subtract(key.publisher, 1)

    def _reached_limit(self, publisher: str) -> str:
        """Return the name of the limit that a publisher has reached; empty if it may add a key."""
        # The HTTP API has only the limit of the hub: its users are operators.
        limits = self._limits.current
        if publisher and self._counts[publisher] >= limits.keys_per_client:
            return "keys_per_client"
        return "keys" if self.total >= limits.keys else ""

    def _subtract(self, publisher: str, count: int) -> None:
        # Never below zero: the keys of a publisher that was forgotten meanwhile are not counted.
        count = min(count, self._counts[publisher])
        self.total -= count
        self._counts[publisher] -= count
        if not self._counts[publisher]:
            del self._counts[publisher]
