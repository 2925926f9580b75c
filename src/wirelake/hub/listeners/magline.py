"""The magline listener: encrypted connections with requests, pushes and resumption
(`docs/decisions/magline.md`).

A request calls a service by its business command, or the hub itself (commands 10 to 14,
`wirelake.protocols.hub_calls`), with JSON bodies. With `auth = "token"`, 10 is an ordered command:
the session accepts no other request before it.

A client that resumes with its ticket needs no token, unless the token was removed or rotated
meanwhile. If its old connection got its notifications, the new one gets them.
"""

from __future__ import annotations

import json
import os
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wirelake.protocols.hub_calls import AUTH, BY_NUMBER, NOTIFY_NUMBER, notification_json
from wirelake.protocols.magline.binding import BINDING, MaglineSettings
from wirelake.protocols.magline.layout import ErrorNumber, Reason
from wirelake.protocols.magline.limits import HALF_OPEN_PER_ADDRESS, ServerOptions
from wirelake.protocols.magline.session import (
    Established,
    Failure,
    MemoryStore,
    Push,
    Reply,
    Requested,
    Resumed,
    ServerKeys,
    ServerSession,
)
from wirelake.protocols.sansio import Event, SessionError

from ..auth import read_key, static_key
from ..errors import HubError
from ..net.connection import Connection
from ..net.listener import Listener
from ..pubsub.notifications import Notification
from ..rpc.services import Call, Result, json_body

if TYPE_CHECKING:
    import asyncio

    from ..net.context import HubContext

__all__ = ["MaglineConnection", "MaglineListener"]

_AUTH: Final = AUTH.number
_MAX_FRAME_BEFORE_AUTH: Final = 4_096
"""Maximum size of a frame before sign-on: ten times that of an id and a token. Peers that cannot
sign on must not make the hub buffer large frames."""
_REASONS: Final[dict[str, Reason]] = {
    "shutdown": Reason.SHUTDOWN,
    "replaced": Reason.REPLACED,
    "idle": Reason.IDLE,
    "revoked": Reason.AUTH,
    "token_expired": Reason.AUTH,
    "storage_failed": Reason.INTERNAL,
}
"""The number in FIN for each close reason of the hub."""


class MaglineConnection(Connection):
    """A client's connection."""

    protocol: ClassVar[str] = "magline"

    __slots__ = ("_half_open", "_handling_event")

    listener: MaglineListener
    session: ServerSession

    def __init__(self, listener: MaglineListener):
        super().__init__(listener)
        self._handling_event = False
        self._half_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection; concurrent handshakes per address are limited (section 4.9)."""
        # A handshake costs an X25519 exchange, 70 µs: a thousand SYNs would block the loop for 70
        # ms.
        super().connection_made(transport)
        if self.transport.is_closing():
            return
        self._half_open = self.listener.begin_handshake(self.charged_to)
        if not self._half_open:
            self.hub.counters.refused["handshakes_per_address"] += 1
            self.session.abort(ErrorNumber.BUSY, Reason.BUSY)
            self.react()

    def make_session(self, now: float) -> ServerSession:
        """Return the server's session; all connections share keys and tickets."""
        listener = self.listener
        return ServerSession(
            listener.options,
            keys=listener.keys,
            entropy=os.urandom,
            store=listener.tickets,
            now=now,
        )

    @property
    def may_receive(self) -> bool:
        """Whether the ordered commands are done and a resumption is confirmed."""
        return self.session.authenticated

    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Push each as PSH, business command 20."""
        session, body_of = self.session, self.listener.body_of
        for notification in notifications:
            if not session.authenticated:  # the keys have reached their limit of records
                break
            session.send(Push(NOTIFY_NUMBER, body_of(notification)))
        if not self._handling_event:
            self.react()

    def on_event(self, event: Event) -> None:
        """Handle a message of the client."""
        self._handling_event = True
        try:
            if not self.open:
                pass  # a request in the same read as the frame that closed the session
            elif isinstance(event, Requested):
                self._requested(event.seq, event.business_cmd, event.data)
            elif isinstance(event, Established):
                self._established(event)
            elif isinstance(event, Resumed):
                self._resumed(event)
        finally:
            self._handling_event = False

    def close_session(self, reason: str) -> None:
        """Send FIN with the number of the reason; a revoked client cannot resume."""
        number = _REASONS.get(reason, Reason.NORMAL)
        self.session.close(number, resumable=number is not Reason.AUTH)

    def key_log(self) -> dict[str, Any] | None:
        """Return the traffic keys, once the handshake is done."""
        if not self.session.established:
            return {}
        found = self.session.key_log()
        return json.loads(found) if found else None

    def on_closed(self) -> None:
        """Release the handshake slot, and remember whether notifications went here."""
        self._end_handshake()
        self.listener.on_connection_closed(self)

    # -- handshake and resumption ------------------------------------------------------------

    def _end_handshake(self) -> None:
        if self._half_open:
            self._half_open = False
            self.listener.end_handshake(self.charged_to)

    def _established(self, event: Established) -> None:
        self.listener.by_session[event.session_id] = self
        if event.resumed:
            # A reSYN may be a replay. The client proves with its first record that it has the keys
            # (`Resumed`); until then the old connection stays (section 4.10, Confirmation).
            return
        self._end_handshake()
        if self.listener.allows_anonymous:
            self.hub.authority.anonymous(self)

    def _resumed(self, event: Resumed) -> None:
        """Replace the old connection of a session that the client has resumed."""
        self._end_handshake()
        receives = self.listener.replace(event.replaced)
        if event.principal:
            self.hold_events()  # requests may be in the same read
            self.start(self._restore_client(event.principal, receives))
        elif self.listener.allows_anonymous:
            self.hub.authority.anonymous(self)

    async def _restore_client(self, principal: str, receives: bool) -> None:
        # A session can be resumed for up to 24 hours (section 4.10). `wirelake client remove` and
        # `rotate` run in another process, which has no access to the tickets in memory.
        credential, _, client_id = principal.partition(" ")
        try:
            known = await self.hub.authority.resume(self, client_id, bytes.fromhex(credential))
        except HubError as error:
            self.end(error.code)
            return
        if not known:
            self.listener.tickets.revoke(principal)
            self.end("revoked")
        elif receives:
            self.hub.topics.attach(self)
        self.release_events()

    # -- requests ----------------------------------------------------------------------------

    def _requested(self, seq: int, command: int, data: bytes) -> None:
        hub_call = BY_NUMBER.get(command)
        if hub_call is not None:
            answer = self._signed_on if command == _AUTH else self._answer
            self.listener.calls.run(self, hub_call.name, data, partial(answer, seq))
            return
        service = self.listener.services.get(command)
        if service is None:
            self._answer(seq, HubError("not_found"))
            return
        call = Call(protocol="magline", connection=self, body=data)
        service.run(call, data, partial(self._answer, seq))

    def _signed_on(self, seq: int, outcome: Result | HubError) -> None:
        """Answer a sign-on, and let the session's ticket resume as this client."""
        if not isinstance(outcome, HubError) and self.client is not None and self.open:
            # The ticket is as good as the token that was used: `resume` checks it again.
            self.session.identify(f"{self.credential.hex()} {self.client.id}")
        self._answer(seq, outcome)

    def _answer(self, seq: int, outcome: Result | HubError) -> None:
        """Answer a request: REP, or ERR with its number."""
        if not self.open:
            return
        with suppress(SessionError):  # the client gave up the request: no answer is expected
            code = self._send_outcome(seq, outcome)
            self.hub.counters.calls[self.protocol, code] += 1
        if not self._handling_event:
            self.react()

    def _send_outcome(self, seq: int, outcome: Result | HubError) -> str:
        # A result that cannot be encoded, or does not fit a frame, becomes an ERR: every request
        # gets exactly one answer.
        if not isinstance(outcome, HubError):
            try:
                self.session.send(Reply(seq, json_body(outcome)))
                return "ok"
            except HubError as error:
                outcome = error
            except SessionError as error:
                if error.code != "too_large":
                    raise
                outcome = HubError("too_large")
        self.session.send(Failure(seq, BINDING.error_number(outcome.code)))
        return outcome.code


class MaglineListener(Listener):
    """The magline listener."""

    connection: type[MaglineConnection] = MaglineConnection

    def __init__(self, hub: HubContext, settings: MaglineSettings):
        super().__init__(hub, settings)
        self.allows_anonymous = settings.auth == "none"
        """Whether clients need not sign on."""
        self.limits_changed()
        self.keys = ServerKeys(
            static=[static_key(settings.static_key or hub.data / "magline.key")],
            psks=[read_key(path) for path in settings.psk],
            allow_anonymous=settings.anonymous,
        )
        self.tickets = MemoryStore()
        self.services = hub.services.numbered("magline")
        self.calls = hub.calls
        self.by_session: dict[bytes, MaglineConnection] = {}
        """Connections by session id."""
        self._had_receiver: OrderedDict[bytes, None] = OrderedDict()
        """Ids of closed sessions whose connection got notifications; as many as there are tickets,
        the oldest is forgotten first."""
        self._handshakes: Counter[str] = Counter()
        self._last: tuple[Notification | None, bytes] = (None, b"")

    def limits_changed(self) -> None:
        """Make the options of new sessions."""
        limits = self.hub.limits
        self.options = ServerOptions(
            control_auth=self.settings.control_auth,
            max_requests=limits.calls,
            order_cmds=() if self.allows_anonymous else (_AUTH,),
            order_deadline_s=limits.auth_s,
            order_max_frame=_MAX_FRAME_BEFORE_AUTH,
        )

    # -- handshakes --------------------------------------------------------------------------

    def begin_handshake(self, address: str) -> bool:
        """Count a handshake; return False when the address has too many."""
        if self._handshakes[address] >= HALF_OPEN_PER_ADDRESS:
            return False
        self._handshakes[address] += 1
        return True

    def end_handshake(self, address: str) -> None:
        """Stop counting a handshake."""
        self._handshakes[address] -= 1
        if not self._handshakes[address]:
            del self._handshakes[address]

    # -- resumption --------------------------------------------------------------------------

    def on_connection_closed(self, connection: MaglineConnection) -> None:
        """Remember whether a closed connection got notifications, in case its client resumes."""
        session = connection.session.session_id
        if self.by_session.get(session) is not connection:
            return
        del self.by_session[session]
        if _is_receiver(connection):
            self._had_receiver[session] = None
            while len(self._had_receiver) > self.tickets.options.max_sessions:
                self._had_receiver.popitem(last=False)

    def replace(self, session: bytes) -> bool:
        """End the old connection of a resumed session; return whether it got notifications."""
        # The old connection may still look open: the phone has changed networks, and TCP has not
        # noticed. It is ended here, so that notifications do not go to a dead socket.
        old = self.by_session.pop(session, None)
        if old is None:
            return self._had_receiver.pop(session, 0) is None
        receives = _is_receiver(old)
        old.end("replaced")
        return receives

    def body_of(self, notification: Notification) -> bytes:
        """Return the body of a push, encoded once for all subscribers in a row."""
        last, body = self._last
        if last is not notification:
            body = notification_json(notification)
            self._last = notification, body
        return body


def _is_receiver(connection: Connection) -> bool:
    client: Any = connection.client
    return client is not None and client.durable and client.receiver is connection
