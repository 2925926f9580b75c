"""Reads of the SQLite store, on the event loop.

Reads are bounded and use a primary key or an index, so each takes microseconds: one client, one
key, at most a page of the log. Only `topics`, `subscriptions`, `clients` and `index` read whole
tables; they are for the start, and `clients` also for SIGHUP. In WAL mode a write blocks no read.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ..errors import HubError
from .files import connect
from .interface import ClientRow, DeadRow, Entry, InboxRow, KeyRow, SubscriptionRow
from .migrations import StoreError

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
    """The reads of `Store`; HubError `storage_failed` when the database cannot be read."""

    def __init__(self, path: Path):
        self._db = connect(path, reader=True)

    def close_reader(self) -> None:
        """Close the connection for reads."""
        self._db.close()

    def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Return the client with this id."""
        row = self._one("SELECT number, id, token, created_ms FROM clients WHERE id = ?", (id,))
        return None if row is None else ClientRow(*row)

    def clients(self) -> list[ClientRow]:
        """Return all clients."""
        rows = self._read("SELECT number, id, token, created_ms FROM clients")
        return [ClientRow(*row) for row in rows]

    def last_number(self) -> int:
        """Return the last number that may have been allocated."""
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
        try:
            yield from self._db.execute("SELECT target, number FROM log INDEXED BY log_expiry")
        except sqlite3.Error as error:
            raise StoreError(f"cannot read the store: {error}; restore a backup") from error

    def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """Return these rows of the log in order, without those that were deleted."""
        if not numbers:
            return []
        marks = ",".join("?" * len(numbers))
        rows = self._read(f"{_ENTRIES} ({marks}) ORDER BY log.number", numbers)
        return [Entry(*row) for row in rows]

    def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Return number and target of expired rows."""
        return self._read(
            "SELECT number, target FROM log WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?",
            (now_ms, limit),
        )

    def key(self, key: str, now_ms: int) -> KeyRow | None:
        """Return what was published with this key."""
        row = self._one(
            "SELECT key, number, private, audience, expires_ms FROM keys "
            "WHERE key = ? AND expires_ms > ?",
            (key, now_ms),
        )
        return None if row is None else (row[0], row[1], bool(row[2]), row[3], row[4])

    def dead(
        self, limit: int, client: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[DeadRow]:
        """Return dead letters, newest first."""
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
            _log.error("could not read the store: %s", error)
            raise HubError("storage_failed", "cannot read the store") from error

    def _one(self, statement: str, values: Sequence[Any] = ()) -> Any:
        rows = self._read(statement, values)
        return rows[0] if rows else None
