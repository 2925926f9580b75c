"""A user's connection at a gateway: what it says goes through a tunnel, and answers come back.

The gateway looks at no body. It remembers three things of a user, for the day its backend dies:
which requests wait for an answer, the request that signed it on, and whether it has subscribed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from wirelake.protocols.sansio import (
    Event,
    Session,
    SessionError,
)
from wirelake.protocols.tny.calls import answered_id
from wirelake.protocols.tny.layout import Message, Mode
from wirelake.protocols.tny.message import ResultCode, closes
from wirelake.protocols.tny.session import HandedOn, UserSession

from ...net.connection import Connection
from ...pubsub.notifications import Notification
from ..tny import epoch_ms

if TYPE_CHECKING:
    import asyncio

    from .backend import BackendLinks
    from .gateway import GatewayListener

__all__ = ["HELD_MESSAGES", "User"]

HELD_MESSAGES: Final = 256
"""Messages of one user that wait while its tunnel has no link; further requests get code 200."""
_UNREAD_LIMITS: Final = 4
"""A user that leaves so many write buffers unread is dropped: its link does not wait for it."""
_SIGN_ON: Final = 10
_SUBSCRIBE: Final = 11


class User(Connection):
    """One client of the gateway."""

    protocol: ClassVar[str] = "tny"

    __slots__ = (
        "_asked",
        "_held",
        "_sign_on",
        "_sign_on_tried",
        "_signing",
        "backend",
        "subscribed",
        "tunnel_id",
    )

    listener: GatewayListener
    session: UserSession

    def __init__(self, listener: GatewayListener):
        super().__init__(listener)
        self.backend: BackendLinks | None = None
        """Where its tunnel ends; None while it has none."""
        self.tunnel_id = 0
        self.subscribed = False
        """Whether the backend keeps something for it that cannot be had elsewhere."""
        self._asked: dict[int, Message] = {}
        self._held: list[tuple[Message, bytes]] | None = None
        self._sign_on: tuple[Message, bytes] | None = None
        self._sign_on_tried: tuple[Message, bytes] | None = None
        self._signing: int | None = None

    def make_session(self, now: float) -> Session:
        """The gateway's end; ticks are answered by it, here."""
        return UserSession(
            self.listener.options, epoch_ms=epoch_ms(now), random=os.urandom, now=now
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A user has come: a tunnel is opened at once."""
        super().connection_made(transport)
        if self.id in self.hub.connections:
            self.listener.open_tunnel(self)

    def on_closed(self) -> None:
        """The user is gone, and its tunnel with it."""
        self.listener.forget(self)

    def _react(self) -> None:
        super()._react()
        if self.session.closed:
            self.listener.forget(self)
        self.listener.touch_links()

    # -- from the user -----------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Hands messages on."""
        if type(event) is HandedOn:
            if self._held is None:
                self._hand_on(event.message, event.raw)
            else:
                self._hold(event.message, event.raw)

    def _hand_on(self, message: Message, raw: bytes) -> None:
        if message.mode == Mode.REQUEST:
            self._asked[answered_id(message)] = message
            if message.protocol == _SIGN_ON:
                self._sign_on_tried = (message, raw)
        try:
            code = self.listener.relay(self, message, raw)
        except SessionError:
            code = ResultCode.SERVER_ERROR
        if code != ResultCode.SUCCESS:
            self._refuse(message, code)

    def _hold(self, message: Message, raw: bytes) -> None:
        """The tunnel has no link now; that may change, if any backend is there at all."""
        if not self.listener.is_up:
            self._refuse(message, ResultCode.NO_LINK)
        elif self._held is None or len(self._held) >= HELD_MESSAGES:
            self._refuse(message, ResultCode.SERVER_ERROR)
        else:
            self._held.append((message, raw))

    def _refuse(self, message: Message, code: ResultCode) -> None:
        """Answers in the backend's place; 225 closes, by the rule of that code."""
        if self.session.closed:
            return
        if message.mode == Mode.REQUEST:
            self._asked.pop(answered_id(message), None)
            self._answer(message, code)
        elif closes(code):
            self.session.fail(code)

    def _answer(self, request: Message, code: ResultCode) -> None:
        with suppress(SessionError):  # it is closed by now, or the user asked twice with one id
            self.session.respond(request, code=code, now=self.hub.loop.time())

    # -- from the backend --------------------------------------------------------------------

    def take(self, message: Message, raw: bytes) -> None:
        """Something for the user."""
        if self._is_signing_answer(message):
            return
        if message.mode == Mode.RESPONSE:
            self._note(message)
        if self.session.closed or self._reads_nothing():
            return
        try:
            if self.session.dialect == self.listener.link_dialect:
                self.session.relay(message, raw, self.hub.loop.time())
            else:
                self.session.send(message, now=self.hub.loop.time())
        except SessionError as error:
            self.hub.counts.failed("tny", error.code)
        self.listener.pending_flush.add(self)

    def _note(self, response: Message) -> None:
        request = self._asked.pop(response.to_message, None)
        if request is None or response.code != ResultCode.SUCCESS:
            return
        if request.protocol == _SIGN_ON:
            self._sign_on = self._sign_on_tried
        elif request.protocol == _SUBSCRIBE:
            self.subscribed = True

    def _reads_nothing(self) -> bool:
        if not self.paused_since:
            return False
        unread: int = self.transport.get_write_buffer_size()
        if unread <= _UNREAD_LIMITS * self.hub.limits.write_buffer:
            return False
        self.drop("slow_reader")
        return True

    def disconnected(self, reason: str) -> None:
        """The backend has closed the tunnel."""
        if not self.session.closed:
            self.close_reason = reason
            self.session.close(reason)
            self.listener.pending_flush.add(self)

    # -- when a backend dies -----------------------------------------------------------------

    def hold(self) -> None:
        """Nothing can be handed on for a while."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """The tunnel is carried again: what was held goes on, in order."""
        if self._signing is not None:  # the answer may be lost with the link
            self.settle()
            return
        held, self._held = self._held, None
        for message, raw in held or ():
            self._hand_on(message, raw)
        self.listener.pending_flush.add(self)

    def abandon(self) -> None:
        """The backend is gone, and with it the answers to what it was asked: code 200."""
        asked, self._asked, self._signing = self._asked, {}, None
        for request in asked.values():
            self._answer(request, ResultCode.SERVER_ERROR)
        self.listener.pending_flush.add(self)

    def settle(self) -> None:
        """A new backend has the tunnel: signs on there as before, then hands on what was held."""
        if self._sign_on is None:
            self.release()
            return
        self._signing = answered_id(self._sign_on[0])
        self.listener.relay(self, *self._sign_on)

    def _is_signing_answer(self, message: Message) -> bool:
        """The answer to a sign-on that the gateway has repeated is not the user's."""
        if self._signing is None or message.mode != Mode.RESPONSE:
            return False
        if message.to_message != self._signing:
            return False
        self._signing = None
        if message.code == ResultCode.SUCCESS:
            self.release()
        elif not self.session.closed:
            self.session.fail(ResultCode.AUTH_FAILED)
            self.listener.pending_flush.add(self)
        return True

    # -- what a gateway's user is not --------------------------------------------------------

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Nothing: notifications are the backend's."""

    @property
    def may_receive(self) -> bool:
        """Never."""
        return False
