"""The database of hubs in PostgreSQL.

A batch of operations is one transaction. Operations of the same kind that follow each other are
executed together: first what they depend on is read, then their results are computed here, then all
rows are written with one statement per table (`unnest`). Statements are sent in a pipeline, without
waiting for each other: a batch of a thousand publishes takes two round trips, and the second ends
with the commit. (COPY cannot be part of a pipeline.)

Batches that append to the log, or change what an append depends on, begin with the lock of the one
row of `log_tail`. So they are executed one after the other, whichever hub they come from, and the
order of numbers is the order of commits. With the lock, a hub reads what others have appended since
it last did: it knows everything below the numbers that it allocates. Batches of the sweep
(acknowledged rows, inboxes, expired keys) take no lock and delay nobody.

A transaction is executed again when that is safe: after a deadlock, and when the connection was
lost, or the server had become read-only, before COMMIT was sent. When the connection is lost during
COMMIT, nobody knows whether the batch was stored. It is reported as failed then: publishers try
again, and idempotency keys make sure that nothing is published twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

import psycopg

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
from .postgres_connection import (
    CHANNEL,
    SCHEMA,
    Address,
    Blobs,
    Connection,
    Flags,
    Numbers,
    Session,
    Texts,
    connect,
    failure,
    first_line,
    message,
    parse_address,
)
from .postgres_membership import Membership
from .postgres_schema import VERSION, prepare, take_hub_lock, version

__all__ = ["Membership", "PostgresDatabase", "Session", "migrate"]

Value = TypeVar("Value")
_Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]
_Results: TypeAlias = Callable[[], list[Any]]
"""Returns results when the transaction was committed."""

_ATTEMPTS: Final = 3
"""How often a transaction is executed when it is in a deadlock with another."""
_RETRIED: Final = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock: the transaction was rolled back, and may succeed now."""
_READ_ONLY: Final = "25006"
_CLAIM_S: Final = 5.0
"""How long a hub waits at its start for the lock of one that was killed a moment ago."""

_MIGRATE_S: Final = 3_600.0
"""How long a step of an upgrade may take: it may build an index of a large table."""

_FOLLOWED: Final = 10_000
"""Rows of other hubs that are read under the lock at most; more are read before it is taken."""

_TOLD: Final = 350
"""Numbers in one message: they have up to 20 digits."""

_LOCKED: Final = frozenset(
    {
        *(interface.Append, interface.Subscribe, interface.Unsubscribe, interface.Redrive),
        *(interface.AddAccount, interface.RemoveAccount),
    }
)
"""Operations whose transaction locks the tail of the log first."""

_KEYS: Final = "publisher, key, digest, number, private, audience, expires_ms"
_FIND_KEYS: Final = """
    SELECT k.publisher, k.key, k.digest, k.number, k.private, k.audience, k.expires_ms
    FROM unnest(%s, %s) AS asked (publisher, key)
    JOIN publisher_keys k ON k.publisher = asked.publisher AND k.key = asked.key
    UNION ALL
    SELECT k.publisher, k.key, k.digest, k.number, k.private, k.audience, k.expires_ms
    FROM unnest(%s) AS asked (key)
    JOIN publisher_keys k ON k.publisher = '' AND k.key = asked.key AND k.digest = ''
"""
"""Keys of these publishers, and those without a digest, whose publisher is not known: they were
copied from a store that was written before keys had publishers."""
_INSERT_LOG: Final = (
    "INSERT INTO log (number, target, type, ts_ms, expires_ms, topic, content) "
    "SELECT * FROM unnest(%s, %s, %s, %s, %s, %s, %s)"
)
_INSERT_KEYS: Final = f"""
    INSERT INTO publisher_keys ({_KEYS})
    SELECT * FROM unnest(%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (publisher, key) DO UPDATE SET digest = excluded.digest, number = excluded.number,
        private = excluded.private, audience = excluded.audience, expires_ms = excluded.expires_ms
"""
_COUNT_APPENDED: Final = """
    UPDATE topics SET appended = appended + more.count
    FROM unnest(%s, %s) AS more (topic, count) WHERE number = more.topic
"""
_DUE_TOPICS: Final = """
    SELECT number FROM topics WHERE number = ANY(%s) AND EXISTS (
        SELECT 1 FROM subscriptions WHERE topic = number AND check_at <= appended)
"""
_ADD_SUBSCRIPTIONS: Final = """
    INSERT INTO subscriptions (client, topic, start, ack, check_at)
    SELECT * FROM unnest(%s, %s, %s, %s, %s)
    ON CONFLICT (client, topic) DO UPDATE SET ack = excluded.ack
"""
_COUNT_SUBSCRIBERS: Final = """
    UPDATE topics SET subscribers = subscribers + more.count
    FROM unnest(%s, %s) AS more (topic, count) WHERE number = more.topic
"""
_UNSUBSCRIBE: Final = """
    WITH gone AS (
        DELETE FROM subscriptions s USING unnest(%s, %s) AS asked (client, topic)
        WHERE s.client = asked.client AND s.topic = asked.topic RETURNING s.topic),
    less AS (SELECT topic, count(*) AS count FROM gone GROUP BY topic)
    UPDATE topics SET subscribers = subscribers - less.count FROM less WHERE number = less.topic
"""
_REMOVE_UNUSED_TOPICS: Final = """
    WITH gone AS (DELETE FROM topics WHERE number = ANY(%s) AND subscribers <= 0 RETURNING number),
    kept AS (
        INSERT INTO removed_topics
        SELECT number FROM gone WHERE EXISTS (SELECT 1 FROM log WHERE target = gone.number))
    UPDATE log_tail SET topics = topics - (SELECT count(*) FROM gone)
"""
_SAVE_INBOXES: Final = """
    INSERT INTO inboxes (client, cursor, state, needed)
    SELECT row.* FROM unnest(%s, %s, %s, %s) AS row (client, cursor, state, needed)
    JOIN clients ON clients.number = row.client ORDER BY row.client FOR KEY SHARE OF clients
    ON CONFLICT (client) DO UPDATE
    SET cursor = excluded.cursor, state = excluded.state, needed = excluded.needed
"""
_CHECK_CLAIMS: Final = """
    SELECT client FROM claims
    WHERE client = ANY(%s) AND epoch = %s AND EXISTS (
        SELECT 1 FROM hubs WHERE hubs.epoch = claims.epoch AND until > clock_timestamp())
    ORDER BY client FOR SHARE OF claims
"""
"""The clients that this hub may save. Locked, so that no other hub takes one before the commit."""
_TAKE: Final = """
    INSERT INTO claims (client, epoch)
    SELECT number, %s FROM clients WHERE number = ANY(%s) ORDER BY number
    ON CONFLICT (client) DO UPDATE SET epoch = excluded.epoch
    WHERE %s OR claims.epoch = excluded.epoch OR NOT EXISTS (
        SELECT 1 FROM hubs WHERE hubs.epoch = claims.epoch AND until > clock_timestamp())
    RETURNING client
"""
_NOTIFY: Final = f"SELECT pg_notify('{CHANNEL}', %s)"
_FOLLOW: Final = """
    SELECT log.number, target, type, ts_ms, expires_ms, coalesce(topic, topics.name), content
    FROM log LEFT JOIN topics ON topics.number = target
    WHERE log.number > %s AND log.number <= %s ORDER BY log.number LIMIT %s
"""
# Another process may have removed the client after it signed on. An inbox without a client would
# stay for ever; so the rows of the clients are locked against removal until the commit.
_ADD_DEAD: Final = """
    INSERT INTO dead (client, number, reason, dead_ms)
    SELECT letter.client, letter.number, letter.reason, letter.dead_ms
    FROM unnest(%s, %s, %s, %s) WITH ORDINALITY AS letter (client, number, reason, dead_ms, place)
    JOIN log ON log.number = letter.number
    JOIN clients ON clients.number = letter.client
    ORDER BY letter.place FOR KEY SHARE OF clients
    ON CONFLICT (client, number) DO NOTHING RETURNING client, number
"""
_ADD_DEAD_CONTENT: Final = """
    INSERT INTO dead_log (number, type, ts_ms, topic, content)
    SELECT log.number, type, ts_ms, coalesce(topic, topics.name), content
    FROM log LEFT JOIN topics ON topics.number = target
    WHERE log.number = ANY(%s) AND EXISTS (SELECT 1 FROM dead WHERE dead.number = log.number)
    ON CONFLICT (number) DO NOTHING
"""
_DELETE_DEAD_PRIVATE: Final = """
    DELETE FROM log USING unnest(%s, %s) AS letter (client, number)
    WHERE log.number = letter.number AND log.target = -letter.client
        AND EXISTS (SELECT 1 FROM dead
            WHERE dead.client = letter.client AND dead.number = letter.number)
"""
_SELECT_DEAD: Final = (
    "SELECT place, clients.id, dead.client, dead.number, reason, dead_ms, type, ts_ms, topic, "
    "content FROM dead JOIN dead_log USING (number) JOIN clients ON clients.number = dead.client "
)
_DELETE_UNUSED_CONTENT: Final = """
    DELETE FROM dead_log WHERE number = ANY(%s)
    AND NOT EXISTS (SELECT 1 FROM dead WHERE dead.number = dead_log.number)
"""
_DELETE_ROWS: Final = """
    DELETE FROM log WHERE number = ANY(ARRAY(
        SELECT number FROM log WHERE target = %s AND number < %s ORDER BY number LIMIT %s))
"""
_COUNT_DELETED: Final = f"WITH gone AS ({_DELETE_ROWS} RETURNING 1) SELECT count(*) FROM gone"
_REMOVED_TOPIC: Final = "SELECT number FROM removed_topics ORDER BY number LIMIT 1"
_EXPIRE_KEYS: Final = """
    WITH oldest AS (
        SELECT publisher, key FROM publisher_keys WHERE expires_ms <= %s
        ORDER BY expires_ms LIMIT %s FOR UPDATE),
    gone AS (
        DELETE FROM publisher_keys k USING oldest
        WHERE k.publisher = oldest.publisher AND k.key = oldest.key RETURNING k.publisher)
    SELECT publisher, count(*) FROM gone GROUP BY publisher
"""
_SET_CHECKS: Final = """
    UPDATE subscriptions s SET check_at = row.check_at
    FROM unnest(%s, %s, %s) AS row (client, topic, check_at)
    WHERE s.client = row.client AND s.topic = row.topic
"""
_ROTATE: Final = """
    UPDATE {table} SET token = %s, expires_ms = %s,
        old_token = CASE WHEN %s > 0 THEN token ELSE '' END,
        old_expires_ms = CASE WHEN expires_ms > 0 THEN least(expires_ms, %s) ELSE %s END
    WHERE id = %s AND token <> ''
"""
_ENTRIES: Final = """
    SELECT log.number, target, type, ts_ms, expires_ms, coalesce(topic, topics.name), content
    FROM log LEFT JOIN topics ON topics.number = target WHERE log.number = ANY(%s)
    ORDER BY log.number
"""
_SUBSCRIBERS: Final = (
    "SELECT s.client, s.start, coalesce(i.cursor, 0), coalesce(i.state, '') "
    "FROM subscriptions s LEFT JOIN inboxes i ON i.client = s.client WHERE s.topic = %s "
)
_DUE: Final = """
    SELECT client FROM subscriptions s WHERE topic = %s
    AND check_at <= (SELECT appended FROM topics WHERE number = %s)
    AND NOT EXISTS (
        SELECT 1 FROM claims JOIN hubs ON hubs.epoch = claims.epoch
        WHERE claims.client = s.client AND claims.epoch <> %s AND until > clock_timestamp())
    LIMIT %s
"""
_TEMPORARY: Final = """
    SELECT id FROM clients WHERE token = '' AND NOT EXISTS (
        SELECT 1 FROM claims JOIN hubs ON hubs.epoch = claims.epoch
        WHERE claims.client = clients.number AND until > clock_timestamp())
    ORDER BY number
"""
_SUBSCRIPTIONS: Final = (
    "SELECT topic, name, start, ack FROM subscriptions JOIN topics ON number = topic "
    "WHERE client = %s ORDER BY topic"
)
_LOOKED_AT: Final = (
    "SELECT client FROM subscriptions WHERE topic = %s AND client > %s ORDER BY client "
    "LIMIT 1 OFFSET %s"
)
_NEEDED: Final = "greatest(coalesce(i.needed, 0), s.start + 1)"
_PROBE: Final = (
    "SELECT (SELECT identity FROM store), (SELECT max(number) FROM migrations), "
    "(SELECT number FROM log_tail), (SELECT max(number) FROM clients), "
    "(SELECT max(number) FROM topics), (SELECT max(client) FROM subscriptions), "
    "(SELECT max(client) FROM inboxes), (SELECT max(number) FROM log), "
    "(SELECT max(expires_ms) FROM log), (SELECT max(expires_ms) FROM publisher_keys), "
    "(SELECT max(place) FROM dead), (SELECT max(number) FROM dead_log), "
    "(SELECT max(id) FROM users), (SELECT max(number) FROM removed_topics)"
)
"""Reads a path through each table: a few pages, whatever the size of the database."""


class _FarBehindError(Exception):
    """Other hubs have appended more than is read under the lock."""


class PostgresDatabase:
    """A connection to a PostgreSQL database."""

    def __init__(
        self,
        url: str,
        *,
        session: Session = Session(),  # noqa: B008 - it cannot be changed
        create: bool = True,
        hub: bool = False,
    ):
        """Connect; StoreError when the store cannot be used.

        `create` creates or upgrades the tables, if the role may do that. `hub`: the connection that
        a hub writes with; `epoch` has to be set before the first write.
        """
        self._address = parse_address(url)
        self._session = session
        self._hub = hub
        self.epoch = 0
        """The epoch of the hub (`postgres_membership.py`); 0 for other processes."""
        self.position = 0
        """What other hubs appended to the log is read up to this number."""
        self.missed: list[Entry] = []
        """What they had appended before the last `write`, and was not read yet."""
        self._identity: UUID | None = None
        self._connection: Connection | None = None
        self._committing = False
        try:
            self._open(create)
        except psycopg.Error as error:
            raise _start_error(self._address, error) from error

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- the connection ----------------------------------------------------------------------

    def _open(self, create: bool = False) -> Connection:
        connection = connect(self._address, self._session)
        try:
            if create:
                prepare(connection, self._address)
            elif version(connection, self._address) < VERSION:
                raise StoreError(
                    f"{self._address.shown}: the tables of the hub are missing or older; run"
                    " `wirelake hub store migrate --store URL`"
                )
            self._check_identity(connection)
            if self._hub and not take_hub_lock(connection, _CLAIM_S, shared=True):
                raise StoreError(
                    f"{self._address.shown}: a store is being copied to this database; wait until"
                    " that is done"
                )
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _check_identity(self, connection: Connection) -> None:
        row = connection.execute("SELECT identity FROM store").fetchone()
        identity = row[0] if row else None
        if self._identity is None:
            self._identity = identity
        elif self._identity != identity:
            raise StoreError(
                f"{self._address.shown}: replaced by another store while the hub runs; restart the"
                " hub"
            )

    def _one_line(self, error: Exception) -> Exception:
        """Shorten the text of an error of the driver, which is logged: it quotes statements."""
        if isinstance(error, psycopg.Error):
            error.args = (first_line(error, self._address.secrets),)
        return error

    def _is_broken(self) -> bool:
        """Return whether the connection is closed, as far as that can be seen without waiting."""
        if self._connection is None or self._connection.closed:
            return True
        try:
            # Reads what the server sent when it ended the session, and the end behind it. A batch
            # whose statements are all sent with its COMMIT could not be repeated later.
            self._connection.pgconn.consume_input()
        except psycopg.OperationalError:
            self._drop()
            return True
        return self._connection.closed

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _execute(self, work: Callable[[Connection], Value]) -> Value:
        """Call a function with the connection; again when that is safe and may help."""
        attempt = 0
        while True:
            attempt += 1
            fresh = self._is_broken()
            self._committing = False
            try:
                connection = self._open() if fresh else self._connection
                assert connection is not None
                return work(connection)
            except psycopg.Error as error:
                again = self._may_retry(error, fresh)
                if not again or attempt == _ATTEMPTS:
                    raise
            except _FarBehindError:
                raise
            except BaseException:
                self._drop()  # interrupted: nobody knows what it waits for
                raise

    def _may_retry(self, error: psycopg.Error, fresh: bool) -> bool:
        """Clean up after an error; return whether nothing was stored and it may succeed now."""
        if error.sqlstate in _RETRIED:
            self._roll_back()
            return True
        if error.sqlstate == _READ_ONLY:
            self._drop()  # a new connection goes to the host that accepts writes
            return not fresh
        lost = isinstance(error, psycopg.OperationalError) and not error.sqlstate
        if lost or self._is_broken():
            self._drop()
            return not fresh and not self._committing
        self._roll_back()
        return False

    def _roll_back(self) -> None:
        try:
            if self._connection is not None:
                self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._drop()

    # -- writes ------------------------------------------------------------------------------

    def write(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Execute operations in order, in one transaction; return their results."""
        self.missed = []
        if not operations:
            return []
        position = self.position
        while True:
            try:
                return self._execute(lambda each: self._transaction(each, operations))
            except _FarBehindError:
                self._roll_back()
                self.missed += self.follow(_FOLLOWED).entries
            except Exception as error:
                self.position, self.missed = position, []
                raise failure(self._one_line(error)) from error

    def _transaction(
        self, connection: Connection, operations: Sequence[Operation[Any]]
    ) -> list[Any]:
        with connection.pipeline():
            transaction = _Transaction(connection, self.epoch)
            locked = any(type(each) in _LOCKED for each in operations)
            transaction.begin(lock=locked)
            follows = locked and self._hub
            missed = transaction.follow(self.position) if follows else None
            results = [
                transaction.run(kind, list(some)) for kind, some in groupby(operations, type)
            ]
            last = transaction.save_tail()
            entries = [Entry(*row) for row in _rows(missed)]
            if len(entries) == _FOLLOWED:
                raise _FarBehindError
            self._committing = True
            commit = connection.execute("COMMIT")
        # After an error that was overlooked, COMMIT would be answered with ROLLBACK.
        if commit.statusmessage != "COMMIT":
            raise psycopg.DatabaseError(f"not committed: {commit.statusmessage}")
        if follows:
            self.position = last
            self.missed += entries
        return [result for each in results for result in each()]

    def follow(self, limit: int) -> Followed:
        """Read what other hubs have appended to the log, after what was read before."""
        number = self.last_number()
        if number <= self.position:
            return Followed([], self.position, more=False)
        entries = [Entry(*row) for row in self._read(_FOLLOW, self.position, number, limit)]
        more = len(entries) == limit
        self.position = entries[-1].number if more else number
        return Followed(entries, self.position, more)

    def shrink(self) -> bool:
        """Return False: PostgreSQL reuses free space, and its autovacuum gives back what it can."""
        return False

    # -- reads -------------------------------------------------------------------------------

    def check(self) -> None:
        """Read something from each table; StoreError when it is another store."""
        try:
            identity, found = self._execute(lambda c: c.execute(_PROBE).fetchall())[0][:2]
        except psycopg.Error as error:
            raise failure(self._one_line(error)) from error
        if identity != self._identity or found != VERSION:
            raise StoreError(
                f"{self._address.shown}: replaced by another store, or upgraded by a newer"
                " Wirelake, while the hub runs; restart the hub"
            )

    def size(self) -> Size:
        """Return how much space the tables and indexes take."""
        query = (
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8 FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = to_regnamespace(%s)"
        )
        return Size(int(self._one(query, SCHEMA)[0]), 0, 0)

    def last_number(self) -> int:
        """Return the last number that was allocated."""
        return int(self._one("SELECT number FROM log_tail")[0])

    def last_transient(self) -> int:
        """Return what was saved with `SaveTransient`."""
        return int(self._one("SELECT transient FROM log_tail")[0])

    def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Return the client with this id."""
        row = self._one(f"SELECT {_columns(ClientRow)} FROM clients WHERE id = %s", _lookup(id))
        return None if row is None else ClientRow(*row)

    def user(self, token: bytes) -> UserRow | None:
        """Return the user with this token or old token."""
        row = self._one(
            f"SELECT {_columns(UserRow)} FROM users WHERE token = %s"
            " OR old_token = %s AND old_token <> ''",
            *(token, token),
        )
        return None if row is None else UserRow(*row)

    def accounts(self, kind: AccountKind) -> list[Any]:
        """Return all clients or users by id, without temporary ones."""
        row: Any = UserRow if kind == "user" else ClientRow
        query = f"SELECT {_columns(row)} FROM {kind}s WHERE token <> '' ORDER BY id"
        return [row(*each) for each in self._read(query)]

    def claimed(self, clients: Sequence[int]) -> list[int]:
        """Return those of these clients that this hub has claimed."""
        query = "SELECT client FROM claims WHERE client = ANY(%s) AND epoch = %s"
        return [client for (client,) in self._read(query, Numbers(clients), self.epoch)]

    def temporary(self) -> list[str]:
        """Return the ids of clients that were added by `Subscribe`."""
        rows = self._read(_TEMPORARY)
        return [id_ for (id_,) in rows]

    def marked_clients(self) -> int:
        """Return the number of clients that have the mark of an issuer in place of a hash."""
        query = f"SELECT count(*) FROM clients WHERE length(token) > {interface.TOKEN_HASH_BYTES}"
        return int(self._one(query)[0])

    def clients_with(self, ids: Sequence[str]) -> list[ClientRow]:
        """Return those of these clients that exist."""
        query = f"SELECT {_columns(ClientRow)} FROM clients WHERE id = ANY(%s)"
        return [ClientRow(*row) for row in self._read(query, Texts(map(_lookup, ids)))]

    def load_client(self, client: int) -> LoadedClient:
        """Return the inbox and the subscriptions of a client."""
        found, inboxes, rows = self._read_all(
            (f"SELECT {_columns(ClientRow)} FROM clients WHERE number = %s", client),
            (f"SELECT {_columns(InboxRow)} FROM inboxes WHERE client = %s", client),
            (_SUBSCRIPTIONS, client),
        )
        return LoadedClient(
            ClientRow(*found[0]) if found else None,
            InboxRow(*inboxes[0]) if inboxes else None,
            [SubscriptionRow(*row) for row in rows],
        )

    def client_page(self, offset: int, limit: int) -> tuple[int, list[ClientRow]]:
        """Return the number of clients, and some of them by number."""
        query = f"SELECT {_columns(ClientRow)} FROM clients ORDER BY number LIMIT %s OFFSET %s"
        count, rows = self._read_all(("SELECT clients FROM log_tail",), (query, limit, offset))
        return int(count[0][0]), [ClientRow(*row) for row in rows]

    def topic(self, name: str) -> TopicRow | None:
        """Return a topic."""
        row = self._one(f"SELECT {_columns(TopicRow)} FROM topics WHERE name = %s", _lookup(name))
        return None if row is None else TopicRow(*row)

    def topics(self, after: int, limit: int) -> list[int]:
        """Return topics by number, those with higher numbers than this, ascending."""
        query = "SELECT number FROM topics WHERE number > %s ORDER BY number LIMIT %s"
        return [number for (number,) in self._read(query, after, limit)]

    def topic_page(self, offset: int, limit: int) -> tuple[int, list[TopicRow]]:
        """Return the number of topics, and some of them by number."""
        query = f"SELECT {_columns(TopicRow)} FROM topics ORDER BY number LIMIT %s OFFSET %s"
        count, rows = self._read_all(("SELECT topics FROM log_tail",), (query, limit, offset))
        return int(count[0][0]), [TopicRow(*row) for row in rows]

    def has_removed_topics(self) -> bool:
        """Return whether there is something to do for `RemoveTopics`."""
        return self._one(_REMOVED_TOPIC) is not None

    def numbers(self, sources: Sequence[Source], up_to: int, limit: int) -> list[int]:
        """Return the lowest numbers of these sources, up to a number, ascending."""
        # LATERAL: a range of the index for each source, each ended by the limit.
        rows = self._read(
            "SELECT row.number FROM unnest(%s, %s) AS source (target, after) CROSS JOIN LATERAL ("
            "SELECT number FROM log WHERE target = source.target AND number > source.after "
            "AND number <= %s ORDER BY number LIMIT %s) AS row ORDER BY row.number LIMIT %s",
            *_sources(sources),
            *(up_to, limit, limit),
        )
        return [number for (number,) in rows]

    def count(self, sources: Sequence[Source], up_to: int) -> int:
        """Return how many notifications these sources have, up to a number."""
        row = self._one(
            "SELECT count(*) FROM unnest(%s, %s) AS source (target, after) JOIN log "
            "ON log.target = source.target AND number > source.after AND number <= %s",
            *_sources(sources),
            up_to,
        )
        return int(row[0])

    def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """Return these rows of the log in order, without those that were deleted."""
        return [Entry(*row) for row in self._read(_ENTRIES, Numbers(numbers))]

    def targets(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the targets of these rows of the log, by number."""
        query = "SELECT number, target FROM log WHERE number = ANY(%s)"
        return dict(self._read(query, Numbers(numbers)))

    def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Return number and target of expired rows, by their expiry."""
        return self._read(
            "SELECT number, target FROM log WHERE expires_ms <= %s ORDER BY expires_ms LIMIT %s",
            *(now_ms, limit),
        )

    def lagging(self, topic: int, up_to: int, after: int, limit: int) -> Lagging:
        """Return subscribers that may still need a notification up to a number, by client."""
        looked_at = self._one(_LOOKED_AT, topic, after, LOOKED_AT - 1)
        until = looked_at[0] if looked_at else 0
        query = (
            f"{_SUBSCRIBERS} AND {_NEEDED} <= %s AND s.client > %s AND s.client <= %s "
            "ORDER BY s.client LIMIT %s"
        )
        rows = self._read(query, topic, up_to, after, until or 1 << 62, limit)
        found = [SubscriberRow(*row) for row in rows]
        return Lagging(found, found[-1].client if len(found) == limit else until)

    def needed(self, topic: int, after: int, limit: int) -> tuple[int, int | None]:
        """Return the last of the next subscribers, and the lowest number that they need."""
        count, last, lowest = self._one(
            "SELECT count(*), max(client), min(needed) FROM ("
            f"SELECT s.client, {_NEEDED} AS needed FROM subscriptions s "
            "LEFT JOIN inboxes i ON i.client = s.client "
            "WHERE s.topic = %s AND s.client > %s ORDER BY s.client LIMIT %s) AS next",
            *(topic, after, limit),
        )
        return (last if count == limit else 0), lowest

    def due(self, topic: int, limit: int) -> list[int]:
        """Return subscribers whose backlog has to be counted, but those that other hubs have."""
        rows = self._read(_DUE, topic, topic, self.epoch, limit)
        return [client for (client,) in rows]

    def checks(self, client: int) -> list[tuple[int, int, int]]:
        """Return when a client's subscriptions are due."""
        return self._read(
            "SELECT topic, appended, check_at FROM subscriptions JOIN topics ON number = topic "
            "WHERE client = %s",
            client,
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
            conditions.append("dead.client = %s")
            values.append(client)
        if numbers is not None:
            conditions.append("dead.number = ANY(%s)")
            values.append(Numbers(numbers))
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        query = f"{_SELECT_DEAD}{where}ORDER BY dead_ms DESC, place DESC LIMIT %s"
        return [DeadRow(*row) for row in self._read(query, *values, limit)]

    def _read(self, query: str, *values: Any) -> list[Any]:
        return self._read_all((query, *values))[0]

    def _read_all(self, *queries: tuple[Any, ...]) -> list[list[Any]]:
        """Execute several statements, each with its values, in one round trip."""

        def read(connection: Connection) -> list[list[Any]]:
            if len(queries) == 1:
                return [_query(connection, *queries[0]).fetchall()]
            with connection.pipeline():
                found = [_query(connection, *each) for each in queries]
            return [each.fetchall() for each in found]

        try:
            return self._execute(read)
        except Exception as error:
            self._one_line(error)
            raise HubError("storage_failed", "cannot read the store") from error

    def _one(self, query: str, *values: Any) -> Any:
        rows = self._read(query, *values)
        return rows[0] if rows else None


def migrate(url: str) -> tuple[int, int]:
    """Create or upgrade the tables of a hub; return their version before and after."""
    address = parse_address(url)
    try:
        with closing(connect(address, Session(statement_s=0, call_s=_MIGRATE_S))) as connection:
            return prepare(connection, address), VERSION
    except psycopg.Error as error:
        raise _start_error(address, error) from error


def _start_error(address: Address, error: psycopg.Error) -> StoreError:
    advice = next(
        (advice for part, advice in _ADVICE if part in str(error)),
        "does the server run, and is the address right?",
    )
    return StoreError(f"{address.shown}: {first_line(error, address.secrets)}; {advice}")


class _Transaction:
    """The operations of one transaction.

    A method for a kind of operation sends its statements and returns a function for the results,
    which is called after the commit. It waits for answers only when later statements need them.
    """

    def __init__(self, connection: Connection, epoch: int):
        self._connection = connection
        self._epoch = epoch
        self._tail: _Cursor | None = None
        self._last = self._saved = 0
        self._appended = False
        self._methods: dict[type, Callable[[list[Any]], _Results]] = {
            interface.Append: self._append,
            interface.Subscribe: self._subscribe,
            interface.Unsubscribe: self._unsubscribe,
            interface.Claim: self._claim,
            interface.Release: self._release,
            interface.Notify: self._notify,
            interface.SaveInboxes: self._save_inboxes,
            interface.Delete: self._delete,
            interface.DeleteAcked: self._delete_acked,
            interface.AddDeadLetters: self._add_dead_letters,
            interface.Redrive: self._redrive,
            interface.RemoveTopics: self._remove_topics,
            interface.SetChecks: self._set_checks,
            interface.SaveTransient: self._save_transient,
            interface.RemoveKeys: self._remove_keys,
            interface.ExpireKeys: self._expire_keys,
            interface.PruneDeadLetters: self._prune_dead_letters,
            interface.AddAccount: self._add_accounts,
            interface.RotateAccount: self._rotate_accounts,
            interface.RemoveAccount: self._remove_accounts,
        }

    def begin(self, *, lock: bool) -> None:
        """Begin, and lock the tail of the log."""
        self._run("BEGIN")
        if lock:
            self._tail = self._run("SELECT number FROM log_tail FOR UPDATE")

    def run(self, kind: type, operations: list[Any]) -> _Results:
        """Execute operations of one kind."""
        return self._methods[kind](operations)

    def follow(self, position: int) -> _Cursor:
        """Read what other hubs have appended, which the lock has made visible."""
        return self._run(_FOLLOW, position, 1 << 62, _FOLLOWED)

    def save_tail(self) -> int:
        """Save the last number, and wake the other hubs up; return it, if the tail is locked."""
        last = self._last_number()
        if last != self._saved:
            self._run("UPDATE log_tail SET number = %s", last)
        if self._appended and self._epoch:
            self._run(_NOTIFY, message(self._epoch, "log"))
        return last

    def _run(self, query: str, *values: Any) -> _Cursor:
        return _query(self._connection, query, *values)

    def _next_number(self, now_ms: int) -> int:
        self._last = next_number(self._last_number(), now_ms)
        return self._last

    def _last_number(self) -> int:
        if self._tail is not None:  # not waited for before it is needed
            self._last = self._saved = self._tail.fetchall()[0][0]
            self._tail = None
        return self._last

    # -- publishing --------------------------------------------------------------------------

    def _append(self, operations: list[interface.Append]) -> _Results:
        names = {each.topic for each in operations if each.topic is not None}
        ids = {each.client for each in operations if each.topic is None}
        topics_found = (
            self._run(
                "SELECT name, number, subscribers FROM topics WHERE name = ANY(%s)",
                Texts(map(_lookup, names)),
            )
            if names
            else None
        )
        clients_found = (
            self._run(
                "SELECT id, number FROM clients WHERE id = ANY(%s)",
                Texts(_lookup(each or "") for each in ids),
            )
            if ids
            else None
        )
        asked = {(each.key.publisher, each.key.key) for each in operations if each.key is not None}
        keys_found = (
            self._run(
                _FIND_KEYS,
                Texts(publisher for publisher, _ in asked),
                Blobs(_key_bytes(key) for _, key in asked),
                Blobs({_key_bytes(key) for _, key in asked}),
            )
            if asked
            else None
        )
        topics = {name: (number, count) for name, number, count in _rows(topics_found)}
        clients = dict(_rows(clients_found))
        stored_keys: dict[tuple[str, str], KeyRow] = {}
        unowned_keys: dict[str, KeyRow] = {}
        for publisher, key, *values in _rows(keys_found):
            row = KeyRow(publisher, _key_text(key), *values)
            if not publisher and not row.digest:
                unowned_keys[row.key] = row
            else:
                stored_keys[publisher, row.key] = row

        def find_key(key: NewKey, now_ms: int) -> KeyRow | None:
            return _unexpired(
                now_ms, stored_keys.get((key.publisher, key.key)), unowned_keys.get(key.key)
            )

        decided = decide(operations, topics, clients, find_key, self._last_number())
        self._last = decided.last
        self._insert_log(decided.rows)
        self._insert_keys(decided.keys)
        appended = {topic: count for topic, count in decided.counts.items() if topic > 0}
        if not appended:
            return lambda: list(decided.results)
        self._run(_COUNT_APPENDED, Numbers(appended), Numbers(appended.values()))
        due_found = self._run(_DUE_TOPICS, Numbers(appended))
        return lambda: list(with_due(decided.results, {topic for (topic,) in due_found.fetchall()}))

    def _insert_log(self, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._appended = True
            columns = list(zip(*rows, strict=True))
            self._run(_INSERT_LOG, *map(Numbers, columns[:5]), Texts(columns[5]), Blobs(columns[6]))

    def _insert_keys(self, rows: Sequence[KeyRow]) -> None:
        if rows:
            self._run(
                _INSERT_KEYS,
                Texts(row.publisher for row in rows),
                Blobs(_key_bytes(row.key) for row in rows),
                Blobs(row.digest for row in rows),
                Numbers(row.number for row in rows),
                Flags(row.private for row in rows),
                Numbers(row.audience for row in rows),
                Numbers(row.expires_ms for row in rows),
            )

    # -- subscriptions -----------------------------------------------------------------------

    def _subscribe(self, operations: list[interface.Subscribe]) -> _Results:
        numbers = Numbers({each.client for each in operations if each.client})
        ids = Texts({each.id for each in operations if not each.client})
        names = Texts({name for each in operations for name in each.names})
        tail_found = self._run("SELECT client, topic, topics FROM log_tail")
        clients_found = self._run("SELECT number FROM clients WHERE number = ANY(%s)", numbers)
        temporary_found = self._run(
            "SELECT id, number FROM clients WHERE id = ANY(%s) AND token = ''", ids
        )
        topics_found = self._run(
            f"SELECT {_columns(TopicRow)} FROM topics WHERE name = ANY(%s)", names
        )
        held_found = self._run(
            "SELECT client, topic, start FROM subscriptions WHERE client = ANY("
            "%s || ARRAY(SELECT number FROM clients WHERE id = ANY(%s) AND token = ''))",
            *(numbers, ids),
        )
        ((last_client, last_topic, topic_count),) = tail_found.fetchall()
        clients = {number for (number,) in clients_found.fetchall()}
        temporary: dict[str, int] = dict(temporary_found.fetchall())
        topics = {row[1]: TopicRow(*row) for row in topics_found.fetchall()}
        held = {(client, topic): start for client, topic, start in held_found.fetchall()}

        results: list[Any] = []
        new_clients: dict[int, str] = {}
        new_topics: dict[int, str] = {}
        rows: dict[tuple[int, int], tuple[int, bool, int]] = {}
        added: Counter[int] = Counter()
        for each in operations:
            client = each.client
            if client and client not in clients:
                results.append(HubError("auth_required", "the client was removed"))
                continue
            wanted = list(dict.fromkeys(each.names))
            new = [name for name in wanted if name not in topics]
            if new and topic_count + len(new_topics) + len(new) > each.max_topics:
                results.append(HubError("too_busy", "too many topics on this hub"))
                continue
            for name in new:
                last_topic += 1
                new_topics[last_topic] = name
                topics[name] = TopicRow(last_topic, name, 0, 0)
            if not client:
                client = temporary.get(each.id, 0)
                if not client:
                    last_client += 1
                    temporary[each.id] = client = last_client
                    new_clients[client] = each.id
            subscribed: list[SubscriptionRow] = []
            for name in wanted:
                number, _, _, appended = topics[name]
                place = (client, number)
                if place not in held:
                    held[place] = self._last_number()
                    added[number] += 1
                start = held[place]
                check_at = appended + each.allowance + 1
                # A second subscription to the topic in this batch changes only `ack`.
                check_at = rows[place][2] if place in rows else check_at
                rows[place] = (start, each.ack, check_at)
                subscribed.append(SubscriptionRow(number, name, start, each.ack))
            results.append(Subscribed(client, subscribed))
        self._add_clients_and_topics(new_clients, new_topics)
        if rows:
            starts, acks, checks = zip(*rows.values(), strict=True)
            self._run(
                _ADD_SUBSCRIPTIONS,
                Numbers(client for client, _ in rows),
                Numbers(topic for _, topic in rows),
                *(Numbers(starts), Flags(acks), Numbers(checks)),
            )
        if added:
            self._run(_COUNT_SUBSCRIBERS, Numbers(added), Numbers(added.values()))
        return lambda: results

    def _add_clients_and_topics(self, clients: dict[int, str], topics: dict[int, str]) -> None:
        if clients:
            self._run(
                "INSERT INTO clients (number, id, token, created_ms) "
                "SELECT number, id, '', %s FROM unnest(%s, %s) AS new (number, id)",
                *(time.time_ns() // 1_000_000, Numbers(clients), Texts(clients.values())),
            )
            if self._epoch:
                self._run(_TAKE, self._epoch, Numbers(clients), True)
        if topics:
            self._run(
                "INSERT INTO topics (number, name) SELECT * FROM unnest(%s, %s)",
                *(Numbers(topics), Texts(topics.values())),
            )
        if clients or topics:
            self._run(
                "UPDATE log_tail SET client = client + %s, clients = clients + %s, "
                "topic = topic + %s, topics = topics + %s",
                *(len(clients), len(clients), len(topics), len(topics)),
            )

    def _unsubscribe(self, operations: list[interface.Unsubscribe]) -> _Results:
        places = {(each.client, topic) for each in operations for topic in each.topics}
        if places:
            topics = Numbers(topic for _, topic in places)
            self._run(_UNSUBSCRIBE, Numbers(client for client, _ in places), topics)
            self._run(_REMOVE_UNUSED_TOPICS, topics)
        return _none(operations)

    def _remove_topics(self, operations: list[interface.RemoveTopics]) -> _Results:
        results: list[int] = []
        for each in operations:
            left = each.limit
            while left > 0:
                found = self._run(_REMOVED_TOPIC + " FOR UPDATE").fetchall()
                if not found:
                    break
                # Every row of the log is below: a number has 52 bits.
                deleted = self._run(_COUNT_DELETED, found[0][0], 1 << 62, left)
                count = deleted.fetchall()[0][0]
                if count < left:
                    self._run("DELETE FROM removed_topics WHERE number = %s", found[0][0])
                left -= count
            results.append(each.limit - left)
        return lambda: results

    def _set_checks(self, operations: list[interface.SetChecks]) -> _Results:
        checks = {(client, topic): at for each in operations for client, topic, at in each.rows}
        if checks:
            self._run(
                _SET_CHECKS,
                Numbers(client for client, _ in checks),
                Numbers(topic for _, topic in checks),
                Numbers(checks.values()),
            )
        return _none(operations)

    # -- delivery ----------------------------------------------------------------------------

    def _claim(self, operations: list[interface.Claim]) -> _Results:
        taken: set[int] = set()
        for take in (False, True):
            wanted = {each.client for each in operations if each.take is take}
            if wanted:
                found = self._run(_TAKE, self._epoch, Numbers(sorted(wanted)), take)
                taken.update(client for (client,) in found.fetchall())
                if take:
                    self._tell("claimed", taken & wanted)
        # Read after it was claimed: nothing can be saved of it any more by another hub.
        reads = [
            (
                self._run(
                    f"SELECT {_columns(ClientRow)} FROM clients WHERE number = %s", each.client
                ),
                self._run(
                    f"SELECT {_columns(InboxRow)} FROM inboxes WHERE client = %s", each.client
                ),
                self._run(_SUBSCRIPTIONS, each.client),
            )
            for each in operations
        ]

        def finish() -> list[Any]:
            results: list[LoadedClient | None] = []
            for each, read in zip(operations, reads, strict=True):
                rows, inboxes, subscriptions = (cursor.fetchall() for cursor in read)
                if rows and each.client not in taken:
                    results.append(None)
                    continue
                results.append(
                    LoadedClient(
                        ClientRow(*rows[0]) if rows else None,
                        InboxRow(*inboxes[0]) if inboxes else None,
                        [SubscriptionRow(*row) for row in subscriptions],
                    )
                )
            return results

        return finish

    def _tell(self, word: str, numbers: Iterable[int]) -> None:
        """Tell the other hubs about numbers: a message has at most 8,000 bytes."""
        left = sorted(numbers)
        for at in range(0, len(left), _TOLD):
            self._run(_NOTIFY, message(self._epoch, word, *left[at : at + _TOLD]))

    def _release(self, operations: list[interface.Release]) -> _Results:
        clients = Numbers(sorted({client for each in operations for client in each.clients}))
        self._run("DELETE FROM claims WHERE client = ANY(%s) AND epoch = %s", clients, self._epoch)
        return _none(operations)

    def _notify(self, operations: list[interface.Notify]) -> _Results:
        for each in operations:
            self._run(_NOTIFY, message(self._epoch, each.text))
        return _none(operations)

    def _save_inboxes(self, operations: list[interface.SaveInboxes]) -> _Results:
        rows = {row.client: row for each in operations for row in each.rows}
        refused: set[int] = set()
        if rows and self._epoch:
            found = self._run(_CHECK_CLAIMS, Numbers(sorted(rows)), self._epoch)
            refused = set(rows).difference(client for (client,) in found.fetchall())
            for client in refused:
                del rows[client]
        if rows:
            clients, cursors, states, needed = zip(*rows.values(), strict=True)
            self._run(
                _SAVE_INBOXES, Numbers(clients), Numbers(cursors), Blobs(states), Numbers(needed)
            )
        return lambda: [
            tuple(row.client for row in each.rows if row.client in refused) for each in operations
        ]

    def _delete(self, operations: list[interface.Delete]) -> _Results:
        self._delete_numbers(number for each in operations for number in each.numbers)
        return _none(operations)

    def _delete_numbers(self, numbers: Iterable[int]) -> None:
        wanted = sorted(set(numbers))
        if wanted:
            self._run("DELETE FROM log WHERE number = ANY(%s)", Numbers(wanted))

    def _delete_acked(self, operations: list[interface.DeleteAcked]) -> _Results:
        deleted = [
            self._run(_DELETE_ROWS, each.target, each.below, each.limit) for each in operations
        ]
        return lambda: [each.rowcount for each in deleted]

    # -- dead letters ------------------------------------------------------------------------

    def _add_dead_letters(self, operations: list[interface.AddDeadLetters]) -> _Results:
        # Together, but for letters of rows that an operation before them deletes: those rows are
        # not in the log any more.
        parts: list[list[interface.AddDeadLetters]] = [[]]
        deleted: set[int] = set()
        for each in operations:
            if not deleted.isdisjoint(letter[1] for letter in each.letters):
                parts.append([])
                deleted.clear()
            parts[-1].append(each)
            deleted.update(each.deleted)
        finishes = [self._add_letters(part) for part in parts]
        return lambda: [count for finish in finishes for count in finish()]

    def _add_letters(self, operations: list[interface.AddDeadLetters]) -> _Results:
        letters: dict[tuple[int, int], tuple[str, int, int]] = {}
        for place, each in enumerate(operations):
            for client, number, reason, dead_ms in each.letters:
                letters.setdefault((client, number), (reason, dead_ms, place))
        added: _Cursor | None = None
        if letters:
            added = self._run(
                _ADD_DEAD,
                Numbers(client for client, _ in letters),
                Numbers(number for _, number in letters),
                Texts(reason for reason, _, _ in letters.values()),
                Numbers(dead_ms for _, dead_ms, _ in letters.values()),
            )
            self._run(_ADD_DEAD_CONTENT, Numbers({number for _, number in letters}))
            self._run(
                _DELETE_DEAD_PRIVATE,
                Numbers(client for client, _ in letters),
                Numbers(number for _, number in letters),
            )
        self._delete_numbers(number for each in operations for number in each.deleted)

        def finish() -> list[int]:
            counts = Counter(letters[client, number][2] for client, number in _rows(added))
            return [counts[place] for place in range(len(operations))]

        return finish

    def _redrive(self, operations: list[interface.Redrive]) -> _Results:
        results = [self._redrive_places(each) for each in operations]
        return lambda: results

    def _redrive_places(self, operation: interface.Redrive) -> list[Redriven]:
        places = Numbers(set(operation.places))
        # FOR UPDATE: another process may be deleting them.
        found = self._run(f"{_SELECT_DEAD} WHERE place = ANY(%s) FOR UPDATE OF dead", places)
        letters = sorted(
            (DeadRow(*row) for row in found.fetchall()), key=lambda row: (row.dead_ms, row.place)
        )
        redriven = [
            Redriven(
                each.client,
                Entry(
                    self._next_number(operation.now_ms),
                    -each.client_number,
                    each.type,
                    each.ts_ms,
                    operation.expires_ms,
                    each.topic,
                    each.content,
                ),
            )
            for each in letters
        ]
        self._insert_log([each.entry for each in redriven])
        if letters:
            self._run(
                "DELETE FROM dead WHERE place = ANY(%s)", Numbers(each.place for each in letters)
            )
            self._delete_unused_content(each.number for each in letters)
        return redriven

    def _delete_unused_content(self, numbers: Iterable[int]) -> None:
        found = sorted(set(numbers))
        if found:
            self._run(_DELETE_UNUSED_CONTENT, Numbers(found))

    def _prune_dead_letters(self, operations: list[interface.PruneDeadLetters]) -> _Results:
        deleted: list[_Cursor] = []
        for each in operations:
            deleted += (
                self._run("DELETE FROM dead WHERE dead_ms < %s RETURNING number", each.before_ms),
                self._run(
                    "DELETE FROM dead WHERE place = ANY(ARRAY(SELECT place FROM dead "
                    "ORDER BY dead_ms DESC, place DESC OFFSET %s)) RETURNING number",
                    each.keep,
                ),
            )
        self._delete_unused_content(number for each in deleted for (number,) in each.fetchall())
        return _none(operations)

    def _save_transient(self, operations: list[interface.SaveTransient]) -> _Results:
        self._run("UPDATE log_tail SET transient = %s", operations[-1].number)
        return _none(operations)

    # -- idempotency keys --------------------------------------------------------------------

    def _remove_keys(self, operations: list[interface.RemoveKeys]) -> _Results:
        publishers = Texts({each.publisher for each in operations})
        self._run("DELETE FROM publisher_keys WHERE publisher = ANY(%s)", publishers)
        return _none(operations)

    def _expire_keys(self, operations: list[interface.ExpireKeys]) -> _Results:
        found = [self._run(_EXPIRE_KEYS, each.now_ms, each.limit) for each in operations]
        return lambda: [dict(each.fetchall()) for each in found]

    # -- accounts ----------------------------------------------------------------------------

    def _add_accounts(self, operations: list[interface.AddAccount]) -> _Results:
        results: list[int | HubError] = []
        ids = Texts({each.id for each in operations})
        clients_found = self._run("SELECT id FROM clients WHERE id = ANY(%s)", ids)
        users_found = self._run("SELECT id FROM users WHERE id = ANY(%s)", ids)
        tail_found = self._run("SELECT client FROM log_tail")
        used = {("client", id_) for (id_,) in clients_found.fetchall()}
        used |= {("user", id_) for (id_,) in users_found.fetchall()}
        last = tail_found.fetchall()[0][0]
        clients: list[tuple[int, interface.AddAccount]] = []
        users: list[interface.AddAccount] = []
        for each in operations:
            if (each.kind, each.id) in used:
                results.append(HubError("conflict"))
                continue
            used.add((each.kind, each.id))
            if each.kind == "user":
                users.append(each)
                results.append(0)
            else:
                last += 1
                clients.append((last, each))
                results.append(last)
        if users:
            self._run(
                "INSERT INTO users (id, token, created_ms, expires_ms, role) "
                "SELECT * FROM unnest(%s, %s, %s, %s, %s)",
                *_account_columns(users),
                Texts(each.role for each in users),
            )
        if clients:
            self._run(
                "INSERT INTO clients (id, token, created_ms, expires_ms, number) "
                "SELECT * FROM unnest(%s, %s, %s, %s, %s)",
                *_account_columns([each for _, each in clients]),
                Numbers(number for number, _ in clients),
            )
            self._run("UPDATE log_tail SET client = %s, clients = clients + %s", last, len(clients))
        return lambda: results

    def _rotate_accounts(self, operations: list[interface.RotateAccount]) -> _Results:
        done = [
            self._run(
                _ROTATE.format(table=f"{each.kind}s"),
                *(each.token, each.expires_ms, each.until_ms, each.until_ms, each.until_ms),
                _lookup(each.id),
            )
            for each in operations
        ]
        return lambda: [each.rowcount > 0 for each in done]

    def _remove_accounts(self, operations: list[interface.RemoveAccount]) -> _Results:
        users = {each.id for each in operations if each.kind == "user"}
        clients = {each.id for each in operations if each.kind == "client"}
        users_gone = self._run(
            "DELETE FROM users WHERE id = ANY(%s) RETURNING id", Texts(map(_lookup, users))
        )
        clients_gone = self._run(
            "DELETE FROM clients WHERE id = ANY(%s) RETURNING id, number",
            Texts(map(_lookup, clients)),
        )
        found = {("user", id_) for (id_,) in users_gone.fetchall()}
        numbers: dict[str, int] = dict(clients_gone.fetchall())
        found |= {("client", id_) for id_ in numbers}
        if numbers:
            self._remove_clients(numbers)
        results: list[bool] = []
        for each in operations:  # the second of two has nothing to remove
            results.append((each.kind, each.id) in found)
            found.discard((each.kind, each.id))
        return lambda: results

    def _remove_clients(self, clients: dict[str, int]) -> None:
        """Remove what belongs to clients."""
        numbers = Numbers(clients.values())
        places = self._run(
            "SELECT client, topic FROM subscriptions WHERE client = ANY(%s)", numbers
        )
        letters = self._run("DELETE FROM dead WHERE client = ANY(%s) RETURNING number", numbers)
        self._run("DELETE FROM inboxes WHERE client = ANY(%s)", numbers)
        self._run("DELETE FROM claims WHERE client = ANY(%s)", numbers)
        self._run("DELETE FROM publisher_keys WHERE publisher = ANY(%s)", Texts(clients))
        # Private notifications are deleted with those of removed topics, some at a time.
        self._run(
            "INSERT INTO removed_topics SELECT target FROM unnest(%s) AS gone (target) "
            "WHERE EXISTS (SELECT 1 FROM log WHERE log.target = gone.target)",
            Numbers(-number for number in clients.values()),
        )
        self._run("UPDATE log_tail SET clients = clients - %s", len(clients))
        held = places.fetchall()
        if held:
            topics = Numbers(topic for _, topic in held)
            self._run(_UNSUBSCRIBE, Numbers(client for client, _ in held), topics)
            self._run(_REMOVE_UNUSED_TOPICS, topics)
        self._delete_unused_content(number for (number,) in letters.fetchall())


def _query(connection: Connection, query: str, *values: Any) -> _Cursor:
    """Execute a statement, prepared once per connection; values are sent and received as binary."""
    return connection.cursor(binary=True).execute(query, values, prepare=True)


def _rows(cursor: _Cursor | None) -> list[tuple[Any, ...]]:
    return [] if cursor is None else cursor.fetchall()


def _none(operations: list[Any]) -> _Results:
    return lambda: [None] * len(operations)


def _sources(sources: Sequence[Source]) -> tuple[Numbers, Numbers]:
    return Numbers(each.target for each in sources), Numbers(each.after for each in sources)


def _account_columns(accounts: Sequence[interface.AddAccount]) -> tuple[Any, ...]:
    return (
        Texts(each.id for each in accounts),
        Blobs(each.token for each in accounts),
        Numbers(each.created_ms for each in accounts),
        Numbers(each.expires_ms for each in accounts),
    )


def _unexpired(now_ms: int, *rows: KeyRow | None) -> KeyRow | None:
    return next((row for row in rows if row is not None and row.expires_ms > now_ms), None)


def _lookup(text: str) -> str:
    """Return a name to look up; empty, which is no name, for one that PostgreSQL cannot have.

    Ids come from peers: one that has a zero, or is not valid Unicode, must not fail a whole batch.
    """
    if "\0" in text:
        return ""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return ""
    return text


def _key_bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _key_text(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")


@lru_cache
def _columns(row: type[Any]) -> str:
    return ", ".join(row._fields)


_ADVICE: Final = (
    ("password authentication failed", "give the password in PGPASSWORD or a password file"),
    ("no password supplied", "give the password in PGPASSWORD or a password file"),
    ("does not exist", "create it as in docs/guides/postgresql.md"),
    ("pg_hba.conf", "allow this host, user and database in pg_hba.conf of the server"),
    ("certificate", "check sslrootcert and sslmode in the address"),
    ("SSL", "check sslmode in the address"),
    ("read-only", "no host of the address accepts writes; name the primary as well"),
    ("standby", "no host of the address accepts writes; name the primary as well"),
    ("too many", "raise max_connections of the server"),
    ("could not translate", "check the host of the address"),
    ("resolve host", "check the host of the address"),
)
"""Texts of errors while connecting, and what to do. In another language of the server, the general
advice is given."""
