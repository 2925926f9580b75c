"""A database of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wirelake.hub.store.postgres import PostgresDatabase
from wirelake.hub.store.sqlite import SqliteDatabase

from .databases import Box


@pytest.fixture(params=["sqlite", "postgres"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    """A new database."""
    if request.param == "sqlite":
        box = Box(lambda: SqliteDatabase(tmp_path / "hub.sqlite3"))
    else:
        url = request.getfixturevalue("postgres")
        box = Box(lambda: PostgresDatabase(url))
    yield box
    box.close()
