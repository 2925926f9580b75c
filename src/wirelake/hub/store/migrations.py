"""The database file: how it is created, opened, checked and upgraded.

A new file gets its name when its tables are on disk. So a file of zero bytes is never a database
that a kill has interrupted: somebody truncated it, and it is refused instead of replaced.

Migrations are numbered and never change once released; the number of the last one applied is the
file's `user_version`. A file is upgraded when it is opened, with one transaction per step.

Deleted rows leave free pages, which SQLite reuses before the file grows. `shrink` gives them back
when there are many (`auto_vacuum = INCREMENTAL`).
"""

from __future__ import annotations

import logging
import os
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

from .interface import StoreError

__all__ = [
    "MIGRATIONS",
    "VERSION",
    "check",
    "connect",
    "migrate",
    "prepare",
    "shrink",
]

_log = logging.getLogger(__name__)

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
_CONVERT_BYTES: Final = 64 << 20
"""Contents up to which an older file is rewritten at the start, so that it can shrink: less than a
second. A larger one reuses its free pages until somebody runs VACUUM."""
_KEPT_PAGES: Final = 1_024
_SHRUNK_PAGES: Final = 512
"""Free pages that are always kept for reuse, and those that one call of `shrink` gives back: 2 MB,
a few milliseconds of the writer."""
_LARGE_TABLES: Final = ("publisher_keys", "dead", "dead_log", "log")
"""Checked last: when the time runs out, what the hub cannot do without is checked."""


def connect(
    path: Path,
    *,
    synchronous: Literal["full", "normal"] = "full",
    reader: bool = False,
    create: bool = True,
) -> sqlite3.Connection:
    """Connect; a writer creates the file (readable only by its owner) or upgrades it."""
    try:
        if not reader:
            _check_exists(Path(os.path.realpath(path)), create)
        return _open(path, synchronous, reader)
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}; does the data directory exist, and is it writable?"
        ) from error
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:
            raise _damaged(path, str(error)) from error
        raise StoreError(f"{path}: {error}; is it a hub database, and is it writable?") from error


def _check_exists(path: Path, create: bool) -> None:
    """Create the file if it does not exist; raise StoreError for one that has lost its content."""
    wal = path.with_name(f"{path.name}-wal")
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        # The WAL has confirmed publishes. SQLite would delete it together with a new file.
        if wal.exists() and wal.stat().st_size:
            raise StoreError(
                f"{path}: no such file, but {wal.name} has changes of it; restore the database, or"
                f" delete {wal.name} to start with a new one"
            ) from None
        if not create:
            raise
        _create(path)
        return
    if not size:
        raise StoreError(
            f"{path}: the database is empty (0 bytes); restore a backup, or delete the file to"
            " start with a new one, without clients and notifications"
        )


def _create(path: Path) -> None:
    # mkstemp: readable only by its owner, because the file has hashes of tokens; and a name of its
    # own, because `wirelake client add` may create the database at the same time.
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
    try:
        with closing(sqlite3.connect(name, isolation_level=None)) as db:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table
            migrate(db)
        os.fsync(handle)
        try:
            os.link(name, path)
        except FileExistsError:
            pass  # another process was faster
        except OSError:  # a file system without hard links
            os.rename(name, path)
    finally:
        os.close(handle)
        Path(name).unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _open(path: Path, synchronous: str, reader: bool) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",  # rw: a file that is gone is an error
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
    )
    try:
        if not reader:
            _check_version(db, path)
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
            migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError for a database that this version cannot use, before it is changed."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreError(
            f"{path}: written by a newer Wirelake (format {version}, supported {VERSION}); "
            "upgrade Wirelake or restore a backup"
        )
    if not version:  # a hub's own file has its version from the first moment on
        raise StoreError(
            f"{path}: not the database of a hub (it has no format number, as after `sqlite3 .dump`)"
            "; restore a backup, or choose another store.path"
        )


# -- at the start of a hub -----------------------------------------------------------------------


def prepare(path: Path, check_s: float) -> None:
    """Create, upgrade and check the database before a hub uses it; raise StoreError."""
    with closing(connect(path)) as db:
        if check_s:
            check(db, path, check_s)
        try:
            _make_shrinkable(db)
        except sqlite3.Error as error:
            _log.warning("%s: cannot be rewritten: %s; it keeps its size", path, error)


def check(db: sqlite3.Connection, path: Path, check_s: float) -> None:
    """Run `quick_check` on the tables, for at most `check_s` seconds; raise StoreError."""
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    names.sort(key=lambda name: _LARGE_TABLES.index(name) if name in _LARGE_TABLES else -1)
    # The timer ends a statement that runs; the deadline is for the moments between two.
    deadline = time.monotonic() + check_s
    timer = threading.Timer(check_s, db.interrupt)
    timer.daemon = True
    timer.start()
    try:
        for name in names:
            if time.monotonic() > deadline:
                _log_unfinished(path, check_s)
                return
            found = db.execute(f"PRAGMA quick_check({name})").fetchone()[0]
            if found != "ok":
                raise _damaged(path, found)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
            raise _damaged(path, str(error)) from error
        _log_unfinished(path, check_s)
    finally:
        timer.cancel()
        timer.join()


def _log_unfinished(path: Path, check_s: float) -> None:
    _log.warning("%s: checked for %g s, not completely; see store.check_s", path, check_s)


def _damaged(path: Path, found: str) -> StoreError:
    what = found.replace("***", "").strip().splitlines()[0][:200]
    return StoreError(
        f"{path}: the database is damaged ({what}); restore a backup, or salvage it with"
        f" `sqlite3 {path.name} .recover`"
    )


def _make_shrinkable(db: sqlite3.Connection) -> None:
    """Rewrite a file that was created before it could shrink, unless it is large."""
    incremental = 2
    if db.execute("PRAGMA auto_vacuum").fetchone()[0] == incremental:
        return
    pages, free = _pages(db)
    if (pages - free) * _page_bytes(db) <= _CONVERT_BYTES:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("VACUUM")


def shrink(db: sqlite3.Connection) -> bool:
    """Give free pages back if they are more than a third of the file; return whether some were.

    The rest is kept: a file that shrinks and grows with every burst would be written twice.
    """
    try:
        pages, free = _pages(db)
        if free <= max(_KEPT_PAGES, pages // 3):
            return False
        # executescript: SQLite frees one page per step of the statement, and `execute` makes one.
        # The file itself becomes shorter with a checkpoint; PASSIVE waits for nobody.
        count = min(free - _KEPT_PAGES, _SHRUNK_PAGES)
        db.executescript(f"PRAGMA incremental_vacuum({count}); PRAGMA wal_checkpoint(PASSIVE)")
        return _pages(db)[0] < pages
    except sqlite3.Error as error:  # what was to be written is written
        _log.warning("cannot give free pages of the database back: %s", error)
        return False


def _pages(db: sqlite3.Connection) -> tuple[int, int]:
    """Return the number of pages of the file, and of those that are free."""
    pages: int = db.execute("PRAGMA page_count").fetchone()[0]
    free: int = db.execute("PRAGMA freelist_count").fetchone()[0]
    return pages, free


def _page_bytes(db: sqlite3.Connection) -> int:
    size: int = db.execute("PRAGMA page_size").fetchone()[0]
    return size


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
    # 5: what hubs kept in memory before is read from here. How many subscribers a topic has, and
    # how many notifications were appended to it; when the backlog of a subscriber is counted again;
    # the lowest number that an inbox needs (0: not known, everything). Numbers of topics are not
    # reused, because rows of the log are deleted later than their topic. A client with an empty
    # token belongs to a connection without sign-on, and is removed with it.
    """
    DELETE FROM subscriptions WHERE client NOT IN (SELECT number FROM clients)
        OR topic NOT IN (SELECT number FROM topics);
    ALTER TABLE subscriptions ADD COLUMN check_at INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX subscriptions_topic ON subscriptions (topic, client);
    CREATE INDEX subscriptions_check ON subscriptions (topic, check_at);
    ALTER TABLE topics ADD COLUMN subscribers INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE topics ADD COLUMN appended INTEGER NOT NULL DEFAULT 0;
    UPDATE topics SET subscribers =
        (SELECT count(*) FROM subscriptions WHERE subscriptions.topic = topics.number);
    ALTER TABLE inboxes ADD COLUMN needed INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX log_target ON log (target);
    DROP INDEX log_expiry;
    CREATE INDEX log_expiry ON log (expires_ms);
    CREATE INDEX clients_temporary ON clients (number) WHERE token = x'';
    CREATE TABLE removed_topics (number INTEGER PRIMARY KEY);
    INSERT INTO removed_topics SELECT DISTINCT target FROM log
        WHERE target > 0 AND target NOT IN (SELECT number FROM topics WHERE subscribers > 0);
    INSERT OR REPLACE INTO marks SELECT 'topic',
        max(coalesce((SELECT max(number) FROM topics), 0),
            coalesce((SELECT max(number) FROM removed_topics), 0));
    DELETE FROM topics WHERE subscribers = 0;
    DELETE FROM log WHERE target < 0 AND -target NOT IN (SELECT number FROM clients);
    INSERT OR REPLACE INTO marks SELECT 'topics', count(*) FROM topics;
    INSERT OR REPLACE INTO marks SELECT 'clients', count(*) FROM clients;
    INSERT OR REPLACE INTO marks SELECT 'number',
        max(coalesce((SELECT max(number) FROM log), 0),
            coalesce((SELECT max(number) FROM dead_log), 0),
            coalesce((SELECT max(number) FROM publisher_keys), 0),
            coalesce((SELECT max(start) FROM subscriptions), 0),
            coalesce((SELECT max(cursor) FROM inboxes), 0),
            coalesce((SELECT value FROM marks WHERE name = 'number'), 0));
    """,
)
"""Every step, oldest first. `log.target` is the number of a topic, or minus that of a client;
`log.topic` is set only in a redriven dead letter, whose target is its client."""

VERSION: Final = len(MIGRATIONS)
"""The version this code writes."""


def migrate(db: sqlite3.Connection) -> None:
    """Upgrade a file to `VERSION`."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
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
