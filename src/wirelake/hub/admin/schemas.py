"""The types of HTTP answers, from which `app.py` generates the schemas.

The pages write plain objects. A test compares each answer of a live hub with its type, key by key.
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
    "DeadLetterView",
    "Health",
    "Inbox",
    "NotificationView",
    "OpenConnection",
    "PublishAnswer",
    "Redriven",
    "Refusal",
    "Rows",
    "ServiceProcessView",
    "ServiceView",
    "Services",
    "Topicz",
    "Varz",
]


class Refusal(msgspec.Struct, kw_only=True):
    """An error."""

    error: str
    """A stable code."""
    message: str
    """A message for people, in one line."""


class Health(msgspec.Struct, kw_only=True):
    """The hub is well."""

    status: Literal["ok"]
    """Always `ok`; otherwise the answer is an error."""


class Varz(msgspec.Struct, kw_only=True):
    """All counters since the start."""

    version: str
    """The version of Wirelake."""
    started_ns: int
    """When the hub started, in nanoseconds since 1970."""
    uptime_s: float
    """Seconds since the start."""
    draining: bool
    """Whether it shuts down."""
    listeners: dict[str, list[str]]
    """Addresses by listener, as `host:port`."""
    connections: dict[str, int]
    """Open connections, by protocol."""
    accepted: dict[str, int]
    """Accepted connections, by protocol."""
    refused: dict[str, int]
    """Connections refused, by limit."""
    accept_errors: dict[str, dict[str, int]]
    """Failures to accept connections, by protocol and error."""
    handshake_failures: dict[str, dict[str, int]]
    """Connections that ended before their TLS handshake was complete, by protocol and reason."""
    buffered_bytes: int
    """Bytes in memory for peers: incomplete messages, running calls, what peers have not
    read."""
    auth_failures: dict[str, int]
    """Failed sign-ons, by protocol."""
    close_reasons: dict[str, dict[str, int]]
    """Closed connections, by protocol and reason."""
    failures: dict[str, dict[str, int]]
    """Protocol errors of peers, by protocol and code."""
    drops: dict[str, dict[str, int]]
    """Connections aborted by the hub, by protocol and reason."""
    calls: dict[str, dict[str, int]]
    """Calls of services, by protocol and outcome: `ok` or an error code."""
    calls_running: int
    """Running calls."""
    provided: dict[str, int]
    """Calls sent to service processes, by outcome: `ok`, `failed`, `timeout`, `lost`, `cancelled`;
    `bad_reply` counts answers that are not valid."""
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
    """Notifications sent, by protocol."""
    skipped: dict[str, int]
    """Transient notifications not sent to slow readers, by protocol."""
    acked: int
    """Notifications acknowledged."""
    dead: dict[str, int]
    """Dead letters, by reason."""
    store_failures: dict[str, int]
    """Failed operations of the store, by `read` and `write`."""
    recording: str
    """`off`, `on`, or `failed:` and the reason."""


class OpenConnection(msgspec.Struct, kw_only=True):
    """An open connection."""

    id: str
    """Its id, as in recordings: a 64-bit number as text, which JavaScript and jq keep exact."""
    protocol: str
    """Its protocol."""
    peer: str
    """The remote address, as `host:port`."""
    client: str
    """The client that has signed on; empty before that."""
    opened_ns: int
    """When it was accepted, in nanoseconds since 1970."""
    bytes_in: int
    """Bytes received."""
    bytes_out: int
    """Bytes sent."""
    slow: bool
    """Whether the peer reads too slowly."""
    reported: dict[str, Any]
    """What the client has reported about itself: network, isp, phone and others; empty where the
    protocol has no such message."""


class Connz(msgspec.Struct, kw_only=True):
    """Connections."""

    open: int
    """Number of open connections that match the parameters."""
    connections: list[OpenConnection]
    """The connections of this page, by id."""
    closed: list[ClosedConnection]
    """The last closed connections, newest first."""


class Topicz(msgspec.Struct, kw_only=True):
    """Topics with subscribers."""

    count: int
    """Total number."""
    topics: list[TopicState]
    """The rows of this page."""


class Clientz(msgspec.Struct, kw_only=True):
    """Clients with topics, or with a connection since the start."""

    count: int
    """Total number."""
    clients: list[ClientState]
    """The rows of this page."""


class ServiceView(msgspec.Struct, kw_only=True):
    """A service."""

    name: str
    """`service/op`."""
    signature: str
    """Its arguments and its result, for people."""
    numbers: dict[str, int]
    """Its number in each protocol that has numbers."""
    where: list[str]
    """`hub`, or the ids of the clients whose processes offer it; empty when all have left."""
    running: int
    """Calls under way; those of plain functions in the hub are never under way."""
    calls: int
    """Finished calls."""
    failed: int
    """Failed calls among them."""
    p50_us: int
    """Median of their latencies in microseconds, off by an eighth at most; 0 without calls."""
    p99_us: int
    """99th percentile, in the same way."""


class ServiceProcessView(msgspec.Struct, kw_only=True):
    """A process that offers services."""

    client: str
    """The client that it has signed on as."""
    peer: str
    """Its address, as `host:port`."""
    services: int
    """How many services it offers."""
    running: int
    """Calls without an answer, cancelled ones included."""
    limit: int
    """How many there may be."""
    unexpected: int
    """Answers to no call: second ones, and those that came too late."""


class Services(msgspec.Struct, kw_only=True):
    """Services, and the processes that offer some."""

    count: int
    """Total number of services."""
    services: list[ServiceView]
    """The services of this page, by name."""
    processes: list[ServiceProcessView]
    """All processes, in the order in which they offered their first service."""


class PublishAnswer(msgspec.Struct, kw_only=True):
    """A published notification."""

    id: str
    """The id of the notification."""
    audience: int
    """Number of clients it is for."""


class NotificationView(msgspec.Struct, kw_only=True):
    """A notification; the content is text, or base64 if it is not UTF-8."""

    id: str
    """The id to acknowledge."""
    ts_ms: int
    """When it was published, in milliseconds since 1970."""
    topic: str | msgspec.UnsetType = msgspec.UNSET
    """The topic; missing when it is for one client."""
    type: int | msgspec.UnsetType = msgspec.UNSET
    """Defined by the application; missing when it is 0."""
    expires_ms: int | msgspec.UnsetType = msgspec.UNSET
    """When it expires."""
    content: str | msgspec.UnsetType = msgspec.UNSET
    """Content as text."""
    content_base64: str | msgspec.UnsetType = msgspec.UNSET
    """Content as base64."""


class Inbox(msgspec.Struct, kw_only=True):
    """What a client has not acknowledged."""

    client: str
    """The client id."""
    notifications: list[NotificationView]
    """Oldest first."""


class DeadLetterView(NotificationView, kw_only=True):
    """A dead letter."""

    client: str
    """The client it was for."""
    reason: str
    """`expired`: it expired. `quota`: the backlog was longer than `limits.inbox`."""
    dead_ms: int
    """When it became one, in milliseconds since 1970."""


class Dead(msgspec.Struct, kw_only=True):
    """Dead letters."""

    dead: list[DeadLetterView]
    """Newest first."""


class Redriven(msgspec.Struct, kw_only=True):
    """The result of a redrive."""

    redriven: int
    """Number of dead letters put back."""


class Rows(msgspec.Struct, kw_only=True):
    """The newest rows of a live table."""

    count: int
    """Number of rows kept."""
    rows: list[dict[str, Any]]
    """Oldest first; the columns are those of the table."""
