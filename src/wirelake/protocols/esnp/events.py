"""Events of an ESNP session, besides `Failed` and `Closed` of every protocol.

Section numbers refer to `docs/decisions/esnp.md`.
"""

from __future__ import annotations

import msgspec

from ..sansio import Event
from .layout import Message, Version
from .message import Kind, error_text

__all__ = ["Announced", "Answered", "Call", "CallFailed", "Passed", "Requested", "Traced"]


class Call(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A request or an info of the peer, to be answered with `answer`."""

    parts: tuple[Message, ...]
    """The message, or all messages of its sequence, in order."""
    raw: tuple[bytes, ...]
    """Their bytes as they came."""
    concurrent: bool
    """Whether the peer allows answers out of order."""
    kind: Kind = "REQUEST"
    """REQUEST or INFO."""
    id: int | None = None
    """The peer's message id; None without one."""

    @property
    def message(self) -> Message:
        """The first message, which says what is asked."""
        return self.parts[0]

    @property
    def version(self) -> Version | None:
        """The VERSION row, when there is one."""
        return next((row for row in self.message.rows if isinstance(row, Version)), None)


class Requested(Event, frozen=True, gc=False):
    """The peer asks something and waits for the answer."""

    call: Call


class Announced(Event, frozen=True, gc=False):
    """The peer says something that has no answer: an event, or a message of no kind."""

    message: Message
    raw: bytes


class Answered(Event, frozen=True, gc=False):
    """An answer to a call of ours; `last` tells whether the call is over."""

    id: int
    message: Message
    raw: bytes
    last: bool = True

    @property
    def error(self) -> str | None:
        """What went wrong, if the peer says so; an empty text is an error too."""
        return error_text(self.message)


class Traced(Event, frozen=True, gc=False):
    """A node reports that a message of ours passed it; the call goes on (section 3)."""

    id: int | None
    text: str
    message: Message


class CallFailed(Event, frozen=True, gc=False):
    """A call of ours got no answer: `timeout`, `connection_lost`, or `too_many` parts."""

    id: int
    code: str


class Passed(Event, frozen=True, gc=False):
    """A message to be handed on; only where the option `routes` is set."""

    message: Message
    raw: bytes
