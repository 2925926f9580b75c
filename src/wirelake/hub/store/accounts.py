"""Clients: who may sign on. These functions also work while a hub runs, from another process.

A token is `t` and 43 characters: 32 random bytes in base64url. Only its SHA-256 is stored; it is
random enough that nothing slower is needed.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .files import connect
from .migrations import StoreError
from .rows import ClientRow

__all__ = [
    "MAX_ID_BYTES",
    "add_client",
    "list_clients",
    "new_token",
    "remove_client",
    "rotate_client",
    "token_hash",
]

MAX_ID_BYTES = 256
"""Of a client's id: what comet allows."""


def new_token() -> str:
    """A token that nobody has."""
    return "t" + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()


def token_hash(token: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def add_client(path: str | Path, id: str) -> str:  # noqa: A002
    """Lets a client in, and gives its token; it cannot be read again."""
    _check(id)
    token = new_token()
    with _writing(path) as db:
        try:
            db.execute(
                "INSERT INTO clients (id, token, created_ms) VALUES (?, ?, ?)",
                (id, token_hash(token), time.time_ns() // 1_000_000),
            )
        except sqlite3.IntegrityError:
            raise StoreError(
                f"client {id!r} is there already; `wirelake client rotate` gives it a new token"
            ) from None
    return token


def rotate_client(path: str | Path, id: str) -> str:  # noqa: A002
    """Gives a client a new token; the old one is worth nothing from now on."""
    token = new_token()
    with _writing(path) as db:
        done = db.execute("UPDATE clients SET token = ? WHERE id = ?", (token_hash(token), id))
        _must_be_there(done.rowcount, id)
    return token


def remove_client(path: str | Path, id: str) -> None:  # noqa: A002
    """Removes a client and its subscriptions; the hub removes what waited for it alone."""
    with _writing(path) as db:
        row = db.execute("SELECT number FROM clients WHERE id = ?", (id,)).fetchone()
        _must_be_there(0 if row is None else 1, id)
        for statement in (
            "DELETE FROM clients WHERE number = ?",
            "DELETE FROM subscriptions WHERE client = ?",
            "DELETE FROM inboxes WHERE client = ?",
            "DELETE FROM dead WHERE client = ?",
        ):
            db.execute(statement, row)


def list_clients(path: str | Path) -> list[ClientRow]:
    """Everybody who may sign on, by id."""
    with closing(_connect(path)) as db:
        rows = db.execute("SELECT number, id, token, created_ms FROM clients ORDER BY id")
        return [ClientRow(*row) for row in rows]


def _check(id: str) -> None:  # noqa: A002
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        raise StoreError("a client's id has to be valid UTF-8") from None
    if not 0 < size <= MAX_ID_BYTES:
        raise StoreError(f"a client's id has 1 to {MAX_ID_BYTES} bytes, this one has {size}")
    if id.startswith("~") or not id.isprintable():
        raise StoreError("a client's id has printable characters alone, and no ~ at its beginning")


def _must_be_there(count: int, id: str) -> None:  # noqa: A002
    if not count:
        raise StoreError(f"there is no client {id!r}; `wirelake client list` names them all")


def _connect(path: str | Path) -> sqlite3.Connection:
    folder = Path(path).parent
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such directory; make it, or name another with --data")
    return connect(Path(path))


@contextmanager
def _writing(path: str | Path) -> Iterator[sqlite3.Connection]:
    """One transaction on a connection of its own."""
    with closing(_connect(path)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
