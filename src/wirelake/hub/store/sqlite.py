"""The database of one hub, in one SQLite file.

Operations are executed by the thread of the group commit, on the writer's connection. Reads run on
the event loop, on a second connection: each is bounded, and touches a few pages.

A lock file keeps a second hub out: two would allocate the same numbers. `wirelake client add` and
the like need no lock, because they allocate none.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ..errors import HubError
from ..numbers import next_number
from . import interface
from .appending import decide, with_due
from .interface import (
    LOOKED_AT,
    AccountKind,
    ClientRow,
    DeadRow,
    Entry,
    Followed,
    InboxRow,
    KeyRow,
    Lagging,
    LoadedClient,
    NewKey,
    Operation,
    Redriven,
    Size,
    Source,
    StoreError,
    Subscribed,
    SubscriberRow,
    SubscriptionRow,
    TopicRow,
    UserRow,
)
from .migrations import check, connect, shrink

__all__ = ["SqliteDatabase", "SqliteReader", "insert", "lock"]

Value = TypeVar("Value")
_Statement: TypeAlias = tuple[str, int, str]
"""Begin, number of columns, end."""

_CHECK_S: Final = 5.0
"""Maximum duration of the check of a database that has become smaller."""
_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_TOOBIG})
_ROWS: Final = 256
"""Maximum rows per statement. Row counts are powers of two, so that few statements are prepared."""

_LOG: Final = ("INSERT INTO log VALUES ", 7, "")
_KEYS: Final = ("INSERT OR REPLACE INTO publisher_keys VALUES ", 7, "")
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
_DELETE_DEAD: Final = ("DELETE FROM dead WHERE place IN (VALUES ", 1, ")")
_REFERENCED: Final = "SELECT 1 FROM dead WHERE dead.number = dead_log.number"
_DELETE_DEAD_CONTENT: Final = (
    f"DELETE FROM dead_log WHERE NOT EXISTS ({_REFERENCED}) AND number IN (VALUES ",
    1,
    ")",
)
# `SELECT FROM clients`: another process may have removed the client after it signed on. An inbox
# or a subscription without a client would stay for ever.
_SAVE_INBOX: Final = (
    "INSERT OR REPLACE INTO inboxes (client, cursor, state, needed) "
    "SELECT number, ?2, ?3, ?4 FROM clients WHERE number = ?1"
)
_SUBSCRIBE: Final = (
    "INSERT INTO subscriptions (client, topic, start, ack, check_at) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (client, topic) DO UPDATE SET ack = excluded.ack RETURNING start"
)
_REMOVE_PRIVATE: Final = (
    "INSERT OR IGNORE INTO removed_topics SELECT -?1 "
    "WHERE EXISTS (SELECT 1 FROM log WHERE target = -?1)"
)
"""The private log of a client that is removed: deleted like that of a topic."""
_SELECT_DEAD: Final = (
    "SELECT place, clients.id, dead.client, dead.number, reason, dead_ms, type, ts_ms, topic, "
    "content FROM dead JOIN dead_log USING (number) JOIN clients ON clients.number = dead.client "
)
_ENTRIES: Final = (
    "SELECT log.number, target, type, ts_ms, expires_ms, coalesce(topic, topics.name), content "
    "FROM log LEFT JOIN topics ON topics.number = target WHERE log.number IN "
)
_KEY: Final = (
    "SELECT publisher, key, digest, number, private, audience, expires_ms "
    "FROM publisher_keys WHERE key = ? AND expires_ms > ? "
    "AND (publisher = ? OR (publisher = '' AND digest = x'')) ORDER BY publisher DESC"
)
_LAST_EXPIRED: Final = (
    "SELECT expires_ms FROM publisher_keys WHERE expires_ms <= ? ORDER BY expires_ms "
    "LIMIT 1 OFFSET ?"
)
_COUNT_EXPIRED: Final = (
    "SELECT publisher, count(*) FROM publisher_keys WHERE expires_ms <= ? GROUP BY publisher"
)
_SUBSCRIBERS: Final = (
    "SELECT s.client, s.start, coalesce(i.cursor, 0), coalesce(i.state, x'') "
    "FROM subscriptions s LEFT JOIN inboxes i ON i.client = s.client WHERE s.topic = ? "
)
_NEEDED: Final = "max(coalesce(i.needed, 0), s.start + 1)"
_LOOKED_AT: Final = (
    "SELECT client FROM subscriptions WHERE topic = ? AND client > ? ORDER BY client "
    "LIMIT 1 OFFSET ?"
)
_END: Final = 1 << 62
"""Higher than any number."""
_PROBE: Final = (
    "SELECT (SELECT max(number) FROM clients), (SELECT max(number) FROM topics), "
    "(SELECT max(client) FROM subscriptions), (SELECT max(client) FROM inboxes), "
    "(SELECT max(number) FROM log), (SELECT max(expires_ms) FROM log)"
)
"""Reads a path through each table: a few pages, whatever the size of the file."""


class _Reads:
    """The reads of a `Database`."""

    _db: sqlite3.Connection

    def __init__(self, path: Path):
        self._path = path
        self.missed: list[Entry] = []
        """Always empty: there is no other hub."""

    def check(self) -> None:
        """Read something from each table."""
        self._read(_PROBE)

    def size(self) -> Size:
        """Return how much space the database takes."""
        free = self._one("PRAGMA freelist_count")[0] * self._one("PRAGMA page_size")[0]
        return Size(_file_bytes(self._path), _file_bytes(f"{self._path}-wal"), free)

    def follow(self, limit: int) -> Followed:  # noqa: ARG002
        """Return nothing: there is no other hub."""
        return Followed([], self.last_number(), more=False)

    def last_number(self) -> int:
        """Return the last number that was allocated."""
        return self._mark("number")

    def last_transient(self) -> int:
        """Return what was saved with `SaveTransient`."""
        return self._mark("transient")

    def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Return the client with this id."""
        query = f"SELECT {_columns(ClientRow)} FROM clients WHERE id = ?"
        row = self._one(query, (_lookup(id),))
        return None if row is None else ClientRow(*row)

    def user(self, token: bytes) -> UserRow | None:
        """Return the user with this token or old token."""
        row = self._one(
            f"SELECT {_columns(UserRow)} FROM users WHERE token = ?1"
            " OR old_token = ?1 AND old_token <> x''",
            (token,),
        )
        return None if row is None else UserRow(*row)

    def accounts(self, kind: AccountKind) -> list[Any]:
        """Return all clients or users by id."""
        if kind == "user":
            rows = self._read(f"SELECT {_columns(UserRow)} FROM users ORDER BY id")
            return [UserRow(*row) for row in rows]
        rows = self._read(
            f"SELECT {_columns(ClientRow)} FROM clients WHERE token > x'' ORDER BY id"
        )
        return [ClientRow(*row) for row in rows]

    def claimed(self, clients: Sequence[int]) -> list[int]:
        """Return all of these clients: there is no other hub."""
        return list(clients)

    def temporary(self) -> list[str]:
        """Return the ids of clients that were added by `Subscribe`."""
        return [id_ for (id_,) in self._read("SELECT id FROM clients WHERE token = x''")]

    def marked_clients(self) -> int:
        """Return the number of clients that have the mark of an issuer in place of a hash."""
        query = f"SELECT count(*) FROM clients WHERE length(token) > {interface.TOKEN_HASH_BYTES}"
        return int(self._one(query)[0])

    def clients_with(self, ids: Sequence[str]) -> list[ClientRow]:
        """Return those of these clients that exist."""
        query = f"SELECT {_columns(ClientRow)} FROM clients WHERE id IN "
        rows = self._select_in(query, map(_lookup, ids))
        return [ClientRow(*row) for row in rows]

    def load_client(self, client: int) -> LoadedClient:
        """Return the inbox and the subscriptions of a client."""
        found = self._one(f"SELECT {_columns(ClientRow)} FROM clients WHERE number = ?", (client,))
        inbox = self._one(f"SELECT {_columns(InboxRow)} FROM inboxes WHERE client = ?", (client,))
        rows = self._read(
            "SELECT topic, name, start, ack FROM subscriptions JOIN topics ON number = topic "
            "WHERE client = ? ORDER BY topic",
            (client,),
        )
        subscriptions = [
            SubscriptionRow(topic, name, start, bool(ack)) for topic, name, start, ack in rows
        ]
        return LoadedClient(
            None if found is None else ClientRow(*found),
            None if inbox is None else InboxRow(*inbox),
            subscriptions,
        )

    def client_page(self, offset: int, limit: int) -> tuple[int, list[ClientRow]]:
        """Return the number of clients, and some of them by number."""
        rows = self._read(
            f"SELECT {_columns(ClientRow)} FROM clients ORDER BY number LIMIT ? OFFSET ?",
            (limit, offset),
        )
        return self._mark("clients"), [ClientRow(*row) for row in rows]

    def topic(self, name: str) -> TopicRow | None:
        """Return a topic."""
        query = f"SELECT {_columns(TopicRow)} FROM topics WHERE name = ?"
        row = self._one(query, (_lookup(name),))
        return None if row is None else TopicRow(*row)

    def topics(self, after: int, limit: int) -> list[int]:
        """Return topics by number, those with higher numbers than this, ascending."""
        rows = self._read(
            "SELECT number FROM topics WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
        )
        return [number for (number,) in rows]

    def topic_page(self, offset: int, limit: int) -> tuple[int, list[TopicRow]]:
        """Return the number of topics, and some of them by number."""
        rows = self._read(
            f"SELECT {_columns(TopicRow)} FROM topics ORDER BY number LIMIT ? OFFSET ?",
            (limit, offset),
        )
        return self._mark("topics"), [TopicRow(*row) for row in rows]

    def has_removed_topics(self) -> bool:
        """Return whether there is something to do for `RemoveTopics`."""
        return self._one("SELECT 1 FROM removed_topics LIMIT 1") is not None

    def numbers(self, sources: Sequence[Source], up_to: int, limit: int) -> list[int]:
        """Return the lowest numbers of these sources, up to a number, ascending."""
        # One range of the index for each source, and then a merge: SQL without LATERAL would read
        # all rows of each topic, however few are asked for.
        found: list[int] = []
        for target, after in sources:
            rows = self._read(
                "SELECT number FROM log INDEXED BY log_target "
                "WHERE target = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?",
                (target, after, up_to, limit),
            )
            found.extend(number for (number,) in rows)
        found.sort()
        return found[:limit]

    def count(self, sources: Sequence[Source], up_to: int) -> int:
        """Return how many notifications these sources have, up to a number."""
        return sum(
            self._one(
                "SELECT count(*) FROM log INDEXED BY log_target "
                "WHERE target = ? AND number > ? AND number <= ?",
                (target, after, up_to),
            )[0]
            for target, after in sources
        )

    def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """Return these rows of the log in order, without those that were deleted."""
        rows = self._select_in(_ENTRIES, numbers)
        return sorted(Entry(*row) for row in rows)

    def targets(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the targets of these rows of the log, by number."""
        return dict(self._select_in("SELECT number, target FROM log WHERE number IN ", numbers))

    def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Return number and target of expired rows, by their expiry."""
        return self._read(
            "SELECT number, target FROM log WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?",
            (now_ms, limit),
        )

    def lagging(self, topic: int, up_to: int, after: int, limit: int) -> Lagging:
        """Return subscribers that may still need a notification up to a number, by client."""
        # The last one that is looked at first: among a million, the next that lags behind may be
        # far away.
        until = self._one(_LOOKED_AT, (topic, after, LOOKED_AT - 1))
        rows = self._read(
            f"{_SUBSCRIBERS} AND s.client > ? AND s.client <= ? AND {_NEEDED} <= ? "
            "ORDER BY s.client LIMIT ?",
            (topic, after, _END if until is None else until[0], up_to, limit),
        )
        found = [SubscriberRow(*row) for row in rows]
        if len(found) == limit:
            return Lagging(found, found[-1].client)
        return Lagging(found, 0 if until is None else until[0])

    def needed(self, topic: int, after: int, limit: int) -> tuple[int, int | None]:
        """Return the last of the next subscribers, and the lowest number that they need."""
        count, last, lowest = self._one(
            "SELECT count(*), max(client), min(needed) FROM ("
            f"SELECT s.client, {_NEEDED} AS needed FROM subscriptions s "
            "LEFT JOIN inboxes i ON i.client = s.client "
            "WHERE s.topic = ? AND s.client > ? ORDER BY s.client LIMIT ?)",
            (topic, after, limit),
        )
        return (last if count == limit else 0), lowest

    def due(self, topic: int, limit: int) -> list[int]:
        """Return subscribers whose backlog has to be counted."""
        rows = self._read(
            "SELECT client FROM subscriptions WHERE topic = ?1 AND check_at <= "
            "(SELECT appended FROM topics WHERE number = ?1) LIMIT ?2",
            (topic, limit),
        )
        return [client for (client,) in rows]

    def checks(self, client: int) -> list[tuple[int, int, int]]:
        """Return when a client's subscriptions are due."""
        return self._read(
            "SELECT topic, appended, check_at FROM subscriptions JOIN topics ON number = topic "
            "WHERE client = ?",
            (client,),
        )

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
        # The places first: rows are sorted with all of their columns, and the contents of all dead
        # letters of a client may be a gigabyte.
        rows = self._read(
            f"{_SELECT_DEAD} WHERE place IN (SELECT place FROM dead {where}"
            "ORDER BY dead_ms DESC, place DESC LIMIT ?) ORDER BY dead_ms DESC, place DESC",
            (*values, limit),
        )
        return [DeadRow(*row) for row in rows]

    def _mark(self, name: str) -> int:
        row = self._one("SELECT value FROM marks WHERE name = ?", (name,))
        return 0 if row is None else int(row[0])

    def _select_in(self, statement: str, values: Iterable[Any]) -> list[Any]:
        """Run a statement that ends with IN, for some values at a time."""
        found: list[Any] = []
        left = list(values)
        for at in range(0, len(left), _ROWS):
            some = left[at : at + _ROWS]
            found += self._read(f"{statement} ({','.join('?' * len(some))})", some)
        return found

    def _one(self, statement: str, values: Sequence[Any] = ()) -> Any:
        rows = self._read(statement, values)
        return rows[0] if rows else None

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        raise NotImplementedError


class SqliteReader(_Reads):
    """A connection that only reads."""

    def __init__(self, path: Path):
        super().__init__(path)
        self._db = connect(path, reader=True)
        self._file = DatabaseFile(path)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def check(self) -> None:
        """Read something from each table; StoreError when the file was removed or replaced."""
        self._file.check()
        super().check()

    def write(self, operations: Sequence[Operation[Any]]) -> list[Any]:  # noqa: ARG002
        """Refuse: a bug must not turn a read on the loop into a write that waits for the disk."""
        raise TypeError("this connection only reads")

    def shrink(self) -> bool:
        """Do nothing."""
        return False

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise HubError("storage_failed", "cannot read the store") from error


class SqliteDatabase(_Reads):
    """A connection that reads and writes."""

    def __init__(self, path: Path, synchronous: Literal["full", "normal"] = "full"):
        super().__init__(path)
        self._synchronous: Literal["full", "normal"] = synchronous
        self._connection: sqlite3.Connection | None = connect(path, synchronous=synchronous)
        self._db = self._connection
        self._file = DatabaseFile(path)
        self._last = 0
        self._writing = False
        """Whether a batch is executed."""
        self._execute: dict[type, Callable[[list[Any]], list[Any]]] = {
            interface.Append: self._append,
            interface.Subscribe: _each(self._subscribe),
            interface.Unsubscribe: _each(self._unsubscribe),
            interface.Claim: _each(self._claim),
            interface.Release: _each(_ignore),
            interface.Notify: _each(_ignore),
            interface.SaveInboxes: _each(self._save_inboxes),
            interface.Delete: _each(self._delete),
            interface.DeleteAcked: _each(self._delete_acked),
            interface.AddDeadLetters: _each(self._add_dead_letters),
            interface.Redrive: _each(self._redrive),
            interface.RemoveTopics: _each(self._remove_topics),
            interface.SetChecks: _each(self._set_checks),
            interface.SaveTransient: _each(self._save_transient),
            interface.RemoveKeys: _each(self._remove_keys),
            interface.ExpireKeys: _each(self._expire_keys),
            interface.PruneDeadLetters: _each(self._prune_dead_letters),
            interface.AddAccount: _each(self._add_account),
            interface.RotateAccount: _each(self._rotate_account),
            interface.RemoveAccount: _each(self._remove_account),
        }

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def shrink(self) -> bool:
        """Give free space back to the file system; return whether there may be more."""
        return shrink(self._connected())

    def check(self) -> None:
        """Read something from each table; StoreError when the file was removed or replaced."""
        self._file.check()
        super().check()

    def write(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Execute operations in order, in one transaction; return their results."""
        try:
            db = self._connected()
            # IMMEDIATE: takes the write lock now, and waits for another process if it has it. A
            # transaction that starts with a read would fail instead of waiting.
            db.execute("BEGIN IMMEDIATE")
            self._writing = True
            try:
                results = self._run(operations)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # SQLite has rolled back itself after some errors
                    db.execute("ROLLBACK")
                raise
            finally:
                self._writing = False
            self._file.written()
        except Exception as error:
            raise self._failed(error) from error
        return results

    def _run(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        self._last = last = self._mark("number")
        results: list[Any] = []
        for kind, some in groupby(operations, type):
            results += self._execute[kind](list(some))
        if self._last != last:
            self._set_mark("number", self._last)
        return results

    def _connected(self) -> sqlite3.Connection:
        was_cut = self._file.was_cut()
        if was_cut and self._connection is not None:  # it has pages in its cache that are lost
            self._connection.close()
            self._connection = None
        if self._connection is None:
            # Never a new file: the hub would go on without what it has confirmed.
            self._connection = connect(self._path, synchronous=self._synchronous, create=False)
            self._db = self._connection
        if was_cut:
            check(self._connection, self._path, _CHECK_S)
        return self._connection

    def _failed(self, error: Exception) -> HubError:
        full = getattr(error, "sqlite_errorcode", 0) & 0xFF in _FULL
        # When it is full, the connection is usable: the next batch may fit, after a deletion.
        # Otherwise its state is unknown, and the next batch opens a new one.
        if not full and self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        return HubError("storage_full" if full else "storage_failed")

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        if self._writing:  # an error ends the batch
            return self._db.execute(statement, values).fetchall()
        try:
            return self._connected().execute(statement, values).fetchall()
        except (sqlite3.Error, StoreError, OSError) as error:
            raise HubError("storage_failed", "cannot read the store") from error

    # -- publishing --------------------------------------------------------------------------

    def _next_number(self, now_ms: int) -> int:
        self._last = next_number(self._last, now_ms)
        return self._last

    def _append(self, operations: list[interface.Append]) -> list[Any]:
        topics: dict[str, tuple[int, int]] = {
            name: (number, subscribers)
            for name, number, subscribers in self._select_in(
                "SELECT name, number, subscribers FROM topics WHERE name IN ",
                {_lookup(each.topic) for each in operations if each.topic is not None},
            )
        }
        clients: dict[str, int] = dict(
            self._select_in(
                "SELECT id, number FROM clients WHERE id IN ",
                {_lookup(each.client) for each in operations if each.client is not None},
            )
        )
        decided = decide(operations, topics, clients, self._key, self._last)
        self._last = decided.last
        insert(self._db, _LOG, decided.rows)
        insert(self._db, _KEYS, [(row[0], _key_value(row.key), *row[2:]) for row in decided.keys])
        counts = decided.counts
        due = {target for target in counts if target > 0 and self._add(target, counts[target])}
        return with_due(decided.results, due)

    def _add(self, topic: int, count: int) -> bool:
        """Count appended notifications; return whether backlogs have to be counted."""
        ((appended,),) = self._read(
            "UPDATE topics SET appended = appended + ? WHERE number = ? RETURNING appended",
            (count, topic),
        )
        return bool(
            self._read(
                "SELECT 1 FROM subscriptions WHERE topic = ? AND check_at <= ? LIMIT 1",
                (topic, appended),
            )
        )

    def _key(self, key: NewKey, now_ms: int) -> KeyRow | None:
        row = self._one(_KEY, (_key_value(key.key), now_ms, key.publisher))
        return None if row is None else KeyRow(*row)._replace(key=key.key, private=bool(row[4]))

    # -- subscriptions -----------------------------------------------------------------------

    def _subscribe(self, operation: interface.Subscribe) -> Subscribed | HubError:
        client = operation.client
        if client and not self._read("SELECT 1 FROM clients WHERE number = ?", (client,)):
            return HubError("auth_required", "the client was removed")
        names = list(dict.fromkeys(operation.names))
        known = {
            row[1]: TopicRow(*row)
            for row in self._select_in(
                f"SELECT {_columns(TopicRow)} FROM topics WHERE name IN ", names
            )
        }
        new = [name for name in names if name not in known]
        if new and self._mark("topics") + len(new) > operation.max_topics:
            return HubError("too_busy", "too many topics on this hub")
        for name in new:
            number = self._mark("topic") + 1
            self._set_mark("topic", number)
            self._db.execute("INSERT INTO topics VALUES (?, ?, 0, 0)", (number, name))
            known[name] = TopicRow(number, name, 0, 0)
        if new:
            self._add_to_mark("topics", len(new))
        if not client:
            client = self._add_temporary(operation.id)
        held = {
            topic
            for (topic,) in self._read(
                "SELECT topic FROM subscriptions WHERE client = ?", (client,)
            )
        }
        rows: list[SubscriptionRow] = []
        for name in names:
            topic = known[name]
            check_at = topic.appended + operation.allowance + 1
            ((start,),) = self._read(
                _SUBSCRIBE, (client, topic.number, self._last, operation.ack, check_at)
            )
            if topic.number not in held:
                self._db.execute(
                    "UPDATE topics SET subscribers = subscribers + 1 WHERE number = ?",
                    (topic.number,),
                )
            rows.append(SubscriptionRow(topic.number, name, start, operation.ack))
        return Subscribed(client, rows)

    def _add_temporary(self, id: str) -> int:  # noqa: A002
        """Return the client of a connection without sign-on; add it with the first request."""
        known = self._one("SELECT number FROM clients WHERE id = ? AND token = x''", (id,))
        if known is not None:
            return int(known[0])
        self._add_to_mark("clients", 1)
        ((number,),) = self._read(
            "INSERT INTO clients (id, token, created_ms) VALUES (?, x'', ?) RETURNING number",
            (id, time.time_ns() // 1_000_000),
        )
        return int(number)

    def _unsubscribe(self, operation: interface.Unsubscribe) -> None:
        for topic in operation.topics:
            done = self._db.execute(
                "DELETE FROM subscriptions WHERE client = ? AND topic = ?",
                (operation.client, topic),
            )
            if done.rowcount:
                self._lost_subscriber(topic)

    def _lost_subscriber(self, topic: int) -> None:
        rows = self._read(
            "UPDATE topics SET subscribers = subscribers - 1 WHERE number = ? "
            "RETURNING subscribers",
            (topic,),
        )
        if rows and rows[0][0] <= 0:
            self._db.execute("DELETE FROM topics WHERE number = ?", (topic,))
            self._db.execute("INSERT OR IGNORE INTO removed_topics VALUES (?)", (topic,))
            self._add_to_mark("topics", -1)

    def _remove_topics(self, operation: interface.RemoveTopics) -> int:
        deleted = 0
        while deleted < operation.limit:
            rows = self._read("SELECT number FROM removed_topics LIMIT 1")
            if not rows:
                break
            room = operation.limit - deleted
            count = self._delete_rows(rows[0][0], 1 << 62, room)
            deleted += count
            if count < room:
                self._db.execute("DELETE FROM removed_topics WHERE number = ?", rows[0])
        return deleted

    def _set_checks(self, operation: interface.SetChecks) -> None:
        self._db.executemany(
            "UPDATE subscriptions SET check_at = ?3 WHERE client = ?1 AND topic = ?2",
            operation.rows,
        )

    # -- delivery ----------------------------------------------------------------------------

    def _claim(self, operation: interface.Claim) -> LoadedClient:
        return self.load_client(operation.client)

    def _save_inboxes(self, operation: interface.SaveInboxes) -> tuple[int, ...]:
        self._db.executemany(_SAVE_INBOX, operation.rows)
        return ()

    def _delete(self, operation: interface.Delete) -> None:
        insert(self._db, _DELETE, [(number,) for number in operation.numbers])

    def _delete_acked(self, operation: interface.DeleteAcked) -> int:
        return self._delete_rows(operation.target, operation.below, operation.limit)

    def _delete_rows(self, target: int, below: int, limit: int) -> int:
        return self._db.execute(
            "DELETE FROM log WHERE number IN (SELECT number FROM log INDEXED BY log_target "
            "WHERE target = ? AND number < ? ORDER BY number LIMIT ?)",
            (target, below, limit),
        ).rowcount

    # -- dead letters ------------------------------------------------------------------------

    def _add_dead_letters(self, operation: interface.AddDeadLetters) -> int:
        # The content is copied before the row of the log is deleted. A crash leaves either the
        # notification or its dead letters.
        targets = self.targets(sorted({each[1] for each in operation.letters}))
        clients = {
            number
            for (number,) in self._select_in(
                "SELECT number FROM clients WHERE number IN ",
                sorted({each[0] for each in operation.letters}),
            )
        }
        letters = [each for each in operation.letters if each[0] in clients and each[1] in targets]
        numbers = sorted({each[1] for each in letters})
        insert(self._db, _DEAD_CONTENT, [(number,) for number in numbers])
        before = self._db.total_changes
        insert(self._db, _DEAD, letters)
        added = self._db.total_changes - before
        private = {each[1] for each in letters if targets[each[1]] == -each[0]}
        insert(
            self._db, _DELETE, [(number,) for number in sorted(private.union(operation.deleted))]
        )
        return added

    def _redrive(self, operation: interface.Redrive) -> list[Redriven]:
        rows = self._select_in(f"{_SELECT_DEAD} WHERE place IN ", operation.places)
        letters = sorted((DeadRow(*row) for row in rows), key=lambda row: (row.dead_ms, row.place))
        found: list[Redriven] = []
        for each in letters:
            entry = Entry(
                self._next_number(operation.now_ms),
                -each.client_number,
                each.type,
                each.ts_ms,
                operation.expires_ms,
                each.topic,
                each.content,
            )
            found.append(Redriven(each.client, entry))
        insert(self._db, _LOG, [each.entry for each in found])
        self._delete_letters([(each.place, each.number) for each in letters])
        return found

    def _prune_dead_letters(self, operation: interface.PruneDeadLetters) -> None:
        old = self._read("SELECT place, number FROM dead WHERE dead_ms < ?", (operation.before_ms,))
        self._delete_letters(old)
        self._delete_letters(
            self._read(
                "SELECT place, number FROM dead ORDER BY dead_ms, place "
                "LIMIT max(0, (SELECT count(*) FROM dead) - ?)",
                (operation.keep,),
            )
        )

    def _delete_letters(self, rows: Sequence[tuple[int, int]]) -> None:
        """Delete dead letters (place, number), and contents that no other has."""
        insert(self._db, _DELETE_DEAD, [(place,) for place, _ in rows])
        numbers = sorted({number for _, number in rows})
        insert(self._db, _DELETE_DEAD_CONTENT, [(number,) for number in numbers])

    # -- idempotency keys --------------------------------------------------------------------

    def _remove_keys(self, operation: interface.RemoveKeys) -> None:
        self._db.execute("DELETE FROM publisher_keys WHERE publisher = ?", (operation.publisher,))

    def _expire_keys(self, operation: interface.ExpireKeys) -> Mapping[str, int]:
        # By time, so that the index on it finds them: about `limit` of the oldest.
        found = self._one(_LAST_EXPIRED, (operation.now_ms, operation.limit - 1))
        until = (operation.now_ms,) if found is None else found
        deleted = dict(self._read(_COUNT_EXPIRED, until))
        self._db.execute("DELETE FROM publisher_keys WHERE expires_ms <= ?", until)
        return deleted

    # -- accounts ----------------------------------------------------------------------------

    def _add_account(self, operation: interface.AddAccount) -> int | HubError:
        id_, token, created_ms, expires_ms = (
            operation.id,
            operation.token,
            operation.created_ms,
            operation.expires_ms,
        )
        if self._read(f"SELECT 1 FROM {operation.kind}s WHERE id = ?", (id_,)):
            return HubError("conflict")
        if operation.kind == "user":
            self._db.execute(
                "INSERT INTO users (id, role, token, created_ms, expires_ms) "
                "VALUES (?, ?, ?, ?, ?)",
                (id_, operation.role, token, created_ms, expires_ms),
            )
            return 0
        self._add_to_mark("clients", 1)
        ((number,),) = self._read(
            "INSERT INTO clients (id, token, created_ms, expires_ms) VALUES (?, ?, ?, ?) "
            "RETURNING number",
            (id_, token, created_ms, expires_ms),
        )
        return int(number)

    def _rotate_account(self, operation: interface.RotateAccount) -> bool:
        done = self._db.execute(
            f"UPDATE {operation.kind}s SET token = ?1, expires_ms = ?2, "
            "old_token = CASE WHEN ?3 > 0 THEN token ELSE x'' END, "
            "old_expires_ms = CASE WHEN expires_ms > 0 THEN min(expires_ms, ?3) ELSE ?3 END "
            "WHERE id = ?4 AND token <> x''",
            (operation.token, operation.expires_ms, operation.until_ms, _lookup(operation.id)),
        )
        return done.rowcount > 0

    def _remove_account(self, operation: interface.RemoveAccount) -> bool:
        if operation.kind == "user":
            done = self._db.execute("DELETE FROM users WHERE id = ?", (_lookup(operation.id),))
            return done.rowcount > 0
        row = self._one("SELECT number FROM clients WHERE id = ?", (_lookup(operation.id),))
        if row is None:
            return False
        for (topic,) in self._read("SELECT topic FROM subscriptions WHERE client = ?", row):
            self._lost_subscriber(topic)
        for statement in (
            "DELETE FROM clients WHERE number = ?",
            "DELETE FROM subscriptions WHERE client = ?",
            "DELETE FROM inboxes WHERE client = ?",
            _REMOVE_PRIVATE,
        ):
            self._db.execute(statement, row)
        self._delete_letters(self._read("SELECT place, number FROM dead WHERE client = ?", row))
        self._add_to_mark("clients", -1)
        self._db.execute("DELETE FROM publisher_keys WHERE publisher = ?", (operation.id,))
        return True

    # -- marks -------------------------------------------------------------------------------

    def _save_transient(self, operation: interface.SaveTransient) -> None:
        self._set_mark("transient", operation.number)

    def _set_mark(self, name: str, value: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))

    def _add_to_mark(self, name: str, change: int) -> None:
        self._set_mark(name, self._mark(name) + change)


def _ignore(operation: Operation[Any]) -> None:
    """Do nothing: there is no other hub."""


def _each(method: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda operations: [method(each) for each in operations]


def _lookup(text: str) -> str:
    """Return a name to look up; empty, which is no name, for one that is not valid Unicode.

    Ids come from peers: one that SQLite cannot store must not fail a whole batch.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return ""
    return text


def _key_value(key: str) -> str | bytes:
    """Return what is stored of an idempotency key: bytes for one that is not valid Unicode."""
    return key if _lookup(key) == key else key.encode("utf-8", "surrogatepass")


@lru_cache
def _columns(row: type[Any]) -> str:
    return ", ".join(row._fields)


def insert(db: sqlite3.Connection, statement: _Statement, rows: Sequence[Sequence[Any]]) -> None:
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


def lock(path: Path) -> Callable[[], None]:
    """Lock the database against a second hub; return the function that unlocks it."""
    # A lock of its own, because SQLite's is held per transaction only. The kernel releases it when
    # the process dies, however it dies.
    try:
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; create the data directory first") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StoreError(
            f"{path}: in use by another hub; stop that one, or choose another --data"
        ) from None
    return lambda: os.close(handle)


def _file_bytes(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # the write-ahead log exists only after a write
        return 0
