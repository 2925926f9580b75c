"""The store: clients, subscriptions, the log, inboxes, dead letters. It survives `kill -9`.

Read in this order:

    interface    the rows, and `Store`: what the hub needs of a database
    writer       group commit: the writes of a batch in one transaction, in a thread
    sqlite       `Store` in one SQLite file: reads on the event loop, writes through `writer`
    failures     failed reads and writes: counted, logged at most once per minute
    migrations   creating, opening and checking the file, its tables, upgrades of older files
    accounts     adding and removing clients and users, also while a hub runs

Only this package imports database drivers. It may import `hub.config` and `hub.errors`, and no
other part of the hub.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..config import StoreSettings
from .accounts import (
    add_client,
    add_user,
    list_clients,
    list_users,
    remove_client,
    remove_user,
    rotate_client,
    rotate_user,
)
from .interface import (
    ClientRow,
    DeadRow,
    Done,
    Entry,
    InboxRow,
    KeyRow,
    LogRow,
    Size,
    Store,
    SubscriptionRow,
    UserRow,
)
from .migrations import StoreError, database_path
from .sqlite import SqliteStore

__all__ = [
    "ClientRow",
    "DeadRow",
    "Done",
    "Entry",
    "InboxRow",
    "KeyRow",
    "LogRow",
    "Size",
    "Store",
    "StoreError",
    "SubscriptionRow",
    "UserRow",
    "add_client",
    "add_user",
    "database_path",
    "list_clients",
    "list_users",
    "open_store",
    "remove_client",
    "remove_user",
    "rotate_client",
    "rotate_user",
]


def open_store(settings: StoreSettings, data: Path, loop: asyncio.AbstractEventLoop) -> Store:
    """Open the database; create it if it does not exist, upgrade it if it is older, check it."""
    path = database_path(settings.path, data)
    return SqliteStore(path, settings.synchronous, loop, settings.check_s)
