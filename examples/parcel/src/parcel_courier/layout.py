"""Parcel tracking: what a courier's scanner and its depot send each other. Invented for Wirelake.

Every message is a frame: two magic bytes, a length, a tag, the sender's message number, the body.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar

from wirelake.wire import Layout
from wirelake.wire import types as t

__all__ = ["Answer", "Ask", "Bye", "Frame", "Hello", "Notice", "Ping", "Pong", "Status", "Welcome"]


class Status(IntEnum):
    """How a request ended."""

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
    """The result of a request."""

    to: t.U32
    """The number of the request."""
    status: Annotated[t.U8, t.Names(Status)]
    """How it ended."""
    body: t.Bytes16
    """The result, or the reason as text."""


class Notice(Layout):
    """A notification from the depot."""

    id: t.String8
    """What to acknowledge."""
    topic: t.String8
    """Its topic; empty when it is for this courier alone."""
    sent_ms: t.U64
    """When it was published, in milliseconds since 1970."""
    type: t.U8
    """The publisher's own number."""
    content: t.Bytes16
    """The content."""


class Ping(Layout):
    """Asks whether the other side is there."""


class Pong(Layout):
    """The reply to a ping."""

    to: t.U32
    """The number of the ping."""


class Bye(Layout):
    """The last message of a connection."""

    reason: t.String8
    """Why it ends."""


class Frame(Layout):
    """The frame of every message."""

    magic: ClassVar[Annotated[bytes, t.Magic(b"PX")]]
    """The first two bytes."""
    length: ClassVar[t.Length32]
    """Bytes that follow."""
    type: ClassVar[t.Tag8]
    """Which message."""
    number: t.U32
    """The sender's number of this message, from 1."""
    body: Annotated[
        Hello | Welcome | Ask | Answer | Notice | Ping | Pong | Bye,
        t.Choice({1: Hello, 2: Welcome, 3: Ask, 4: Answer, 5: Notice, 6: Ping, 7: Pong, 8: Bye}),
    ]
    """The message."""
