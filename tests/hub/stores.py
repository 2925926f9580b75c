"""Which store the hubs of a test use, and the database of each folder.

    pytest tests/hub --store postgres

A test names the database of a hub by the folder of its data: `database_of(folder)` is a file in
that folder, or the address of a database of its own on the PostgreSQL server that all tests of this
process share. The tests of a module with the mark `both_stores` run on both; those with the mark
`sqlite_only`, whose argument says why, are skipped on PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from tests import postgres_server
from tests.postgres_server import Server

from wirelake.hub.store import migrate_store

__all__ = [
    "STORES",
    "configured",
    "copied",
    "database_of",
    "default",
    "is_postgres",
    "named",
    "select",
    "store_table",
    "used",
]

STORES = ("sqlite", "postgres")
_SETTINGS = "?options=-csearch_path%3Dwirelake"
_used: list[str] = []
_servers: list[Server | None] = []
_databases: dict[Path, str] = {}


def default() -> str:
    """The store of tests and fixtures that do not name one."""
    # Not a constant: this may be imported before pytest has set it from the option `--store`.
    return os.environ.get("WIRELAKE_TEST_STORE") or "sqlite"


def is_postgres() -> bool:
    """Whether hubs of the running test are in PostgreSQL."""
    return (_used[-1] if _used else default()) == "postgres"


@contextmanager
def used(store: str, server: Server | None = None) -> Iterator[None]:
    """Uses a store for one test, perhaps on a server of its own; its databases are dropped at the
    end."""
    assert store in STORES, f"unknown store {store!r}; expected one of {', '.join(STORES)}"
    _used.append(store)
    _servers.append(server or (_servers[-1] if _servers else None))
    before = set(_databases)
    try:
        yield
    finally:
        _used.pop()
        for each in _databases.keys() - before:
            _server().drop_database(_databases.pop(each))
        _servers.pop()


def database_of(folder: Path) -> Any:
    """The database of the hub with its data in this folder: a path, or the address of one that has
    the tables already."""
    if not is_postgres():
        return folder / "hub.sqlite3"
    server, folder = _server(), folder.resolve()
    if folder not in _databases:
        _databases[folder] = _new_database(server)
    return server.url(_databases[folder])


def _server() -> Server:
    return (_servers[-1] if _servers else None) or postgres_server.shared_server()


def _new_database(server: Server) -> str:
    if not _servers or _servers[-1] is None:
        return server.new_database("prepared")
    name = server.new_database()
    migrate_store(server.url(name))
    return name


def store_table(folder: Path) -> dict[str, Any]:
    """The table `store` of a configuration, as far as it names the database."""
    return {"path": database_of(folder)} if is_postgres() else {}


def named(folder: Path) -> tuple[str, ...]:
    """The options with which a command names the store of a folder."""
    return ("--store", database_of(folder)) if is_postgres() else ("--data", str(folder))


def configured(folder: Path) -> str:
    """The lines of a configuration that name the database; empty for the file in the folder."""
    return f'[store]\npath = "{database_of(folder)}"\n' if is_postgres() else ""


def select(folder: Path, statement: str) -> list[Any]:
    """Executes a statement in the database of a folder and returns its rows."""
    if not is_postgres():
        with closing(sqlite3.connect(folder / "hub.sqlite3")) as db, db:
            return db.execute(statement).fetchall()
    with psycopg.connect(database_of(folder) + _SETTINGS) as connection:
        cursor = connection.execute(statement)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []


def copied(folder: Path, to: Path) -> Path:
    """Copies what is committed at this moment: the database as a kill would leave it."""
    to.mkdir()
    if is_postgres():
        with (
            psycopg.connect(database_of(folder) + _SETTINGS) as source,
            psycopg.connect(database_of(to) + _SETTINGS) as target,
        ):
            _copy_tables(source, target)
        return to
    for name in ("hub.sqlite3", "hub.sqlite3-wal"):
        if (folder / name).exists():
            shutil.copyfile(folder / name, to / name)
    return to


def _copy_tables(source: psycopg.Connection[Any], target: psycopg.Connection[Any]) -> None:
    source.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    tables = source.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = 'wirelake'::regnamespace"
    ).fetchall()
    for (name,) in tables:
        target.execute(f"TRUNCATE {name}")  # type: ignore[call-overload]
        with (
            source.cursor().copy(f"COPY {name} TO STDOUT") as rows,  # type: ignore[call-overload]
            target.cursor().copy(f"COPY {name} FROM STDIN") as copy,  # type: ignore[call-overload]
        ):
            for each in rows:
                copy.write(each)
    target.execute(
        "SELECT setval('dead_place_seq', (SELECT coalesce(max(place), 0) + 1 FROM dead))"
    )
