"""Messages that a magline application sends, and the events of a session (seed 003 §3).

Messages are what `send` takes; they carry plaintext, and the session puts them into frames. Events
are what `events()` gives, beside `Failed` and `Closed` of every protocol.

Rule and section numbers refer to `docs/decisions/magline.md`.
"""

from __future__ import annotations

import msgspec

from ..sansio import Event
from .handshake import Mode
from .layout import ErrorNumber, Reason

__all__ = [
    "Authenticated",
    "Established",
    "Failure",
    "Finished",
    "Pinged",
    "Ponged",
    "Push",
    "Pushed",
    "Refused",
    "Replied",
    "Reply",
    "Request",
    "RequestFailed",
    "RequestLost",
    "Requested",
    "Resumed",
    "is_error_number",
    "is_reason",
    "reason_name",
]

APPLICATION = 0x10000
"""Error numbers and reasons from here on belong to the application."""
_LARGEST = 0xFFFF_FFFF


# -- messages --------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True, gc=False):
    """REQ: a client asks. `timeout_s` None is the option's `request_timeout_s`."""

    business_cmd: int
    data: bytes = b""
    timeout_s: float | None = None


class Reply(msgspec.Struct, frozen=True, gc=False):
    """REP: a server answers the request of that Seq."""

    to: int
    data: bytes = b""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """ERR for one request: it failed, the connection goes on."""

    to: int
    error_number: int = ErrorNumber.BUSINESS


class Push(msgspec.Struct, frozen=True, gc=False):
    """PSH: a server tells its client something."""

    business_cmd: int
    data: bytes = b""


# -- events of both roles --------------------------------------------------------------------


class Established(Event, frozen=True, gc=False):
    """SYN and ACK have gone: there are keys. `session_id` is SHA-256 of the session id.

    A resumed connection waits for one more frame before it takes the old one's place: `Resumed`.
    """

    mode: Mode
    session_id: bytes
    resumed: bool = False


class Resumed(Event, frozen=True, gc=False):
    """The resumption is confirmed: the session `replaced` is no more (section 4.10).

    A server's application closes the connection that has that `session_id`, if it is still there,
    with FIN 6. `dropped` pushes did not fit its queue; where ordered commands are yet to be done,
    the queue waits for them, and `Authenticated` has the number.
    """

    session_id: bytes
    replaced: bytes
    principal: str = ""
    dropped: int = 0


class Refused(Event, frozen=True, gc=False):
    """The peer says that the connection failed, and why; its FIN should follow.

    `trusted` is False for an ERR without a tag: anybody on the way may have sent it.
    """

    error_number: int
    business_cmd: int = 0
    trusted: bool = True


class Finished(Event, frozen=True, gc=False):
    """The peer sent FIN. Without a tag the reason is not authenticated (rule 18)."""

    reason_number: int
    trusted: bool = True


# -- events of a server ----------------------------------------------------------------------


class Requested(Event, frozen=True, gc=False):
    """A client asks: answer with `Reply` or `Failure`.

    `step` counts the ordered commands from 0: a `Reply` lets the client go on, a `Failure` ends
    the connection (rule 20). None when there is no such step.
    """

    seq: int
    business_cmd: int
    data: bytes
    step: int | None = None


class Authenticated(Event, frozen=True, gc=False):
    """The ordered commands are done; everything is allowed now (rule 20).

    `dropped` pushes did not fit the queue of a session that was resumed before this.
    """

    principal: str
    dropped: int = 0


class Pinged(Event, frozen=True, gc=False):
    """A heartbeat came and was answered."""

    ping_number: int
    trusted: bool = True


# -- events of a client ----------------------------------------------------------------------


class Replied(Event, frozen=True, gc=False):
    """The server answered the request of that Seq."""

    seq: int
    business_cmd: int
    data: bytes


class RequestFailed(Event, frozen=True, gc=False):
    """The server says that a request failed; the connection goes on."""

    seq: int
    business_cmd: int
    error_number: int


class RequestLost(Event, frozen=True, gc=False):
    """No answer came: `timeout`, or `connection_lost` (rule 21). It may have been carried out."""

    seq: int
    business_cmd: int
    code: str


class Pushed(Event, frozen=True, gc=False):
    """The server tells something."""

    business_cmd: int
    data: bytes


class Ponged(Event, frozen=True, gc=False):
    """A heartbeat was answered."""

    ping_number: int
    rtt_s: float


# -- numbers ---------------------------------------------------------------------------------


def is_error_number(number: int) -> bool:
    """Return whether an ERR may say this: a listed number, or an application's. 0 is never sent."""
    return APPLICATION <= number <= _LARGEST or number in ErrorNumber.__members__.values()


def is_reason(number: int) -> bool:
    """Return whether a FIN may say this: a listed reason, or an application's."""
    return APPLICATION <= number <= _LARGEST or number in Reason.__members__.values()


def reason_name(number: int) -> str:
    """What `Closed` calls a reason: `idle`, or `reason 65536` for those without a name."""
    try:
        return Reason(number).name.lower()
    except ValueError:
        return f"reason {number}"
