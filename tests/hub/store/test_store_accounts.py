"""Clients in the store, also from other processes while a hub has it open."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from wirelake.hub.config import StoreSettings
from wirelake.hub.store import (
    StoreError,
    add_client,
    list_clients,
    open_store,
    remove_client,
    rotate_client,
)
from wirelake.hub.store.interface import SaveTransient


def test_only_the_hash_of_a_token_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite3"
    token = add_client(path, "ann")
    assert re.fullmatch(r"t[A-Za-z0-9_-]{43}", token)
    (row,) = list_clients(path)
    assert (row.id, row.token) == ("ann", hashlib.sha256(token.encode()).digest())
    assert token.encode() not in path.read_bytes()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert rotate_client(path, "ann") != token
    assert list_clients(path)[0].token != row.token


@pytest.mark.parametrize("id_", ["", "~1", "a\nb", "x" * 257, "\ud800"])
def test_ids_that_are_none(tmp_path: Path, id_: str) -> None:
    with pytest.raises(StoreError, match="invalid client id"):
        add_client(tmp_path / "hub.sqlite3", id_)


def test_mistakes_are_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite3"
    add_client(path, "ann")
    with pytest.raises(StoreError, match="already exists"):
        add_client(path, "ann")
    for act in (remove_client, rotate_client):
        with pytest.raises(StoreError, match="unknown client 'bob'"):
            act(path, "bob")
    with pytest.raises(StoreError, match="no such directory"):
        list_clients(tmp_path / "nowhere" / "hub.sqlite3")
    (tmp_path / "text").write_text("this is no database, whatever it says, and it is long enough")
    with pytest.raises(StoreError, match="is it a hub database"):
        list_clients(tmp_path / "text")


def test_a_removed_id_added_again_is_a_new_client(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite3"
    add_client(path, "ann")
    first = list_clients(path)[0].number
    remove_client(path, "ann")
    add_client(path, "ann")
    assert list_clients(path)[0].number > first


def test_another_process_adds_clients_while_the_hub_writes(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "hub.sqlite3"
        store = open_store(StoreSettings(), tmp_path, asyncio.get_running_loop())
        code = (
            "import sys; from wirelake.hub.store import add_client\n"
            "for n in range(20): add_client(sys.argv[1], f'c{n}')"
        )
        with subprocess.Popen([sys.executable, "-c", code, str(path)]) as process:
            number = 0
            while process.poll() is None:
                number += 1
                await store.execute(SaveTransient(number))
            assert process.returncode == 0
        assert sorted(row.id for row in await store.accounts("client")) == sorted(
            f"c{n}" for n in range(20)
        )
        assert await store.last_transient() == number
        await store.close()

    asyncio.run(run())


def test_two_hubs_do_not_share_a_database(tmp_path: Path) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        store = open_store(StoreSettings(), tmp_path, loop)
        with pytest.raises(StoreError, match="another hub"):
            open_store(StoreSettings(), tmp_path, loop)
        await store.close()
        await open_store(StoreSettings(), tmp_path, loop).close()

    asyncio.run(run())


def test_a_damaged_file_is_not_taken(tmp_path: Path) -> None:
    async def run() -> None:
        (tmp_path / "hub.sqlite3").write_bytes(b"not a database at all, but rather some text")
        with pytest.raises(StoreError, match="is it a hub database"):
            open_store(StoreSettings(), tmp_path, asyncio.get_running_loop())
        with pytest.raises(StoreError, match="data directory"):
            open_store(StoreSettings(), tmp_path / "none", asyncio.get_running_loop())

    asyncio.run(run())


def test_settings_choose_durability(tmp_path: Path) -> None:
    async def run() -> None:
        for name, wanted in (("full", 2), ("normal", 1)):
            store = open_store(
                StoreSettings(path=str(tmp_path / name), synchronous=name),  # type: ignore[arg-type]
                tmp_path,
                asyncio.get_running_loop(),
            )
            db = store._writer._database._db  # type: ignore[attr-defined]
            found = [
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("synchronous", "journal_mode")
            ]
            assert found == [wanted, "wal"]
            await store.close()
            with closing(sqlite3.connect(tmp_path / name)) as db:
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    asyncio.run(run())


def test_the_dead_letters_of_a_removed_client_leave_no_content(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite3"
    for name in ("ann", "bob"):
        add_client(path, name)
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO dead_log VALUES (1, 0, 0, '@a', x'00'), (2, 0, 0, '@a', x'00')")
        db.execute(
            "INSERT INTO dead (client, number, reason, dead_ms) "
            "VALUES (1, 1, 'quota', 0), (1, 2, 'quota', 0), (2, 2, 'quota', 0)"
        )
        db.commit()
        remove_client(path, "ann")
        assert db.execute("SELECT number FROM dead_log").fetchall() == [(2,)]
        assert db.execute("SELECT client, number FROM dead").fetchall() == [(2, 2)]
