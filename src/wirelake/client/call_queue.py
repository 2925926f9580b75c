"""Requests that wait because as many as allowed are without a reply.

A server refuses what exceeds its limit, so a client does not send it: the request waits until
another one is finished, first come, first served, and as long as its own timeout allows. The queue
belongs to the client and not to a connection: what waits when the connection is lost is sent on the
next one, in the same order.

A place that becomes free is *granted* to the first request in the queue, and no other can take it
before that one runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from .errors import Busy, ClientError

__all__ = ["CallQueue"]


class CallQueue:
    """The requests that wait, in order."""

    def __init__(self, room: Callable[[], int], most: int):
        self._room = room
        """Returns how many more requests can be sent now."""
        self._most = most
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._granted = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def admits(self) -> bool:
        """Whether a new request can be sent now, without overtaking others."""
        return not self._waiting and self._room() > self._granted

    async def wait(self, deadline: float) -> None:
        """Wait for a place; the caller takes it before anything else runs.

        Raises TimeoutError at the deadline, and Busy at once when too many wait already.
        """
        if len(self._waiting) >= self._most:
            raise Busy("too_busy", f"{self._most} requests wait already; nothing was sent")
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout_at(deadline):
                await place
        except BaseException:
            # Cancelled or late. The place may have been granted in the same turn of the loop: then
            # it is for the next one.
            if place in self._waiting:
                self._waiting.remove(place)
            elif place.done() and not place.cancelled() and place.exception() is None:
                self._granted -= 1
                self.wake()
            raise
        self._granted -= 1
        loop.call_soon(self.wake)  # for the case that the caller sends nothing after all

    def wake(self) -> None:
        """Grant free places; called whenever there may be one."""
        while self._waiting and self._room() > self._granted:
            place = self._waiting.popleft()
            if not place.done():  # a cancelled one has not been removed yet
                self._granted += 1
                place.set_result(None)

    def fail(self, error: ClientError) -> None:
        """Fail everything that waits, at the end of the client."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(error)
