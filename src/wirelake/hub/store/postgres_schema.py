"""The tables of a hub in PostgreSQL: how they are created, upgraded and checked.

They are in a schema of their own, `wirelake`. Migrations are numbered and never change once
released; each runs in a transaction of its own, which adds its number to the table `migrations`. An
advisory lock makes hubs that start at the same time wait for each other.

Upgrades need the role that owns the tables. A hub needs less: SELECT, INSERT, UPDATE and DELETE
(docs/guides/postgresql.md). Sequences would need more rights, and a value of one may become visible
after a higher one; numbers are counted in the row `log_tail` instead, under its lock.
"""

from __future__ import annotations

import time
from typing import Final

import psycopg

from .interface import StoreError
from .postgres_connection import SCHEMA, Address, Connection, first_line

__all__ = ["MIGRATIONS", "VERSION", "lock_hubs", "prepare", "take_hub_lock", "version"]

_LOCKS: Final = 0x77697265
"""The first key of advisory locks; the second says which."""
_MIGRATION_LOCK: Final = 1
_HUB_LOCK: Final = 2
_JOIN_LOCK: Final = 3
_WAIT_S: Final = 0.1
_NO_RIGHTS: Final = "42501"

MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: everything. All numbers are 64 bits. COLLATE "C": ids and names are compared byte by byte,
    # as in SQLite, and an index does not depend on the C library of the server. Keys of publishers
    # are bytes: a peer may send any characters, and text has no zero.
    """
    CREATE TABLE store (
        one      boolean PRIMARY KEY DEFAULT true CHECK (one),
        identity uuid    NOT NULL DEFAULT gen_random_uuid()
    );
    INSERT INTO store DEFAULT VALUES;

    -- One row. Whoever appends to the log, or changes what an append depends on, locks it first:
    -- the order of numbers is the order of commits, whichever hub commits.
    CREATE TABLE log_tail (
        one       boolean PRIMARY KEY DEFAULT true CHECK (one),
        number    bigint  NOT NULL DEFAULT 0, -- the last one of a notification
        transient bigint  NOT NULL DEFAULT 0, -- the last one of those that are not stored
        client    bigint  NOT NULL DEFAULT 0, -- the last one of a client
        topic     bigint  NOT NULL DEFAULT 0, -- the last one of a topic
        clients   bigint  NOT NULL DEFAULT 0, -- how many there are
        topics    bigint  NOT NULL DEFAULT 0
    ) WITH (fillfactor = 10);
    INSERT INTO log_tail DEFAULT VALUES;

    CREATE TABLE clients (
        number         bigint PRIMARY KEY,
        id             text   COLLATE "C" NOT NULL UNIQUE,
        token          bytea  NOT NULL,
        created_ms     bigint NOT NULL,
        expires_ms     bigint NOT NULL DEFAULT 0,
        old_token      bytea  NOT NULL DEFAULT '',
        old_expires_ms bigint NOT NULL DEFAULT 0
    );
    CREATE INDEX clients_temporary ON clients (number) WHERE token = '';

    CREATE TABLE users (
        id             text   COLLATE "C" PRIMARY KEY,
        role           text   NOT NULL,
        token          bytea  NOT NULL,
        created_ms     bigint NOT NULL,
        expires_ms     bigint NOT NULL DEFAULT 0,
        old_token      bytea  NOT NULL DEFAULT '',
        old_expires_ms bigint NOT NULL DEFAULT 0
    );
    CREATE INDEX users_token ON users (token);
    CREATE INDEX users_old_token ON users (old_token) WHERE old_token <> '';

    CREATE TABLE topics (
        number      bigint PRIMARY KEY,
        name        text   COLLATE "C" NOT NULL UNIQUE,
        subscribers bigint NOT NULL DEFAULT 0,
        appended    bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 70);

    -- Topics (their number) and clients (minus their number) that were removed, with rows in the
    -- log.
    CREATE TABLE removed_topics (
        number bigint PRIMARY KEY
    );

    CREATE TABLE subscriptions (
        client   bigint  NOT NULL,
        topic    bigint  NOT NULL,
        start    bigint  NOT NULL,
        ack      boolean NOT NULL,
        check_at bigint  NOT NULL DEFAULT 0, -- the value of topics.appended to count its backlog at
        PRIMARY KEY (client, topic)
    );
    CREATE INDEX subscriptions_topic ON subscriptions (topic, client);
    CREATE INDEX subscriptions_check ON subscriptions (topic, check_at);

    -- A queue: rows are appended at one end and deleted at the other, so it is vacuumed often.
    -- Contents are not compressed: they are small, and often compressed already.
    CREATE TABLE log (
        number     bigint PRIMARY KEY,
        target     bigint NOT NULL, -- the number of a topic, or minus that of a client
        type       bigint NOT NULL,
        ts_ms      bigint NOT NULL,
        expires_ms bigint NOT NULL,
        topic      text,            -- only in a redriven dead letter
        content    bytea  NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
    ALTER TABLE log ALTER COLUMN content SET STORAGE EXTERNAL;
    CREATE INDEX log_target ON log (target, number);
    CREATE INDEX log_expiry ON log (expires_ms);

    CREATE TABLE inboxes (
        client bigint PRIMARY KEY,
        cursor bigint NOT NULL,
        state  bytea  NOT NULL,
        needed bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 70);

    CREATE TABLE publisher_keys (
        publisher  text    COLLATE "C" NOT NULL,
        key        bytea   NOT NULL,
        digest     bytea   NOT NULL,
        number     bigint  NOT NULL,
        private    boolean NOT NULL,
        audience   bigint  NOT NULL,
        expires_ms bigint  NOT NULL,
        PRIMARY KEY (publisher, key)
    );
    CREATE INDEX publisher_keys_expiry ON publisher_keys (expires_ms);

    -- The content of a dead letter is kept once, however many clients it is one of.
    CREATE TABLE dead_log (
        number  bigint PRIMARY KEY,
        type    bigint NOT NULL,
        ts_ms   bigint NOT NULL,
        topic   text,
        content bytea  NOT NULL
    );
    ALTER TABLE dead_log ALTER COLUMN content SET STORAGE EXTERNAL;
    CREATE TABLE dead (
        place   bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
        client  bigint NOT NULL,
        number  bigint NOT NULL,
        reason  text   NOT NULL,
        dead_ms bigint NOT NULL,
        UNIQUE (client, number)
    );
    CREATE INDEX dead_number ON dead (number);
    CREATE INDEX dead_age ON dead (dead_ms, place);
    """,
    # 2: several hubs. Each has a number, which is part of the ids of what it does not store, and an
    # epoch, which no other hub ever has. It renews its lease by the clock of the server. A client
    # that a hub has in memory is claimed by its epoch.
    """
    ALTER TABLE log_tail ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
    CREATE TABLE hubs (
        number integer     PRIMARY KEY,
        epoch  bigint      NOT NULL UNIQUE,
        name   text        NOT NULL,
        until  timestamptz NOT NULL
    ) WITH (fillfactor = 10);
    CREATE TABLE claims (
        client bigint PRIMARY KEY,
        epoch  bigint NOT NULL
    ) WITH (fillfactor = 70);
    CREATE INDEX claims_epoch ON claims (epoch);
    """,
)
"""Every step, oldest first."""

VERSION: Final = len(MIGRATIONS)
"""The version this code uses."""


def prepare(connection: Connection, address: Address) -> int:
    """Create or upgrade the tables; return the version they had. StoreError when that fails."""
    found = version(connection, address)
    for number in range(found, VERSION):
        try:
            _run(connection, address, number + 1)
        except psycopg.Error as error:
            text = first_line(error, address.secrets)
            what = "upgrade" if found else "create"
            raise StoreError(
                f"{address.shown}: cannot {what} the tables of the hub: {text}; "
                + (
                    "run `wirelake hub store migrate --store URL` as the role that owns them"
                    if error.sqlstate == _NO_RIGHTS
                    else "nothing was changed"
                )
            ) from error
    return found


def version(connection: Connection, address: Address) -> int:
    """Return the version of the tables, 0 if there are none; StoreError for unusable ones."""
    if not _has_schema(connection):
        return 0
    row = connection.execute(
        "SELECT has_schema_privilege(%s, 'USAGE'), "
        "count(*) FILTER (WHERE relname = 'migrations'), count(*), current_user FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace = to_regnamespace(%s)",
        (SCHEMA, SCHEMA),
    ).fetchone()
    assert row is not None
    usable, is_store, tables, user = row
    if not usable:
        raise StoreError(
            f"{address.shown}: role {user} may not use schema {SCHEMA}; grant it as in"
            " docs/guides/postgresql.md"
        )
    if not is_store:
        if not tables:
            return 0
        raise StoreError(
            f"{address.shown}: schema {SCHEMA} is not the store of a hub (it has no table"
            " migrations); choose another database"
        )
    found = _last_migration(connection, address)
    if found > VERSION:
        raise StoreError(
            f"{address.shown}: written by a newer Wirelake (format {found}, supported {VERSION});"
            " upgrade Wirelake or restore a backup"
        )
    return found


def take_hub_lock(connection: Connection, wait_s: float = 0.0, *, shared: bool = False) -> bool:
    """Take the lock that hubs share as long as they are connected; return whether it was free.

    Not shared, it keeps hubs out. The server notices at once that a process was killed, but has to
    end its statement.
    """
    until = time.monotonic() + wait_s
    query = f"SELECT pg_try_advisory_lock{'_shared' if shared else ''}(%s::int, %s::int)"
    while connection.execute(query, (_LOCKS, _HUB_LOCK)).fetchone() != (True,):
        if time.monotonic() >= until:
            return False
        time.sleep(_WAIT_S)
    return True


def lock_hubs(connection: Connection) -> None:
    """Lock the table of hubs until the end of the transaction."""
    connection.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", (_LOCKS, _JOIN_LOCK))


def _has_schema(connection: Connection) -> bool:
    query = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
    return connection.execute(query, (SCHEMA,)).fetchone() is not None


def _last_migration(connection: Connection, address: Address) -> int:
    try:
        row = connection.execute(
            f"SELECT coalesce(max(number), 0) FROM {SCHEMA}.migrations"
        ).fetchone()
    except psycopg.errors.InsufficientPrivilege as error:
        text = first_line(error, address.secrets)
        raise StoreError(
            f"{address.shown}: {text}; grant it as in docs/guides/postgresql.md"
        ) from error
    return int(row[0]) if row else 0


def _run(connection: Connection, address: Address, number: int) -> None:
    with connection.transaction():
        connection.execute(
            "SELECT pg_advisory_xact_lock(%s::int, %s::int)", (_LOCKS, _MIGRATION_LOCK)
        )
        # Another process may have done it while this one waited for the lock.
        if version(connection, address) >= number:
            return
        if not _has_schema(connection):
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        if number == 1:
            connection.execute(
                "CREATE TABLE migrations (number integer PRIMARY KEY,"
                " applied timestamptz NOT NULL DEFAULT now())"
            )
        connection.execute(MIGRATIONS[number - 1])
        connection.execute("INSERT INTO migrations (number) VALUES (%s)", (number,))
