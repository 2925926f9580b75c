"""The store in SQLite: one file, one writer in a thread (`writer.py`), one reader on the loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from ..errors import HubError
from .batch import (
    Batch,
    Done,
    KeyRow,
    LogRow,
    insert,
)
from .migrations import StoreError
from .reader import Reader
from .rows import InboxRow, SubscriptionRow
from .writer import Writer

__all__ = ["SqliteStore"]

_BURIED: Final = "SELECT 1 FROM dead WHERE dead.number = dead_log.number"
_BURY: Final = ("INSERT OR IGNORE INTO dead (client, number, reason, dead_ms) VALUES ", 4, "")
_BURY_CONTENT: Final = (
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
        self.appended: Callable[[list[Any], HubError | None], None] = _nobody
        self.closing: Callable[[], None] = _nothing
        self._lock = _lock(path)
        try:
            self._writer = Writer(path, synchronous, loop, self._finished)
            super().__init__(path)
        except BaseException:
            os.close(self._lock)
            raise

    async def close(self) -> None:
        """Writes what was asked for, and closes."""
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
        """A row of the log, and what `appended` gives back for it."""
        batch = self._writer.batch
        batch.log.append(row)
        batch.tokens.append(token)
        if key is not None:
            batch.keys.append(key)

    def remember(self, key: KeyRow, done: Done) -> None:
        """An idempotency key of something that nobody has to get."""
        batch = self._writer.batch
        batch.keys.append(key)
        batch.dones.append(done)

    def name_topic(self, number: int, name: str) -> None:
        """A topic has this number; saying so again is fine."""
        self._writer.batch.topics.append((number, name))

    def forget_topic(self, number: int) -> None:
        """Nobody has the topic: its name goes. Rows of its log have gone before."""
        self._work("DELETE FROM topics WHERE number = ?", [(number,)])

    def save_inbox(self, row: InboxRow) -> None:
        """How far a client has come."""
        self._writer.batch.inboxes[row.client] = row

    def inboxes_saved(self, done: Done) -> None:
        """Tells when the inboxes that were saved in this batch are on disk."""
        self._writer.batch.dones.append(done)

    def subscribe(self, rows: Sequence[SubscriptionRow], done: Done) -> None:
        """Subscriptions of one client; nothing is written for one that was removed."""
        self._work(
            "INSERT OR REPLACE INTO subscriptions SELECT number, ?2, ?3, ?4 FROM clients "
            "WHERE number = ?1",
            rows,
        )
        self._writer.batch.dones.append(done)

    def unsubscribe(self, client: int, topics: Sequence[int], done: Done) -> None:
        """These subscriptions end."""
        self._work(
            "DELETE FROM subscriptions WHERE client = ? AND topic = ?",
            [(client, topic) for topic in topics],
        )
        self._writer.batch.dones.append(done)

    def mark(self, number: int) -> None:
        """Numbers up to this one were given out, whether anything was stored or not."""
        self._work("INSERT OR REPLACE INTO marks VALUES ('number', ?)", [(number,)])

    def delete(self, numbers: Sequence[int]) -> None:
        """Rows of the log that nobody needs."""
        self._delete(numbers)

    def bury(
        self, dead: Sequence[tuple[int, int, str, int]], gone: Sequence[int], done: Done
    ) -> None:
        """Dead letters (client, number, reason, when); and rows that leave the log."""
        numbers = [(number,) for number in sorted({row[1] for row in dead})]

        def work(db: sqlite3.Connection) -> None:
            insert(db, _BURY_CONTENT, numbers)
            insert(db, _BURY, dead)

        batch = self._writer.batch
        if dead:
            batch.work.append(work)
        self._delete(gone)
        batch.dones.append(done)

    def redrive(self, places: Sequence[int], rows: Sequence[tuple[LogRow, object]]) -> None:
        """Dead letters leave; each comes back as a row of the log for its client."""
        self._work("DELETE FROM dead WHERE place = ?", [(place,) for place in places])
        for row, token in rows:
            self.append(row, token)

    def tidy(self, now_ms: int, dead_before_ms: int, most_dead: int) -> None:
        """Removes keys that are over, and the oldest dead letters."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM keys WHERE expires_ms <= ?", (now_ms,))
            db.execute("DELETE FROM dead WHERE dead_ms < ?", (dead_before_ms,))
            db.execute(
                "DELETE FROM dead WHERE place IN (SELECT place FROM dead ORDER BY dead_ms, place "
                "LIMIT max(0, (SELECT count(*) FROM dead) - ?))",
                (most_dead,),
            )
            db.execute(f"DELETE FROM dead_log WHERE NOT EXISTS ({_BURIED})")

        self._writer.batch.work.append(work)

    def _delete(self, numbers: Sequence[int]) -> None:
        if numbers:
            rows = [(number,) for number in numbers]
            self._writer.batch.work.append(lambda db: insert(db, _DELETE, rows))

    def _work(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._writer.batch.work.append(lambda db: _each(db, statement, rows))


def _each(db: sqlite3.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    db.executemany(statement, rows)


def _lock(path: Path) -> int:
    """Keeps a second hub away: two would give out the same numbers."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; make the data directory first") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StoreError(f"{path}: another hub is using it; stop that, or give --data") from None
    return lock


def _nobody(tokens: list[Any], error: HubError | None) -> None:
    """Nobody appends."""


def _nothing() -> None:
    """Nothing is to be done."""
