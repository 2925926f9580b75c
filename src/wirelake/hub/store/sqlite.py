"""The store in one SQLite file: a writer in a thread (`writer.py`), a reader on the loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from ..errors import HubError
from .interface import Done, InboxRow, KeyRow, LogRow, SubscriptionRow
from .migrations import StoreError
from .reader import Reader
from .writer import Batch, Writer, insert

__all__ = ["SqliteStore"]

_REFERENCED: Final = "SELECT 1 FROM dead WHERE dead.number = dead_log.number"
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


class SqliteStore(Reader):
    """The hub's database in one file."""

    def __init__(
        self, path: Path, synchronous: Literal["full", "normal"], loop: asyncio.AbstractEventLoop
    ):
        self.appended: Callable[[list[Any], HubError | None], None] = _ignore
        self.closing: Callable[[], None] = _do_nothing
        self._lock = _lock(path)
        try:
            self._writer = Writer(path, synchronous, loop, self._finished)
            super().__init__(path)
        except BaseException:
            os.close(self._lock)
            raise

    async def close(self) -> None:
        """Write what is pending and close."""
        self.closing()
        await self._writer.close()
        self.close_reader()
        os.close(self._lock)

    def _finished(self, batch: Batch, error: HubError | None) -> None:
        if batch.tokens:
            self.appended(batch.tokens, error)
        for done in batch.dones:
            done(error)

    # -- writes ------------------------------------------------------------------------------

    def append(self, row: LogRow, token: object, key: KeyRow | None = None) -> None:
        """Append a row to the log; `appended` gets the token back."""
        batch = self._writer.batch
        batch.log.append(row)
        batch.tokens.append(token)
        if key is not None:
            batch.keys.append(key)

    def add_key(self, key: KeyRow, done: Done) -> None:
        """Add the idempotency key of a publish without an audience."""
        batch = self._writer.batch
        batch.keys.append(key)
        batch.dones.append(done)

    def add_topic(self, number: int, name: str) -> None:
        """Add a topic; adding it again has no effect."""
        self._writer.batch.topics.append((number, name))

    def remove_topic(self, number: int) -> None:
        """Remove a topic whose log is empty."""
        self._work("DELETE FROM topics WHERE number = ?", [(number,)])

    def save_inbox(self, row: InboxRow) -> None:
        """Save the inbox of a client."""
        self._writer.batch.inboxes[row.client] = row

    def when_written(self, done: Done) -> None:
        """Call `done` when everything in this batch is on disk."""
        self._writer.batch.dones.append(done)

    def subscribe(self, rows: Sequence[SubscriptionRow], done: Done) -> None:
        """Add subscriptions of one client; nothing is written if it was removed."""
        self._work(
            "INSERT OR REPLACE INTO subscriptions SELECT number, ?2, ?3, ?4 FROM clients "
            "WHERE number = ?1",
            rows,
        )
        self._writer.batch.dones.append(done)

    def unsubscribe(self, client: int, topics: Sequence[int], done: Done) -> None:
        """Remove subscriptions."""
        self._work(
            "DELETE FROM subscriptions WHERE client = ? AND topic = ?",
            [(client, topic) for topic in topics],
        )
        self._writer.batch.dones.append(done)

    def save_last_number(self, number: int) -> None:
        """Save that numbers up to this one were allocated, stored or not."""
        self._work("INSERT OR REPLACE INTO marks VALUES ('number', ?)", [(number,)])

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete rows of the log."""
        if numbers:
            rows = [(number,) for number in numbers]
            self._writer.batch.work.append(lambda db: insert(db, _DELETE, rows))

    def add_dead_letters(
        self, dead: Sequence[tuple[int, int, str, int]], deleted: Sequence[int], done: Done
    ) -> None:
        """Add dead letters (client, number, reason, time) and delete rows of the log."""
        numbers = [(number,) for number in sorted({row[1] for row in dead})]

        def work(db: sqlite3.Connection) -> None:
            insert(db, _DEAD_CONTENT, numbers)
            insert(db, _DEAD, dead)

        batch = self._writer.batch
        if dead:
            batch.work.append(work)
        self.delete(deleted)
        batch.dones.append(done)

    def redrive(self, places: Sequence[int], rows: Sequence[tuple[LogRow, object]]) -> None:
        """Replace dead letters by rows of the log for their clients."""
        self._work("DELETE FROM dead WHERE place = ?", [(place,) for place in places])
        for row, token in rows:
            self.append(row, token)

    def prune(self, now_ms: int, dead_before_ms: int, max_dead: int) -> None:
        """Delete expired keys and the oldest dead letters."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM keys WHERE expires_ms <= ?", (now_ms,))
            db.execute("DELETE FROM dead WHERE dead_ms < ?", (dead_before_ms,))
            db.execute(
                "DELETE FROM dead WHERE place IN (SELECT place FROM dead ORDER BY dead_ms, place "
                "LIMIT max(0, (SELECT count(*) FROM dead) - ?))",
                (max_dead,),
            )
            db.execute(f"DELETE FROM dead_log WHERE NOT EXISTS ({_REFERENCED})")

        self._writer.batch.work.append(work)

    def _work(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._writer.batch.work.append(lambda db: _each(db, statement, rows))


def _each(db: sqlite3.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    db.executemany(statement, rows)


def _lock(path: Path) -> int:
    """Lock out a second hub: two would allocate the same numbers."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; create the data directory first") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StoreError(
            f"{path}: in use by another hub; stop that one, or choose another --data"
        ) from None
    return lock


def _ignore(tokens: list[Any], error: HubError | None) -> None:
    """Ignore a batch: `appended` is not set."""


def _do_nothing() -> None:
    """Do nothing: `closing` is not set."""
