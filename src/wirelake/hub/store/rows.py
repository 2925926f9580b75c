"""What is read from a store."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ClientRow", "DeadRow", "Entry", "InboxRow", "SubscriptionRow"]


class ClientRow(NamedTuple):
    """A client that may sign on."""

    number: int
    """Never given out again, also when the client is removed and its id comes back."""
    id: str
    token: bytes
    """The SHA-256 of its token."""
    created_ms: int


class SubscriptionRow(NamedTuple):
    """That a client has a topic."""

    client: int
    topic: int
    start: int
    """What was published up to this number is not part of it."""
    ack: bool


class InboxRow(NamedTuple):
    """How far a client has come (`inboxes.py`)."""

    client: int
    cursor: int
    state: bytes


class Entry(NamedTuple):
    """A notification of the log."""

    number: int
    target: int
    """A topic's number, or minus a client's."""
    type: int
    ts_ms: int
    expires_ms: int
    topic: str | None
    content: bytes


class DeadRow(NamedTuple):
    """A notification that one client never acknowledged."""

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
