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
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from ..errors import HubError
from .failures import Failures
from .interface import Database, Done, Operation

__all__ = ["Batch", "Writer"]

_log = logging.getLogger(__name__)


class Batch:
    """The operations of one transaction."""

    __slots__ = ("dones", "operations", "shrink", "shrunk")

    def __init__(self) -> None:
        self.operations: list[Operation[Any]] = []
        self.dones: list[Done] = []
        """One per operation."""
        self.shrink: list[Callable[[bool], None]] = []
        """Called with whether there may be more space to give back."""
        self.shrunk = False

    def __bool__(self) -> bool:
        return bool(self.operations or self.shrink)


class Writer:
    """Commits batches in its own thread."""

    def __init__(
        self,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        finished: Callable[[], None],
        failures: Failures,
    ):
        self._database = database
        self._loop = loop
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

    def _finished(self, batch: Batch, outcome: list[Any] | HubError) -> None:
        # The thread writes the next batch while the loop calls back. The callbacks start another
        # one, which is handed over when they are done, if the thread is idle by then.
        self._writing = False
        self._hand_over()
        if isinstance(outcome, HubError):
            self._failures.failed("write", outcome.__cause__ or outcome)
            results = [outcome] * len(batch.dones)
        else:
            self._failures.succeeded("write")
            results = outcome
        try:
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
            if self._idle is not None and not self._writing:
                self._idle.set_result(None)
                self._idle = None

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            outcome = self._write(batch)
            try:
                self._loop.call_soon_threadsafe(self._finished, batch, outcome)
            except RuntimeError:  # the loop is closed: the process is being stopped
                break
        self._database.close()

    def _write(self, batch: Batch) -> list[Any] | HubError:
        try:
            results = self._database.write(batch.operations) if batch.operations else []
            if batch.shrink:
                batch.shrunk = self._database.shrink()
        except HubError as error:
            return error
        # Whatever it is: without its thread, the hub would confirm nothing more and look healthy.
        except Exception as error:
            failure = HubError("storage_failed")
            failure.__cause__ = error
            return failure
        return results
