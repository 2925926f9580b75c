"""Reading the store in SQLite, on the loop's thread.

Reads are bounded and go by a primary key or an index, so each takes microseconds: one client, one
key, at most a page of the log. Only `topics`, `subscriptions`, `clients` and `index` read whole
tables; they are for the start, and `clients` for SIGHUP too. A write under way blocks no read.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ..errors import HubError
from .batch import KeyRow
from .files import connect
from .migrations import StoreError
from .rows import (
    ClientRow,
    DeadRow,
    Entry,
    InboxRow,
    SubscriptionRow,
)

__all__ = ["Reader"]

_log = logging.getLogger(__name__)
_DEAD: Final = (
    "SELECT place, clients.id, dead.client, dead.number, reason, dead_ms, type, ts_ms, topic, "
    "content FROM dead JOIN dead_log USING (number) JOIN clients ON clients.number = dead.client "
)
_ENTRIES: Final = (
    "SELECT log.number, target, type, ts_ms, expires_ms, coalesce(topic, topics.name), content "
    "FROM log LEFT JOIN topics ON topics.number = target WHERE log.number IN "
)


class Reader:
    """What can be read; HubError `storage_failed` when it cannot."""

    def __init__(self, path: Path):
        self._db = connect(path, reader=True)

    def close_reader(self) -> None:
        """Reads no more."""
        self._db.close()

    def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Who has this id, now."""
        row = self._one("SELECT number, id, token, created_ms FROM clients WHERE id = ?", (id,))
        return None if row is None else ClientRow(*row)

    def clients(self) -> list[ClientRow]:
        """Everybody."""
        rows = self._read("SELECT number, id, token, created_ms FROM clients")
        return [ClientRow(*row) for row in rows]

    def last_number(self) -> int:
        """No number up to this one may be given out again."""
        row = self._one(
            "SELECT max(coalesce((SELECT max(number) FROM log), 0), "
            "coalesce((SELECT max(number) FROM dead_log), 0), "
            "coalesce((SELECT max(number) FROM keys), 0), "
            "coalesce((SELECT max(start) FROM subscriptions), 0), "
            "coalesce((SELECT max(cursor) FROM inboxes), 0), "
            "coalesce((SELECT value FROM marks WHERE name = 'number'), 0))"
        )
        return 0 if row is None else int(row[0])

    def topics(self) -> list[tuple[int, str]]:
        """Topics and their numbers."""
        return self._read("SELECT number, name FROM topics")

    def subscriptions(self) -> list[SubscriptionRow]:
        """All subscriptions of clients that are there."""
        rows = self._read(
            "SELECT client, topic, start, ack FROM subscriptions "
            "WHERE client IN (SELECT number FROM clients)"
        )
        return [
            SubscriptionRow(client, topic, start, bool(ack)) for client, topic, start, ack in rows
        ]

    def inbox(self, client: int) -> InboxRow | None:
        """How far a client has come."""
        row = self._one("SELECT client, cursor, state FROM inboxes WHERE client = ?", (client,))
        return None if row is None else InboxRow(*row)

    def index(self) -> Iterator[tuple[int, int]]:
        """Target and number of everything in the log, in no order; reads an index alone."""
        try:
            yield from self._db.execute("SELECT target, number FROM log INDEXED BY log_expiry")
        except sqlite3.Error as error:
            raise StoreError(f"the store cannot be read: {error}; restore a backup") from error

    def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """These rows of the log, in order; those that are gone are left out."""
        if not numbers:
            return []
        marks = ",".join("?" * len(numbers))
        rows = self._read(f"{_ENTRIES} ({marks}) ORDER BY log.number", numbers)
        return [Entry(*row) for row in rows]

    def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Number and target of rows whose time is over."""
        return self._read(
            "SELECT number, target FROM log WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?",
            (now_ms, limit),
        )

    def key(self, key: str, now_ms: int) -> KeyRow | None:
        """What was published with this key."""
        row = self._one(
            "SELECT key, number, private, audience, expires_ms FROM keys "
            "WHERE key = ? AND expires_ms > ?",
            (key, now_ms),
        )
        return None if row is None else (row[0], row[1], bool(row[2]), row[3], row[4])

    def dead(
        self, limit: int, client: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[DeadRow]:
        """Dead letters, the newest first."""
        wanted: list[str] = []
        values: list[Any] = []
        if client is not None:
            wanted.append("dead.client = ?")
            values.append(client)
        if numbers is not None:
            wanted.append(f"dead.number IN ({','.join('?' * len(numbers))})")
            values.extend(numbers)
        where = f"WHERE {' AND '.join(wanted)} " if wanted else ""
        rows = self._read(
            f"{_DEAD}{where}ORDER BY dead_ms DESC, place DESC LIMIT ?", (*values, limit)
        )
        return [DeadRow(*row) for row in rows]

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            _log.error("the store could not be read: %s", error)
            raise HubError("storage_failed", "the store cannot be read") from error

    def _one(self, statement: str, values: Sequence[Any] = ()) -> Any:
        rows = self._read(statement, values)
        return rows[0] if rows else None
