"""Two tny sessions with random actions, random segmentation and corrupted bytes.

Invariants: no message is lost or invented on a clean wire; on a corrupted one nothing is
invented that a check code covers; only documented codes appear; a call has one outcome; at the end
both ends have closed, each once and with a reason.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.machines.wire import Wire
from tests.playbooks.tny.peer import KEYS, filler

from wirelake.protocols.sansio import Closed, Event, Failed, SessionError
from wirelake.protocols.tny.layout import Message, Mode
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.session import (
    CallFailed,
    ClientSession,
    Pushed,
    Replied,
    Requested,
    ServerSession,
    Unmatched,
)
from wirelake.protocols.tny.transform import TransformConfig

DOCUMENTED = {
    "bad_key",
    "bad_length",
    "bad_magic",
    "idle",
    "int_range",
    "length_overrun",
    "negative_length",
    "number_replayed",
    "number_skipped",
    "reserved_value",
    "short",
    "too_busy",
    "too_large",
    "trailing_bytes",
    "unexpected_reply",
    "unknown_type",
    "varint_overflow",
    "varint_truncated",
    "verify_failed",
    "verify_required",
    "encrypt_required",
    "waste_required",
}
PAIRS = [("seed", "seed"), ("upstream", "upstream"), ("seed", "auto"), ("upstream", "auto")]
LIMIT = 4096
MOST = 5


def content(message: Message) -> tuple[Any, ...]:
    """Return the content that identifies a message."""
    return (message.id, int(message.mode), message.protocol, message.to_message, message.body)


class End:
    """One session with its sent and received messages and the outcomes of its calls."""

    def __init__(self, session: ClientSession | ServerSession):
        self.session = session
        self.sent: list[tuple[Any, ...]] = []
        self.got: list[tuple[Any, ...]] = []
        self.open: list[Message] = []
        self.calls: dict[int, int] = {}
        self.faults: list[str] = []
        self.closed: list[Closed] = []

    def collect(self) -> None:
        for event in self.session.events():
            assert not self.closed, f"{event} after the end"
            self.take(event)

    def take(self, event: Event) -> None:
        match event:
            case Requested(message):
                self.got.append(content(message))
                self.open.append(message)
            case Pushed(message) | Unmatched(message):
                self.got.append(content(message))
            case Replied(request, response):
                self.got.append(content(response))
                self.calls[request.id] += 1
            case CallFailed(request, code):
                assert code in {"timeout", "connection_lost"}
                self.calls[request.id] += 1
            case Failed():
                assert event.code in DOCUMENTED, event
                assert event.offset is None or 0 <= event.offset <= self.session.received_bytes
                self.faults.append(event.code)
            case Closed():
                assert event.reason
                self.closed.append(event)


class TnyMachine(RuleBasedStateMachine):
    """A client, a server, and the two directions between them."""

    @initialize(
        pair=st.sampled_from(PAIRS),
        verify=st.booleans(),
        encrypt=st.booleans(),
        waste=st.booleans(),
        strict=st.booleans(),
        hostile=st.booleans(),
    )
    def connect(
        self, pair: Any, verify: bool, encrypt: bool, waste: bool, strict: bool, hostile: bool
    ) -> None:
        self.hostile = hostile
        client, server = pair
        sealed = server != "auto"  # check codes and waste are of one dialect
        config = TransformConfig(
            security_keys=KEYS,
            verify=verify and sealed,
            encrypt=encrypt,
            waste=waste and sealed,
        )
        shared: dict[str, Any] = {
            "reading": config,
            "writing": config,
            "max_payload": LIMIT,
            "max_in_flight": MOST,
            "strict": strict,
        }
        self.covered = config.verify and client == "upstream"
        self.now = 0.0
        self.client = End(
            ClientSession(ClientOptions(dialect=client, **shared), access_id=7, random=filler)
        )
        self.server = End(ServerSession(ServerOptions(dialect=server, **shared), random=filler))
        self.up = Wire(self.client.session, self.server.session)
        self.down = Wire(self.server.session, self.client.session)
        self.serial = 0

    def end(self, at_server: bool) -> End:
        return self.server if at_server else self.client

    def wire(self, downward: bool) -> Wire:
        return self.down if downward else self.up

    def say(self, end: End, message: Message) -> None:
        """Sends, unless the session is closed or has too much in flight."""
        session = end.session
        if session._pong_tail_due:  # half a pong is out: see the playbook of §8.1
            return
        try:
            sent = session.send(message, now=self.now)
        except SessionError:
            assert session.closed or session.in_flight == MOST
            return
        end.sent.append(content(sent))
        if message.mode == Mode.REQUEST:
            end.calls[sent.id] = 0

    def body(self) -> bytes:
        self.serial += 1
        return b"%d" % self.serial

    # -- what applications do ----------------------------------------------------------------

    @rule(at_server=st.booleans(), line=st.integers(0, 7))
    def request(self, at_server: bool, line: int) -> None:
        self.say(self.end(at_server), Message(id=0, protocol=1, line=line, body=self.body()))

    @rule(at_server=st.booleans())
    def push(self, at_server: bool) -> None:
        self.say(self.end(at_server), Message(id=0, mode=Mode.PUSH, protocol=2, body=self.body()))

    @rule(at_server=st.booleans(), which=st.integers(0, 50))
    def respond(self, at_server: bool, which: int) -> None:
        end = self.end(at_server)
        if end.open and not end.session._pong_tail_due:
            request = end.open.pop(which % len(end.open))
            body = self.body()
            try:
                number = end.session.respond(request, body, now=self.now)
            except SessionError:
                assert end.session.closed
                return
            end.sent.append((number, 1, request.protocol, request.id, body))

    @rule(at_server=st.booleans())
    def ping(self, at_server: bool) -> None:
        session = self.end(at_server).session
        if not session.closed and session._dialect.seen is not None:
            session.ping(now=self.now)

    # -- what the network does ---------------------------------------------------------------

    @rule(downward=st.booleans(), size=st.integers(1, 60))
    def deliver(self, downward: bool, size: int) -> None:
        self.wire(downward).deliver(size, self.now)

    @rule()
    def deliver_all(self) -> None:
        for _ in range(4):
            self.up.deliver(1 << 20, self.now)
            self.down.deliver(1 << 20, self.now)

    @rule(seconds=st.sampled_from([0.5, 4.0, 11.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for end in (self.client, self.server):
            end.session.on_timer(self.now)

    @precondition(lambda self: self.hostile)
    @rule(downward=st.booleans(), at=st.integers(0, 500), mask=st.integers(1, 255))
    def corrupt(self, downward: bool, at: int, mask: int) -> None:
        self.wire(downward).corrupt(at, mask)

    @precondition(lambda self: self.hostile)
    @rule(downward=st.booleans(), at=st.integers(0, 500), size=st.integers(1, 40))
    def drop(self, downward: bool, at: int, size: int) -> None:
        self.wire(downward).drop(at, size)

    @precondition(lambda self: self.hostile)
    @rule(downward=st.booleans(), at=st.integers(0, 500), size=st.integers(1, 40))
    def duplicate(self, downward: bool, at: int, size: int) -> None:
        self.wire(downward).duplicate(at, size)

    @precondition(lambda self: self.serial > 20)
    @rule(downward=st.booleans())
    def hang_up(self, downward: bool) -> None:
        self.wire(downward).end()

    # -- what must hold ----------------------------------------------------------------------

    @invariant()
    def within_limits(self) -> None:
        for end in (self.client, self.server):
            end.collect()
            session = end.session
            assert session.buffered <= LIMIT + 9
            assert session.in_flight <= MOST
            assert session.pending <= session.options.max_pending
            assert len(session.timers) <= 3
            assert session.closed == bool(end.closed)
            assert all(count <= 1 for count in end.calls.values())

    @invariant()
    def nothing_invented(self) -> None:
        for wire, sent, got in (
            (self.up, self.client.sent, self.server.got),
            (self.down, self.server.sent, self.client.got),
        ):
            if wire.clean:
                assert got == sent[: len(got)] or self.reported(wire, got, sent)
            elif self.covered:
                left = iter(sent)
                assert all(self.system(message) or message in left for message in got)

    def reported(self, wire: Wire, got: list[Any], sent: list[Any]) -> bool:
        """Whether the additional messages only report faults of the other direction."""
        own = [message for message in got if not self.system(message)]
        return wire is self.down and own == sent[: len(own)]

    @staticmethod
    def system(message: tuple[Any, ...]) -> bool:
        """Whether it is a push of protocol 0: the server's own."""
        return message[1:3] == (2, 0)

    def teardown(self) -> None:
        if not hasattr(self, "client"):
            return
        self.deliver_all()
        self.within_limits()
        self.nothing_invented()
        if self.up.clean and self.down.clean and not (self.up.ended or self.down.ended):
            self.agree()
        for wire in (self.up, self.down):
            wire.end()
        self.within_limits()
        for end in (self.client, self.server):
            assert len(end.closed) == 1
            assert set(end.calls.values()) <= {1}
            assert end.session.next_timer() is None

    def agree(self) -> None:
        """Assert that every message arrived and no error was reported."""
        for end in (self.client, self.server):
            assert set(end.faults) <= {"unexpected_reply", "idle", "short"}
        if not self.client.session.closed and not self.server.session.closed:
            assert self.server.got == self.client.sent
            assert self.client.got == self.server.sent


TestTnyMachine = TnyMachine.TestCase
TestTnyMachine.settings = settings(stateful_step_count=40)
