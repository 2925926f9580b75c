"""Clients that may sign on, and users of the HTTP interface. These functions also work from another
process while a hub runs.

A token is a letter (`t` for a client, `u` for a user) and 43 characters: 32 random bytes in
base64url. Only its SHA-256 is stored: with 256 bits of randomness a slow hash would add nothing. A
token may expire. When it is rotated with an overlap, the old one stays valid for that time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from wirelake.protocols.hub_calls import ANONYMOUS, MAX_CLIENT_ID_BYTES

from .interface import ClientRow, UserRow
from .migrations import StoreError, connect

__all__ = [
    "add_client",
    "add_user",
    "expiry_of",
    "list_clients",
    "list_users",
    "new_token",
    "remove_client",
    "remove_user",
    "rotate_client",
    "rotate_user",
    "token_hash",
]

_Kind: TypeAlias = Literal["client", "user"]
"""A kind of account; its table has the plural as its name."""
_EXPIRED: Final = 1
"""An expiry in the past, in milliseconds since 1970."""
_MAX_LIFETIME_S: Final = 1e9
"""The longest lifetime of a token: 31 years."""


def new_token(letter: str = "t") -> str:
    """Return a new random token."""
    return letter + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()


def token_hash(token: str) -> bytes:
    """Return the hash of a token, which is what the store has."""
    # No salt and no slow hash: those protect passwords that people choose. A random token of 256
    # bits cannot be found by trying, and the hash is computed at every sign-on.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def expiry_of(row: ClientRow | UserRow, token: bytes, now_ms: int) -> int | None:
    """Return when a token, given by its hash, expires (0: never); None when it is not valid."""
    # Both comparisons are made, each in constant time: the duration of a refusal tells nothing.
    current = hmac.compare_digest(token, row.token)
    old = hmac.compare_digest(token, row.old_token)
    expires_ms = row.expires_ms if current else row.old_expires_ms if old else _EXPIRED
    return expires_ms if expires_ms == 0 or now_ms < expires_ms else None


def add_client(path: str | Path, id: str, *, lifetime_s: float = 0) -> str:  # noqa: A002
    """Add a client and return its token, which cannot be read again later.

    The token expires after `lifetime_s`; 0: never.
    """
    _check("client", id, MAX_CLIENT_ID_BYTES)
    token, now_ms = new_token(), _now_ms()
    with _writing(path) as db:
        _insert(
            db, "client", id, "(id, token, created_ms, expires_ms) VALUES (?, ?, ?, ?)",
            (id, token_hash(token), now_ms, _after(now_ms, lifetime_s)),
        )  # fmt: skip
    return token


def add_user(path: str | Path, id: str, role: str, *, lifetime_s: float = 0) -> str:  # noqa: A002
    """Add a user with a role (`hub.roles`) and return the token."""
    _check("user", id, MAX_CLIENT_ID_BYTES)
    token, now_ms = new_token("u"), _now_ms()
    with _writing(path) as db:
        _insert(
            db, "user", id, "(id, role, token, created_ms, expires_ms) VALUES (?, ?, ?, ?, ?)",
            (id, role, token_hash(token), now_ms, _after(now_ms, lifetime_s)),
        )  # fmt: skip
    return token


def rotate_client(
    path: str | Path, id: str, *, overlap_s: float = 0, lifetime_s: float = 0  # noqa: A002
) -> str:  # fmt: skip
    """Replace the token of a client and return the new one.

    The old token is valid for another `overlap_s`, unless it expires sooner.
    """
    return _rotate(path, "client", id, overlap_s, lifetime_s, new_token())


def rotate_user(
    path: str | Path, id: str, *, overlap_s: float = 0, lifetime_s: float = 0  # noqa: A002
) -> str:  # fmt: skip
    """Replace the token of a user and return the new one, like `rotate_client`."""
    return _rotate(path, "user", id, overlap_s, lifetime_s, new_token("u"))


def remove_client(path: str | Path, id: str) -> None:  # noqa: A002
    """Remove a client, its subscriptions and its idempotency keys; the hub deletes its private
    notifications."""
    with _writing(path) as db:
        row = db.execute("SELECT number FROM clients WHERE id = ?", (id,)).fetchone()
        _check_found("client", 0 if row is None else 1, id)
        # Its private notifications stay in the log until the hub deletes them: a hub that runs has
        # their numbers in memory.
        for statement in (
            "DELETE FROM clients WHERE number = ?",
            "DELETE FROM subscriptions WHERE client = ?",
            "DELETE FROM inboxes WHERE client = ?",
            "DELETE FROM dead WHERE client = ?",
        ):
            db.execute(statement, row)
        # Another client with this id may be somebody else, whose publishes are new.
        db.execute("DELETE FROM publisher_keys WHERE publisher = ?", (id,))


def remove_user(path: str | Path, id: str) -> None:  # noqa: A002
    """Remove a user; the token is refused from then on."""
    with _writing(path) as db:
        _check_found("user", db.execute("DELETE FROM users WHERE id = ?", (id,)).rowcount, id)


def list_clients(path: str | Path) -> list[ClientRow]:
    """Return all clients by id."""
    return [ClientRow(*row) for row in _rows(path, "clients", ClientRow._fields)]


def list_users(path: str | Path) -> list[UserRow]:
    """Return all users by id."""
    return [UserRow(*row) for row in _rows(path, "users", UserRow._fields)]


def _rows(path: str | Path, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    with closing(_connect(path)) as db:
        try:
            return db.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY id").fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}; restore a backup") from error


def _insert(
    db: sqlite3.Connection, kind: _Kind, id: str, columns: str, values: tuple[object, ...]  # noqa: A002
) -> None:  # fmt: skip
    try:
        db.execute(f"INSERT INTO {kind}s {columns}", values)
    except sqlite3.IntegrityError:
        raise StoreError(
            f"{kind} {id!r} already exists; `wirelake {kind} rotate` gives it a new token"
        ) from None


def _rotate(
    path: str | Path, kind: _Kind, id: str, overlap_s: float, lifetime_s: float, token: str  # noqa: A002
) -> str:  # fmt: skip
    now_ms = _now_ms()
    expires_ms = _after(now_ms, lifetime_s)
    # Without an overlap the old token is forgotten. Otherwise it expires at the end of the overlap,
    # or when it would have expired anyway. A token that was old already is forgotten: two are valid
    # at most.
    until_ms = _after(now_ms, overlap_s)
    with _writing(path) as db:
        done = db.execute(
            f"UPDATE {kind}s SET token = ?1, expires_ms = ?2, "
            "old_token = CASE WHEN ?3 > 0 THEN token ELSE x'' END, "
            "old_expires_ms = CASE WHEN expires_ms > 0 THEN min(expires_ms, ?3) ELSE ?3 END "
            "WHERE id = ?4",
            (token_hash(token), expires_ms, until_ms, id),
        )
        _check_found(kind, done.rowcount, id)
    return token


def _after(now_ms: int, seconds: float) -> int:
    """Return the time after a number of seconds; 0 for 0."""
    if not 0 <= seconds <= _MAX_LIFETIME_S:
        raise StoreError(f"invalid time of {seconds} s; expected 0 to {_MAX_LIFETIME_S:.0f}")
    return now_ms + max(1, int(seconds * 1000)) if seconds else 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _check(kind: _Kind, id: str, max_bytes: int) -> None:  # noqa: A002
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        raise StoreError(f"invalid {kind} id: not valid UTF-8") from None
    if not 0 < size <= max_bytes:
        raise StoreError(f"invalid {kind} id of {size} bytes; expected 1 to {max_bytes}")
    if id.startswith(ANONYMOUS) or not id.isprintable():
        raise StoreError(
            f"invalid {kind} id; expected printable characters, not starting with {ANONYMOUS}"
        )


def _check_found(kind: _Kind, count: int, id: str) -> None:  # noqa: A002
    if not count:
        raise StoreError(f"unknown {kind} {id!r}; `wirelake {kind} list` shows all {kind}s")


def _connect(path: str | Path) -> sqlite3.Connection:
    folder = Path(path).parent
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such directory; give the hub's data directory with --data")
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
