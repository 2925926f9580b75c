"""The store in one SQLite file.

Writes go to the thread of the group commit (`writer.py`). Reads run on the event loop, on a second
connection: they are bounded and mostly served from the page cache, which is faster than a hand-over
to a thread and back.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from ..errors import HubError
from .failures import Failures
from .interface import (
    ClientRow,
    DeadRow,
    Done,
    Entry,
    InboxRow,
    KeyRow,
    LogRow,
    Size,
    SubscriptionRow,
    UserRow,
)
from .migrations import StoreError, connect, prepare
from .writer import Batch, Writer, insert

__all__ = [
    "Reader",
    "SqliteStore",
]

_SELECT_DEAD: Final = (
    "SELECT place, clients.id, dead.client, dead.number, reason, dead_ms, type, ts_ms, topic, "
    "content FROM dead JOIN dead_log USING (number) JOIN clients ON clients.number = dead.client "
)
_ENTRIES: Final = (
    "SELECT log.number, target, type, ts_ms, expires_ms, coalesce(topic, topics.name), content "
    "FROM log LEFT JOIN topics ON topics.number = target WHERE log.number IN "
)
_REFERENCED: Final = "SELECT 1 FROM dead WHERE dead.number = dead_log.number"
_LAST_EXPIRED: Final = (
    "SELECT expires_ms FROM publisher_keys WHERE expires_ms <= ? ORDER BY expires_ms "
    "LIMIT 1 OFFSET ?"
)
_COUNT_EXPIRED: Final = (
    "SELECT publisher, count(*) FROM publisher_keys WHERE expires_ms <= ? GROUP BY publisher"
)
_DELETE_DEAD: Final = ("DELETE FROM dead WHERE place IN (VALUES ", 1, ")")
_DELETE_DEAD_CONTENT: Final = (
    f"DELETE FROM dead_log WHERE NOT EXISTS ({_REFERENCED}) AND number IN (VALUES ",
    1,
    ")",
)
_PROBE: Final = (
    "SELECT (SELECT max(number) FROM clients), (SELECT max(number) FROM topics), "
    "(SELECT max(client) FROM subscriptions), (SELECT max(client) FROM inboxes), "
    "(SELECT max(number) FROM log), (SELECT max(expires_ms) FROM log)"
)
"""Reads a path through each table: a few pages, whatever the size of the file."""


class Reader:
    """The reads of `Store`; HubError `storage_failed` when the database cannot be read."""

    def __init__(self, path: Path, failures: Failures):
        self._db = connect(path, reader=True)
        self._path = path
        self._failures = failures

    def close_reader(self) -> None:
        """Close the connection for reads."""
        self._db.close()

    def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Return the client with this id."""
        row = self._one(f"SELECT {', '.join(ClientRow._fields)} FROM clients WHERE id = ?", (id,))
        return None if row is None else ClientRow(*row)

    def clients(self) -> list[ClientRow]:
        """Return all clients."""
        rows = self._read(f"SELECT {', '.join(ClientRow._fields)} FROM clients")
        return [ClientRow(*row) for row in rows]

    def user(self, token: bytes) -> UserRow | None:
        """Return the user with this token or old token, by its hash; it may have expired."""
        row = self._one(
            f"SELECT {', '.join(UserRow._fields)} FROM users WHERE token = ?1 OR old_token = ?1",
            (token,),
        )
        return None if row is None else UserRow(*row)

    def last_number(self) -> int:
        """Return the last number that may have been allocated."""
        # Every table that may have the highest number: rows of the log are deleted when they are
        # acknowledged, and a number must never be used twice.
        row = self._one(
            "SELECT max(coalesce((SELECT max(number) FROM log), 0), "
            "coalesce((SELECT max(number) FROM dead_log), 0), "
            "coalesce((SELECT max(number) FROM publisher_keys), 0), "
            "coalesce((SELECT max(start) FROM subscriptions), 0), "
            "coalesce((SELECT max(cursor) FROM inboxes), 0), "
            "coalesce((SELECT value FROM marks WHERE name = 'number'), 0))"
        )
        return 0 if row is None else int(row[0])

    def topics(self) -> list[tuple[int, str]]:
        """Return the numbers and names of all topics."""
        return self._read("SELECT number, name FROM topics")

    def subscriptions(self) -> list[SubscriptionRow]:
        """Return all subscriptions of existing clients."""
        rows = self._read(
            "SELECT client, topic, start, ack FROM subscriptions "
            "WHERE client IN (SELECT number FROM clients)"
        )
        return [
            SubscriptionRow(client, topic, start, bool(ack)) for client, topic, start, ack in rows
        ]

    def inbox(self, client: int) -> InboxRow | None:
        """Return the inbox of a client."""
        row = self._one("SELECT client, cursor, state FROM inboxes WHERE client = ?", (client,))
        return None if row is None else InboxRow(*row)

    def index(self) -> Iterator[tuple[int, int]]:
        """Yield target and number of every row of the log, in any order; reads only an index."""
        # INDEXED BY makes SQLite read the index, which has both columns, instead of the table with
        # all contents: the hub reads this at every start.
        try:
            yield from self._db.execute("SELECT target, number FROM log INDEXED BY log_expiry")
        except sqlite3.Error as error:
            raise StoreError(f"cannot read the store: {error}; restore a backup") from error

    def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """Return these rows of the log in order, without those that were deleted."""
        if not numbers:
            return []
        parameters = ",".join("?" * len(numbers))
        rows = self._read(f"{_ENTRIES} ({parameters}) ORDER BY log.number", numbers)
        return [Entry(*row) for row in rows]

    def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Return number and target of expired rows."""
        return self._read(
            "SELECT number, target FROM log WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?",
            (now_ms, limit),
        )

    def key(self, publisher: str, key: str, now_ms: int) -> KeyRow | None:
        """Return what a publisher published with this key."""
        row = self._one(
            "SELECT publisher, key, digest, number, private, audience, expires_ms "
            "FROM publisher_keys WHERE key = ? AND expires_ms > ? "
            "AND (publisher = ? OR (publisher = '' AND digest = x'')) ORDER BY publisher DESC",
            (key, now_ms, publisher),
        )
        return None if row is None else KeyRow(*row)._replace(private=bool(row[4]))

    def key_counts(self) -> list[tuple[str, int]]:
        """Return the number of keys of each publisher."""
        return self._read("SELECT publisher, count(*) FROM publisher_keys GROUP BY publisher")

    def dead(
        self, limit: int, client: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[DeadRow]:
        """Return dead letters, newest first."""
        conditions: list[str] = []
        values: list[Any] = []
        if client is not None:
            conditions.append("dead.client = ?")
            values.append(client)
        if numbers is not None:
            conditions.append(f"dead.number IN ({','.join('?' * len(numbers))})")
            values.extend(numbers)
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        rows = self._read(
            f"{_SELECT_DEAD}{where}ORDER BY dead_ms DESC, place DESC LIMIT ?", (*values, limit)
        )
        return [DeadRow(*row) for row in rows]

    def problem(self) -> str:
        """Return why the store cannot be used; empty if it can."""
        try:
            self._read(_PROBE)
        except HubError:
            pass
        else:
            self._failures.succeeded("read")
        return self._failures.problem

    def size(self) -> Size:
        """Return the size of the database and of its write-ahead log."""
        free = self._one("PRAGMA freelist_count")[0] * self._one("PRAGMA page_size")[0]
        return Size(_file_bytes(self._path), _file_bytes(f"{self._path}-wal"), free)

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._failures.failed("read", error)
            raise HubError("storage_failed", "cannot read the store") from error

    def _one(self, statement: str, values: Sequence[Any] = ()) -> Any:
        rows = self._read(statement, values)
        return rows[0] if rows else None


class SqliteStore(Reader):
    """The hub's database in one file."""

    def __init__(
        self,
        path: Path,
        synchronous: Literal["full", "normal"],
        loop: asyncio.AbstractEventLoop,
        check_s: float = 0.0,
    ):
        self.appended: Callable[[list[Any], HubError | None], None] = _ignore
        self.closing: Callable[[], None] = _do_nothing
        self.failures = Failures()
        self._lock = _lock(path)
        try:
            prepare(path, check_s)
            super().__init__(path, self.failures)
            try:
                self._writer = Writer(path, synchronous, loop, self._finished, self.failures)
            except BaseException:
                self.close_reader()
                raise
        except BaseException:
            os.close(self._lock)
            raise

    def problem(self) -> str:
        """Return why the store cannot be used; empty if it can."""
        try:
            self._writer.file.check()
        except StoreError as error:
            return str(error)
        return super().problem()

    async def close(self) -> None:
        """Write what is pending and close."""
        self.closing()
        await self._writer.close()
        self.close_reader()
        os.close(self._lock)

    async def abandon(self) -> None:
        """Close without saving anything: the hub could not be loaded."""
        self.closing = _do_nothing
        await self.close()

    def _finished(self, batch: Batch, error: HubError | None) -> None:
        # Publishers first: they wait for an answer. A saved inbox can wait.
        if batch.tokens:
            self.appended(batch.tokens, error)
        for done in batch.dones:
            done(error)

    # -- writes ------------------------------------------------------------------------------

    def append(self, row: LogRow, token: object, key: KeyRow | None = None) -> None:
        """Append a row to the log; `appended` gets the token back."""
        # Rows and tokens are collected by table, not as closures: this runs for every stored
        # publish, and the writer inserts them many at a time.
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
        """Remove a topic; its rows of the log are deleted separately."""
        self._writer.batch.removed_topics.append(number)

    def save_inbox(self, row: InboxRow) -> None:
        """Save the inbox of a client."""
        self._writer.batch.inboxes[row.client] = row

    def when_written(self, done: Done) -> None:
        """Call `done` when everything in this batch is on disk."""
        self._writer.batch.dones.append(done)

    def subscribe(self, rows: Sequence[SubscriptionRow], done: Done) -> None:
        """Add subscriptions of one client; nothing is written if it was removed."""
        # SELECT FROM clients: another process may have removed the client after it signed on. A
        # subscription without a client would keep the topic's log for ever.
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

    def delete(self, numbers: Sequence[int], done: Done) -> None:
        """Delete rows of the log."""
        batch = self._writer.batch
        batch.deleted.extend(numbers)
        batch.dones.append(done)

    def add_dead_letters(
        self, dead: Sequence[tuple[int, int, str, int]], deleted: Sequence[int], done: Done
    ) -> None:
        """Add dead letters (client, number, reason, time) and delete rows of the log."""
        # Collected by table, like the log: at the quota, every publish makes a dead letter.
        batch = self._writer.batch
        batch.dead.extend(dead)
        batch.deleted.extend(deleted)
        batch.dones.append(done)

    def redrive(self, places: Sequence[int], rows: Sequence[tuple[LogRow, object]]) -> None:
        """Replace dead letters by rows of the log for their clients."""
        # In the batch of the new rows: a dead letter is never both redriven and still dead.
        self._work("DELETE FROM dead WHERE place = ?", [(place,) for place in places])
        for row, token in rows:
            self.append(row, token)

    def remove_keys(self, publisher: str) -> None:
        """Delete all keys of a publisher."""
        # Also those that are in this batch: they would be inserted after the deletion.
        batch = self._writer.batch
        batch.keys = [key for key in batch.keys if key.publisher != publisher]
        self._work("DELETE FROM publisher_keys WHERE publisher = ?", [(publisher,)])

    def expire_keys(
        self, now_ms: int, limit: int, done: Callable[[Mapping[str, int]], None]
    ) -> None:
        """Delete expired keys; `done` gets how many of each publisher."""
        deleted: Counter[str] = Counter()

        def work(db: sqlite3.Connection) -> None:
            # By time, so that the index on it finds them: about `limit` of the oldest.
            found = db.execute(_LAST_EXPIRED, (now_ms, limit - 1)).fetchone()
            until = (now_ms,) if found is None else found
            deleted.update(dict(db.execute(_COUNT_EXPIRED, until).fetchall()))
            db.execute("DELETE FROM publisher_keys WHERE expires_ms <= ?", until)

        batch = self._writer.batch
        batch.work.append(work)
        batch.dones.append(lambda error: done(deleted if error is None else {}))

    def prune(self, dead_before_ms: int) -> None:
        """Delete old dead letters."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM dead WHERE dead_ms < ?", (dead_before_ms,))
            db.execute(f"DELETE FROM dead_log WHERE NOT EXISTS ({_REFERENCED})")

        self._writer.batch.work.append(work)

    def trim_dead_letters(self, max_dead: int) -> None:
        """Delete the oldest dead letters beyond `max_dead`."""

        def work(db: sqlite3.Connection) -> None:
            rows = db.execute(
                "SELECT place, number FROM dead ORDER BY dead_ms, place "
                "LIMIT max(0, (SELECT count(*) FROM dead) - ?)",
                (max_dead,),
            ).fetchall()
            insert(db, _DELETE_DEAD, [(place,) for place, _ in rows])
            insert(db, _DELETE_DEAD_CONTENT, [(number,) for _, number in rows])

        self._writer.batch.work.append(work)

    def shrink(self, done: Callable[[bool], None]) -> None:
        """Give free pages back to the file system; `done` gets whether there may be more."""
        batch = self._writer.batch
        batch.shrink = True
        batch.dones.append(lambda error: done(error is None and batch.shrunk))

    def _work(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._writer.batch.work.append(lambda db: _each(db, statement, rows))


def _each(db: sqlite3.Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    db.executemany(statement, rows)


def _lock(path: Path) -> int:
    """Lock the database against a second hub: two would allocate the same numbers."""
    # A lock of its own, because SQLite's is held per transaction only. `wirelake client add` and
    # the like need none: they allocate no notification numbers. The kernel releases the lock when
    # the process dies, however it dies.
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


def _file_bytes(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # the write-ahead log exists only after a write
        return 0


def _ignore(tokens: list[Any], error: HubError | None) -> None:
    """Ignore a batch: `appended` is not set."""


def _do_nothing() -> None:
    """Do nothing: `closing` is not set."""
