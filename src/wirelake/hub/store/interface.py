"""What the hub needs of a database: rows, operations, and the `Database` protocol.

An *operation* is a change that is requested of the store. Operations are executed in the order in
which they were requested, many in one transaction, and each has a result of its own. They are data:
a database of another kind executes the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from ..config import ConfigError
from ..errors import HubError

__all__ = [
    "LOOKED_AT",
    "TOKEN_HASH_BYTES",
    "AccountKind",
    "AddAccount",
    "AddDeadLetters",
    "Append",
    "Appended",
    "Claim",
    "ClientRow",
    "Database",
    "DeadRow",
    "Delete",
    "DeleteAcked",
    "Done",
    "Entry",
    "ExpireKeys",
    "Followed",
    "InboxRow",
    "KeyRow",
    "Lagging",
    "LoadedClient",
    "LogRow",
    "NewKey",
    "Notify",
    "Operation",
    "PruneDeadLetters",
    "Redrive",
    "Redriven",
    "Release",
    "RemoveAccount",
    "RemoveKeys",
    "RemoveTopics",
    "RotateAccount",
    "SaveInboxes",
    "SaveTransient",
    "SetChecks",
    "Size",
    "Source",
    "StoreError",
    "Subscribe",
    "Subscribed",
    "SubscriberRow",
    "SubscriptionRow",
    "TopicRow",
    "Unsubscribe",
    "UserRow",
]

TOKEN_HASH_BYTES: Final = 32
"""Size of the hash of a token."""
Result_co = TypeVar("Result_co", covariant=True)
Done: TypeAlias = Callable[[Any], None]
"""Called on the loop with the result of an operation when it is on disk, or with a HubError."""
AccountKind: TypeAlias = Literal["client", "user"]
"""A kind of account."""


LOOKED_AT: Final = 2_000
"""Subscribers looked at in one read: a topic may have a million, and nearly all need nothing."""


class StoreError(ConfigError):
    """The store cannot be used; the message says what to do."""


# -- rows ----------------------------------------------------------------------------------------


class ClientRow(NamedTuple):
    """A client that may sign on."""

    number: int
    """Never reused, even when the client is removed and its id is added again."""
    id: str
    token: bytes
    """The SHA-256 of its token; longer for a client that an issuer's tokens added
    (`signed_tokens`); empty for a connection without sign-on."""
    created_ms: int
    expires_ms: int = 0
    """When the token expires; 0: never."""
    old_token: bytes = b""
    """The hash of the token before the last rotation, while both are valid."""
    old_expires_ms: int = 0
    """When that one expires."""

    @property
    def issued(self) -> bool:
        """Whether it was added by a token of an issuer, and has none of its own."""
        return len(self.token) > TOKEN_HASH_BYTES


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


class TopicRow(NamedTuple):
    """A topic that clients subscribe to."""

    number: int
    name: str
    subscribers: int
    """Number of its subscriptions."""
    appended: int
    """How many notifications were ever added to its log."""


class SubscriptionRow(NamedTuple):
    """A subscription of one client."""

    topic: int
    name: str
    """The name of the topic."""
    start: int
    """Notifications up to this number are not part of it."""
    ack: bool
    """Whether the client acknowledges."""


class InboxRow(NamedTuple):
    """What a client was sent and has acknowledged (`pubsub.subscriptions.Inbox`)."""

    client: int
    cursor: int
    state: bytes
    needed: int
    """The lowest number that the client may still need."""


class LoadedClient(NamedTuple):
    """What is read of a client when it signs on."""

    row: ClientRow | None
    """None for a client that was removed."""
    inbox: InboxRow | None
    subscriptions: list[SubscriptionRow]


class SubscriberRow(NamedTuple):
    """A subscription to one topic, with the inbox of its client."""

    client: int
    start: int
    cursor: int
    state: bytes
    """Empty when the client has no saved inbox."""


class Lagging(NamedTuple):
    """Some subscribers to one topic that lag behind."""

    rows: list[SubscriberRow]
    after: int
    """The last subscriber that was looked at, lagging or not; 0 at the end."""


class Source(NamedTuple):
    """Where notifications for a client are: the log of a topic, or its private notifications."""

    target: int
    """The number of a topic, or minus the number of a client."""
    after: int
    """Notifications up to this number are not meant."""


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


LogRow: TypeAlias = tuple[int, int, int, int, int, str | None, bytes]
"""The values of an `Entry`."""


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


class Size(NamedTuple):
    """How much space the store takes, in bytes."""

    database: int
    wal: int
    """The write-ahead log: writes that are not in the database yet."""
    free: int
    """Part of the database that is free for reuse."""


# -- operations ----------------------------------------------------------------------------------


class Operation(msgspec.Struct, Generic[Result_co], frozen=True, gc=False):
    """A change of the store; the type parameter is its result."""


class NewKey(NamedTuple):
    """The idempotency key of a publish."""

    publisher: str
    key: str
    digest: bytes
    expires_ms: int
    allowed: bool
    """Whether the publisher may have another key; a key that exists is found in any case."""


class Appended(msgspec.Struct, frozen=True, gc=False):
    """A publish was stored, or needs not be."""

    number: int
    target: int
    """The number of its topic, or minus that of its client; 0 when it was not stored."""
    audience: int
    """Number of clients it is for; when it is 0, the notification is not in the log."""
    due: bool = False
    """Whether backlogs of the topic's subscribers have to be counted (`SetChecks`)."""


class Append(Operation[Appended | KeyRow | HubError], frozen=True, gc=False):
    """Publish: append a row to the log if its topic has subscribers, and add its key.

    Results in the `KeyRow` of an earlier publish with the key; nothing is stored then. HubError
    `not_found` for an unknown client, `too_busy` for a key that is not allowed.
    """

    topic: str | None
    client: str | None
    """The id of the client that it is for; either topic or client."""
    content: bytes
    type: int
    ts_ms: int
    expires_ms: int
    """0: it is not to be stored, only its key."""
    key: NewKey | None = None
    audience: int = 0
    """The audience of what is not to be stored."""


class Subscribed(NamedTuple):
    """The subscriptions that a client asked for."""

    client: int
    rows: list[SubscriptionRow]


class Subscribe(Operation[Subscribed | HubError], frozen=True, gc=False):
    """Subscribe a client to topics, which are created if they do not exist.

    A new subscription starts behind everything that was appended before. One that exists keeps its
    start; only `ack` changes. HubError `auth_required` when the client was removed, `too_busy` when
    there would be more than `max_topics`.
    """

    client: int
    """0 for a connection without sign-on: a client is added, to be removed when it closes."""
    id: str
    names: tuple[str, ...]
    ack: bool
    max_topics: int
    allowance: int
    """Notifications that may be appended to a topic before the backlog is counted (`SetChecks`)."""


class Unsubscribe(Operation[None], frozen=True, gc=False):
    """Remove subscriptions; a topic without subscribers is removed (`RemoveTopics`)."""

    client: int
    topics: tuple[int, ...]


class Claim(Operation[LoadedClient | None], frozen=True, gc=False):
    """Make this hub the one that a client is served by, and read the client.

    From then on only this hub can save its inbox. Results in None when another hub that runs has
    the client, and it is not to be taken from it.
    """

    client: int
    take: bool


class Release(Operation[None], frozen=True, gc=False):
    """Give clients up that this hub has claimed."""

    clients: tuple[int, ...]


class Notify(Operation[None], frozen=True, gc=False):
    """Send a message to the other hubs that use this database, when the batch is on disk."""

    text: str


class SaveInboxes(Operation[tuple[int, ...]], frozen=True, gc=False):
    """Save inboxes of clients; those that were removed are left out.

    Results in the clients that another hub has claimed: nothing was saved of them.
    """

    rows: tuple[InboxRow, ...]


class Delete(Operation[None], frozen=True, gc=False):
    """Delete rows of the log."""

    numbers: tuple[int, ...]


class DeleteAcked(Operation[int], frozen=True, gc=False):
    """Delete the oldest rows of a target, below a number that nobody needs; results in how many."""

    target: int
    below: int
    limit: int


class AddDeadLetters(Operation[int], frozen=True, gc=False):
    """Add dead letters of notifications that are in the log, then delete rows of the log.

    Results in the number of dead letters that are new; notifications that are not in the log any
    more have none, and neither have clients that do not exist. A private notification that becomes
    a dead letter of its client is for nobody else: its row is deleted as well.
    """

    letters: tuple[tuple[int, int, str, int], ...]
    """(client, number, reason, time)"""
    deleted: tuple[int, ...] = ()


class Redriven(NamedTuple):
    """A dead letter that was put back."""

    client: str
    entry: Entry
    """The new row of the log."""


class Redrive(Operation[list[Redriven]], frozen=True, gc=False):
    """Replace dead letters by new rows of the log for their clients alone, oldest first."""

    places: tuple[int, ...]
    now_ms: int
    expires_ms: int


class RemoveTopics(Operation[int], frozen=True, gc=False):
    """Delete rows of the log whose topic was removed; results in how many."""

    limit: int


class SetChecks(Operation[None], frozen=True, gc=False):
    """Set when the backlog of subscribers is counted again (`pubsub.quota`)."""

    rows: tuple[tuple[int, int, int], ...]
    """(client, topic, value of `TopicRow.appended` from which on it is due)"""


class SaveTransient(Operation[None], frozen=True, gc=False):
    """Save the last number of notifications that are not stored."""

    number: int


class RemoveKeys(Operation[None], frozen=True, gc=False):
    """Delete all keys of a publisher."""

    publisher: str


class ExpireKeys(Operation[Mapping[str, int]], frozen=True, gc=False):
    """Delete about `limit` of the expired keys; results in how many of each publisher."""

    now_ms: int
    limit: int


class PruneDeadLetters(Operation[None], frozen=True, gc=False):
    """Delete dead letters from before a time, and the oldest beyond a number."""

    before_ms: int
    keep: int


class AddAccount(Operation[int | HubError], frozen=True, gc=False):
    """Add a client or user; results in its number (0 for a user). HubError `conflict`."""

    kind: AccountKind
    id: str
    token: bytes
    created_ms: int
    expires_ms: int = 0
    role: str = ""
    """The role of a user."""


class RotateAccount(Operation[bool], frozen=True, gc=False):
    """Replace the token of a client or user; results in whether it exists.

    With `until_ms`, the old token stays valid until then, unless it expires sooner. A token that
    was old already is forgotten: two are valid at most.
    """

    kind: AccountKind
    id: str
    token: bytes
    expires_ms: int
    until_ms: int


class RemoveAccount(Operation[bool], frozen=True, gc=False):
    """Remove a client with everything that belongs to it, or a user; results in whether it existed.

    A topic that has no other subscriber is removed as well. The client's private notifications are
    deleted, and its keys: another client with this id may be somebody else.
    """

    kind: AccountKind
    id: str


class Followed(NamedTuple):
    """What other hubs have appended to the log."""

    entries: list[Entry]
    number: int
    """Nothing up to this number is missing."""
    more: bool
    """Whether there is more to read."""


# -- databases -----------------------------------------------------------------------------------


class Database(Protocol):
    """One connection to a database. Its methods block.

    They raise HubError `storage_failed`, or `storage_full`, with the error of the driver as its
    cause. The next call connects again if that is necessary.
    """

    def close(self) -> None:
        """Close the connection."""

    missed: list[Entry]
    """What other hubs had appended to the log before the last `write`, and was not read yet."""

    def write(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Execute operations in order, in one transaction; return their results.

        When it raises, nothing was changed.
        """

    def follow(self, limit: int) -> Followed:
        """Read what other hubs have appended to the log, after what was read before."""

    def shrink(self) -> bool:
        """Give free space back to the file system; return whether there may be more."""

    def check(self) -> None:
        """Read something from each table; StoreError when it is not the database any more that was
        connected to."""

    def size(self) -> Size:
        """Return how much space the store takes."""

    def last_number(self) -> int:
        """Return the last number that was allocated."""

    def last_transient(self) -> int:
        """Return what was saved with `SaveTransient`."""

    def client(self, id: str) -> ClientRow | None:  # noqa: A002
        """Return the client with this id."""

    def user(self, token: bytes) -> UserRow | None:
        """Return the user with this token or old token, by its hash; it may have expired."""

    def accounts(self, kind: AccountKind) -> list[Any]:
        """Return all clients (`ClientRow`) or users (`UserRow`) by id, without temporary ones."""

    def claimed(self, clients: Sequence[int]) -> list[int]:
        """Return those of these clients that this hub has claimed."""

    def temporary(self) -> list[str]:
        """Return the ids of clients that `Subscribe` has added, and that no hub has any more."""

    def marked_clients(self) -> int:
        """Return the number of clients that have the mark of an issuer in place of a hash."""

    def clients_with(self, ids: Sequence[str]) -> list[ClientRow]:
        """Return those of these clients that exist."""

    def load_client(self, client: int) -> LoadedClient:
        """Return the inbox and the subscriptions of a client."""

    def client_page(self, offset: int, limit: int) -> tuple[int, list[ClientRow]]:
        """Return the number of clients, with temporary ones, and some of them by number."""

    def topic(self, name: str) -> TopicRow | None:
        """Return a topic."""

    def topics(self, after: int, limit: int) -> list[int]:
        """Return topics by number, those with higher numbers than this, ascending."""

    def topic_page(self, offset: int, limit: int) -> tuple[int, list[TopicRow]]:
        """Return the number of topics, and some of them by number."""

    def has_removed_topics(self) -> bool:
        """Return whether there is something to do for `RemoveTopics`."""

    def numbers(self, sources: Sequence[Source], up_to: int, limit: int) -> list[int]:
        """Return the lowest numbers of these sources, up to a number, ascending."""

    def count(self, sources: Sequence[Source], up_to: int) -> int:
        """Return how many notifications these sources have, up to a number."""

    def entries(self, numbers: Sequence[int]) -> list[Entry]:
        """Return these rows of the log in order, without those that were deleted."""

    def targets(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the targets of these rows of the log, by number."""

    def expired(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Return number and target of expired rows, by their expiry."""

    def lagging(self, topic: int, up_to: int, after: int, limit: int) -> Lagging:
        """Return subscribers that may still need a notification up to a number, by client.

        It looks at those with higher client numbers than `after`, at most `LOOKED_AT`.
        """

    def needed(self, topic: int, after: int, limit: int) -> tuple[int, int | None]:
        """Return the lowest number that some subscribers of a topic may still need.

        It looks at those with higher client numbers than `after`, at most `limit`. Returns the last
        of them, 0 at the end, and None when there are none.
        """

    def due(self, topic: int, limit: int) -> list[int]:
        """Return subscribers whose backlog has to be counted (`SetChecks`), but those that other
        hubs have claimed."""

    def checks(self, client: int) -> list[tuple[int, int, int]]:
        """Return (topic, `TopicRow.appended`, when it is due) of a client's subscriptions."""

    def key_counts(self) -> list[tuple[str, int]]:
        """Return the number of keys of each publisher; not bounded, for the start only."""

    def dead(
        self, limit: int, client: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[DeadRow]:
        """Return dead letters, newest first."""
