"""What survives: clients, subscriptions, the log, how far each client has come, dead letters.

`Store` is what the hub needs of a database; `open_store` gives the one that the settings name.
Writes are collected and committed together (`writer.py`); whoever asked is told on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..config import StoreSettings
from ..errors import HubError
from .accounts import (
    add_client,
    list_clients,
    remove_client,
    rotate_client,
)
from .batch import (
    Done,
    KeyRow,
    LogRow,
)
from .files import database_path
from .migrations import StoreError
from .rows import (
    ClientRow,
    DeadRow,
    Entry,
    InboxRow,
    SubscriptionRow,
)
from .sqlite import SqliteStore

__all__ = [
    "ClientRow",
    "DeadRow",
    "Done",
    "Entry",
    "InboxRow",
    "KeyRow",
    "LogRow",
    "Store",
    "StoreError",
    "SubscriptionRow",
    "add_client",
    "database_path",
    "list_clients",
    "open_store",
    "remove_client",
    "rotate_client",
]


class Store(Protocol):
    """A database. All calls are made on the loop; those that read are bounded."""

    appended: Callable[[list[Any], HubError | None], None]
    """Called once for a batch, with what was given to `append`, in that order."""
    closing: Callable[[], None]
    """Called before the last batch is written."""

    async def close(self) -> None:
        """Writes what was asked for, and closes."""

    # writes

    def append(self, row: LogRow, token: object, key: KeyRow | None = None) -> None:
        """A row of the log, and what `appended` gives back for it."""

    def remember(self, key: KeyRow, done: Done) -> None:
        """An idempotency key of something that nobody has to get."""

    def name_topic(self, number: int, name: str) -> None:
        """A topic has this number; saying so again is fine."""

    def forget_topic(self, number: int) -> None:
        """Nobody has the topic: its name goes. Rows of its log have gone before."""

    def save_inbox(self, row: InboxRow) -> None:
        """How far a client has come."""

    def inboxes_saved(self, done: Done) -> None:
        """Tells when the inboxes that were saved in this batch are on disk."""

    def subscribe(self, rows: Sequence[SubscriptionRow], done: Done) -> None:
        """Subscriptions of one client."""

    def unsubscribe(self, client: int, topics: Sequence[int], done: Done) -> None:
        """These subscriptions end."""

    def mark(self, number: int) -> None:
        """Numbers up to this one were given out, whether anything was stored or not."""

    def delete(self, numbers: Sequence[int]) -> None:
        """Rows of the log that nobody needs."""

    def bury(
        self, dead: Sequence[tuple[int, int, str, int]], gone: Sequence[int], done: Done
    ) -> None:
        """Dead letters (client, number, reason, when); and rows that leave the log."""

    def redrive(self, places: Sequence[int], rows: Sequence[tuple[LogRow, object]]) -> None:
        """Dead letters leave; each comes back as a row of the log for its client."""

    def tidy(self, now_ms: int, dead_before_ms: int, most_dead: int) -> None:
        """Removes keys that are over, and the oldest dead letters."""

    # reads

    def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Who has this id, now."""

    def clients(self) -> list[ClientRow]:
        """Everybody; the one read that is not bounded, for start and SIGHUP."""

    def last_number(self) -> int:
        """No number up to this one may be given out again."""

    def topics(self) -> list[tuple[int, str]]:
        """Topics and their numbers."""

    def subscriptions(self) -> list[SubscriptionRow]:
        """All subscriptions of clients that are there."""

    def inbox(self, client: int) -> InboxRow | None:
        """How far a client has come."""

    def index(self) -> Iterator[tuple[int, int]]:
        """Target and number of everything in the log, in no order."""

    def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """These rows of the log, in order; those that are gone are left out."""

    def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Number and target of rows whose time is over."""

    def key(self, key: str, now_ms: int) -> KeyRow | None:
        """What was published with this key."""

    def dead(
        self, limit: int, client: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[DeadRow]:
        """Dead letters, the newest first."""


def open_store(settings: StoreSettings, data: Path, loop: asyncio.AbstractEventLoop) -> Store:
    """Opens the database, makes it when it is not there, and upgrades an older one."""
    return SqliteStore(database_path(settings.path, data), settings.synchronous, loop)
