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
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from wirelake.protocols.hub_calls import ANONYMOUS, MAX_CLIENT_ID_BYTES

from ..errors import HubError
from .interface import (
    AccountKind,
    AddAccount,
    ClientRow,
    Operation,
    RemoveAccount,
    RotateAccount,
    StoreError,
    UserRow,
)
from .opening import open_database, shown

__all__ = [
    "add_client",
    "add_user",
    "check_id",
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


def add_client(target: str | Path, id: str, *, lifetime_s: float = 0) -> str:  # noqa: A002
    """Add a client and return its token, which cannot be read again later.

    `target` is the database: a path or a URL. The token expires after `lifetime_s`; 0: never.
    """
    return _add(target, "client", id, new_token(), lifetime_s)


def add_user(target: str | Path, id: str, role: str, *, lifetime_s: float = 0) -> str:  # noqa: A002
    """Add a user with a role (`hub.roles`) and return the token."""
    return _add(target, "user", id, new_token("u"), lifetime_s, role)


def rotate_client(
    target: str | Path, id: str, *, overlap_s: float = 0, lifetime_s: float = 0  # noqa: A002
) -> str:  # fmt: skip
    """Replace the token of a client and return the new one.

    The old token is valid for another `overlap_s`, unless it expires sooner.
    """
    return _rotate(target, "client", id, overlap_s, lifetime_s, new_token())


def rotate_user(
    target: str | Path, id: str, *, overlap_s: float = 0, lifetime_s: float = 0  # noqa: A002
) -> str:  # fmt: skip
    """Replace the token of a user and return the new one, like `rotate_client`."""
    return _rotate(target, "user", id, overlap_s, lifetime_s, new_token("u"))


def remove_client(target: str | Path, id: str) -> None:  # noqa: A002
    """Remove a client, its subscriptions, its private notifications and its idempotency keys."""
    _check_found("client", _write(target, RemoveAccount("client", id)), id)


def remove_user(target: str | Path, id: str) -> None:  # noqa: A002
    """Remove a user; the token is refused from then on."""
    _check_found("user", _write(target, RemoveAccount("user", id)), id)


def list_clients(target: str | Path) -> list[ClientRow]:
    """Return all clients by id."""
    return _list(target, "client")


def list_users(target: str | Path) -> list[UserRow]:
    """Return all users by id."""
    return _list(target, "user")


def _add(
    target: str | Path, kind: AccountKind, id: str, token: str, lifetime_s: float, role: str = ""  # noqa: A002
) -> str:  # fmt: skip
    check_id(kind, id)
    now_ms = _now_ms()
    result = _write(
        target,
        AddAccount(kind, id, token_hash(token), now_ms, _after(now_ms, lifetime_s), role),
    )
    if isinstance(result, HubError):
        raise StoreError(
            f"{kind} {id!r} already exists; `wirelake {kind} rotate` gives it a new token"
        )
    return token


def _rotate(
    target: str | Path, kind: AccountKind, id: str, overlap_s: float, lifetime_s: float, token: str  # noqa: A002
) -> str:  # fmt: skip
    now_ms = _now_ms()
    expires_ms, until_ms = _after(now_ms, lifetime_s), _after(now_ms, overlap_s)
    done = _write(target, RotateAccount(kind, id, token_hash(token), expires_ms, until_ms))
    _check_found(kind, done, id)
    return token


def _write(target: str | Path, operation: Operation[Any]) -> Any:
    with closing(open_database(target)) as database:
        try:
            (result,) = database.write([operation])
        except HubError as error:
            raise StoreError(f"{shown(target)}: {error.__cause__ or error}") from error
    return result


def _list(target: str | Path, kind: AccountKind) -> list[Any]:
    with closing(open_database(target)) as database:
        try:
            return database.accounts(kind)
        except Exception as error:
            cause = error.__cause__ or error
            raise StoreError(f"{shown(target)}: {cause}; restore a backup") from error


def _after(now_ms: int, seconds: float) -> int:
    """Return the time after a number of seconds; 0 for 0."""
    if not 0 <= seconds <= _MAX_LIFETIME_S:
        raise StoreError(f"invalid time of {seconds} s; expected 0 to {_MAX_LIFETIME_S:.0f}")
    return now_ms + max(1, int(seconds * 1000)) if seconds else 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def check_id(kind: AccountKind, id: str) -> None:  # noqa: A002
    """Raise StoreError for an id that no account may have."""
    max_bytes = MAX_CLIENT_ID_BYTES
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


def _check_found(kind: AccountKind, found: bool, id: str) -> None:  # noqa: A002
    if not found:
        raise StoreError(f"unknown {kind} {id!r}; `wirelake {kind} list` shows all {kind}s")
