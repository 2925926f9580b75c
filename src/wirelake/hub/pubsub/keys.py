"""Idempotency keys: what each publisher has published with them, and how many there are.

A key belongs to its publisher: a client, or the HTTP API. It is kept for as long as its
notification, at least for a day, so a publisher that tries again gets its first answer. Keys are
rows of the store; only those that are being written are in memory, and the number of keys of each
publisher.

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
        self._writing: dict[tuple[str, str], tuple[bytes, list[PublishDone]]] = {}
        """By publisher and key, while it is being written: the digest of the publication, and
        callbacks."""
        self._counts: Counter[str] = Counter()
        self.total = 0
        """The number of keys."""

    def load(self) -> None:
        """Count the keys of the store, and delete those of connections without sign-on."""
        for publisher, count in self._store.key_counts():
            self._counts[publisher] = count
            self.total += count
        for publisher in [each for each in self._counts if each.startswith(ANONYMOUS)]:
            self.forget(publisher)

    def forget(self, publisher: str) -> None:
        """Delete the keys of a client that was removed, or that no connection will have again."""
        count = self._counts.pop(publisher, 0)
        if count:
            self.total -= count
            self._store.remove_keys(publisher)

    def expire(self, done: Callable[[bool], None]) -> None:
        """Delete some expired keys; `done` gets whether there may be more."""
        if not self.total:
            done(False)
            return

        def deleted(counts: Mapping[str, int]) -> None:
            for publisher, count in counts.items():
                self._subtract(publisher, count)
            done(sum(counts.values()) >= _EXPIRED)

        self._store.expire_keys(self._now_ms(), _EXPIRED, deleted)

    def is_new(self, publication: Publication, done: PublishDone) -> bool:
        """Return whether a key is unused; otherwise `done` gets what was published with it.

        Raises HubError `conflict` when that was something else, and `too_busy` when the publisher
        may have no further key.
        """
        publisher, key, digest = publication.publisher, publication.key, publication.digest()
        waiting = self._writing.get((publisher, key))
        if waiting is not None:
            _check_digest(key, waiting[0], digest)
            waiting[1].append(done)
            return False
        row = self._store.key(publisher, key, self._now_ms())
        if row is None:
            self._check_limits(publisher)
            return True
        _check_digest(key, row.digest, digest)
        done(Published(id_of(row.number, server=self._server, private=row.private), row.audience))
        return False

    def add(
        self, publication: Publication, number: int, audience: int, done: PublishDone
    ) -> tuple[KeyRow, PublishDone]:
        """Return the row of a new key, to be written, and what to call when it is on disk."""
        publisher, key, digest = publication.publisher, publication.key, publication.digest()
        ttl_s = self._limits.current.ttl_s if publication.ttl_s is None else publication.ttl_s
        # A publisher may try again for longer than a short-lived notification is kept.
        expires_ms = self._now_ms() + max(_KEY_MS, int(ttl_s * 1000))
        private = publication.client is not None
        row = KeyRow(publisher, key, digest, number, private, audience, expires_ms)
        # Until the key is on disk, a second publish with it waits for the same result.
        self._writing[publisher, key] = (digest, [done])
        # A key that has expired, and that the sweep has not deleted within the last half minute, is
        # replaced and counted twice, until the next start.
        self._counts[publisher] += 1
        self.total += 1

        def call_waiters(result: Published | HubError) -> None:
            if isinstance(result, HubError):  # nothing was written
                self._subtract(publisher, 1)
            for each in self._writing.pop((publisher, key))[1]:
                each(result)

        return row, call_waiters

    def _check_limits(self, publisher: str) -> None:
        # The HTTP API has only the limit of the hub: its users are operators.
        limits = self._limits.current
        if publisher and self._counts[publisher] >= limits.keys_per_client:
            count, limit = limits.keys_per_client, "keys_per_client"
        elif self.total >= limits.keys:
            count, limit = limits.keys, "keys"
        else:
            return
        raise HubError(
            "too_busy",
            f"{count} ids of publishes are kept (limits.{limit}), each for a day at least; try "
            "again later, or publish without an id",
        )

    def _subtract(self, publisher: str, count: int) -> None:
        # Never below zero: the keys of a publisher that was forgotten meanwhile are not counted.
        count = min(count, self._counts[publisher])
        self.total -= count
        self._counts[publisher] -= count
        if not self._counts[publisher]:
            del self._counts[publisher]


def _check_digest(key: str, before: bytes, now: bytes) -> None:
    """Raise HubError when a key was used for another publication; empty matches any."""
    if before and before != now:
        raise HubError("conflict", f"id {key[:40]!r} was used for another notification")
