"""The errors of a client.

ClientError
├── BadCall            an invalid URL, target, value or option
│   ├── BadOption      an option of `connect`, with a message that others can name it in
│   └── Unsupported    the protocol does not support it
├── CallFailed         the server replied that the call failed: `code` and `text`
├── Refused            the server refuses, or a limit is reached: `code` and `text`
│   └── AuthFailed     the id or the token is wrong; there is no retry
├── Timeout            no reply in time; the call may have been carried out
└── ConnectionLost     the connection is closed or cannot be made; a pending call may
                       have been carried out, and is never sent again
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from wirelake.protocols.sansio import SessionError

__all__ = [
    "AuthFailed",
    "BadCall",
    "BadOption",
    "CallFailed",
    "ClientError",
    "ConnectionLost",
    "Refused",
    "Timeout",
    "Unsupported",
    "session_error",
]


class ClientError(Exception):
    """The base class of the client's errors."""


class BadCall(ClientError, ValueError):  # noqa: N818
    """An invalid URL, target, value or option; nothing was sent."""


OptionText: TypeAlias = Callable[[Callable[[str], str]], str]
"""Returns a message, given a function that returns what an option is called."""


class BadOption(BadCall):
    """An invalid option of `connect`.

    The command line has other names for the options: `named` returns the message with them.
    """

    def __init__(self, text: OptionText):
        super().__init__(text(str))
        self._text = text

    def named(self, names: Mapping[str, str], prefix: str = "") -> str:
        """Return the message with other names of options; those without one get the prefix."""
        return self._text(lambda name: names.get(name, f"{prefix}{name}"))


class Unsupported(BadCall):
    """The protocol does not support this; nothing was sent."""


class _Answered(ClientError):  # noqa: N818
    """A refusal: a code of the protocol, and a text if it has one."""

    def __init__(self, code: int | str, text: str = ""):
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.text} ({self.code})" if self.text else str(self.code)


class CallFailed(_Answered):
    """The server replied that a call failed.

    `code` is tny's result code, magline's error number, comet's error code, or `error` for ESNP,
    which has only a text.
    """


class Refused(_Answered):
    """The server refuses the connection, or a limit is reached."""


class AuthFailed(Refused):
    """The id or the token is wrong."""


class Timeout(ClientError, TimeoutError):  # noqa: N818
    """No reply in time."""


class ConnectionLost(ClientError, ConnectionError):  # noqa: N818
    """The connection is closed or cannot be made."""


def session_error(error: SessionError, *, closed: bool) -> ClientError:
    """Convert the error of a session."""
    if closed:
        return ConnectionLost("the connection is closed")
    if error.code == "too_busy":
        return Refused(error.code, error.detail)
    return BadCall(str(error))
