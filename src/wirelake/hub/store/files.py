"""Opening the database file, with its settings for durability and speed."""

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
"""Page cache: holds the end of the log and the expiry index with room to spare."""
_CHECKPOINT_PAGES: Final = 4_000
"""Checkpoint after 16 MB of WAL: rare enough not to slow a batch, frequent enough for a fast
restart."""
_STATEMENTS: Final = 256


def database_path(path: str, data: Path) -> Path:
    """Return the path of the database: the setting, or `hub.sqlite3` in the data directory."""
    return Path(path) if path else data / "hub.sqlite3"


def connect(
    path: Path, *, synchronous: Literal["full", "normal"] = "full", reader: bool = False
) -> sqlite3.Connection:
    """Connect; a writer creates the file (readable only by its owner) or upgrades it."""
    try:
        if not reader:
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
