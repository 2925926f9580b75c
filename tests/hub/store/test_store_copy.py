"""Moving a SQLite store to PostgreSQL: everything arrives, or nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.postgres_server import shared_server

from wirelake.hub.store import copy as module
from wirelake.hub.store.copy import CopiedTable, copy_store
from wirelake.hub.store.interface import (
    AddAccount,
    AddDeadLetters,
    InboxRow,
    KeyRow,
    NewKey,
    SaveInboxes,
    SaveTransient,
    SetChecks,
    StoreError,
    Unsubscribe,
)
from wirelake.hub.store.postgres import PostgresDatabase
from wirelake.hub.store.sqlite import SqliteDatabase, lock

from .databases import DAY_MS, NOW_MS, Box, publish, subscribe

pytestmark = pytest.mark.slow

MOST = 1 << 60


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a database without tables."""
    server = shared_server()
    name = server.new_database()
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A SQLite store with something in every table."""
    path = tmp_path / "hub.sqlite3"
    box = Box(lambda: SqliteDatabase(path))
    box.client("gone", "@b")
    ann, bob = box.client("Анна", "@a", "@новости"), box.client("bob", "@a")
    box.write(subscribe(0, "@a", id_="~1", ack=False))
    box.write(AddAccount("user", "u", b"u\0\xff", 5, 6, "viewer"))
    numbers = box.published(
        *(publish("@a", bytes([n % 256]) * n) for n in range(300)),
        publish("@новости", "🌊".encode()),
        publish(to="bob"),
        publish("@b"),
    )
    box.write(
        publish("@a", key=NewKey("bob", "key\0🗝", b"digest", NOW_MS + DAY_MS, True)),
        publish(to="bob", key=NewKey("", "key", b"digest", NOW_MS + DAY_MS, True)),
        SaveInboxes((InboxRow(ann, numbers[5], b"\0state", numbers[3]),)),
        AddDeadLetters(((bob, numbers[2], "quota", 50), (ann, numbers[2], "quota", 40))),
        AddDeadLetters(((bob, numbers[1], "ttl", 45),), (numbers[1],)),
        SetChecks(((ann, box.topic("@a"), 500),)),
        SaveTransient(77),
        Unsubscribe(1, (box.topic("@b"),)),
    )
    box.close()
    return path


def test_everything_arrives_and_works(path: Path, url: str) -> None:
    before = path.read_bytes()
    seen: list[CopiedTable] = []
    tables = copy_store(path, url, seen.append)
    assert tables == seen
    assert {each.name: each.rows for each in tables} == {
        "clients": 4,
        "users": 1,
        "topics": 2,
        "removed_topics": 1,
        "subscriptions": 4,
        "inboxes": 1,
        "log": 304,
        "publisher_keys": 2,
        "dead_log": 2,
        "dead": 3,
        "log_tail": 1,
    }
    assert len({each.sha256 for each in tables}) == len(tables)
    assert path.read_bytes() == before
    with closing(SqliteDatabase(path)) as old, closing(PostgresDatabase(url)) as new:
        for client in range(6):
            assert new.load_client(client) == old.load_client(client)
            assert sorted(new.checks(client)) == sorted(old.checks(client))
        assert new.topic_page(0, 100) == old.topic_page(0, 100)
        assert new.client_page(0, 100) == old.client_page(0, 100)
        assert new.accounts("user") == old.accounts("user")
        assert new.temporary() == old.temporary() == ["~1"]
        assert new.last_number() == old.last_number()
        assert new.last_transient() == 77
        rows = [(number, target) for number, target in old.expired(MOST, 1_000)]
        assert sorted(new.expired(MOST, 1_000)) == sorted(rows)
        assert new.entries([n for n, _ in rows]) == old.entries([n for n, _ in rows])
        assert sorted(new.key_counts()) == sorted(old.key_counts())
        assert [each[1:] for each in new.dead(10)] == [each[1:] for each in old.dead(10)]
        # It goes on where the other one ended.
        results = [
            database.write(
                [
                    publish("@a"),
                    publish("@a", key=NewKey("bob", "key\0🗝", b"d", NOW_MS + DAY_MS, True)),
                    AddAccount("client", "new", b"n", 0),
                    subscribe(2, "@new"),
                ]
            )
            for database in (old, new)
        ]
        assert results[0] == results[1]
        assert isinstance(results[0][1], KeyRow)


def test_an_empty_store_can_be_copied(tmp_path: Path, url: str) -> None:
    path = tmp_path / "hub.sqlite3"
    SqliteDatabase(path).close()
    assert sum(each.rows for each in copy_store(path, url)) == 1


def test_a_target_with_a_store_is_refused_and_not_changed(path: Path, url: str) -> None:
    with closing(PostgresDatabase(url)) as target:
        target.write([AddAccount("user", "u", b"x", 0)])
        with pytest.raises(StoreError, match=r"has a store already .table users is not empty"):
            copy_store(path, url)
        assert len(target.accounts("user")) == 1
        assert target.accounts("client") == []


def test_a_store_that_a_hub_uses_is_refused(
    path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlock = lock(path)
    with pytest.raises(StoreError, match="in use by another hub"):
        copy_store(path, url)
    unlock()
    monkeypatch.setattr(module, "_CLAIM_S", 0.2)
    hub = PostgresDatabase(url, hub=True)
    with pytest.raises(StoreError, match="in use by a hub; stop it"):
        copy_store(path, url)
    hub.close()
    copy_store(path, url)


def test_what_is_no_store_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(StoreError, match="no such file"):
        copy_store(tmp_path / "nothing.sqlite3", url)
    (tmp_path / "other").write_text("this is no database, whatever it says, and it is long enough")
    with pytest.raises(StoreError, match="is it a hub database"):
        copy_store(tmp_path / "other", url)


def test_a_copy_that_differs_is_not_kept(path: Path, url: str) -> None:
    # A trigger of the database changes one value.
    PostgresDatabase(url).close()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET search_path = wirelake")
        db.execute(
            "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN NEW.cursor := NEW.cursor + 1; RETURN NEW; END$$"
        )
        db.execute(
            "CREATE TRIGGER act BEFORE INSERT ON inboxes FOR EACH ROW EXECUTE FUNCTION act()"
        )
        with pytest.raises(
            StoreError, match=r"table inboxes differs after the copy .1 rows instead"
        ):
            copy_store(path, url)
        db.execute("DROP TRIGGER act ON inboxes")
    copy_store(path, url)


@pytest.mark.parametrize("table", ["clients", "log", "log_tail"])
def test_a_copy_that_was_killed_leaves_nothing_and_is_repeated(
    path: Path, url: str, table: str
) -> None:
    code = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from wirelake.hub.store.copy import copy_store\n"
        "def copied(table):\n"
        "    if table.name == sys.argv[3]:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "copy_store(Path(sys.argv[1]), sys.argv[2], copied)\n"
    )
    command = [sys.executable, "-c", code, str(path), url, table]
    ended = subprocess.run(command, check=False, env=os.environ)
    assert ended.returncode == -signal.SIGKILL
    with closing(PostgresDatabase(url)) as target:
        assert target.accounts("client") == []
        assert target.last_number() == 0
    assert len(copy_store(path, url)) == 11


def test_a_store_of_an_older_format_is_upgraded_and_copied(tmp_path: Path, url: str) -> None:
    path = tmp_path / "hub.sqlite3"
    script = (Path(__file__).parent / "version_1.sql").read_text()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)
    tables = {each.name: each.rows for each in copy_store(path, url)}
    assert tables["clients"] > 0
    assert tables["log"] > 0
