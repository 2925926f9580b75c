"""Older files become newer ones, and lose nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.hub.pubsub.local_topics import local_topics

from wirelake.hub.store import StoreError, list_clients
from wirelake.hub.store.migrations import MIGRATIONS, VERSION, migrate

_VERSION_1 = Path(__file__).with_name("version_1.sql")


def _schema(db: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return [(name, " ".join(sql.split())) for name, sql in rows]


def test_a_file_of_version_1_is_upgraded_with_everything_in_it(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite3"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_VERSION_1.read_text())

    async def run() -> None:
        async with local_topics(tmp_path) as it:
            assert await it.authority.verify("ann", "throw-away token of ann") is not None
            assert [each.content for each in await it.topics.inbox("ann", 9)] == [b"one"]
            assert [each.content for each in await it.topics.inbox("bob", 9)] == [b"bob"]
            assert (await it.publish("@news", b"x", key="k")).audience == 1
            published = await it.publish("@news", b"three", ttl_s=5)
            assert published.audience == 2
            it.now += 10
            await it.sweep()
            assert {each.client for each in await it.topics.dead(9)} == {"ann", "bob"}

    asyncio.run(run())
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
            migrate(fresh)
            assert _schema(db) == _schema(fresh)


def test_the_text_of_version_1_is_what_version_1_made(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "a")) as text,
        closing(sqlite3.connect(tmp_path / "b")) as code,
    ):
        text.executescript(_VERSION_1.read_text())
        code.executescript(MIGRATIONS[0])
        assert _schema(text) == _schema(code)


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite3"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StoreError, match="newer Wirelake"):
        list_clients(path)


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite3"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_VERSION_1.read_text())
        db.execute("CREATE TABLE dead_age (in_the_way)")
        before = _schema(db)
    with pytest.raises(StoreError, match="dead_age"):
        list_clients(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert _schema(db) == before
