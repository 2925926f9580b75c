"""Moves the store of a hub from SQLite to PostgreSQL, whole and checked.

Everything is copied in one transaction. Before its end, both databases are read, and the rows of
each table are compared by their number and a checksum. So a copy that is interrupted, or that
differs, leaves the target as empty as it was, and can be started again.

The source is locked as by a hub, and read as of one moment. The target has to be empty.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import psycopg

from .interface import StoreError
from .migrations import connect as connect_sqlite
from .migrations import prepare as prepare_sqlite
from .postgres_connection import Address, Connection, Session, connect, first_line, parse_address
from .postgres_schema import prepare, take_hub_lock
from .sqlite import lock

__all__ = ["CopiedTable", "copy_store"]

_BATCH: Final = 10_000
"""Rows that are read at a time."""
_CLAIM_S: Final = 5.0
"""How long to wait for the end of a copy that was killed a moment ago."""
_SESSION: Final = Session(statement_s=0, call_s=600.0)
"""A copy takes as long as it takes; only a server that does not answer is given up."""


class CopiedTable(NamedTuple):
    """A table that was copied."""

    name: str
    rows: int
    sha256: str
    """Of all rows in order."""


class _Table(NamedTuple):
    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and types in PostgreSQL."""
    order: str


def _table(name: str, columns: str, order: str) -> _Table:
    pairs = (each.strip().split(" ") for each in columns.split(","))
    return _Table(name, tuple((column, kind) for column, kind in pairs), order)


_TABLES: Final = (
    _table(
        "clients",
        "number int8, id text, token bytea, created_ms int8, expires_ms int8, old_token bytea,"
        " old_expires_ms int8",
        "number",
    ),
    _table(
        "users",
        "id text, role text, token bytea, created_ms int8, expires_ms int8, old_token bytea,"
        " old_expires_ms int8",
        "id",
    ),
    _table("topics", "number int8, name text, subscribers int8, appended int8", "number"),
    _table("removed_topics", "number int8", "number"),
    _table(
        "subscriptions",
        "client int8, topic int8, start int8, ack bool, check_at int8",
        "client, topic",
    ),
    _table("inboxes", "client int8, cursor int8, state bytea, needed int8", "client"),
    _table(
        "log",
        "number int8, target int8, type int8, ts_ms int8, expires_ms int8, topic text,"
        " content bytea",
        "number",
    ),
    _table(
        "publisher_keys",
        "publisher text, key bytea, digest bytea, number int8, private bool, audience int8,"
        " expires_ms int8",
        "publisher, key",
    ),
    _table("dead_log", "number int8, type int8, ts_ms int8, topic text, content bytea", "number"),
    # Its places are allocated anew, in the same order.
    _table("dead", "client int8, number int8, reason text, dead_ms int8", "place"),
)
_TAIL: Final = ("number", "transient", "client", "topic", "clients", "topics")


def copy_store(
    path: Path, url: str, copied: Callable[[CopiedTable], None] = lambda _: None
) -> list[CopiedTable]:
    """Copy the store in a SQLite file to an empty PostgreSQL database; StoreError if that fails.

    The tables of the target are created. An older source is upgraded first. `copied` is called for
    each table that was copied and checked; nothing is there before the function returns.
    """
    address = parse_address(url)
    if not path.exists():
        raise StoreError(f"{path}: no such file; give the hub's data directory with --data")
    unlock = lock(path)
    try:
        prepare_sqlite(path, check_s=60.0)
        with closing(connect_sqlite(path, reader=True)) as source:
            source.execute("BEGIN")  # commands may add clients meanwhile
            return _copy(source, address, copied)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}; restore a backup") from error
    except psycopg.Error as error:
        text = first_line(error, address.secrets)
        raise StoreError(
            f"{address.shown}: {text}; nothing was copied, and the command can be repeated"
        ) from error
    finally:
        unlock()


def _copy(
    source: sqlite3.Connection, address: Address, copied: Callable[[CopiedTable], None]
) -> list[CopiedTable]:
    with closing(connect(address, _SESSION)) as target:
        prepare(target, address)
        target.execute("SET idle_in_transaction_session_timeout = 0")
        if not take_hub_lock(target, _CLAIM_S):
            raise StoreError(
                f"{address.shown}: in use by a hub; stop it, or choose another database"
            )
        with target.transaction():
            _check_empty(target, address)
            done: list[CopiedTable] = []
            for table in _TABLES:
                before = _copy_table(source, target, table)
                after = _read_back(target, table)
                if before != after:
                    raise StoreError(
                        f"{address.shown}: table {table.name} differs after the copy ({after.rows}"
                        f" rows instead of {before.rows}, or other content); nothing was copied"
                    )
                done.append(after)
                copied(after)
            done.append(_copy_tail(source, target))
            copied(done[-1])
        with suppress(psycopg.Error):  # statistics, for the plans of the first statements
            target.execute("ANALYZE " + ", ".join(table.name for table in _TABLES))
        return done


def _check_empty(target: Connection, address: Address) -> None:
    # The lock makes commands wait that would add clients now.
    target.execute("SELECT 1 FROM log_tail FOR UPDATE")
    for table in _TABLES:
        if target.execute(f"SELECT 1 FROM {table.name} LIMIT 1").fetchall():
            raise StoreError(
                f"{address.shown}: it has a store already (table {table.name} is not empty); choose"
                " another database, or remove the old store with DROP SCHEMA wirelake CASCADE"
            )


def _copy_table(source: sqlite3.Connection, target: Connection, table: _Table) -> CopiedTable:
    columns = ", ".join(name for name, _ in table.columns)
    cursor = source.execute(f"SELECT {columns} FROM {table.name} ORDER BY {table.order}")
    kinds = [kind for _, kind in table.columns]
    check = _Checksum(table.name)
    query = f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)"
    with target.cursor() as out, out.copy(query) as copy:
        copy.set_types(kinds)
        for row in check.passing(_converted(rows, kinds) for rows in _fetched(cursor)):
            copy.write_row(row)
    return check.result()


def _fetched(cursor: Any) -> Iterator[Sequence[Sequence[Any]]]:
    while rows := cursor.fetchmany(_BATCH):
        yield rows


def _converted(rows: Iterable[Sequence[Any]], kinds: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Convert values of SQLite, which has neither booleans nor texts with a zero."""
    for row in rows:
        yield tuple(
            bool(value)
            if kind == "bool"
            else value.encode()
            if kind == "bytea" and isinstance(value, str)
            else value
            for value, kind in zip(row, kinds, strict=True)
        )


def _read_back(target: Connection, table: _Table) -> CopiedTable:
    columns = ", ".join(name for name, _ in table.columns)
    check = _Checksum(table.name)
    with target.cursor(f"copied_{table.name}") as cursor:
        cursor.execute(f"SELECT {columns} FROM {table.name} ORDER BY {table.order}", binary=True)
        for _ in check.passing(_fetched(cursor)):
            pass
    return check.result()


def _copy_tail(source: sqlite3.Connection, target: Connection) -> CopiedTable:
    marks = dict(source.execute("SELECT name, value FROM marks").fetchall())
    counts = source.execute(
        "SELECT (SELECT count(*) FROM clients), (SELECT count(*) FROM topics), "
        "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'clients'), 0)"
    ).fetchone()
    clients, topics, last_client = counts
    values = (
        *(marks.get("number", 0), marks.get("transient", 0), last_client, marks.get("topic", 0)),
        *(clients, topics),
    )
    target.execute("UPDATE log_tail SET " + ", ".join(f"{name} = %s" for name in _TAIL), values)
    check = _Checksum("log_tail")
    row = target.execute(f"SELECT {', '.join(_TAIL)} FROM log_tail").fetchall()
    if row != [values]:
        raise StoreError("log_tail differs after the copy; nothing was copied")
    for _ in check.passing([row]):
        pass
    return check.result()


class _Checksum:
    """Counts rows and computes their checksum."""

    def __init__(self, name: str):
        self._name = name
        self._rows = 0
        self._hash = hashlib.sha256()
        self._encode = msgspec.msgpack.Encoder().encode

    def passing(self, batches: Iterable[Iterable[Sequence[Any]]]) -> Iterator[Sequence[Any]]:
        """Yield the rows of batches."""
        for batch in batches:
            for row in batch:
                self._rows += 1
                self._hash.update(self._encode(row))
                yield row

    def result(self) -> CopiedTable:
        """Return what was counted."""
        return CopiedTable(self._name, self._rows, self._hash.hexdigest())
