"""Opening the store: which kind of database it is, and its connections."""

from __future__ import annotations

import asyncio
from pathlib import Path

from wirelake.wire.paths import local_path

from ..config import StoreSettings
from .interface import Database, RemoveAccount, StoreError
from .migrations import prepare
from .sqlite import SqliteDatabase, SqliteReader, lock
from .store import Store

__all__ = ["database_path", "open_database", "open_store", "shown"]


def database_path(path: str, data: Path) -> Path:
    """Return the path of the database: the setting, or `hub.sqlite3` in the data directory."""
    return local_path(path) if path else data / "hub.sqlite3"


def open_database(target: str | Path) -> Database:
    """Connect to a database; create it if it does not exist, upgrade it if it is older."""
    path = Path(target)
    if not path.parent.is_dir():
        raise StoreError(
            f"{path.parent}: no such directory; give the hub's data directory with --data"
        )
    return SqliteDatabase(path)


def shown(target: str | Path) -> str:
    """Return a database as it may be shown: without a password."""
    return str(target)


def open_store(settings: StoreSettings, data: Path, loop: asyncio.AbstractEventLoop) -> Store:
    """Open the store of a hub; create it if it does not exist, upgrade it if it is older."""
    path = database_path(settings.path, data)
    unlock = lock(path)
    try:
        prepare(path, settings.check_s)
        writer = SqliteDatabase(path, settings.synchronous)
        try:
            reader = SqliteReader(path)
        except BaseException:
            writer.close()
            raise
        # Clients of connections without sign-on: those connections ended with the last hub.
        writer.write([RemoveAccount("client", id_) for id_ in writer.temporary()])
    except BaseException:
        unlock()
        raise
    return Store(writer, [reader], loop, blocking_reads=False, released=unlock)
