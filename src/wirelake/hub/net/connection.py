"""The base class of the hub's connections: bytes in, session, events, bytes out.

Subclass `Connection` and `Listener` to serve another protocol, and name the listener in the
protocol's binding (`wirelake.protocols.binding`). A subclass of `Connection` provides:

    protocol       the protocol's name
    make_session   the server's session (`wirelake.protocols.sansio.Session`)
    on_event       what an event of the session means
    deliver        push notifications
    may_receive    whether notifications may be pushed now

and, where the protocol needs them, `token_sign_on`, `close_session`, `on_closed`, `key_log`,
`check_deadlines`. The base class provides:

    call_target    call a service, or the hub itself, by `service/op`
    call_hub       one of the hub's own calls (`wirelake.protocols.hub_calls`), sign-on too
    json_result    the result of a call in JSON
    react          handle events and write what the session has to send; after every change of the
                   session outside of `on_event`
    end, drop      close the connection: with the protocol's closing message, or at once
    client, open, peer, paused_since, session, hub (`HubContext`)

A protocol that is called often has a fast path of its own instead of `call_target`: `esnp.py` and
`tny.py` answer plain requests while they are read. For all protocols, the base class does this:

- Bytes are given to the session in slices, one per turn of the loop, so that 64,000 tiny frames in
  one read do not delay other connections (`Limits.bytes_per_turn`).
- Everything written in one iteration leaves in one write (`outbox.py`).
- A peer that does not read is not read from, gets no more notifications, and is dropped after
  `Limits.slow_reader_s`.
- A frame that arrives too slowly is cut off (`Limits.frame_s`, `Limits.frame_bytes_per_s`,
  `Limits.frame_total_s`).
- What a connection keeps in memory counts for its client, its address and the hub (`budget.py`).
- The recorder and live views see whole frames, as they cross.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from wirelake.protocols.hub_calls import HUB_SERVICE
from wirelake.protocols.sansio import CLOSED, Closed, Event, Failed, Session, SessionError, Side

from ..eager import start
from ..errors import HubError
from ..observe.tap import Tap
from ..pubsub.notifications import Form, Notification
from ..pubsub.subscriptions import Client
from ..rpc.call_types import Answerer, Call, Result, json_body
from ..rpc.offers import Provider
from .acceptor import charged_address, tune
from .context import HubContext

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

__all__ = ["BEFORE_SIGN_ON_BYTES", "LINGER_S", "Connection"]

_log = logging.getLogger(__name__)
BEFORE_SIGN_ON_BYTES: Final = 4_096
"""Bytes of an incomplete frame that are kept for a connection that has not signed on."""
_TURN_BYTES_BEFORE_SIGN_ON: Final = 1_024
"""Bytes that such a connection may have processed in one turn: a sign-on. There may be 256 of one
address, which would delay all clients by seconds with 16 KB of heartbeats each."""
_REASON_CHARACTERS: Final = 64
"""Characters of a close reason that the peer chose."""
_PIECE_BYTES: Final = 1 << 16
"""Bytes passed to a TLS transport at once."""
LINGER_S: Final = 2.0
"""How long a peer may take to read the last message before the connection is aborted."""


class _Listener(Protocol):
    hub: HubContext
    settings: Any


class Connection(asyncio.Protocol):
    """One connection, from its first byte to its last."""

    protocol: ClassVar[str]
    """The protocol's name, as the registry has it."""
    token_sign_on: ClassVar[bool] = False
    """Whether the setting `auth` is applied here: with "none" a connection belongs to an anonymous
    client at once, with "token" it is closed when it has not signed on after `Limits.auth_s`.
    Protocols whose session does that itself (magline, comet) leave it off."""
    shares_sessions: ClassVar[bool] = False
    """Whether bytes received here can make other sessions send something (gateway and links):
    `react` then runs after every read, not only for events."""
    max_first_bytes: ClassVar[int] = BEFORE_SIGN_ON_BYTES
    """Bytes of an incomplete frame that are kept while the connection is half-open."""
    acks_all: ClassVar[bool] = False
    """Whether the protocol itself acknowledges every notification (comet)."""
    direction_in: ClassVar[Direction] = "c2s"
    """Direction of received bytes in recordings; `s2c` on links that the hub itself dials."""
    direction_out: ClassVar[Direction] = "s2c"
    """Direction of sent bytes in recordings."""

    __slots__ = (
        "_frame_start",
        "_held_bytes",
        "_held_events",
        "_linger_timer",
        "_out",
        "_partial_frame",
        "_peer_done",
        "_running",
        "_running_bytes",
        "_tasks",
        "_unprocessed",
        "_window_bytes",
        "_window_started",
        "charged_to",
        "client",
        "close_reason",
        "close_side",
        "credential",
        "credential_expires_ms",
        "failed_sign_ons",
        "form",
        "frame_started",
        "hub",
        "id",
        "in_bytes",
        "listener",
        "opened_ns",
        "out_bytes",
        "paused_since",
        "peer",
        "reserved",
        "session",
        "sign_on_deadline",
        "signing_on",
        "transport",
    )

    def __init__(self, listener: _Listener):
        self.listener = listener
        self.hub = listener.hub
        self.id = self.hub.table.new_id()
        self.client: Client | None = None
        """The client that has signed on."""
        self.credential = b""
        """The hash of the token that it used; empty without one."""
        self.credential_expires_ms = 0
        """When that token expires; 0: never."""
        self.form: Form | None = None
        """The encoding of notifications that this connection shares with others; None while it
        needs its own."""
        self.close_reason = ""
        self.close_side = Side.REMOTE
        self.in_bytes = 0
        self.out_bytes = 0
        self.paused_since = 0.0
        """When the peer stopped reading, by the loop's clock; 0 while it reads."""
        self.frame_started = 0.0
        """When the first byte of an incomplete frame was seen; 0 when there is none."""
        self.peer: tuple[str, int] = ("", 0)
        self.charged_to = ""
        """The address that limits and delays of sign-ons count for: that of the socket, or its
        network (`charged_address`)."""
        self.reserved = False
        """Whether the table counted the connection when it was accepted, and has not added it."""
        self.opened_ns = 0
        self.session: Any = None
        self.sign_on_deadline = 0.0
        """When the connection is closed unless a client has signed on (0: never)."""
        self.signing_on = False
        """Whether a token is being checked."""
        self.failed_sign_ons = 0
        self.transport: Any = None
        # The rest is None or empty until it is needed, and there is no __dict__: an idle connection
        # has to stay under 4 KB (benchmarks/results/hub.json, idle).
        self._out: list[bytes] | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._peer_done = False
        self._running = 0
        self._running_bytes = 0
        self._unprocessed: bytes | None = None
        self._partial_frame = b""
        self._frame_start = 0
        self._window_started = 0.0
        self._window_bytes = 0
        self._held_bytes = 0
        self._held_events: list[Callable[[], None]] | None = None
        self._tasks: set[asyncio.Task[Any]] | None = None

    # -- provided by the protocol ------------------------------------------------------------

    @property
    def dialect(self) -> str:
        """The configured dialect, perhaps `auto`; empty when the protocol has none."""
        return getattr(self.listener.settings, "dialect", "")

    @abstractmethod
    def make_session(self, now: float) -> Session:
        """Return the server's session."""

    @abstractmethod
    def on_event(self, event: Event) -> None:
        """Handle an event of the session other than `Failed` and `Closed`."""

    @abstractmethod
    def deliver(self, notifications: Sequence[Notification]) -> None:
        """Push notifications; `may_receive` was true."""

    @property
    @abstractmethod
    def may_receive(self) -> bool:
        """Whether notifications may be pushed now."""

    def make_provider(self) -> Provider | None:
        """Return what sends calls to the peer, if the protocol lets it offer services."""
        return None

    def close_session(self, reason: str) -> None:
        """Close the session as the protocol does; the transport is closed afterwards."""
        self.session.close(reason)

    def on_closed(self) -> None:
        """Release the resources of the protocol for this connection."""

    def key_log(self) -> dict[str, Any] | None:
        """Return the keys that a reader of recordings needs (`capture.decode.decryption`).

        Empty when the connection has none, None when they are not known yet; the tap asks again
        with the next frame.
        """
        return {}

    @property
    def reported(self) -> dict[str, Any]:
        """What the client has reported about itself, where the protocol has a message for it."""
        return {}

    @property
    def gateway(self) -> str:
        """The address of the gateway of a tunnel; empty for a connection with a socket."""
        return ""

    # -- called by asyncio -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, unless a limit is reached."""
        self.transport = transport
        self.opened_ns = time.time_ns()
        peer = transport.get_extra_info("peername")
        if peer is None:
            # Reset before it was accepted: uvloop finds no address. There is nothing to limit, to
            # record or to answer; without a session `connection_lost` does nothing.
            self.hub.counters.reset_before_accept(self.protocol)
            self.hub.table.release(self)
            self.transport.abort()
            return
        self.peer = peer[:2]
        if not self.reserved:  # dialled by the hub, not accepted
            self.charged_to = charged_address(self.peer[0])
            if (sock := transport.get_extra_info("socket")) is not None:
                tune(sock, self.hub.limits.keepalive_s)
        limits = self.hub.limits
        # Writing pauses at `write_buffer` unread bytes and resumes at a quarter: with a low mark
        # close to the high one, a slow reader would pause and resume with every read of its own.
        self.transport.set_write_buffer_limits(limits.write_buffer, limits.write_buffer // 4)
        now = self.hub.loop.time()
        # The session exists before `admit`: asyncio calls `connection_lost` for a refused
        # connection, too.
        self.session = self.make_session(now)
        if not self.hub.table.admit(self):
            self.transport.abort()
            return
        if self.token_sign_on:
            if self.listener.settings.auth == "none":
                self.hub.authority.anonymous(self)
            else:
                self.sign_on_deadline = now + limits.auth_s
        self._react()

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the session, at most `Limits.bytes_per_turn` of them now."""
        if self._unprocessed is not None:  # a slice is pending: keep the order
            self._unprocessed += data
            return
        if self._held_events is not None:  # `release_events` goes on
            self._unprocessed = data
            self.transport.pause_reading()
            return
        # asyncio reads up to 256 KB at once: 64,000 of the smallest frames, which would delay all
        # other connections by 0.3 s. A slice of 16 KB takes about 20 ms.
        size = self._turn_bytes
        if len(data) > size:
            self._unprocessed = data[size:]
            data = data[:size]
            self.transport.pause_reading()
            self.hub.loop.call_soon(self._next_slice)
        self._receive(data)

    def eof_received(self) -> bool:
        """End the session when the peer closes its side; what is left to write is written."""
        # With bytes still to process, `connection_lost` reports the end to the session.
        self._peer_done = True
        if self._unprocessed is None and not self.session.closed:
            self.session.receive_eof()
            self._react()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything when the transport is closed."""
        if self.session is None:
            return
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self.hub.table.lingering.discard(self)
            return
        self._peer_done = True
        if not self.session.closed:
            self.session.receive_eof()
            self._events()
        self._set_close_reason("lost" if exc is not None else "eof", Side.REMOTE)
        self._remove()

    def _remove(self) -> None:
        """Remove the connection from the hub."""
        # What refers to this connection is released here, so that it is freed by its reference
        # count and not by the garbage collector, which runs rarely (`hub.run`).
        self._unprocessed = self._held_events = None
        if self._held_bytes:
            self._held_bytes = 0
            self.hub.budget.charge(self, 0)
        for task in self._tasks or ():
            task.cancel()
        self.on_closed()
        self.hub.table.closed(self)
        self.form = None

    def pause_writing(self) -> None:
        """Stop reading from a peer that reads too slowly until it has caught up."""
        # Backpressure: a peer that does not read its answers must not be able to ask for more. Its
        # notifications wait in the log, not in memory (`pubsub.delivery`).
        self.paused_since = self.hub.loop.time()
        if not self.transport.is_closing():
            self.transport.pause_reading()
        self.hub.topics.fell_behind(self)
        self._charge_held()

    def resume_writing(self) -> None:
        """Resume reading and pushing when the peer has caught up."""
        self.paused_since = 0.0
        if self._unprocessed is not None:
            self.hub.loop.call_soon(self._next_slice)
        elif not self.transport.is_closing():
            self.transport.resume_reading()
        self.hub.topics.caught_up(self)
        self._charge_held()

    # -- bytes in ----------------------------------------------------------------------------

    def _next_slice(self) -> None:
        if self.paused_since or self._held_events is not None:
            return  # `resume_writing` or `release_events` goes on
        rest, self._unprocessed = self._unprocessed, None
        if rest is None or self.transport.is_closing():
            return
        size = self._turn_bytes
        if len(rest) > size:
            self._unprocessed = rest[size:]
            self.hub.loop.call_soon(self._next_slice)
        else:
            self.transport.resume_reading()
        self._receive(rest[:size])

    @property
    def _turn_bytes(self) -> int:
        """Received bytes that are processed in one turn."""
        size = self.hub.limits.bytes_per_turn
        if self.client is None and self.hub.table.is_half_open(self):
            return min(size, _TURN_BYTES_BEFORE_SIGN_ON)
        return size

    def _receive(self, data: bytes) -> None:
        session = self.session
        if session.state == CLOSED:
            return
        self.in_bytes += len(data)
        # With `_out` set, `write` does not register this connection with the outbox: the flush
        # below writes it, and the other connections that it wrote to, in the same turn.
        self._out = [] if self._out is None else self._out
        outbox = self.hub.outbox
        outbox.reading = True
        try:
            reply = session.exchange(data, self.hub.loop.time())
            if (tap := self.hub.tap).active:
                self._tap_received(tap, data)
            if reply:
                self.write(reply)
            if reply is None or self.shares_sessions:
                self._react()
            if self.client is None:
                self._check_buffered()
            # Usually nothing is kept. This runs for every read: 0.13 µs instead of 0.26.
            if self._held_bytes or session.held_bytes:
                self._charge_held()
        except Exception:
            self.failed()
        finally:
            outbox.reading = False
            self.flush()
            outbox.flush()

    def _tap_received(self, tap: Tap, data: bytes) -> None:
        """Show whole frames to the tap; bytes of an incomplete frame wait, as in the session."""
        # Blocks of a recording start at a frame boundary, so that its reader needs no reassembly.
        # The session says how many bytes it keeps back; they are the end of what has arrived.
        buffered = self.session.buffered
        received = self._partial_frame + data if self._partial_frame else data
        stop = max(0, len(received) - buffered)
        self._partial_frame = received[stop:] if buffered else b""
        if stop > 0:
            tap.crossed(self, self.direction_in, received[:stop])

    @property
    def held_bytes(self) -> int:
        """Bytes kept in memory for this connection: received ones that are incomplete, not handled
        or in a running call, and sent ones that the peer does not read."""
        held: int = self.session.held_bytes + len(self._partial_frame) + self._running_bytes
        if self._unprocessed is not None:
            held += len(self._unprocessed)
        # Also while writing is not paused: thousands of connections may have a little less unread.
        held += self.transport.get_write_buffer_size()
        return held

    def _charge_held(self) -> None:
        if self.id not in self.hub.connections:
            return
        held = self.held_bytes
        if held != self._held_bytes:
            self._held_bytes = held
            self.hub.budget.charge(self, held)

    # -- events ------------------------------------------------------------------------------

    def react(self) -> None:
        """Handle events and write what the session has to send."""
        self._react()

    def _react(self) -> None:
        session = self.session
        self._events()
        data = session.to_send()
        if data:
            self.write(data)
        if self._held_bytes:  # an answer may have released a request
            self._charge_held()
        if (
            session.state == CLOSED
            and self._linger_timer is None
            and not self.transport.is_closing()
        ):
            self._close_transport()

    def _close_transport(self) -> None:
        """Close when everything is written.

        If the peer may still be sending, only our side is closed at first and its bytes are
        discarded: closing a socket with unread bytes sends a reset, which can destroy our last
        message on its way.
        """
        self.flush()
        if self._peer_done or not self.transport.can_write_eof():
            self.transport.close()
            return
        try:
            self.transport.write_eof()
            self.transport.resume_reading()
        except OSError:  # the peer has disconnected
            self.transport.close()
            return
        self._linger_timer = self.hub.loop.call_later(LINGER_S, self.transport.abort)
        self.hub.table.lingering.add(self)
        self._remove()

    def _events(self) -> None:
        try:
            self._handle_events()
        except Exception:
            self.failed()

    def _handle_events(self) -> None:
        # Handling an event may cause further ones (an answer that completes a sequence), so this
        # goes on until there are none.
        session = self.session
        while events := session.events():
            for event in events:
                kind = type(event)
                if kind is Closed:
                    self._set_close_reason(event.reason, event.side)
                elif kind is Failed:
                    self.hub.counters.failed(self.protocol, event.code)
                    if event.fatal:
                        self._set_close_reason(event.code, self._closing_side())
                elif self._held_events is not None:
                    self._held_events.append(partial(self.on_event, event))
                else:
                    self.on_event(event)

    # What a peer sends right behind a sign-on is handled after it: it is for the client. An
    # embedded store is read at once, other stores take some turns of the loop.

    def hold_events(self) -> None:
        """Handle nothing more that is received until `release_events`."""
        self._held_events = []

    def release_events(self) -> None:
        """Handle what was received since `hold_events`, and go on reading."""
        held, self._held_events = self._held_events, None
        if held is None or not self.open:
            return
        try:
            for at, handle in enumerate(held):
                if self._held_events is not None:  # the next one is a sign-on, too
                    self._held_events += held[at:]
                    break
                handle()
        except Exception:
            self.failed()
        if held:
            self.react()
        if self._unprocessed is not None:
            self.hub.loop.call_soon(self._next_slice)

    def failed(self) -> None:
        """Log the exception that is handled, and close this connection."""
        # An exception that reached the event loop would close the socket without a reason; that of
        # a link would close those of all its tunnels.
        _log.exception("connection %d: cannot handle what it has received", self.id)
        if self.open:
            self.drop("internal")

    def _set_close_reason(self, reason: str, side: Side) -> None:
        """Set the close reason, unless there is one: later ones are its consequences."""
        if self.close_reason:
            return
        if side is Side.REMOTE and not (reason.isprintable() and len(reason) <= _REASON_CHARACTERS):
            # The text of a peer: it is logged and shown.
            shown = reason[:_REASON_CHARACTERS]
            reason = "".join(each if each.isprintable() else "?" for each in shown)
        self.close_reason, self.close_side = reason, side

    def _closing_side(self) -> Side:
        """Return who closes after a protocol error: the hub, unless the peer has closed already."""
        return Side.REMOTE if self._peer_done else Side.LOCAL

    # -- bytes out ---------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queue whole frames; they leave at the end of this turn of the loop."""
        out = self._out
        if out is None:
            self._out = [data]
            self.hub.outbox.add(self)
        else:
            out.append(data)

    def write_now(self, data: bytes) -> None:
        """Write whole frames now, at the end of a turn.

        For fan-out: the same bytes object goes to all subscribers. Queueing it would make a list,
        an outbox entry and, with other frames, a copy per connection; copies cost 3 to 4 times the
        time of fan-out at 1 KiB. Frames that are queued already must leave first.
        """
        if self._out is not None or self._linger_timer is not None or self.transport.is_closing():
            self.write(data)
            return
        self._transmit(data)

    def flush(self) -> None:
        """Pass queued frames to the transport in one write."""
        out, self._out = self._out, None
        if not out or self._linger_timer is not None or self.transport.is_closing():
            return  # a transport that is closing warns about writes
        data = out[0] if len(out) == 1 else b"".join(out)
        self._transmit(data)

    def _transmit(self, data: bytes) -> None:
        self.out_bytes += len(data)
        if self.hub.tap.active:
            self.hub.tap.crossed(self, self.direction_out, data)
        transport = self.transport
        if len(data) <= _PIECE_BYTES:
            transport.write(data)  # the next scan counts what is not read of it
            return
        if transport.can_write_eof():
            transport.write(data)
        else:
            # TLS: a transport encrypts at once what it is given while its socket takes more, and
            # counts nothing of it as unread. With pieces it notices in time that the socket is
            # full, and counts the rest.
            whole = memoryview(data)
            for start in range(0, len(data), _PIECE_BYTES):
                transport.write(whole[start : start + _PIECE_BYTES])
        self._charge_held()

    # -- signing on ----------------------------------------------------------------------------

    def check_sign_on(self) -> None:
        """Raise HubError when no token may be tried on this connection now."""
        # One token at a time, and few per connection: otherwise a peer could send a thousand of
        # them in one write and have them checked before the first delay.
        if self.signing_on:
            raise HubError("too_busy", "another sign-on is pending")
        if self.failed_sign_ons >= self.hub.limits.auth_attempts:
            raise HubError("auth_failed")

    def sign_on_failed(self) -> None:
        """Count a refused token; after `Limits.auth_attempts` the connection is closed."""
        self.failed_sign_ons += 1
        if self.failed_sign_ons >= self.hub.limits.auth_attempts:
            self.end("auth_failed")

    def _check_buffered(self) -> None:
        """Close a connection that sends a large frame before it has signed on."""
        # Sessions that know the limit refuse such a frame by its header. This is for all others:
        # what a stranger can make the hub keep is small, whatever the protocol.
        if (
            self.session.buffered > self.max_first_bytes
            and self.hub.table.is_half_open(self)
            and not self.transport.is_closing()
        ):
            self.drop("too_large")

    # -- calls, for protocols without a fast path of their own ---------------------------------

    def call_hub(self, name: str, given: Mapping[str, Any] | bytes, answer: Answerer) -> None:
        """Run one of the hub's own calls; `answer` gets the result or a HubError, once."""
        self.hub.calls.run(self, name, given, answer)

    def call_target(self, target: str, body: bytes, answer: Answerer) -> None:
        """Call `service/op`, or the hub itself, with a JSON body."""
        service_name, _, op = target.partition("/")
        service = self.hub.services.named(service_name, op)
        if service_name == HUB_SERVICE:
            self.hub.calls.run(self, op, body, answer)
        elif self.client is None:
            answer(HubError("auth_required"))
        elif service is None:
            answer(HubError("not_found", f"unknown service {target!r}"))
        elif self._running >= self.hub.limits.calls:
            answer(HubError("too_busy", "too many concurrent calls"))
        else:
            self._running += 1
            service.run(Call(self.protocol, self, body), body, partial(self._call_done, answer))

    def _call_done(self, answer: Answerer, outcome: Result | HubError) -> None:
        self._running -= 1
        answer(outcome)

    def json_result(self, result: Result) -> bytes:
        """Return the result of a call in JSON; HubError when it cannot be encoded."""
        return json_body(result)

    def count_call(self, outcome: Result | HubError) -> None:
        """Count a call by protocol and error code (`wirelake_calls_total`)."""
        code = outcome.code if isinstance(outcome, HubError) else "ok"
        self.hub.counters.calls[self.protocol, code] += 1

    # -- for the hub -------------------------------------------------------------------------

    def spawn(self, work: Awaitable[Any], held_bytes: int = 0) -> None:
        """Run a task, which keeps a number of bytes; it is cancelled when the connection ends."""
        self._track(asyncio.ensure_future(work), held_bytes)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, at once as far as it can; it is cancelled when the connection ends."""
        task = start(work, self.hub.loop)
        if task is not None:
            self._track(task, 0)

    def _track(self, task: asyncio.Task[Any], held_bytes: int) -> None:
        if self._tasks is None:
            self._tasks = set()
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        if held_bytes:
            self._running_bytes += held_bytes
            task.add_done_callback(partial(self._released, held_bytes))
            self._charge_held()

    @property
    def is_busy(self) -> bool:
        """Whether as many calls run as may run."""
        return self._tasks is not None and len(self._tasks) >= self.hub.limits.calls

    def _released(self, held_bytes: int, _: asyncio.Task[Any]) -> None:
        self._running_bytes -= held_bytes
        self._charge_held()

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        assert self._tasks is not None
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of connection %d failed", self.id, exc_info=task.exception())

    @property
    def open(self) -> bool:
        """Whether something can still be sent."""
        # Not `session.closed`: this is asked for every delivery and deferred reply.
        return self.session is not None and self.session.state != CLOSED

    def end(self, reason: str) -> None:
        """Close the connection with the protocol's closing message."""
        if self.session.closed:
            return
        self.close_reason, self.close_side = reason, Side.LOCAL
        try:
            self.close_session(reason)
            self._react()
        except SessionError:
            self.transport.abort()
        except Exception:
            # A drain or a reload ends many connections: one that fails must not keep the others.
            _log.exception("connection %d: cannot close as its protocol does", self.id)
            self.drop("internal")

    def drop(self, reason: str) -> None:
        """Abort the connection; for a peer that does not read."""
        self.close_reason, self.close_side = reason, Side.LOCAL
        self.hub.counters.dropped(self.protocol, reason)
        self.transport.abort()

    # -- time --------------------------------------------------------------------------------

    def check_deadlines(self, now: float) -> None:
        """Close a slow reader, a slow sender or a client that has not signed on; run timers."""
        try:
            self._check_deadlines(now)
        except Exception:  # the scan goes on with the deadlines of others
            _log.exception("connection %d: cannot check its deadlines", self.id)
            self.drop("internal")

    def _check_deadlines(self, now: float) -> None:
        limits = self.hub.limits
        if self.paused_since and now - self.paused_since > limits.slow_reader_s:
            self.drop("slow_reader")
            return
        if self.transport.is_closing():
            # The peer has closed its side, and has not read everything: `slow_reader_s` holds also
            # for less than a write buffer.
            self.paused_since = self.paused_since or now
            return
        if (
            self.client is None
            and self.sign_on_deadline
            and now > self.sign_on_deadline
            and self.open
        ):
            self.end("auth_timeout")
            return
        self._charge_held()
        if self._is_slow_sender(now):
            self.drop("too_slow")
            return
        due = self.session.next_timer()
        if due is not None and due <= now:
            self.session.on_timer(now)
            self._react()

    def _is_slow_sender(self, now: float) -> bool:
        """Return whether an incomplete frame arrives too slowly."""
        # The rate is that of the last `frame_s` seconds. A rate since the start of the frame would
        # let 10 MB, sent at once, pay for three hours of silence. `_frame_start` is the position of
        # the frame in the stream: when it moves, another frame has begun. While the hub itself does
        # not read, nothing can arrive.
        limits, buffered = self.hub.limits, self.session.buffered
        if not buffered or not self.transport.is_reading():
            self.frame_started = 0.0
            return False
        if not self.frame_started or self._frame_start != self.in_bytes - buffered:
            self.frame_started, self._frame_start = now, self.in_bytes - buffered
            self._window_started, self._window_bytes = now, self.in_bytes
            return False
        if now - self.frame_started > limits.frame_total_s:
            return True
        window_s = now - self._window_started
        if window_s <= limits.frame_s:
            return False
        received = self.in_bytes - self._window_bytes
        self._window_started, self._window_bytes = now, self.in_bytes
        return received < window_s * limits.frame_bytes_per_s
