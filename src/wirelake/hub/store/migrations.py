"""The database file: how it is opened, its tables, and the upgrade of older files.

Migrations are numbered and never change once released; the number of the last one applied is the
file's `user_version`. A file is upgraded when it is opened, with one transaction per step.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final, Literal

from ..config import ConfigError

__all__ = [
    "MIGRATIONS",
    "VERSION",
    "StoreError",
    "connect",
    "database_path",
    "migrate",
]

_BUSY_S: Final = 30.0
"""How long a writer waits for another process, such as `wirelake client add`."""
_READER_CACHE_KB: Final = 16_384
_WRITER_CACHE_KB: Final = 65_536
"""Page caches: large enough for the end of the log and for the index on expiry."""
_CHECKPOINT_PAGES: Final = 4_000
"""Checkpoint after 16 MB of WAL: rarely enough not to slow down batches, often enough for a fast
restart."""
_STATEMENTS: Final = 256
"""Prepared statements: inserts have one per table and power of two of rows (`writer.insert`)."""


class StoreError(ConfigError):
    """The store cannot be used; the message says what to do."""


def database_path(path: str, data: Path) -> Path:
    """Return the path of the database: the setting, or `hub.sqlite3` in the data directory."""
    return Path(path) if path else data / "hub.sqlite3"


def connect(
    path: Path, *, synchronous: Literal["full", "normal"] = "full", reader: bool = False
) -> sqlite3.Connection:
    """Connect; a writer creates the file (readable only by its owner) or upgrades it."""
    try:
        if not reader:  # before SQLite creates it: the file has hashes of tokens
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        return _open(path, synchronous, reader)
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}; does the data directory exist, and is it writable?"
        ) from error
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}; is it a hub database, and is it writable?") from error


def _open(path: Path, synchronous: str, reader: bool) -> sqlite3.Connection:
    db = sqlite3.connect(
        path,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
    )
    try:
        # WAL: the reader on the event loop never waits for the writer's commit. With FULL every
        # commit is synced, and so survives a power failure; NORMAL syncs at checkpoints only.
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {synchronous}")
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        # After a burst the WAL file is cut back to four checkpoints instead of keeping its size.
        db.execute(f"PRAGMA journal_size_limit = {_CHECKPOINT_PAGES * 4096 * 4}")
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute(f"PRAGMA cache_size = -{_READER_CACHE_KB if reader else _WRITER_CACHE_KB}")
        if reader:  # a bug must not turn a read on the loop into a write that waits for the disk
            db.execute("PRAGMA query_only = ON")
        else:
            migrate(db, str(path))
    except BaseException:
        db.close()
        raise
    return db


# -- tables --------------------------------------------------------------------------------------

MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: clients, topics, subscriptions, the log, inboxes, keys of publishers. AUTOINCREMENT: the
    # number of a removed client is never given to another, whose inbox would then be wrong. The
    # index on expiry includes the target, so that the hub loads its index of the log from it alone.
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
    # 2: dead letters. The content is kept once, however many clients it is a dead letter of.
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
    # 3: keys belong to a publisher, and remember what was published. Who wrote the older ones is
    # not known: their digest is empty, and any publisher finds them until they expire.
    """
    CREATE TABLE publisher_keys (
        publisher  TEXT    NOT NULL,
        key        TEXT    NOT NULL,
        digest     BLOB    NOT NULL,
        number     INTEGER NOT NULL,
        private    INTEGER NOT NULL,
        audience   INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL,
        PRIMARY KEY (publisher, key)
    ) WITHOUT ROWID;
    INSERT INTO publisher_keys
        SELECT '', key, x'', number, private, audience, expires_ms FROM keys;
    DROP TABLE keys;
    CREATE INDEX publisher_keys_expiry ON publisher_keys (expires_ms);
    """,
    # 4: tokens that expire (0: never), the token before the last rotation, and users of the HTTP
    # interface.
    """
    ALTER TABLE clients ADD COLUMN expires_ms INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE clients ADD COLUMN old_token BLOB NOT NULL DEFAULT x'';
    ALTER TABLE clients ADD COLUMN old_expires_ms INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE users (
        id             TEXT    PRIMARY KEY,
        role           TEXT    NOT NULL,
        token          BLOB    NOT NULL,
        created_ms     INTEGER NOT NULL,
        expires_ms     INTEGER NOT NULL DEFAULT 0,
        old_token      BLOB    NOT NULL DEFAULT x'',
        old_expires_ms INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE INDEX users_token ON users (token);
    CREATE INDEX users_old_token ON users (old_token);
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
