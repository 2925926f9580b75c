"""Group commit: one thread that executes everything that was requested, batch after batch.

A commit waits for the disk: about as long for one row as for a thousand. SQLite alone stores 50,000
rows per second one by one and 200,000 in batches of ten or more. So while one batch is written, the
next one is collected; the busier the hub, the larger the batches and the fewer commits per publish.
There is no linger time and no maximum size to tune: the duration of a commit is the linger time. An
idle hub commits at once, because a batch is handed to the thread at the end of the turn of the loop
in which it was started. The hub confirms 48,000 to 69,000 durable publishes per second
(benchmarks/results/hub.json, durable).

No locks are needed: only the loop touches a batch until it hands it over, and it gets it back with
one `call_soon_threadsafe` when it is on disk or has failed. At most one batch is in the thread, so
batches finish in order (the publish queue relies on that). A failed batch is rolled back and
reported (`failures.py`); the next one is tried all the same, and no restart is needed.

Where several hubs use one database, this is also where a hub follows the log: what others have
appended comes with a batch, before the results of its operations, so everything reaches the loop in
the order of the log. An idle hub follows with an empty batch (`follow`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from ..errors import HubError
from .failures import Failures
from .interface import Database, Done, Entry, Followed, Operation

__all__ = ["Batch", "Writer"]

_FOLLOWED: Final = 1_000
"""Rows of other hubs that are read at a time."""

_log = logging.getLogger(__name__)


class Batch:
    """The operations of one transaction."""

    __slots__ = ("dones", "follow", "operations", "shrink", "shrunk")

    def __init__(self) -> None:
        self.operations: list[Operation[Any]] = []
        self.dones: list[Done] = []
        """One per operation."""
        self.shrink: list[Callable[[bool], None]] = []
        """Called with whether there may be more space to give back."""
        self.shrunk = False
        self.follow = False
        """Whether to read what other hubs have appended."""

    def __bool__(self) -> bool:
        return bool(self.operations or self.shrink or self.follow)


class Writer:
    """Commits batches in its own thread."""

    def __init__(
        self,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        followed: Callable[[list[Entry], int], None],
        finished: Callable[[], None],
        failures: Failures,
    ):
        self._database = database
        self._loop = loop
        self._on_followed = followed
        self._on_finished = finished
        self._failures = failures
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._next = Batch()
        self._writing = False
        self._scheduled = False
        self._idle: asyncio.Future[None] | None = None
        # A daemon: a hub that is interrupted before `close` must not hang. What was confirmed is on
        # disk anyway.
        self._thread = threading.Thread(target=self._run, name="hub store", daemon=True)
        self._thread.start()

    @property
    def batch(self) -> Batch:
        """The batch being collected; it goes to the thread at the end of this turn of the loop."""
        # While a batch is in the thread, `_finished` hands over the next one.
        if not self._scheduled and not self._writing:
            self._scheduled = True
            self._loop.call_soon(self._hand_over)
        return self._next

    def follow(self) -> None:
        """Read what other hubs have appended, with the next batch."""
        self.batch.follow = True

    async def close(self) -> None:
        """Write what is pending and end the thread."""
        self._hand_over()
        if self._writing:
            self._idle = self._loop.create_future()
            await self._idle
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    # -- on the loop -------------------------------------------------------------------------

    def _hand_over(self) -> None:
        self._scheduled = False
        if self._writing or not self._next:
            return
        batch, self._next = self._next, Batch()
        self._writing = True
        self._queue.put(batch)

    def _finished(self, batch: Batch, outcome: _Outcome) -> None:
        # The thread writes the next batch while the loop calls back. The callbacks start another
        # one, which is handed over when they are done, if the thread is idle by then.
        self._writing = False
        self._hand_over()
        if outcome.error is not None:
            self._failures.failed("write", outcome.error.__cause__ or outcome.error)
        else:
            self._failures.succeeded("write")
        self._release(batch, outcome)
        if self._idle is not None and not self._writing:
            self._idle.set_result(None)
            self._idle = None

    def _release(self, batch: Batch, outcome: _Outcome) -> None:
        results = outcome.results
        if outcome.error is not None:
            results = [outcome.error] * len(batch.dones)
        try:
            self._on_followed(outcome.entries, outcome.position)
            if outcome.more:
                self.follow()
            for done, result in zip(batch.dones, results, strict=True):
                try:
                    done(result)
                except Exception:
                    _log.exception("a callback of the store raised an exception")
            for shrunk in batch.shrink:
                shrunk(batch.shrunk)
            self._on_finished()
        finally:
            self._hand_over()

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            outcome = self._write(batch)
            try:
                self._loop.call_soon_threadsafe(self._finished, batch, outcome)
            except RuntimeError:  # the loop is closed: the process is being stopped
                break
        self._database.close()

    def _write(self, batch: Batch) -> _Outcome:
        followed = Followed([], 0, more=False)
        results: list[Any] = []
        missed: list[Entry] = []
        error: HubError | None = None
        try:
            if batch.follow:
                followed = self._database.follow(_FOLLOWED)
            if batch.operations:
                results = self._database.write(batch.operations)
                missed = self._database.missed
            if batch.shrink:
                batch.shrunk = self._database.shrink()
        except HubError as failure:
            error = failure
        # Whatever it is: without its thread, the hub would confirm nothing more and look healthy.
        except Exception as cause:
            error = HubError("storage_failed")
            error.__cause__ = cause
        # What was followed is released in any case: it is not read again.
        entries = [*followed.entries, *missed]
        return _Outcome(results, entries, followed.number, followed.more, error)


class _Outcome(NamedTuple):
    """What came of a batch."""

    results: list[Any]
    entries: list[Entry]
    """What other hubs have appended to the log before."""
    position: int
    """Nothing of other hubs is missing up to this number; 0 when nothing was followed."""
    more: bool
    """Whether there is more to follow."""
    error: HubError | None
