"""The tables of the store, and the upgrade of older files.

Migrations are numbered and never change once released; the number of the last one applied is the
file's `user_version`. A file is upgraded when it is opened, with one transaction per step.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from ..config import ConfigError

__all__ = ["MIGRATIONS", "VERSION", "StoreError", "migrate"]


class StoreError(ConfigError):
    """The store cannot be used; the message says what to do."""


MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: clients, topics, subscriptions, the log, inboxes, keys of publishers.
    """
    CREATE TABLE clients (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        id         TEXT    NOT NULL UNIQUE,
        token      BLOB    NOT NULL,
        created_ms INTEGER NOT NULL
    );
    CREATE TABLE topics (
        number INTEGER PRIMARY KEY,
        name   TEXT    NOT NULL UNIQUE
    );
    CREATE TABLE subscriptions (
        client INTEGER NOT NULL,
        topic  INTEGER NOT NULL,
        start  INTEGER NOT NULL,
        ack    INTEGER NOT NULL,
        PRIMARY KEY (client, topic)
    ) WITHOUT ROWID;
    CREATE TABLE log (
        number     INTEGER PRIMARY KEY,
        target     INTEGER NOT NULL,
        type       INTEGER NOT NULL,
        ts_ms      INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL,
        topic      TEXT,
        content    BLOB    NOT NULL
    );
    CREATE INDEX log_expiry ON log (expires_ms, target);
    CREATE TABLE inboxes (
        client INTEGER PRIMARY KEY,
        cursor INTEGER NOT NULL,
        state  BLOB    NOT NULL
    );
    CREATE TABLE keys (
        key        TEXT    PRIMARY KEY,
        number     INTEGER NOT NULL,
        private    INTEGER NOT NULL,
        audience   INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX keys_expiry ON keys (expires_ms);
    CREATE TABLE marks (
        name  TEXT    PRIMARY KEY,
        value INTEGER NOT NULL
    ) WITHOUT ROWID;
    """,
    # 2: dead letters; the content is kept once, however many clients it is a dead letter of.
    """
    CREATE TABLE dead_log (
        number  INTEGER PRIMARY KEY,
        type    INTEGER NOT NULL,
        ts_ms   INTEGER NOT NULL,
        topic   TEXT,
        content BLOB    NOT NULL
    );
    CREATE TABLE dead (
        place   INTEGER PRIMARY KEY,
        client  INTEGER NOT NULL,
        number  INTEGER NOT NULL,
        reason  TEXT    NOT NULL,
        dead_ms INTEGER NOT NULL,
        UNIQUE (client, number)
    );
    CREATE INDEX dead_number ON dead (number);
    CREATE INDEX dead_age ON dead (dead_ms);
    """,
)
"""Every step, oldest first. `log.target` is the number of a topic, or minus that of a client;
`log.topic` is set only in a redriven dead letter, whose target is its client."""

VERSION: Final = len(MIGRATIONS)
"""The version this code writes."""


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Upgrade a file to `VERSION`; raise StoreError for a newer one."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreError(
            f"{path}: written by a newer Wirelake (format {version}, supported {VERSION}); "
            "upgrade Wirelake or restore a backup"
        )
    for number in range(version, VERSION):
        _run(db, number + 1, MIGRATIONS[number])


def _run(db: sqlite3.Connection, number: int, script: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        if db.execute("PRAGMA user_version").fetchone()[0] < number:
            for statement in script.split(";"):
                if statement.strip():
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
