"""The errors of a client.

ClientError
├── BadCall            an invalid URL, target, value or option
│   ├── BadOption      an option of `connect`, with a message that others can name it in
│   └── Unsupported    the protocol does not support it
├── CallFailed         the server replied that the call failed: `code` and `text`
│   └── Busy           a limit is reached, here or at the server; nothing was carried out
├── Refused            the server refuses, or a limit is reached: `code` and `text`
│   └── AuthFailed     the id or the token is wrong; there is no retry
├── Timeout            no reply in time; the call may have been carried out
└── ConnectionLost     the connection is closed; a pending call may have been carried
    │                  out, and is sent again only if it is idempotent
    ├── NotConnected   no connection in time; nothing was sent
    ├── Unreachable    no connection can be made: nothing listens at the address
    │   └── AllFailed  none of several addresses can be connected to: `failures`
    └── WrongServer    the server uses another protocol, or TLS where the URL has none

Messages that name an option are functions of its name (`OptionText`): the command line has other
names for the options, and `named` returns the message with those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from wirelake.protocols.sansio import SessionError

__all__ = [
    "AllFailed",
    "AuthFailed",
    "BadCall",
    "BadOption",
    "Busy",
    "CallFailed",
    "ClientError",
    "ConnectionLost",
    "NotConnected",
    "OptionText",
    "Refused",
    "Timeout",
    "Unreachable",
    "Unsupported",
    "WrongServer",
    "failures_text",
    "foreign_reply",
    "session_error",
]


OptionText: TypeAlias = Callable[[Callable[[str], str]], str]
"""Returns a message, given a function that returns what an option is called."""


class ClientError(Exception):
    """The base class of the client's errors."""

    def named(self, names: Mapping[str, str], prefix: str = "") -> str:  # noqa: ARG002
        """Return the message with other names of options; those without one get the prefix."""
        return str(self)


class BadCall(ClientError, ValueError):  # noqa: N818
    """An invalid URL, target, value or option; nothing was sent."""


class BadOption(BadCall):
    """An invalid option of `connect`."""

    def __init__(self, text: OptionText):
        super().__init__(text(str))
        self._text = text

    def named(self, names: Mapping[str, str], prefix: str = "") -> str:
        """Return the message with other names of options; those without one get the prefix."""
        return self._text(lambda name: names.get(name, f"{prefix}{name}"))


class Unsupported(BadCall):
    """The protocol does not support this; nothing was sent."""


NO_CODE: Final = "error"
"""The code of a refusal that has none, as in ESNP."""


class _Answered(ClientError):  # noqa: N818
    """A refusal: a code of the protocol, and a text if it has one."""

    def __init__(self, code: int | str, text: str | OptionText = ""):
        self._text: OptionText = text if callable(text) else lambda _: text
        self.code = code
        self.text = self._text(str)
        super().__init__(code, self.text)

    def __str__(self) -> str:
        return self.named({})

    def named(self, names: Mapping[str, str], prefix: str = "") -> str:
        """Return the message with other names of options; those without one get the prefix."""
        text = self._text(lambda name: names.get(name, f"{prefix}{name}"))
        if not text:
            return str(self.code)
        return text if self.code == NO_CODE else f"{text} ({self.code})"


class CallFailed(_Answered):
    """The server replied that a call failed.

    `code` is tny's result code, magline's error number, comet's error code, or `error` for ESNP,
    which has only a text.
    """


class Busy(CallFailed):
    """A limit is reached, at the server or of this client; nothing was carried out.

    A hub also replies so while it shuts down or its disk is full. The same call can be made later.
    `code` is that of the server's reply, or `too_busy` if nothing was sent.
    """


class Refused(_Answered):
    """The server refuses the connection, or a limit is reached."""


class AuthFailed(Refused):
    """The id or the token is wrong."""


class Timeout(ClientError, TimeoutError):  # noqa: N818
    """No reply in time."""


class ConnectionLost(ClientError, ConnectionError):  # noqa: N818
    """The connection is closed or cannot be made."""


class NotConnected(ConnectionLost):
    """There was no connection within the timeout; nothing was sent."""


class Unreachable(ConnectionLost):
    """No connection can be made."""


class AllFailed(Unreachable):
    """None of several addresses can be connected to."""

    def __init__(self, failures: Iterable[tuple[str, ClientError]]):
        self.failures = tuple(failures)
        """Each address, as `host:port`, and its error."""
        super().__init__(self.named({}))

    def named(self, names: Mapping[str, str], prefix: str = "") -> str:
        """Return the message with other names of options; those without one get the prefix."""
        return "no server can be connected to: " + failures_text(self.failures, names, prefix)


def failures_text(
    failures: Iterable[tuple[str, ClientError]],
    names: Mapping[str, str] | None = None,
    prefix: str = "",
) -> str:
    """Return each address with its error; `names` and `prefix` are those of `ClientError.named`."""
    shown = []
    for place, error in failures:
        text = error.named(names or {}, prefix)
        shown.append(text if text.startswith(place) else f"{place}: {text}")
    return " | ".join(shown)  # the errors have semicolons of their own


class WrongServer(ConnectionLost):
    """The server uses another protocol, or TLS where the URL has none, or the reverse."""


_TLS_ALERT: Final = b"\x15\x03"
"""How a TLS server replies to bytes that are not TLS: the type `alert`, and the version."""
_HTTP: Final = b"HTTP/"


def foreign_reply(protocol: str, place: str, reply: bytes) -> WrongServer | None:
    """Return the error for a reply that is TLS or HTTP, by its first bytes; None for others."""
    if reply.startswith(_TLS_ALERT):
        return WrongServer(f"{place}: the server uses TLS; use {protocol}s://{place}")
    if reply.startswith(_HTTP):
        return WrongServer(
            f"{place}: this is an HTTP server, such as the admin address of a hub, and not "
            f"{protocol}; check the port"
        )
    return None


def session_error(error: SessionError, *, closed: bool) -> ClientError:
    """Convert the error of a session."""
    if closed:
        return ConnectionLost("the connection is closed")
    if error.code == "too_busy":
        return Busy(error.code, error.detail)
    return BadCall(str(error))
