"""A tunnel: a user of a gateway, who is to the hub what a tny connection is, without a socket.

It has a client, subscriptions and calls like any other. Its messages travel inside the packets of
a link (`relay.py`). While it has no link it is kept (`LinkRegistry`): it gets no pushes, and what
is answered meanwhile is lost, so its user's call times out.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from wirelake.protocols.hub_calls import NOTIFY_NUMBER
from wirelake.protocols.sansio import (
    Event,
    Session,
    SessionError,
    Side,
)
from wirelake.protocols.tny.binding import BINDING
from wirelake.protocols.tny.calls import response_to
from wirelake.protocols.tny.layout import Message, Mode
from wirelake.protocols.tny.message import ResultCode, closes
from wirelake.protocols.tny.relay import TunnelKey
from wirelake.protocols.tny.session import SYSTEM_PROTOCOL

from ..errors import HubError
from ..pubsub.notifications import Notification
from .tny import TnyPeer, refusal_body

if TYPE_CHECKING:
    from .relay import RelayConnection, RelayListener

__all__ = ["Tunnel", "address_text"]


def address_text(ip: bytes) -> str:
    """An address of 4 or 16 bytes as text; empty for anything else."""
    try:
        return str(ipaddress.ip_address(ip))
    except ValueError:
        return ""


class _End:
    """What a tunnel has in place of a session: its link's session does the work."""

    buffered: ClassVar[int] = 0
    __slots__ = ("closed",)

    def __init__(self) -> None:
        self.closed = False


class Tunnel(TnyPeer):
    """One user behind a gateway."""

    __slots__ = ("_next_id", "key", "link")

    listener: RelayListener

    def __init__(
        self, listener: RelayListener, link: RelayConnection, key: TunnelKey, ip: bytes, port: int
    ):
        super().__init__(listener, listener.calls)
        self.key = key
        self.link: RelayConnection | None = link
        self.peer = (address_text(ip) or link.peer[0], port)
        self.opened_ns = time.time_ns()
        self.session = _End()
        self._next_id = 1
        if listener.settings.auth == "token":
            self.sign_on_by = self.hub.loop.time() + self.hub.limits.auth_s

    def make_session(self, now: float) -> Session:  # noqa: ARG002
        """There is none."""
        raise SessionError("bad_state", "a tunnel has its link's session")

    def on_event(self, event: Event) -> None:
        """There are none: the link tells what happens (`take`, `bound`, `lost`)."""

    # -- what the link says ------------------------------------------------------------------

    def take(self, message: Message, size: int) -> None:
        """A message of the user, of so many bytes."""
        self.in_bytes += size
        if message.mode == Mode.REQUEST:
            self.serve(message)
        elif message.mode == Mode.PUSH:
            self.heed(message)

    def bound(self, link: RelayConnection) -> None:
        """The tunnel goes on over this link."""
        self.link = link
        self.paused_since = link.paused_since
        self.hub.topics.refile(self)

    def lost(self) -> None:
        """The tunnel's link is gone."""
        self.link = None
        self.hub.topics.refile(self)

    def over(self, reason: str, side: Side = Side.REMOTE) -> None:
        """The tunnel is closed; nothing can be said any more."""
        if self.session.closed:
            return
        self.session.closed = True
        self.link = None
        if not self.close_reason:
            self.close_reason, self.close_side = reason, side
        for task in self._tasks or ():
            task.cancel()
        self.hub.table.closed(self)
        self.form = None

    # -- what the hub says -------------------------------------------------------------------

    def answer(
        self,
        request: Message,
        code: int,
        body: bytes | None,
        *,
        late: bool = False,  # noqa: ARG002 - a tunnel looks at the clock each time
    ) -> None:
        """Sends a response; one that does not fit is answered with a refusal instead."""
        error = self._send(self._response(request, code, body))
        if error == "too_large":
            refusal = HubError("too_large", "the answer does not fit a packet")
            self._send(
                self._response(request, BINDING.error_number(refusal.code), refusal_body(refusal))
            )

    def refuse(self) -> None:
        """Says 210, which closes."""
        self._send(self._push(SYSTEM_PROTOCOL, None, ResultCode.AUTH_FAILED))

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Pushes each as protocol 20."""
        for notification in notifications:
            body = self.listener.bodies.of(notification)
            error = self._send(self._push(NOTIFY_NUMBER, body, ResultCode.SUCCESS))
            if error:
                self.hub.counts.failed("tny", error)

    @property
    def may_receive(self) -> bool:
        """Once it is known whose it is, while a link carries it."""
        return self.client is not None and self.link is not None and not self.paused_since

    def react(self) -> None:
        """What was said leaves with the link."""
        if self.link is not None:
            self.listener.pending_flush.add(self.link)

    def end(self, reason: str) -> None:
        """Closes the tunnel from our side."""
        if self.session.closed:
            return
        self.close_reason, self.close_side = reason, Side.LOCAL
        if reason == "auth_timeout":
            self.refuse()
        else:
            self._disconnect(reason)

    def drop(self, reason: str) -> None:
        """The same, and it is counted."""
        self.hub.counts.dropped(self.protocol, reason)
        self.close_reason, self.close_side = reason, Side.LOCAL
        self._disconnect(reason)

    def check_deadlines(self, now: float) -> None:
        """Who has not signed on in time is sent away; all else is the link's."""
        if self.client is None and self.sign_on_by and now > self.sign_on_by:
            self.end("auth_timeout")

    # -- writing -----------------------------------------------------------------------------

    def _response(self, request: Message, code: int, body: bytes | None) -> Message:
        return response_to(
            request,
            id=self._next_id,
            code=code,
            time=_now_ms(),
            upstream=self.listener.settings.dialect == "upstream",
            body=body,
        )

    def _push(self, protocol: int, body: bytes | None, code: int) -> Message:
        return Message(
            id=self._next_id,
            mode=Mode.PUSH,
            protocol=protocol,
            code=code,
            time=_now_ms(),
            body=body,
        )

    def _send(self, message: Message) -> str:
        """Hands a message to the link; the code of what is in the way, if anything is."""
        link = self.link
        if link is None:
            return "connection_lost"
        before = link.session.sent_bytes
        try:
            self.listener.registry.relay(self.key, message, self.hub.loop.time())
        except SessionError as error:
            return error.code
        self._next_id += 1
        self.out_bytes += link.session.sent_bytes - before
        self.listener.pending_flush.add(link)
        if closes(message.code):
            self._disconnect(f"code_{message.code}")
        return ""

    def _disconnect(self, reason: str) -> None:
        link = self.link
        with suppress(SessionError):
            self.listener.registry.disconnect(self.key, self.hub.loop.time())
        if link is not None:
            self.listener.pending_flush.add(link)
        self.listener.tunnels.pop(self.key, None)
        self.over(reason, Side.LOCAL)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
