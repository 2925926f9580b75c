"""The store: clients, subscriptions, the log, inboxes, dead letters. It survives `kill -9`.

Read in this order:

    interface    the rows, the operations, and `Database`: what the hub needs of a database
    store        `Store`: operations that are committed together, and reads, for the event loop
    writer       group commit: the operations of a batch in one transaction, in a thread
    sqlite       `Database` in one SQLite file
    migrations   creating, opening and checking that file, its tables, upgrades of older files
    postgres     `Database` in PostgreSQL
    postgres_connection  its connections: sessions, timeouts, errors, arrays
    postgres_schema      its tables, and upgrades of older ones
    copy         moving a SQLite store to PostgreSQL
    addresses    which databases are in PostgreSQL, and how addresses are shown
    failures     failed reads and writes: counted, logged at most once per minute
    opening      which database a setting names, and its connections
    accounts     adding and removing clients and users, also while a hub runs

Only this package imports database drivers. It may import `hub.config`, `hub.errors` and
`hub.numbers`, and no other part of the hub.
"""

from __future__ import annotations

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
    Size,
    StoreError,
    SubscriptionRow,
    UserRow,
)
from .opening import (
    copy_to_postgres,
    database_path,
    is_postgres,
    migrate_store,
    open_database,
    open_store,
    shown,
)
from .store import Store

__all__ = [
    "ClientRow",
    "DeadRow",
    "Done",
    "Entry",
    "InboxRow",
    "KeyRow",
    "Size",
    "Store",
    "StoreError",
    "SubscriptionRow",
    "UserRow",
    "add_client",
    "add_user",
    "copy_to_postgres",
    "database_path",
    "is_postgres",
    "list_clients",
    "list_users",
    "migrate_store",
    "open_database",
    "open_store",
    "remove_client",
    "remove_user",
    "rotate_client",
    "rotate_user",
    "shown",
]
