"""tny message connections, both roles: requests, responses, pushes and ticks (seed 002).

There is no handshake: the first message carries AccessId and Number 1 (§3, §6 of the tny rules,
`docs/decisions/tny.md`). The application authenticates clients, defines protocol numbers and
interprets bodies: it gets `Requested` and answers with `respond`, with code 205 for an unknown
protocol. Both ends may send requests. A reconnect is a new session; message ids continue where the
old one stopped (`first_id=old.next_id`).

Time advances only in calls that pass `now`. `Time` of a message is `epoch_ms`, the wall clock at
now = 0, plus the session's `now`; pass `now` to the calls that send, or timeouts count from the
last call that did.

Invalid bytes end the connection. A server first sends a push of protocol 0 with code 153; see
`ServerOptions.tell_errors`. A check code that does not match (156) is of a level that keeps the
connection: the packet is dropped. There is no close packet: a server that sends a closing code
closes after the write, and that code is the reason that its client reports.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import ClassVar, Final

from wirelake.wire.errors import DecodeError

from ..sansio import CLOSED, Role, SessionError, Side, Table
from .endpoint import (
    CallFailed,
    DialectSeen,
    Endpoint,
    Forwarded,
    NumbersLow,
    Pinged,
    Ponged,
    Pushed,
    Replied,
    Requested,
    Unmatched,
    open_state,
)
from .fast_path import FastPathRequests
from .layout import Message, Mode
from .limits import ClientOptions, ServerOptions
from .message import CLOSING, ResultCode

__all__ = [
    "SYSTEM_PROTOCOL",
    "CallFailed",
    "ClientSession",
    "DialectSeen",
    "Forwarded",
    "NumbersLow",
    "Pinged",
    "Ponged",
    "Pushed",
    "Replied",
    "Requested",
    "ServerSession",
    "Unmatched",
    "UserSession",
]

SYSTEM_PROTOCOL: Final = 0
"""The protocol number of pushes of the protocol itself."""

_SILENT: Final = frozenset({"number_replayed", "number_skipped"})
"""Errors that are never answered, since their sender may not be the client (§7)."""


class ClientSession(Endpoint):
    """The client's end of one connection. Its access id is 0 by default, as in the original."""

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.CLIENT: {
            "new": open_state("new", send_message="open"),
            "open": open_state("open"),
            CLOSED: {},
        }
    }

    def __init__(
        self,
        options: ClientOptions | None = None,
        *,
        access_id: int = 0,
        first_id: int = 1,
        epoch_ms: int = 0,
        random: Callable[[int], bytes] | None = None,
        now: float = 0.0,
    ):
        super().__init__(
            Role.CLIENT,
            options or ClientOptions(),
            access_id=access_id,
            first_id=first_id,
            epoch_ms=epoch_ms,
            random=random,
            now=now,
        )


class ServerSession(FastPathRequests):
    """The server's end of one connection.

    It uses the client's access id; if it sends first, 0 for the whole connection (§3). Requests
    that the application can answer immediately need not become events: see `fast_handler`
    (`fast_path.py`).
    """

    TABLES: ClassVar[dict[Role, Table]] = {
        Role.SERVER: {
            # Our first packet fixes the access id that we write. Sent before the client's id is
            # known, it is 0, and stays 0 (section 3).
            "new": open_state("new", receive_message="open", send_message="unnamed"),
            "open": open_state("open"),
            "unnamed": open_state("unnamed"),
            CLOSED: {},
        }
    }
    options: ServerOptions

    def __init__(
        self,
        options: ServerOptions | None = None,
        *,
        first_id: int = 1,
        epoch_ms: int = 0,
        random: Callable[[int], bytes] | None = None,
        now: float = 0.0,
    ):
        super().__init__(
            Role.SERVER,
            options or ServerOptions(),
            access_id=0,
            first_id=first_id,
            epoch_ms=epoch_ms,
            random=random,
            now=now,
        )

    def fail(self, code: int, request: Message | None = None) -> None:
        """Send an error code: in the response to a request, or in a push of protocol 0."""
        if request is not None:
            self.respond(request, code=code)
        else:
            self.push(SYSTEM_PROTOCOL, code=code)

    def _access_id(self) -> int:
        return self._reader.access_id or 0

    def _after_write(self, message: Message) -> None:
        if message.code in CLOSING and message.mode != Mode.REQUEST:
            # No close packet (section 6): a close is clean unless a request of ours waits.
            self._close(f"code_{message.code}", Side.LOCAL, clean=not self._calls)
        else:
            self._check_numbers()

    def _fault(self, error: DecodeError) -> None:
        super()._fault(error)
        if error.code == "verify_failed":
            self._send_error(ResultCode.VERIFY_FAILED)
            self._check_numbers()

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)
        if error.code not in _SILENT:
            self._send_error(ResultCode.DECODE_ERROR)
        self._close(error.code, Side.LOCAL, clean=False)

    def _send_error(self, code: ResultCode) -> None:
        """Push an error code to the client, unless it does not fit the limits."""
        if self.options.tell_errors:
            message = Message(id=0, mode=Mode.PUSH, protocol=SYSTEM_PROTOCOL, code=code)
            with contextlib.suppress(SessionError):
                self._put(self._stamped(message))


class UserSession(ServerSession):
    """A gateway's end of a user's connection. Messages are emitted as bytes (`Forwarded`), and
    responses of the game server are sent by `relay`. Ticks, numbers and limits are handled here."""

    def _dispatch(self, message: Message) -> None:
        if message.mode == Mode.REQUEST and not self._accepts(message):
            return
        self._emit(Forwarded(message, self._reader.raw))
