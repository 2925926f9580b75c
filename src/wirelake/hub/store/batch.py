"""What is written together: everything that was asked for since the last commit.

Rows of one table go in with few statements of many rows each. A statement gives up Python's lock
and has to get it back, for which it waits behind the event loop; sixty-four statements of one row
would wait sixty-four times.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ..errors import HubError

__all__ = ["Batch", "Done", "KeyRow", "LogRow", "Work", "insert"]

LogRow: TypeAlias = tuple[int, int, int, int, int, str | None, bytes]
"""number, target, type, ts_ms, expires_ms, topic (nearly always None), content."""
KeyRow: TypeAlias = tuple[str, int, bool, int, int]
"""key, number, private, audience, expires_ms."""
Done: TypeAlias = Callable[[HubError | None], None]
"""Called on the loop when something is on disk, or why it is not."""
Work: TypeAlias = Callable[[sqlite3.Connection], None]
"""Statements that are not worth collecting."""

_ROWS: Final = 256
"""Rows of the longest statement. Statements have lengths that are powers of two, so that few are
prepared."""

_LOG: Final = ("INSERT INTO log VALUES ", 7, "")
_KEYS: Final = ("INSERT OR REPLACE INTO keys VALUES ", 5, "")
_TOPICS: Final = ("INSERT OR REPLACE INTO topics VALUES ", 2, "")
_INBOXES: Final = ("INSERT OR REPLACE INTO inboxes VALUES ", 3, "")


class Batch:
    """What one transaction writes."""

    __slots__ = ("dones", "inboxes", "keys", "log", "tokens", "topics", "work")

    def __init__(self) -> None:
        self.log: list[LogRow] = []
        self.tokens: list[Any] = []
        """One for each row of the log; they go back to whoever appended it."""
        self.keys: list[KeyRow] = []
        self.topics: list[tuple[int, str]] = []
        self.inboxes: dict[int, tuple[int, int, bytes]] = {}
        """By client: the last state wins."""
        self.work: list[Work] = []
        self.dones: list[Done] = []

    def __bool__(self) -> bool:
        return bool(self.log or self.work or self.inboxes or self.keys or self.topics or self.dones)

    def write(self, db: sqlite3.Connection) -> None:
        """Writes all of it in one transaction, or nothing."""
        db.execute("BEGIN IMMEDIATE")
        try:
            for work in self.work:
                work(db)
            insert(db, _TOPICS, self.topics)  # after work, which may have removed the name
            insert(db, _LOG, self.log)
            insert(db, _KEYS, self.keys)
            insert(db, _INBOXES, tuple(self.inboxes.values()))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def insert(
    db: sqlite3.Connection, statement: tuple[str, int, str], rows: Sequence[Sequence[Any]]
) -> None:
    """Runs a statement over rows, many at a time: its beginning, its columns, its end."""
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
