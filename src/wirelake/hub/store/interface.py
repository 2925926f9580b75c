"""What the hub needs of a database: the rows it reads and writes, and the `Store` protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..errors import HubError
from .failures import Failures

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
    "SubscriptionRow",
    "UserRow",
]

LogRow: TypeAlias = tuple[int, int, int, int, int, str | None, bytes]
"""number, target, type, ts_ms, expires_ms, topic (nearly always None), content."""
Done: TypeAlias = Callable[[HubError | None], None]
"""Called on the loop when a write is on disk, or with the error."""


class KeyRow(NamedTuple):
    """What was published with an idempotency key."""

    publisher: str
    """The client that published; "" for the HTTP API."""
    key: str
    digest: bytes
    """Of what was published: another publication with the same key is refused. Empty in rows that
    were written before format 3."""
    number: int
    private: bool
    audience: int
    expires_ms: int


class ClientRow(NamedTuple):
    """A client that may sign on."""

    number: int
    """Never reused, even when the client is removed and its id is added again."""
    id: str
    token: bytes
    """The SHA-256 of its token."""
    created_ms: int
    expires_ms: int = 0
    """When the token expires; 0: never."""
    old_token: bytes = b""
    """The hash of the token before the last rotation, while both are valid."""
    old_expires_ms: int = 0
    """When that one expires."""


class UserRow(NamedTuple):
    """A user of the HTTP interface."""

    id: str
    role: str
    """The name of a role (`hub.roles`)."""
    token: bytes
    created_ms: int
    expires_ms: int = 0
    old_token: bytes = b""
    old_expires_ms: int = 0


class SubscriptionRow(NamedTuple):
    """A subscription of a client to a topic."""

    client: int
    topic: int
    start: int
    """Notifications up to this number are not part of it."""
    ack: bool


class InboxRow(NamedTuple):
    """What a client was sent and has acknowledged (`pubsub.subscriptions.Inbox`)."""

    client: int
    cursor: int
    state: bytes


class Entry(NamedTuple):
    """A notification in the log."""

    number: int
    target: int
    """The number of a topic, or minus the number of a client."""
    type: int
    ts_ms: int
    expires_ms: int
    topic: str | None
    content: bytes


class DeadRow(NamedTuple):
    """A dead letter: a notification that one client did not acknowledge in time."""

    place: int
    client: str
    client_number: int
    number: int
    reason: str
    dead_ms: int
    type: int
    ts_ms: int
    topic: str | None
    content: bytes


class Size(NamedTuple):
    """How much space the store takes, in bytes."""

    database: int
    wal: int
    """The write-ahead log: writes that are not in the database yet."""
    free: int
    """Part of the database that is free for reuse."""


class Store(Protocol):
    """A database. All methods are called on the event loop; reads are bounded.

    Writes return at once. They are committed together, and a callback reports success or failure
    on the loop.
    """

    appended: Callable[[list[Any], HubError | None], None]
    """Called once per batch with the tokens given to `append`, in that order."""
    closing: Callable[[], None]
    """Called before the last batch is written."""
    failures: Failures
    """Failed reads and writes."""

    async def close(self) -> None:
        """Write what is pending and close."""

    async def abandon(self) -> None:
        """Close without saving anything: the hub could not be loaded."""

    # writes

    def append(self, row: LogRow, token: object, key: KeyRow | None = None) -> None:
        """Append a row to the log; `appended` gets the token back."""

    def add_key(self, key: KeyRow, done: Done) -> None:
        """Add the idempotency key of a publish without an audience."""

    def add_topic(self, number: int, name: str) -> None:
        """Add a topic; adding it again has no effect."""

    def remove_topic(self, number: int) -> None:
        """Remove a topic; its rows of the log are deleted separately."""

    def save_inbox(self, row: InboxRow) -> None:
        """Save the inbox of a client."""

    def when_written(self, done: Done) -> None:
        """Call `done` when everything in this batch is on disk."""

    def subscribe(self, rows: Sequence[SubscriptionRow], done: Done) -> None:
        """Add subscriptions of one client."""

    def unsubscribe(self, client: int, topics: Sequence[int], done: Done) -> None:
        """Remove subscriptions."""

    def save_last_number(self, number: int) -> None:
        """Save that numbers up to this one were allocated, stored or not."""

    def delete(self, numbers: Sequence[int], done: Done) -> None:
        """Delete rows of the log."""

    def add_dead_letters(
        self, dead: Sequence[tuple[int, int, str, int]], deleted: Sequence[int], done: Done
    ) -> None:
        """Add dead letters (client, number, reason, time) and delete rows of the log."""

    def redrive(self, places: Sequence[int], rows: Sequence[tuple[LogRow, object]]) -> None:
        """Replace dead letters by rows of the log for their clients."""

    def remove_keys(self, publisher: str) -> None:
        """Delete all keys of a publisher."""

    def expire_keys(
        self, now_ms: int, limit: int, done: Callable[[Mapping[str, int]], None]
    ) -> None:
        """Delete about `limit` of the expired keys; `done` gets how many of each publisher."""

    def prune(self, dead_before_ms: int) -> None:
        """Delete old dead letters."""

    def trim_dead_letters(self, max_dead: int) -> None:
        """Delete the oldest dead letters beyond `max_dead`."""

    def shrink(self, done: Callable[[bool], None]) -> None:
        """Give free space back to the file system; `done` gets whether there may be more."""

    # reads; HubError `storage_failed` when the database cannot be read

    def problem(self) -> str:
        """Return why the store cannot be used; empty if it can."""

    def size(self) -> Size:
        """Return how much space the store takes."""

    def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Return the client with this id."""

    def clients(self) -> list[ClientRow]:
        """Return all clients; not bounded, for start and SIGHUP only."""

    def user(self, token: bytes) -> UserRow | None:
        """Return the user with this token or old token, by its hash; it may have expired."""

    def last_number(self) -> int:
        """Return the last number that may have been allocated."""

    def topics(self) -> list[tuple[int, str]]:
        """Return the numbers and names of all topics."""

    def subscriptions(self) -> list[SubscriptionRow]:
        """Return all subscriptions of existing clients."""

    def inbox(self, client: int) -> InboxRow | None:
        """Return the inbox of a client."""

    def index(self) -> Iterator[tuple[int, int]]:
        """Yield target and number of every row of the log, in any order."""

    def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """Return these rows of the log in order, without those that were deleted."""

    def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Return number and target of expired rows."""

    def key(self, publisher: str, key: str, now_ms: int) -> KeyRow | None:
        """Return what a publisher published with this key."""

    def key_counts(self) -> list[tuple[str, int]]:
        """Return the number of keys of each publisher; not bounded, for the start only."""

    def dead(
        self, limit: int, client: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[DeadRow]:
        """Return dead letters, newest first."""
