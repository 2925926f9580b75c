"""The place of a hub among those that share a database: its lease, and messages between hubs.

Everything here runs on the event loop; a thread renews the lease (`postgres_membership.py`).

While the lease is over (the process was paused, or the database cannot be reached), the hub
delivers nothing: other hubs may have its clients. When it has a lease again, it first finds out
which it still has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from .postgres_membership import Lease, Membership
    from .writer import Writer

__all__ = ["Cluster", "HasEpoch"]

_log = logging.getLogger(__name__)

_CHECK_S: Final = 1.0


class HasEpoch(Protocol):
    """A connection that writes for a hub."""

    epoch: int


class Cluster:
    """The lease of this hub, and messages of the others."""

    def __init__(self, loop: asyncio.AbstractEventLoop, databases: list[HasEpoch]):
        self._loop = loop
        self._databases = databases
        self._membership: Membership | None = None
        self._lease: Lease | None = None
        self._writer: Writer | None = None
        self._paused = False
        self._heard = False
        self._timer: asyncio.TimerHandle | None = None
        self.received: Callable[[list[str]], None] = _ignore
        """Called with the words of a message of another hub."""
        self.paused: Callable[[], None] = _do_nothing
        """Called when the hub does not know any more which clients it has."""
        self.resumed: Callable[[], None] = _do_nothing
        """Called with each renewal while that is so; it has to call `confirm`."""
        self.kept: Callable[[], None] = _do_nothing
        """Called with each other renewal."""

    def join(self, membership: Membership) -> None:
        """Take the lease of a membership."""
        self._membership = membership
        self._lease = membership.lease
        self._set_epoch(membership.lease.epoch)

    def _set_epoch(self, epoch: int) -> None:
        for each in self._databases:
            each.epoch = epoch

    def start(self, writer: Writer) -> None:
        """Renew the lease from now on."""
        self._writer = writer
        if self._membership is not None:
            self._membership.start()
        self._tick()

    def stop(self) -> None:
        """Give the lease up; blocks."""
        if self._membership is not None:
            self._membership.stop()

    def close(self) -> None:
        """Stop checking the lease."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self.check()
        self._timer = self._loop.call_later(_CHECK_S, self._tick)

    @property
    def number(self) -> int:
        """The number of this hub, 1 to 255: no other hub that runs has it."""
        return 0 if self._lease is None else self._lease.number

    @property
    def epoch(self) -> int:
        """The epoch of this hub: no other hub ever has it."""
        return 0 if self._lease is None else self._lease.epoch

    @property
    def leads(self) -> bool:
        """Whether this hub does what only one has to do."""
        return self._lease is not None and self._lease.leads

    @property
    def alone(self) -> bool:
        """Whether there was no other hub at the last renewal, and none has been heard of since."""
        return self._lease is not None and not self._lease.others and not self._heard

    @property
    def valid(self) -> bool:
        """Whether this hub has its clients for certain."""
        self.check()
        return not self._paused

    def check(self) -> None:
        """Notice that the lease is over: called once a second, and before anything is delivered."""
        if self._paused or (self._lease is not None and time.monotonic() <= self._lease.until):
            return
        _log.warning("the lease of this hub is over; nothing is delivered until it is renewed")
        self._pause()

    def _pause(self) -> None:
        self._paused = True
        self.paused()

    def confirm(self) -> None:
        """Deliver again: the hub knows which clients it has."""
        if self._paused:
            self._paused = False
            _log.warning("this hub has a lease again")

    # -- called by the thread ------------------------------------------------------------------

    def renewed(self, lease: Lease, gap: bool) -> None:
        """Note a renewal, and whether messages may have been lost; in the thread of the
        membership."""
        self._call(self._renewed, lease, gap)

    def message(self, words: list[str]) -> None:
        """Take a message of another hub; in the thread of the membership."""
        self._call(self._message, words)

    def _call(self, function: Callable[..., None], *values: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is being stopped
            self._loop.call_soon_threadsafe(function, *values)

    def _renewed(self, lease: Lease, gap: bool) -> None:
        self.check()  # with the old lease: was there a time without?
        self._heard = False
        if gap and not self._paused:
            self._pause()  # another hub may have said that it has claimed a client
        before, self._lease = self._lease, lease
        if before is None or before.epoch != lease.epoch:
            self._set_epoch(lease.epoch)
        if self._paused:
            self.resumed()
        else:
            self.kept()
        if self._writer is not None:
            self._writer.follow()  # a message may have been lost

    def _message(self, words: list[str]) -> None:
        self._heard = True
        if words[:1] == ["log"]:
            if self._writer is not None:
                self._writer.follow()
        else:
            self.received(words)


def _ignore(words: list[str]) -> None:
    """Ignore a message: the callback is not set."""


def _do_nothing() -> None:
    """Do nothing: the callback is not set."""
