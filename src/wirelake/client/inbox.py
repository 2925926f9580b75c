"""The queue of notifications between the connection and the application.

Each notification is passed on once, whatever the server repeats: the last `REMEMBERED` ids are
remembered. One that was acknowledged and arrives again is acknowledged again, because the first
acknowledgement was lost with its connection.

comet does not push the backlog: it is fetched page by page, and the next page is fetched when the
one before is acknowledged. Meanwhile pushed notifications wait, so that an application that
acknowledges as it reads gets everything in order. An application that reads everything and
acknowledges nothing gets them when the page is empty.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Final

from .connection import Notification
from .errors import ClientError

__all__ = ["REMEMBERED", "Inbox"]

REMEMBERED: Final = 10_000
"""Ids that are remembered. A hub repeats only what is unacknowledged, and keeps at most 10,000
notifications per client (`limits.inbox`)."""


class Inbox:
    """Notifications that the application has not read yet."""

    def __init__(self, limit: int, fetch: Callable[[], None], ack_again: Callable[[str], None]):
        self.limit = limit
        self.iterated = False
        """Whether the application iterates over notifications."""
        self._fetch = fetch
        self._ack_again = ack_again
        self._queue: deque[Notification] = deque()
        self._pushed: deque[Notification] = deque()
        self._page: set[str] = set()
        self._has_backlog = False
        self._fetching = False
        self._known: OrderedDict[str, bool] = OrderedDict()
        self._more = asyncio.Event()
        self._finished = False
        self._error: ClientError | None = None

    @property
    def full(self) -> bool:
        """Whether more notifications wait than allowed."""
        return len(self._queue) + len(self._pushed) >= self.limit

    # -- the connection's side ---------------------------------------------------------------

    def dialled(self, fetches: bool) -> None:
        """Start with a new connection; where the protocol `fetches`, what is pushed waits."""
        # Pages of the old connection are void: the server starts again with the oldest. It may push
        # new ones before the client is ready to fetch, and they come after the backlog.
        self._page.clear()
        self._has_backlog = self._fetching = fetches

    def connected(self) -> None:
        """Fetch what waits, where the protocol fetches."""
        self._fetching = False
        if self.iterated:
            self._next_page()

    def pushed(self, notification: Notification) -> None:
        """Queue a pushed notification."""
        if self._has_backlog:
            self._pushed.append(notification)
            self._more.set()
        else:
            self._add(notification)

    def fetched(self, page: Iterable[Notification]) -> None:
        """Queue a fetched page; an empty one ends fetching."""
        self._fetching = False
        page = list(page)
        self._page = {each.id for each in page}
        if not page:
            self._has_backlog = False
            self._release_pushed()
        for each in page:
            self._add(each)

    def failed(self, error: ClientError) -> None:
        """Raise the error of a failed fetch in the application's iteration, once."""
        self._fetching = False
        self._error = error
        self._more.set()

    def end(self, error: ClientError | None) -> None:
        """End the iteration."""
        self._finished = True
        self._error = error
        self._release_pushed()
        self._more.set()

    def acked(self, ids: Iterable[str]) -> None:
        """Record that the server has these acknowledgements."""
        for each in ids:
            self._remember(each, True)
            self._page.discard(each)
        if not self._page:
            self._next_page()

    def _next_page(self) -> None:
        # Not before the application iterates over notifications: it may only call or publish.
        if self._has_backlog and not self._fetching and self.iterated:
            self._fetching = True
            self._fetch()

    def _release_pushed(self) -> None:
        while self._pushed:
            self._add(self._pushed.popleft())

    def _add(self, notification: Notification) -> None:
        known = self._known.get(notification.id)
        if known is None:
            self._remember(notification.id, False)
            self._queue.append(notification)
            self._more.set()
        elif known:  # unacknowledged repeats are dropped: the application has it already
            self._ack_again(notification.id)

    def _remember(self, number: str, acked: bool) -> None:
        self._known[number] = acked
        self._known.move_to_end(number)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    # -- the application's side --------------------------------------------------------------

    def acking(self, ids: Iterable[str]) -> None:
        """Record that the application acknowledges these, in case they are sent again."""
        for each in ids:
            self._remember(each, True)

    async def take(self) -> Notification | None:
        """Return the next notification; None when the client is closed."""
        if not self.iterated:
            self.iterated = True
            self._next_page()
        # Nothing fetched is left, and no page is on its way: the application has not acknowledged
        # all of the last page, so the next one is not fetched. It gets the pushed ones meanwhile.
        while not self._queue:
            if self._pushed and not self._fetching:
                self._release_pushed()
                continue
            error = self._error
            if error is not None and not self._finished:
                self._error = None
            if error is not None:
                raise error
            if self._finished:
                return None
            self._more.clear()
            await self._more.wait()
        return self._queue.popleft()
