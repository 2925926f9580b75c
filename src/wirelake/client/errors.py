"""What can go wrong for a client.

ClientError
├── BadCall            it cannot be asked like this: a wrong URL, target, value or option
│   └── Unsupported    the protocol has no such thing
├── CallFailed         the peer answered that it failed: `code` and `text`
├── Refused            the server, or a limit, lets us do no more: `code` and `text`
│   └── AuthFailed     the id or the token is wrong; nothing is tried again
├── Timeout            no answer came in time; it may have been carried out
└── ConnectionLost     the connection ended, or there is none; a call that was under way may
                       have been carried out, and is never sent again by itself
"""

from __future__ import annotations

from wirelake.protocols.sansio import SessionError

__all__ = [
    "AuthFailed",
    "BadCall",
    "CallFailed",
    "ClientError",
    "ConnectionLost",
    "Refused",
    "Timeout",
    "Unsupported",
    "session_error",
]


class ClientError(Exception):
    """The base of all that a client raises."""


class BadCall(ClientError, ValueError):  # noqa: N818
    """It cannot be asked like this; nothing was sent."""


class Unsupported(BadCall):
    """The protocol has no such thing; nothing was sent."""


class _Answered(ClientError):  # noqa: N818
    """Somebody said no, with a code of the protocol, and perhaps in words."""

    def __init__(self, code: int | str, text: str = ""):
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.text} ({self.code})" if self.text else str(self.code)


class CallFailed(_Answered):
    """The peer answered that a call failed.

    `code` is tny's result code, magline's error number, comet's error code, or `error` for ESNP,
    which has words alone.
    """


class Refused(_Answered):
    """The server does not let us in, or a limit is reached."""


class AuthFailed(Refused):
    """The id or the token is wrong."""


class Timeout(ClientError, TimeoutError):  # noqa: N818
    """No answer came in time."""


class ConnectionLost(ClientError, ConnectionError):  # noqa: N818
    """The connection ended, or there is none."""


def session_error(error: SessionError, *, closed: bool) -> ClientError:
    """What a session refused, as a client says it."""
    if closed:
        return ConnectionLost("the connection is closed")
    if error.code == "too_busy":
        return Refused(error.code, error.detail)
    return BadCall(str(error))
