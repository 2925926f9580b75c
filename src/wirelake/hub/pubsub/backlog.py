"""What waits for a client: which numbers of the log, and what they say.

Numbers are in memory (`registry.py`); finding the next ones is a search in each topic's list.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from ..store import Entry
from .clients import Client
from .notification import Notification
from .numbering import id_of

__all__ = ["close_gaps", "next_numbers", "notification_of"]


def next_numbers(client: Client, after: int, limit: int, *, holes: bool) -> list[int]:
    """The lowest numbers beyond `after` that were not handed; with `holes`, or not acknowledged."""
    found = list(_not_handed(client, after, limit))
    if holes:
        found.extend(number for number in client.inbox.holes if number > after)
    found.sort()
    return found[:limit]


def _not_handed(client: Client, after: int, limit: int) -> Iterator[int]:
    """Of each topic, at most `limit`."""
    inbox = client.inbox
    low = max(after, inbox.cursor)
    sources: list[tuple[array[int], int]] = [
        (each.topic.numbers, each.start)
        for each in client.subscriptions.values()
        if each.topic.last > low
    ]
    if client.private and client.private[-1] > low:
        sources.append((client.private, 0))
    for numbers, start in sources:
        left = limit
        for begin, end in inbox.gaps():
            first = bisect_right(numbers, max(begin, start, after))
            last = len(numbers) if end is None else bisect_right(numbers, end)
            some = numbers[first : min(last, first + left)]
            yield from some
            left -= len(some)
            if left <= 0:
                break


def close_gaps(client: Client) -> None:
    """A gap in which nothing waits is none."""
    inbox = client.inbox
    while inbox.spans:
        first = next_numbers(client, 0, 1, holes=False)
        if first and first[0] <= inbox.spans[0][0]:
            return
        inbox.settle(inbox.spans[0][0])


def notification_of(entry: Entry, server: int) -> Notification:
    """What a row of the log says."""
    return Notification(
        entry.number,
        id_of(entry.number, server=server, private=entry.topic is None),
        entry.topic,
        entry.content,
        entry.type,
        entry.ts_ms,
        entry.expires_ms,
    )
