"""Group commit: one thread that writes everything that was requested, batch after batch.

A commit with `synchronous=FULL` waits for the disk: about as long for one row as for a thousand.
SQLite alone stores 50,000 rows per second one by one and 200,000 in batches of ten or more. So
while one batch is written, the next one is collected; the busier the hub, the larger the batches
and the fewer commits per publish. There is no linger time and no maximum size to tune: the duration
of a commit is the linger time. An idle hub commits at once, because a batch is handed to the thread
at the end of the turn of the loop in which it was started. The hub confirms 48,000 to 69,000
durable publishes per second (benchmarks/results/hub.json, durable).

No locks are needed: only the loop touches a batch until it hands it over, and it gets it back with
one `call_soon_threadsafe` when it is on disk or has failed. At most one batch is in the thread, so
batches finish in order (the publish queue relies on that). A failed batch is rolled back and
reported (`failures.py`); the next one is tried all the same, and no restart is needed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal, TypeAlias

from ..errors import HubError
from .failures import Failures
from .interface import Done, KeyRow, LogRow
from .migrations import StoreError, check, connect, shrink

__all__ = ["Batch", "DatabaseFile", "Work", "Writer", "insert"]

_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_TOOBIG})

Work: TypeAlias = Callable[[sqlite3.Connection], None]
"""Statements of a batch that are too rare to be collected by table."""

_CHECK_S: Final = 5.0
"""Maximum duration of the check of a database that has become smaller."""
_ROWS: Final = 256
"""Maximum rows per statement. Row counts are powers of two, so that few statements are prepared."""

_LOG: Final = ("INSERT INTO log VALUES ", 7, "")
_KEYS: Final = ("INSERT OR REPLACE INTO publisher_keys VALUES ", 7, "")
_TOPICS: Final = ("INSERT OR REPLACE INTO topics VALUES ", 2, "")
_INBOXES: Final = ("INSERT OR REPLACE INTO inboxes VALUES ", 3, "")
_DEAD: Final = ("INSERT OR IGNORE INTO dead (client, number, reason, dead_ms) VALUES ", 4, "")
_DEAD_CONTENT: Final = (
    """
    INSERT OR IGNORE INTO dead_log
    SELECT log.number, type, ts_ms, coalesce(topic, topics.name), content
    FROM log LEFT JOIN topics ON topics.number = target WHERE log.number IN (VALUES """,
    1,
    ")",
)
_DELETE: Final = ("DELETE FROM log WHERE number IN (VALUES ", 1, ")")
_REMOVE_TOPICS: Final = ("DELETE FROM topics WHERE number IN (VALUES ", 1, ")")


class Batch:
    """The writes of one transaction."""

    __slots__ = (
        *("dead", "deleted", "dones", "inboxes", "keys", "log", "removed_topics", "shrink"),
        *("shrunk", "tokens", "topics", "work"),
    )

    def __init__(self) -> None:
        self.log: list[LogRow] = []
        self.tokens: list[Any] = []
        """One per row of the log; `Store.appended` gets them back."""
        self.keys: list[KeyRow] = []
        self.topics: list[tuple[int, str]] = []
        self.inboxes: dict[int, tuple[int, int, bytes]] = {}
        """By client; the last state wins."""
        self.dead: list[tuple[int, int, str, int]] = []
        """Dead letters: client, number, reason, time."""
        self.deleted: list[int] = []
        """Numbers of the log."""
        self.removed_topics: list[int] = []
        self.work: list[Work] = []
        self.shrink = self.shrunk = False
        """Whether to give free pages back afterwards, and whether some were."""
        self.dones: list[Done] = []

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def write(self, db: sqlite3.Connection) -> None:
        """Write everything in one transaction, or nothing."""
        # IMMEDIATE: takes the write lock now, and waits for another process if it has it (_BUSY_S).
        # A transaction that starts with a read would fail instead of waiting.
        db.execute("BEGIN IMMEDIATE")
        try:
            # In one transaction: the content of a dead letter is copied before the row of the log
            # is deleted, and a crash leaves either the notification or its dead letters. Then the
            # topics: a dead letter has their names.
            insert(db, _DEAD_CONTENT, [(number,) for number in sorted({r[1] for r in self.dead})])
            insert(db, _DEAD, self.dead)
            insert(db, _DELETE, [(number,) for number in self.deleted])
            insert(db, _REMOVE_TOPICS, [(number,) for number in self.removed_topics])
            for work in self.work:
                work(db)
            insert(db, _TOPICS, self.topics)  # after the removed ones, which may have the name
            insert(db, _LOG, self.log)
            insert(db, _KEYS, self.keys)
            insert(db, _INBOXES, tuple(self.inboxes.values()))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:  # SQLite has rolled back itself after some errors
                db.execute("ROLLBACK")
            raise


def insert(
    db: sqlite3.Connection, statement: tuple[str, int, str], rows: Sequence[Sequence[Any]]
) -> None:
    """Run a statement (begin, number of columns, end) over rows, many rows per execution.

    SQLite releases Python's global lock for each statement and has to get it back from the event
    loop. 64 statements of one row wait 64 times, one of 64 rows waits once. `executemany` does not
    help: it executes row by row.
    """
    begin, columns, end = statement
    at, size = 0, _ROWS
    while at < len(rows):
        while size > len(rows) - at:
            size //= 2
        some = rows[at : at + size]
        at += size
        text = _statement(begin, columns, end, size)
        db.execute(text, [value for row in some for value in row])


@lru_cache(maxsize=256)
def _statement(begin: str, columns: int, end: str, rows: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return begin + ",".join([row] * rows) + end


class DatabaseFile:
    """Notices when somebody removes, replaces or truncates the database of a running hub.

    SQLite does not: it has the file open, and finds nearly all pages in its caches and in the
    write-ahead log. Publishes would be confirmed that are lost with the next start.
    """

    def __init__(self, path: Path):
        self._path = path
        status = path.stat()
        self._identity = (status.st_dev, status.st_ino)
        self._size = status.st_size

    def check(self) -> int:
        """Return its size; raise StoreError unless it is the file the hub was started with."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise StoreError(
                f"{self._path}: {error.strerror}; restore it, and restart the hub"
            ) from error
        if (status.st_dev, status.st_ino) != self._identity:
            raise StoreError(f"{self._path}: replaced while the hub runs; restart the hub")
        return status.st_size

    def was_cut(self) -> bool:
        """Return whether another process has made it smaller since the last batch."""
        return self.check() < self._size

    def written(self) -> None:
        """Record its size after a batch: a checkpoint may have changed it."""
        with suppress(OSError):
            self._size = self._path.stat().st_size


class Writer:
    """Commits batches in its own thread."""

    def __init__(
        self,
        path: Path,
        synchronous: Literal["full", "normal"],
        loop: asyncio.AbstractEventLoop,
        finished: Callable[[Batch, HubError | None], None],
        failures: Failures,
    ):
        self._path = path
        self._synchronous = synchronous
        self._loop = loop
        self._on_finished = finished
        self._failures = failures
        self._db: sqlite3.Connection | None = connect(path, synchronous=synchronous)
        self.file = DatabaseFile(path)
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

    def _finished(self, batch: Batch, error: HubError | None) -> None:
        # The thread writes the next batch while the loop calls back. The callbacks start another
        # one, which is handed over when they are done, if the thread is idle by then.
        self._writing = False
        self._hand_over()
        if error is None:
            self._failures.succeeded("write")
        else:
            self._failures.failed("write", error.__cause__)
        try:
            self._on_finished(batch, error)
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
            except RuntimeError:  # the loop is closed: the process is being stopped
                break
        if self._db is not None:
            self._db.close()

    def _write(self, batch: Batch) -> HubError | None:
        try:
            was_cut = self.file.was_cut()
            if was_cut and self._db is not None:  # it has pages in its cache that are lost
                self._db.close()
                self._db = None
            if self._db is None:
                # Never a new file: the hub would go on without what it has confirmed.
                self._db = connect(self._path, synchronous=self._synchronous, create=False)
            if was_cut:
                check(self._db, self._path, _CHECK_S)
            batch.write(self._db)
            if batch.shrink:
                batch.shrunk = shrink(self._db)
            self.file.written()
        # Whatever it is: without its thread, the hub would confirm nothing more and look healthy.
        except Exception as error:
            return self._failed(error)
        return None

    def _failed(self, error: Exception) -> HubError:
        full = getattr(error, "sqlite_errorcode", 0) & 0xFF in _FULL
        # When it is full, the connection is usable: the next batch may fit, after a deletion.
        # Otherwise its state is unknown, and the next batch opens a new one.
        if not full and self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None
        failure = HubError("storage_full" if full else "storage_failed")
        failure.__cause__ = error
        return failure
