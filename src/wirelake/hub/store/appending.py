"""What becomes of publishes: which are stored, for how many clients, and with which numbers.

A database reads what this depends on, in the transaction in which it then writes the rows. So the
decision is the same in every kind of database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from wirelake.protocols.hub_calls import ANONYMOUS

from ..errors import HubError
from ..numbers import next_number
from .interface import Append, Appended, KeyRow, LogRow, NewKey

__all__ = ["Decided", "FindKey", "decide", "with_due"]

FindKey: TypeAlias = Callable[[NewKey, int], KeyRow | None]
"""Returns the row of a key that has not expired at a time, if the store has one."""


class Decided(NamedTuple):
    """The results of publishes, and what is to be written for them."""

    results: list[Appended | KeyRow | HubError]
    rows: list[LogRow]
    keys: list[KeyRow]
    counts: dict[int, int]
    """How many rows each target gets."""
    last: int
    """The last number that was allocated."""


def decide(
    operations: Sequence[Append],
    topics: Mapping[str, tuple[int, int]],
    clients: Mapping[str, int],
    find_key: FindKey,
    last: int,
) -> Decided:
    """Decide about publishes, in order.

    `topics` has the number and the subscribers of each topic that exists, `clients` the number of
    each client; `last` is the last number that was allocated before.
    """
    results: list[Appended | KeyRow | HubError] = []
    rows: list[LogRow] = []
    keys: dict[tuple[str, str], KeyRow] = {}
    counts: dict[int, int] = {}
    # This runs for every stored publish: no call that is not necessary.
    for each in operations:
        key = each.key
        if key is not None:
            known = keys.get((key.publisher, key.key)) or find_key(key, each.ts_ms)
            if known is not None:
                results.append(known)
                continue
            if not key.allowed:
                results.append(HubError("too_busy"))
                continue
        if each.topic is not None:
            target, audience = topics.get(each.topic, (0, 0))
        else:
            target, audience = -clients.get(each.client or "", 0), 1
            # What is not stored may be for a connection without sign-on, which the hub has found.
            if not target and (each.expires_ms or not (each.client or "").startswith(ANONYMOUS)):
                results.append(HubError("not_found", f"unknown client {each.client!r:.42}"))
                continue
        ts_ms, expires_ms = each.ts_ms, each.expires_ms
        last = number = next_number(last, ts_ms)
        if not expires_ms:
            target, audience = 0, each.audience
        elif not audience:
            target = 0
        if target:
            rows.append((number, target, each.type, ts_ms, expires_ms, None, each.content))
            counts[target] = counts.get(target, 0) + 1
        if key is not None:
            keys[key.publisher, key.key] = KeyRow(
                key.publisher,
                key.key,
                key.digest,
                number,
                each.topic is None,
                audience,
                key.expires_ms,
            )
        results.append(Appended(number, target, audience))
    return Decided(results, rows, list(keys.values()), counts, last)


def with_due(
    results: list[Appended | KeyRow | HubError], due: set[int]
) -> list[Appended | KeyRow | HubError]:
    """Return results that say of which topics backlogs have to be counted."""
    if not due:
        return results
    return [
        Appended(each.number, each.target, each.audience, due=True)
        if type(each) is Appended and each.target in due
        else each
        for each in results
    ]
