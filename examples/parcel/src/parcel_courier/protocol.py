"""Parcel tracking: the messages between a courier's scanner and its depot. Invented for Wirelake.

Every message is a frame: two magic bytes, a length, a tag, the sender's message number, the body.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar, Final

from wirelake.protocols.hub_calls import AUTH
from wirelake.wire import Layout, Protocol
from wirelake.wire import types as t
from wirelake.wire.meaning import At, First, Meaning, Named, SignOn, Values

PORT: Final = 9640
"""The usual port of a depot."""


class Status(IntEnum):
    """The result of a request."""

    OK = 0
    BAD_REQUEST = 1
    UNKNOWN_SERVICE = 2
    NOT_ALLOWED = 3
    TRY_LATER = 4
    FAILED = 5


class Hello(Layout):
    """A courier signs on."""

    courier: t.String8
    """The courier's id."""
    token: t.Secret[t.String8]
    """The courier's token."""


class Welcome(Layout):
    """The depot accepts a courier."""

    to: t.U32
    """The number of the hello."""


class Ask(Layout):
    """A request to a service."""

    target: t.String8
    """The service and its operation, as in `parcels/scan`."""
    body: t.Bytes16
    """Arguments, a JSON object."""


class Answer(Layout):
    """The response to a request."""

    to: t.U32
    """The number of the request."""
    status: Annotated[t.U8, t.Names(Status)]
    """The result."""
    body: t.Bytes16
    """The returned value, or the reason of a failure as text."""


class Notice(Layout):
    """A notification from the depot."""

    id: t.String8
    """The id of the notification, for the acknowledgement."""
    topic: t.String8
    """Its topic; empty when it is for this courier alone."""
    sent_ms: t.U64
    """When it was published, in milliseconds since 1970."""
    type: t.U8
    """A number that the publisher chose."""
    content: t.Bytes16
    """The content of the notification."""


class Ping(Layout):
    """A heartbeat."""


class Pong(Layout):
    """The reply to a ping."""

    to: t.U32
    """The number of the ping."""


class Bye(Layout):
    """The last message of a connection."""

    reason: t.String8
    """Why the connection ends."""


class Frame(Layout):
    """The frame of every message."""

    magic: ClassVar[Annotated[bytes, t.Magic(b"PX")]]
    """The first two bytes."""
    length: ClassVar[t.Length32]
    """Bytes that follow."""
    type: ClassVar[t.Tag8]
    """The type of the message."""
    number: t.U32
    """The sender's number of this message, from 1."""
    body: Annotated[
        Hello | Welcome | Ask | Answer | Notice | Ping | Pong | Bye,
        t.Choice({1: Hello, 2: Welcome, 3: Ask, 4: Answer, 5: Notice, 6: Ping, 7: Pong, 8: Bye}),
    ]
    """The message."""


MEANING: Final = Meaning(
    kind=Named(
        {
            "hello": "request",
            "welcome": "response",
            "ask": "request",
            "answer": "response",
            "notice": "push",
            "ping": "heartbeat",
            "pong": "heartbeat",
            "bye": "control",
        }
    ),
    message_id=At("number"),
    reply_to=First(At("answer.to"), At("welcome.to"), At("pong.to")),
    target=First(At("ask.target"), Named({"hello": "hello"})),
    status=First(
        Values(At("answer.status"), {each: each.name.lower() for each in Status}, digits=True),
        Named({"welcome": "ok"}),
    ),
    reason=At("bye.reason"),
    client=At("hello.courier"),
    body=("ask.body", "answer.body", "notice.content"),
    sign_on=SignOn(confirmed_by=("welcome",), targets=("hello", AUTH.target)),
    heartbeats=("ping",),
)

PROTOCOL: Final = Protocol(
    name="parcel",
    title="parcel: couriers and their depot",
    frame=Frame,
    port=PORT,
    meaning=MEANING,
    binding="parcel_courier:BINDING",
)
