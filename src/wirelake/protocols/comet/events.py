"""Events of a comet session, besides `Failed` and `Closed` of every protocol (seed 004).

Events may be printed and logged: tokens and wrapped secrets are not in what they print. Commands
mask theirs by themselves; `AuthRequested` has a token of its own.
"""

from __future__ import annotations

from typing import Any

from ..sansio import Event
from .layout import Notification

__all__ = [
    "AuthRequested",
    "Authenticated",
    "Beat",
    "KeyExchanged",
    "Notified",
    "Replied",
    "Requested",
]

_MASK = "<secret>"


# -- events of a server ----------------------------------------------------------------------


class AuthRequested(Event, frozen=True, gc=False):
    """A client wants to sign on: check the token, then `accept` or `refuse`.

    Do the same work whether or not the client exists: the time that it takes is an answer too.
    """

    client_id: str
    token: str

    def __repr__(self) -> str:
        return f"AuthRequested(client_id={self.client_id!r}, token={_MASK})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("client_id", self.client_id), ("token", _MASK)]


class Requested(Event, frozen=True, gc=False):
    """An authenticated client asks something: answer with `send`."""

    command: Any


class Beat(Event, frozen=True, gc=False):
    """A heartbeat came and was answered.

    The session has nothing more to do. Whether old notifications are now sent again, as the
    original does every 1800 s, is for whoever keeps the inbox to decide: `send` takes them.
    """


# -- events of a client ----------------------------------------------------------------------


class Replied(Event, frozen=True, gc=False):
    """The server answered a command of ours; notifications of a list are opened."""

    command: Any
    reply: Any


class Notified(Event, frozen=True, gc=False):
    """A notification came; `content` is what was sealed, or the content as it came."""

    notification: Notification
    content: bytes


# -- events of both --------------------------------------------------------------------------


class Authenticated(Event, frozen=True, gc=False):
    """The connection now belongs to a client."""

    client_id: str


class KeyExchanged(Event, frozen=True, gc=False):
    """From here on, content is sealed."""
