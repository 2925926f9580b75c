"""What the pages of the HTTP side answer, as types; `openapi.py` makes the description of them.

The pages write plain objects. A test asks a live hub for each of them and compares what comes with
these types, key by key, so that the two cannot disagree.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..net.table import ClosedConnection
from ..pubsub.topics import ClientState, TopicState

__all__ = [
    "Clientz",
    "Connz",
    "Dead",
    "DeadLetterShown",
    "Health",
    "Inbox",
    "NotificationShown",
    "OpenConnection",
    "PublishAnswer",
    "Redriven",
    "Refusal",
    "Rows",
    "Topicz",
    "Varz",
]


class Refusal(msgspec.Struct, kw_only=True):
    """Why there is no answer."""

    error: str
    """A stable code."""
    message: str
    """The same for people, in one line."""


class Health(msgspec.Struct, kw_only=True):
    """All is well."""

    status: Literal["ok"]
    """Always `ok`; what is not well is a refusal."""


class Varz(msgspec.Struct, kw_only=True):
    """Every counter since the start."""

    version: str
    """Of Wirelake."""
    started_ns: int
    """When the hub started, in nanoseconds since 1970."""
    uptime_s: float
    """For how long it has run."""
    draining: bool
    """Whether it is going down."""
    listeners: dict[str, list[str]]
    """By listener: where it listens, as `host:port`."""
    connections: dict[str, int]
    """Open connections, by protocol."""
    accepted: dict[str, int]
    """Connections let in, by protocol."""
    refused: dict[str, int]
    """Connections that were one too many, by limit."""
    auth_failures: dict[str, int]
    """Wrong ids and tokens, by protocol."""
    close_reasons: dict[str, dict[str, int]]
    """Connections that are over, by protocol and reason."""
    failures: dict[str, dict[str, int]]
    """Rules that peers broke, by protocol and code."""
    drops: dict[str, dict[str, int]]
    """Connections cut off, by protocol and reason."""
    calls: dict[str, dict[str, int]]
    """Calls of services, by protocol and outcome: `ok`, or the code of the refusal."""
    calls_running: int
    """Calls under way."""
    bytes_in: dict[str, int]
    """Bytes received, by protocol."""
    bytes_out: dict[str, int]
    """Bytes sent, by protocol."""
    published: int
    """Notifications published."""
    refused_publishes: int
    """Publishes refused."""
    stored: int
    """Notifications stored."""
    delivered: dict[str, int]
    """Notifications written, by protocol."""
    skipped: dict[str, int]
    """Notifications that were not stored and met a slow reader, by protocol."""
    acked: int
    """Notifications acknowledged."""
    dead: dict[str, int]
    """Notifications given up, by reason."""
    recording: str
    """`off`, `on`, or `failed:` and why."""


class OpenConnection(msgspec.Struct, kw_only=True):
    """A connection that is open."""

    id: int
    """Its number, as in recordings."""
    protocol: str
    """What it speaks."""
    peer: str
    """Who is at the other end, as `host:port`."""
    client: str
    """Who signed on; empty before that."""
    opened_ns: int
    """When it came, in nanoseconds since 1970."""
    bytes_in: int
    """Bytes received."""
    bytes_out: int
    """Bytes sent."""
    slow: bool
    """Whether it leaves unread what was sent."""


class Connz(msgspec.Struct, kw_only=True):
    """Connections."""

    open: int
    """How many there are that the arguments allow."""
    connections: list[OpenConnection]
    """Those of this page, by id."""
    closed: list[ClosedConnection]
    """The last that are over, the newest first."""


class Topicz(msgspec.Struct, kw_only=True):
    """Topics with a subscriber."""

    count: int
    """How many there are."""
    topics: list[TopicState]
    """Those of this page."""


class Clientz(msgspec.Struct, kw_only=True):
    """Clients that have topics, or have come since the start."""

    count: int
    """How many there are."""
    clients: list[ClientState]
    """Those of this page."""


class PublishAnswer(msgspec.Struct, kw_only=True):
    """What was published."""

    id: str
    """Of the notification."""
    audience: int
    """How many clients it is for."""


class NotificationShown(msgspec.Struct, kw_only=True):
    """A notification; its content is text, or base64 when it is none."""

    id: str
    """What is acknowledged."""
    ts_ms: int
    """When it was published, in milliseconds since 1970."""
    topic: str | msgspec.UnsetType = msgspec.UNSET
    """The topic; missing when it was for one client."""
    type: int | msgspec.UnsetType = msgspec.UNSET
    """The publisher's own number; missing when it is 0."""
    expires_ms: int | msgspec.UnsetType = msgspec.UNSET
    """When it is given up."""
    content: str | msgspec.UnsetType = msgspec.UNSET
    """As text; or"""
    content_base64: str | msgspec.UnsetType = msgspec.UNSET
    """as base64."""


class Inbox(msgspec.Struct, kw_only=True):
    """What a client has not acknowledged."""

    client: str
    """Whose."""
    notifications: list[NotificationShown]
    """The oldest first."""


class DeadLetterShown(NotificationShown, kw_only=True):
    """A notification that was given up."""

    client: str
    """Whom it was for."""
    reason: str
    """`expired`: its time was over. `quota`: more waited than may."""
    dead_ms: int
    """When, in milliseconds since 1970."""


class Dead(msgspec.Struct, kw_only=True):
    """Dead letters."""

    dead: list[DeadLetterShown]
    """The newest first."""


class Redriven(msgspec.Struct, kw_only=True):
    """What was put back."""

    redriven: int
    """How many dead letters."""


class Rows(msgspec.Struct, kw_only=True):
    """The newest rows of a live table."""

    count: int
    """How many are kept."""
    rows: list[dict[str, Any]]
    """The oldest of them first; the columns are those of the table."""
