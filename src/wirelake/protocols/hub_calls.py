"""The calls that every hub serves itself: names, numbers, arguments and results; rules of ids and
topics.

Declared here once, below hub and client. A protocol that addresses services by name calls
`hub/<name>`; one that addresses them by number uses the numbers below. comet has commands of its
own for the same actions and uses none of these.

    name          number   arguments                                  result
    auth          10       id, token                                  id
    subscribe     11       topic or topics, ack                       topics
    unsubscribe   12       topic or topics                            topics
    publish       13       topic or client, content, type, id, ttl_s  id, audience
    ack           14       id or ids                                  acked
    serve         15       services, calls                            services, calls
    withdraw      16       services                                   services
    services      17       offset, limit                              count, services
    notify        20       pushed by the hub: id, topic, content, ts, type

`serve` and `withdraw` are for processes that offer services over ESNP. The hub sends them requests,
and these events: `cancel` (id), when nobody waits for the answer any more, and `more` (id, parts),
when more parts of a stream may be sent. `docs/guides/services-wire.md` describes all of it.

Arguments and results are DATA rows in ESNP and a JSON object elsewhere. Content that is not valid
UTF-8 is `bytes` where the protocol has such a type, and `content_base64` in JSON.

`hub_arguments` declares for the meaning of a protocol which of them tables need.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, Protocol, TypedDict

import msgspec

from wirelake.wire.meaning import Argument, Arguments, NamedRows

__all__ = [
    "ACK",
    "ADMIN_PORT",
    "ANONYMOUS",
    "AUTH",
    "BUSY_CODES",
    "BY_NUMBER",
    "CALLER_HEADERS",
    "CALLS",
    "CANCEL",
    "CLIENT_HEADER",
    "CODE_HEADER",
    "DEMO_OPERATIONS",
    "DEMO_SERVICE",
    "HUB_SERVICE",
    "KIND_HEADER",
    "MAX_CLIENT_ID_BYTES",
    "MAX_TOPIC_CHARACTERS",
    "MORE",
    "NOTIFICATION_ID_BYTES",
    "NOTIFY",
    "NOTIFY_NUMBER",
    "PROTOCOL_HEADER",
    "PUBLISH",
    "RESERVED_NUMBERS",
    "SERVE",
    "SERVICES",
    "SERVICE_CODES",
    "SUBSCRIBE",
    "TARGET_NAMES",
    "TIMEOUT_HEADER",
    "UNSUBSCRIBE",
    "WINDOW_HEADER",
    "WITHDRAW",
    "AckArguments",
    "AckResult",
    "AuthArguments",
    "AuthResult",
    "HubCall",
    "Notified",
    "Offer",
    "PublishArguments",
    "PublishResult",
    "ServeArguments",
    "ServeResult",
    "ServiceState",
    "ServicesArguments",
    "ServicesResult",
    "SubscribeArguments",
    "TopicArguments",
    "TopicsResult",
    "WithdrawArguments",
    "WithdrawResult",
    "busy_reason",
    "busy_text",
    "content_fields",
    "content_of",
    "hub_arguments",
    "is_client_topic",
    "is_topic_name",
    "notification_json",
]

ADMIN_PORT: Final = 9680
"""The default port of the hub's HTTP server."""
HUB_SERVICE: Final = "hub"
"""The service name of the hub itself; applications cannot use it."""
DEMO_SERVICE: Final = "test"
"""The service of a demo hub (`wirelake hub --demo`)."""
DEMO_OPERATIONS: Final = ("echo", "add", "sleep", "fail")
"""The operations of that service, in the order of their numbers (`Binding.demo_number`)."""
BUSY_CODES: Final = frozenset({"too_busy", "closing", "storage_full"})
"""Error codes of a hub (`wirelake.hub.errors`) for which nothing was carried out, and the same
request may succeed later or at another hub. Protocols with one number for busy send it for all."""
NOTIFY: Final = "notify"
"""The operation of a pushed notification, for protocols with names."""
NOTIFY_NUMBER: Final = 20
"""The number of a pushed notification, for protocols with numbers."""
CANCEL: Final = "cancel"
"""The operation of the event that tells a service process that a call is cancelled."""
MORE: Final = "more"
"""The operation of the event that lets a service process send more parts of a stream."""
CLIENT_HEADER: Final = "wirelake-client"
"""HEADER of a request to a service process: the id of the client that calls."""
PROTOCOL_HEADER: Final = "wirelake-protocol"
"""HEADER of such a request: the protocol of the caller."""
KIND_HEADER: Final = "wirelake-kind"
"""HEADER of such a request: `info` or `event`; absent for a request."""
TIMEOUT_HEADER: Final = "wirelake-timeout-ms"
"""HEADER of such a request: how long the hub waits. In a request of a client: how long the client
waits."""
WINDOW_HEADER: Final = "wirelake-window"
"""HEADER of such a request: how many parts of a stream may be sent before the first `more`."""
CODE_HEADER: Final = "wirelake-code"
"""HEADER of an error reply of a service process: the error code of the hub."""
SERVICE_CODES: Final = frozenset({"bad_arguments", "failed", "forbidden", "internal", "too_busy"})
"""Error codes that a service process may send; others count as `failed`."""
CALLER_HEADERS: Final = frozenset(
    {CLIENT_HEADER, PROTOCOL_HEADER, KIND_HEADER, TIMEOUT_HEADER, WINDOW_HEADER, CODE_HEADER}
)
"""HEADERs that the hub writes itself: those of a caller or a service are not passed on."""
RESERVED_NUMBERS: Final = range(10, 21)
"""Numbers that services cannot have: the calls, the push, and a reserve."""

MAX_CLIENT_ID_BYTES: Final = 256
"""Maximum length of a client id: sixteen times the size of the ids of comet's original software."""
ANONYMOUS: Final = "~"
"""The beginning of the ids of clients that have not signed on; the id of their connection follows.
No account may have such an id."""
NOTIFICATION_ID_BYTES: Final = 16
"""Length of the id of a notification (`docs/concepts/hub.md`, Ids)."""
MAX_TOPIC_CHARACTERS: Final = 256
"""Maximum length of a topic name: the limit of comet's original software."""
_TOPIC_PUNCTUATION: Final = frozenset("/_-@$")
_ASCII_TOPIC: Final = re.compile(rf"[A-Za-z0-9/_\-@$]{{1,{MAX_TOPIC_CHARACTERS}}}")


def is_topic_name(text: str) -> bool:
    """Return whether this is a valid topic name: letters, digits and / _ - @ $."""
    # Nearly all names are ASCII, and the expression is almost three times as fast as the loop.
    if text.isascii():
        return _ASCII_TOPIC.fullmatch(text) is not None
    return len(text) <= MAX_TOPIC_CHARACTERS and all(
        c.isalpha() or c.isdecimal() or c in _TOPIC_PUNCTUATION for c in text
    )


def is_client_topic(text: str) -> bool:
    """Return whether a client may subscribe to this: names of clients' topics begin with @, those
    with $ are the server's own (`docs/decisions/comet.md`, Topics)."""
    return text.startswith("@") and is_topic_name(text)


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a call; unknown names are errors. Checks that types cannot express are in
    `__post_init__`, where msgspec turns a ValueError into a ValidationError."""


class AuthArguments(_Arguments, frozen=True, kw_only=True):
    """Arguments of `auth`."""

    id: str
    token: str


class TopicArguments(_Arguments, frozen=True, kw_only=True):
    """Arguments of `unsubscribe`."""

    topic: str | None = None
    topics: tuple[str, ...] = ()
    """All topics, `topic` included."""

    def __post_init__(self) -> None:
        if self.topic is not None:
            msgspec.structs.force_setattr(self, "topics", (self.topic, *self.topics))
        if not self.topics:
            raise ValueError("expected topic or topics")


class SubscribeArguments(TopicArguments, frozen=True, kw_only=True):
    """Arguments of `subscribe`; with `ack`, notifications are sent again until acknowledged."""

    ack: bool = False


class PublishArguments(_Arguments, frozen=True, kw_only=True):
    """Arguments of `publish`. `id` is an idempotency key."""

    topic: str | None = None
    client: str | None = None
    content: Any = None
    content_base64: bytes | None = None
    type: int = 0
    id: str = ""
    ttl_s: float | None = None

    def __post_init__(self) -> None:
        if (self.content is None) == (self.content_base64 is None):
            raise ValueError("expected either content or content_base64")
        if self.content is not None and not isinstance(self.content, str | bytes):
            raise ValueError("content: expected text")

    @property
    def body(self) -> bytes:
        """The content as bytes; UnicodeEncodeError for text with lone surrogates."""
        content = self.content_base64 if self.content is None else self.content
        return content.encode() if isinstance(content, str) else bytes(content or b"")


class AckArguments(_Arguments, frozen=True, kw_only=True):
    """Arguments of `ack`."""

    id: str | None = None
    ids: tuple[str, ...] = ()
    """All ids, `id` included."""

    def __post_init__(self) -> None:
        if self.id is not None:
            msgspec.structs.force_setattr(self, "ids", (self.id, *self.ids))
        if not self.ids:
            raise ValueError("expected id or ids")


class Offer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One service of a process."""

    name: str
    """`service/op`."""
    signature: str = ""
    """Its arguments and its result, for people. Processes that offer the same service must have
    the same signature and the same numbers."""
    numbers: dict[str, int] = {}
    """Its number in each protocol that has numbers."""
    values: bool = True
    """Whether a JSON body of a caller is sent as DATA rows."""
    body: bool = False
    """Whether it is also sent as it is, as PAYLOAD."""


class ServeArguments(_Arguments, frozen=True, kw_only=True):
    """Arguments of `serve`. `calls` is how many calls the process takes at a time."""

    services: tuple[Offer, ...]
    calls: int = 64

    def __post_init__(self) -> None:
        if not self.services:
            raise ValueError("expected at least one service")
        if self.calls < 1:
            raise ValueError("calls: expected at least 1")


class WithdrawArguments(_Arguments, frozen=True, kw_only=True):
    """Arguments of `withdraw`: names of services; all of the process if there are none."""

    services: tuple[str, ...] = ()


class ServicesArguments(_Arguments, frozen=True, kw_only=True):
    """Arguments of `services`: which of all services, in the order of their names."""

    offset: int = 0
    limit: int = 100

    def __post_init__(self) -> None:
        if self.offset < 0 or not 1 <= self.limit <= 1_000:
            raise ValueError("expected an offset from 0 and a limit from 1 to 1000")


# Results are TypedDicts: a plain dict is what the fast paths of the listeners encode directly.


class AuthResult(TypedDict):
    """Result of `auth`: the client id."""

    id: str


class TopicsResult(TypedDict):
    """Result of `subscribe` and `unsubscribe`: how many topics were named."""

    topics: int


class PublishResult(TypedDict):
    """Result of `publish`: the notification's id, and how many clients it is for."""

    id: str
    audience: int


class AckResult(TypedDict):
    """Result of `ack`: how many notifications were acknowledged by it."""

    acked: int


class ServeResult(TypedDict):
    """Result of `serve`: how many services this process offers now, and how many calls the hub
    sends it at a time."""

    services: int
    calls: int


class WithdrawResult(TypedDict):
    """Result of `withdraw`: how many services were withdrawn."""

    services: int


class ServiceState(TypedDict):
    """A service, as `services` lists it."""

    name: str
    signature: str
    numbers: dict[str, int]
    where: list[str]
    """`hub`, or the ids of the clients whose processes offer it, each as often as it has some."""
    running: int
    """Calls under way."""
    calls: int
    """Finished calls, since the start of the hub."""
    failed: int
    """Failed calls among them."""
    p50_us: int
    """Median of their latencies in microseconds; 0 without calls."""
    p99_us: int
    """99th percentile."""


class ServicesResult(TypedDict):
    """Result of `services`: how many there are in all, and some of them."""

    count: int
    services: list[ServiceState]


class Notified(TypedDict):
    """A pushed notification. `topic` is absent when it is for one client, `type` when it is 0."""

    id: str
    topic: NotRequired[str]
    content: NotRequired[str | bytes]
    content_base64: NotRequired[str]
    ts: int
    type: NotRequired[int]


@dataclass(frozen=True, slots=True)
class HubCall:
    """One call."""

    name: str
    number: int
    arguments: type[msgspec.Struct]
    result: type
    frequent: bool = False
    """Whether clients call it per message, so that listeners answer it on their fast path."""

    @property
    def target(self) -> str:
        """What a protocol that addresses services by name calls."""
        return f"{HUB_SERVICE}/{self.name}"


# The numbers are part of the interface of every hub: clients, the meaning of tny and magline (which
# hides the arguments of a sign-on) and recordings refer to them. They are declared here only.
AUTH: Final = HubCall("auth", 10, AuthArguments, AuthResult)
"""Sign on."""
SUBSCRIBE: Final = HubCall("subscribe", 11, SubscribeArguments, TopicsResult)
"""Subscribe to topics."""
UNSUBSCRIBE: Final = HubCall("unsubscribe", 12, TopicArguments, TopicsResult)
"""Unsubscribe from topics."""
PUBLISH: Final = HubCall("publish", 13, PublishArguments, PublishResult, frequent=True)
"""Publish a notification."""
ACK: Final = HubCall("ack", 14, AckArguments, AckResult, frequent=True)
"""Acknowledge notifications."""
SERVE: Final = HubCall("serve", 15, ServeArguments, ServeResult)
"""Offer services; ESNP only, because the hub calls them on the same connection."""
WITHDRAW: Final = HubCall("withdraw", 16, WithdrawArguments, WithdrawResult)
"""Offer services no longer."""
SERVICES: Final = HubCall("services", 17, ServicesArguments, ServicesResult)
"""List services."""

CALLS: Final[dict[str, HubCall]] = {
    call.name: call
    for call in (AUTH, SUBSCRIBE, UNSUBSCRIBE, PUBLISH, ACK, SERVE, WITHDRAW, SERVICES)
}
"""Every call by its name."""
BY_NUMBER: Final[dict[int, HubCall]] = {call.number: call for call in CALLS.values()}
"""Every call by its number."""
TARGET_NAMES: Final[dict[int, str]] = {
    **{number: f"{HUB_SERVICE}/{call.name}" for number, call in BY_NUMBER.items()},
    NOTIFY_NUMBER: f"{HUB_SERVICE}/{NOTIFY}",
}
"""The names of these calls, and of the push, by number."""


def hub_arguments(
    addressing: Literal["names", "numbers"], rows: NamedRows | None = None
) -> Arguments:
    """Return the declaration of sign-on, notifications and acknowledgements for a protocol that
    uses these calls. Arguments are in `rows`, or in a JSON body."""
    if addressing == "names":
        auth, notify, ack = AUTH.target, f"{HUB_SERVICE}/{NOTIFY}", ACK.target
    else:
        auth, notify, ack = str(AUTH.number), str(NOTIFY_NUMBER), str(ACK.number)
    return Arguments(
        client=Argument(auth, "id"),
        ids=(Argument(notify, "id"), Argument(ack, "id", "ids")),
        published_ms=Argument(notify, "ts"),
        rows=rows,
    )


class _Notification(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def content(self) -> bytes: ...
    @property
    def ts_ms(self) -> int: ...
    @property
    def type(self) -> int: ...


_encode: Final = msgspec.json.Encoder().encode


def notification_json(notification: _Notification) -> bytes:
    """Return the JSON body of a pushed notification."""
    fields: dict[str, Any] = {"id": notification.id}
    if notification.topic is not None:
        fields["topic"] = notification.topic
    fields |= content_fields(notification.content)
    fields["ts"] = notification.ts_ms
    if notification.type:
        fields["type"] = notification.type
    return _encode(fields)


def content_fields(content: bytes) -> dict[str, str]:
    """Return content as JSON fields: `content`, or `content_base64` if it is not valid UTF-8."""
    # Text stays readable in JSON; base64 for all content would cost a third more bytes.
    try:
        return {"content": content.decode()}
    except UnicodeDecodeError:
        return {"content_base64": base64.b64encode(content).decode()}


def content_of(fields: dict[str, Any]) -> bytes:
    """Return the content of decoded fields; ValueError for invalid base64."""
    if "content_base64" in fields:
        return base64.b64decode(fields["content_base64"], validate=True)
    content = fields.get("content", b"")
    return content.encode() if isinstance(content, str) else bytes(content)


# Where the error of a protocol is a text without a code, a busy server names the code in front.


def busy_text(code: str, text: str) -> str:
    """Return the text of an error; that of a busy server begins with its code."""
    return f"{code}: {text}" if code in BUSY_CODES else text


def busy_reason(text: str) -> tuple[str, str] | None:
    """Return code and text if `busy_text` made this text of a busy server."""
    code, separator, rest = text.partition(": ")
    return (code, rest) if separator and code in BUSY_CODES else None
