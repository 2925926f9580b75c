"""The one writer: a thread that commits everything that has been asked for, batch after batch.

While one batch is being written, the next is collected; so the busier the hub, the larger the
batches (group commit). All lists are touched by the loop alone: it hands a batch over whole, and
gets it back with one call when it is on disk, or when it could not be written. A batch that fails
is rolled back and told so; the next is tried all the same, so nothing needs a restart.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from ..errors import HubError
from .batch import Batch
from .files import connect
from .migrations import StoreError

__all__ = ["Writer"]

_log = logging.getLogger(__name__)
_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_TOOBIG})


class Writer:
    """Writes batches in a thread of its own."""

    def __init__(
        self,
        path: Path,
        synchronous: Literal["full", "normal"],
        loop: asyncio.AbstractEventLoop,
        finished: Callable[[Batch, HubError | None], None],
    ):
        self._path = path
        self._synchronous = synchronous
        self._loop = loop
        self._told = finished
        self._db: sqlite3.Connection | None = connect(path, synchronous=synchronous)
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._next = Batch()
        self._writing = False
        self._scheduled = False
        self._idle: asyncio.Future[None] | None = None
        self._thread = threading.Thread(target=self._run, name="hub store", daemon=True)
        self._thread.start()

    @property
    def batch(self) -> Batch:
        """What will be written next: put something in. It is handed over at the end of the turn."""
        if not self._scheduled and not self._writing:
            self._scheduled = True
            self._loop.call_soon(self._hand_over)
        return self._next

    async def close(self) -> None:
        """Writes what is still there, and ends the thread."""
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

    def _finished(self, batch: Batch, error: HubError | None) -> None:
        self._writing = False
        self._hand_over()  # the thread works on while the loop tells the others
        try:
            self._told(batch, error)
        finally:
            self._hand_over()
            if self._idle is not None and not self._writing:
                self._idle.set_result(None)
                self._idle = None

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            error = self._write(batch)
            try:
                self._loop.call_soon_threadsafe(self._finished, batch, error)
            except RuntimeError:  # the loop was closed without us: nobody waits for the answer
                break
        if self._db is not None:
            self._db.close()

    def _write(self, batch: Batch) -> HubError | None:
        try:
            if self._db is None:
                self._db = connect(self._path, synchronous=self._synchronous)
            batch.write(self._db)
        except (sqlite3.Error, StoreError) as error:
            return self._failed(error)
        return None

    def _failed(self, error: Exception) -> HubError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        _log.error("the store could not be written: %s", error)
        if code in _FULL:
            return HubError("storage_full")
        if self._db is not None:  # whatever state it is in, a new connection starts clean
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None
        return HubError("storage_failed")
