"""Clients that may sign on. These functions also work from another process while a hub runs.

A token is `t` and 43 characters: 32 random bytes in base64url. Only its SHA-256 is stored: with
256 bits of randomness a slow hash would add nothing.
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

from wirelake.protocols.hub_calls import MAX_CLIENT_ID_BYTES

from .interface import ClientRow
from .migrations import StoreError, connect

__all__ = [
    "add_client",
    "list_clients",
    "new_token",
    "remove_client",
    "rotate_client",
    "token_hash",
]


def new_token() -> str:
    """Return a new random token."""
    return "t" + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()


def token_hash(token: str) -> bytes:
    """Return the hash of a token, which is what the store has."""
    # No salt and no slow hash: those protect passwords that people choose. A random token of 256
    # bits cannot be found by trying, and the hash is computed at every sign-on.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def add_client(path: str | Path, id: str) -> str:  # noqa: A002
    """Add a client and return its token, which cannot be read again later."""
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
                f"client {id!r} already exists; `wirelake client rotate` gives it a new token"
            ) from None
    return token


def rotate_client(path: str | Path, id: str) -> str:  # noqa: A002
    """Replace the token of a client and return the new one."""
    token = new_token()
    with _writing(path) as db:
        done = db.execute("UPDATE clients SET token = ? WHERE id = ?", (token_hash(token), id))
        _check_found(done.rowcount, id)
    return token


def remove_client(path: str | Path, id: str) -> None:  # noqa: A002
    """Remove a client and its subscriptions; the hub deletes its private notifications."""
    with _writing(path) as db:
        row = db.execute("SELECT number FROM clients WHERE id = ?", (id,)).fetchone()
        _check_found(0 if row is None else 1, id)
        # Its private notifications stay in the log until the hub deletes them: a hub that runs has
        # their numbers in memory.
        for statement in (
            "DELETE FROM clients WHERE number = ?",
            "DELETE FROM subscriptions WHERE client = ?",
            "DELETE FROM inboxes WHERE client = ?",
            "DELETE FROM dead WHERE client = ?",
        ):
            db.execute(statement, row)


def list_clients(path: str | Path) -> list[ClientRow]:
    """Return all clients by id."""
    with closing(_connect(path)) as db:
        rows = db.execute("SELECT number, id, token, created_ms FROM clients ORDER BY id")
        return [ClientRow(*row) for row in rows]


def _check(id: str) -> None:  # noqa: A002
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        raise StoreError("invalid client id: not valid UTF-8") from None
    if not 0 < size <= MAX_CLIENT_ID_BYTES:
        raise StoreError(f"invalid client id of {size} bytes; expected 1 to {MAX_CLIENT_ID_BYTES}")
    if id.startswith("~") or not id.isprintable():
        raise StoreError("invalid client id; expected printable characters, not starting with ~")


def _check_found(count: int, id: str) -> None:  # noqa: A002
    if not count:
        raise StoreError(f"unknown client {id!r}; `wirelake client list` shows all clients")


def _connect(path: str | Path) -> sqlite3.Connection:
    folder = Path(path).parent
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such directory; create it, or choose another with --data")
    return connect(Path(path))


@contextmanager
def _writing(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Run one transaction on a new connection."""
    with closing(_connect(path)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
