"""Opening the store: which kind of database it is, and its connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from wirelake.wire.errors import missing_dependency
from wirelake.wire.paths import local_path

from ..config import StoreSettings
from .addresses import is_postgres, shown
from .cluster import Cluster
from .interface import Database, RemoveAccount, StoreError
from .migrations import prepare
from .sqlite import SqliteDatabase, SqliteReader, lock
from .store import Store

if TYPE_CHECKING:
    from .copy import CopiedTable

__all__ = [
    "copy_to_postgres",
    "database_path",
    "is_postgres",
    "migrate_store",
    "open_database",
    "open_store",
    "shown",
]


_READERS: Final = 4
"""Connections for reads over a network, each used by a thread: a read waits for an answer, and
others need not wait for it."""


def database_path(path: str, data: Path) -> str | Path:
    """Return the database of a setting: a URL or a path, by default in the data directory."""
    if is_postgres(path):
        return path
    return local_path(path) if path else data / "hub.sqlite3"


def open_database(target: str | Path) -> Database:
    """Connect to a database; create it if it does not exist, upgrade it if it is older."""
    if is_postgres(target):
        database: Database = _driver().PostgresDatabase(str(target))
        return database
    path = Path(target)
    if not path.parent.is_dir():
        raise StoreError(
            f"{path.parent}: no such directory; give the hub's data directory with --data"
        )
    return SqliteDatabase(path)


def open_store(settings: StoreSettings, data: Path, loop: asyncio.AbstractEventLoop) -> Store:
    """Open the store of a hub; create it if it does not exist, upgrade it if it is older."""
    target = database_path(settings.path, data)
    if isinstance(target, str):
        return _open_postgres(target, settings, loop)
    return _open_sqlite(target, settings, loop)


def migrate_store(target: str) -> tuple[int, int]:
    """Create or upgrade the tables of a PostgreSQL database; return the versions before and
    after."""
    if not is_postgres(target):
        raise StoreError(f"{target}: not the address of a PostgreSQL database")
    before, after = _driver().migrate(target)
    return before, after


def copy_to_postgres(
    path: Path, url: str, copied: Callable[[CopiedTable], None]
) -> list[CopiedTable]:
    """Copy a SQLite store to an empty PostgreSQL database (`copy.copy_store`)."""
    _driver()
    from .copy import copy_store

    return copy_store(path, url, copied)


def _open_sqlite(path: Path, settings: StoreSettings, loop: asyncio.AbstractEventLoop) -> Store:
    unlock = lock(path)
    try:
        prepare(path, settings.check_s)
        writer = SqliteDatabase(path, settings.synchronous)
        try:
            reader = SqliteReader(path)
        except BaseException:
            writer.close()
            raise
        _remove_temporary(writer)
    except BaseException:
        unlock()
        raise
    return Store(writer, [reader], loop, blocking_reads=False, released=unlock)


def _open_postgres(url: str, settings: StoreSettings, loop: asyncio.AbstractEventLoop) -> Store:
    if settings.synchronous != "full":
        raise StoreError(
            f"store.synchronous = {settings.synchronous!r} is for SQLite; remove it: PostgreSQL"
            " commits synchronously"
        )
    driver = _driver()
    opened: list[Any] = []
    try:
        opened.append(writer := driver.PostgresDatabase(url, hub=True))
        for _ in range(_READERS):
            session = driver.Session(read_only=True)
            opened.append(driver.PostgresDatabase(url, session=session, create=False))
        cluster = Cluster(loop, opened)
        membership = driver.Membership(url, socket.gethostname(), cluster.renewed, cluster.message)
        cluster.join(membership)
        writer.position = writer.last_number()
        _remove_temporary(writer)
    except BaseException:
        for each in opened:
            each.close()
        raise
    return Store(writer, opened[1:], loop, blocking_reads=True, cluster=cluster)


def _remove_temporary(database: Database) -> None:
    # Clients of connections without sign-on: those connections ended with their hub.
    database.write([RemoveAccount("client", id_) for id_ in database.temporary()])


def _driver() -> ModuleType:
    """Return the module of the PostgreSQL store, which needs an optional dependency."""
    try:
        from . import postgres
    except ImportError as error:
        if error.name is not None and not error.name.startswith("psycopg"):
            raise
        raise StoreError(missing_dependency("psycopg", "postgres")) from error
    return postgres
