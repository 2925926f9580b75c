"""Opening the database file, with the settings that durability and speed want."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final, Literal

from .migrations import StoreError, migrate

__all__ = ["connect", "database_path"]

_BUSY_S: Final = 30.0
"""How long a writer waits for another process, such as `wirelake client add`."""
_READER_CACHE_KB: Final = 16_384
_WRITER_CACHE_KB: Final = 65_536
"""Pages in memory: the end of the log and the index of expiry, with room to spare."""
_CHECKPOINT_PAGES: Final = 4_000
"""16 MB of log of writes before it is moved into the file: seldom enough that a batch does not
feel it, often enough that a restart reads it in a moment."""
_STATEMENTS: Final = 256


def database_path(path: str, data: Path) -> Path:
    """Where the database is: what the settings say, or `hub.sqlite3` in the data directory."""
    return Path(path) if path else data / "hub.sqlite3"


def connect(
    path: Path, *, synchronous: Literal["full", "normal"] = "full", reader: bool = False
) -> sqlite3.Connection:
    """A connection; the first one makes the file (readable by its owner alone) or upgrades it."""
    try:
        if not reader:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        return _open(path, synchronous, reader)
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}; is the data directory there, and may it be written?"
        ) from error
    except sqlite3.Error as error:
        raise StoreError(
            f"{path}: {error}; is it the hub's database, and may it be written?"
        ) from error


def _open(path: Path, synchronous: str, reader: bool) -> sqlite3.Connection:
    db = sqlite3.connect(
        path,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
    )
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {synchronous}")
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        db.execute(f"PRAGMA journal_size_limit = {_CHECKPOINT_PAGES * 4096 * 4}")
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute(f"PRAGMA cache_size = -{_READER_CACHE_KB if reader else _WRITER_CACHE_KB}")
        if reader:
            db.execute("PRAGMA query_only = ON")
        else:
            migrate(db, str(path))
    except BaseException:
        db.close()
        raise
    return db
