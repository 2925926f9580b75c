"""A client's magline connection: key agreement, heartbeat, requests, resumption (seed 003).

`MaglineClient` is the client with exactly what magline has, for type checkers.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, ClassVar

from wirelake.protocols.hub_calls import NOTIFY_NUMBER
from wirelake.protocols.magline.layout import ErrorNumber
from wirelake.protocols.magline.limits import ClientOptions
from wirelake.protocols.magline.session import (
    ClientKey,
    ClientSession,
    Established,
    Ponged,
    Pushed,
    Refused,
    Replied,
    Request,
    RequestFailed,
    RequestLost,
)
from wirelake.protocols.sansio import Event, SessionError
from wirelake.wire.errors import EncodeError

from .client import CallClient
from .connection import ClientConnection, NumberedConnection, Push, Result, pushed
from .errors import BadCall, BadOption, ConnectionLost, OptionText, Timeout
from .errors import CallFailed as Failure
from .errors import Refused as HandshakeRefused

__all__ = ["MaglineClient", "MaglineConnection"]

_HANDSHAKE = "handshake"


class MaglineConnection(NumberedConnection):
    """One magline connection; it resumes the session of the one before, if the server can."""

    protocol: ClassVar[str] = "magline"
    auth_code = int(ErrorNumber.AUTH)
    session: ClientSession

    def make_session(self, now: float, previous: ClientConnection | None) -> ClientSession:
        """Return a session that resumes the previous one, or a new one."""
        self.resumed = False
        """Whether the session was resumed."""
        self.signed_on = False
        """Whether the session has signed on; a resumed one stays signed on."""
        self.cannot_resume = False
        """Whether the next attempt must not resume."""
        self._refused: int | None = None
        # `again` resumes with the ticket, or makes a new session with the same key if there is
        # none.
        if isinstance(previous, MaglineConnection) and not previous.cannot_resume:
            self.signed_on = previous.signed_on
            return previous.session.again(now)
        settings = self.settings
        given: dict[str, Any] = dict(settings.extra)
        if settings.heartbeat_s is not None:
            given["heartbeat_s"] = settings.heartbeat_s
        options = _options(given)
        try:
            key = ClientKey(
                pinned=settings.pinned, psk=settings.psk, allow_anonymous=settings.anonymous
            )
        except EncodeError as error:
            raise BadOption(
                lambda name: (
                    f"magline: expected exactly one of {name('pinned')} (the server's"
                    f" public key), {name('psk')} (a shared key) and {name('anonymous')}"
                )
            ) from error
        return ClientSession(options, key=key, entropy=os.urandom, now=now)

    def _refusal(self, number: int) -> str | OptionText:
        """Return why the server refused the handshake, as far as that can be known."""
        settings = self.settings
        if number != ErrorNumber.HANDSHAKE:
            return _error_name(number)
        if settings.pinned is not None:
            return lambda name: f"the server has another key; check {name('pinned')}"
        if settings.psk is not None:
            return lambda name: f"the server does not have this shared key; check {name('psk')}"
        return lambda name: (
            f"the server does not accept anonymous clients; use {name('pinned')} or {name('psk')}"
        )

    def begin(self) -> None:
        """Send SYN, or reSYN."""
        self._handshake: asyncio.Future[None] = self.wait_for(_HANDSHAKE)
        self.session.connect()

    async def sign_on(self) -> None:
        """Wait for the keys, then call business command 10, if the settings have an id.

        A resumed session that was signed on stays signed on.
        """
        try:
            await self._handshake
        except ConnectionLost as error:
            # The server's reason is an event before the end of the connection. A failed key
            # agreement has none (section 4.4): the client closes, and the session's reason tells.
            if self._refused is not None:
                raise HandshakeRefused(self._refused, self._refusal(self._refused)) from error
            if self.reason.startswith("handshake_failed"):
                raise HandshakeRefused(
                    "handshake_failed", "the server's key does not match"
                ) from error
            raise
        # The server keeps the client of a session (section 4.10): a second sign-on would be
        # refused.
        if self.resumed and self.signed_on:
            return
        try:
            await self.sign_on_with_token()
        except Failure:
            self.cannot_resume = (
                self.resumed
            )  # the session may be signed on already: it cannot be twice
            raise
        self.signed_on = True

    @property
    def request_limit(self) -> int:
        """How many requests the session accepts at a time."""
        return self.session.options.max_requests

    @property
    def awaiting_reply(self) -> bool:
        """Whether a reply or a PON of the server is pending."""
        return bool(self.session.in_flight) or self.session.timers.at("pon") is not None

    def send_request(
        self,
        number: int,
        body: bytes,
        timeout_s: float,
        **options: Any,  # noqa: ARG002 - magline has none
    ) -> asyncio.Future[Result]:
        """Send a request; its reply is matched by Seq."""
        try:
            seq = self.begin_send().send(Request(number, body, timeout_s))
        except SessionError as error:
            raise self.refused(error) from error
        return self.wait_for(seq)

    async def ping(self) -> float:
        """Send PIN; the session measures the time."""
        try:
            number = self.begin_send().ping()
        except SessionError as error:
            raise self.refused(error) from error
        taken: float = await self.wait_for(("ping", number))
        return taken

    def on_event(self, event: Event) -> None:
        """Complete the call that a message answers, or pass a notification on."""
        match event:
            case Replied(seq=seq, data=data):
                self.answer(seq, Result(data))
            case RequestFailed(seq=seq, error_number=number):
                self.fail(seq, self.call_failed(number, _error_name(number)))
            case RequestLost(seq=seq, code=code):
                late = Timeout("no reply in time")
                self.fail(seq, late if code == "timeout" else self.no_reply())
            case Pushed(business_cmd=number, data=data) if number == NOTIFY_NUMBER:
                notification = pushed(data)
                if notification is not None:
                    self.owner.notified(notification)
            case Pushed(business_cmd=number, data=data):
                self.owner.pushed(Push(number, data, event))
            case Ponged(ping_number=number, rtt_s=rtt_s):
                self.answer(("ping", number), rtt_s)
            case Established(resumed=resumed):
                self.resumed = resumed
                self.signed_on = self.signed_on and resumed
                self.answer(_HANDSHAKE, None)
            case Refused(error_number=number):
                self._refused = number


def _options(given: dict[str, Any]) -> ClientOptions:
    try:
        return ClientOptions(**given)
    except EncodeError as error:
        raise BadCall(f"magline: {error}") from error


def _error_name(number: int) -> str:
    """Return the name of an error number."""
    try:
        return ErrorNumber(number).name.lower().replace("_", " ")
    except ValueError:
        return ""


# -- the typed client ----------------------------------------------------------------------------


class MaglineClient(CallClient):
    """A client of magline: `connect("magline://host", MaglineClient)`."""

    protocol: ClassVar[str | None] = MaglineConnection.protocol

    async def call(
        self,
        target: int | str,
        arguments: Any = None,
        *,
        timeout_s: float | None = None,
        idempotent: bool = False,
    ) -> Result:
        """Call a service by its number and return its result; see `Client.call`."""
        return await self._call(target, arguments, timeout_s, idempotent, {})
