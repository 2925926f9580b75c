"""What happens on a tny message connection, as events of its sessions (§3, §6, §11)."""

from __future__ import annotations

from ..sansio import Event
from .layout import Message
from .message import Header

__all__ = [
    "CallFailed",
    "DialectSeen",
    "HandedOn",
    "NumbersLow",
    "Pinged",
    "Ponged",
    "Pushed",
    "Replied",
    "Requested",
    "Unmatched",
]


class Requested(Event, frozen=True, gc=False):
    """The peer asks: answer with `respond`, or say `release` if there will be no answer.

    `headers` are the headers of dialect upstream, decoded; the seed dialect's one header is
    `message.forward_header`, bytes.
    """

    message: Message
    headers: tuple[Header, ...] = ()


class HandedOn(Event, frozen=True, gc=False):
    """A gateway's user says something: `raw` is the Message as it came. A request waits for an
    answer, as `Requested` does."""

    message: Message
    raw: bytes


class Replied(Event, frozen=True, gc=False):
    """The peer answered a request of ours."""

    request: Message
    response: Message
    headers: tuple[Header, ...] = ()


class Pushed(Event, frozen=True, gc=False):
    """The peer tells something and wants no answer."""

    message: Message
    headers: tuple[Header, ...] = ()


class Unmatched(Event, frozen=True, gc=False):
    """A response that answers nothing, or too late; a `Failed` goes before it."""

    message: Message


class CallFailed(Event, frozen=True, gc=False):
    """A request of ours gets no response: `timeout`, or `connection_lost`."""

    request: Message
    code: str


class Pinged(Event, frozen=True, gc=False):
    """A ping came, and was answered."""


class Ponged(Event, frozen=True, gc=False):
    """A pong came."""


class DialectSeen(Event, frozen=True, gc=False):
    """Dialect `auto`: the peer's tick has shown its dialect."""

    dialect: str


class NumbersLow(Event, frozen=True, gc=False):
    """This many packets more, then the connection closes: reconnect (§3)."""

    left: int
