"""magline under random use and abuse: two endpoints, a store, wires that spoil bytes.

The machine asks, answers, pushes, pings, closes, loses lines, resumes, lets time pass, and cuts,
drops, repeats and alters bytes. Whatever it does: no message is lost, invented, repeated or out of
order; every request has one outcome; every error is documented; both ends agree, or the connection
is closed with a reason; buffers, queues and timers stay within their limits.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from hashlib import sha256

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.machines.magline_world import (
    CLIENT_OPTIONS,
    SERVER_OPTIONS,
    Connection,
    Pushes,
    lineage,
)

from wirehouse.protocols.magline.handshake import x25519_public
from wirehouse.protocols.magline.layout import ErrorNumber, Reason
from wirehouse.protocols.magline.limits import ResumptionOptions, ServerOptions
from wirehouse.protocols.magline.session import (
    Authenticated,
    ClientKey,
    ClientSession,
    Established,
    Failure,
    MemoryStore,
    Push,
    Reply,
    Request,
    Resumed,
    ServerKeys,
    ServerSession,
)

STATIC, PSK = bytes([0x11]) * 32, bytes([0x22]) * 32
KEYS = ServerKeys(static=[STATIC], psks=[PSK], allow_anonymous=True)
CLIENT_KEYS = [
    ClientKey(pinned=x25519_public(STATIC)),
    ClientKey(psk=PSK),
    ClientKey(allow_anonymous=True),
]
LOGIN = 7
MAX_QUEUED = 4
COUNTS = st.sampled_from([1, 2, 15, 16, 17, 40, 112, 10_000])


class MaglineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.drawn = self.numbers = 0
        self.store = MemoryStore(ResumptionOptions(max_queued=MAX_QUEUED, max_sessions=5))
        self.connections: list[Connection] = []
        self.queues: dict[bytes, Pushes] = {}
        self.ready: set[bytes] = set()

    @initialize(key=st.sampled_from(CLIENT_KEYS), ordered=st.booleans(), settled=st.booleans())
    def begin(self, key: ClientKey, ordered: bool, settled: bool) -> None:
        self.options = SERVER_OPTIONS
        if ordered:
            self.options = ServerOptions(max_requests=3, max_frame=2048, order_cmds=(LOGIN,))
        self.connect(ClientSession(CLIENT_OPTIONS, key=key, entropy=self.entropy))
        if settled:
            self.settle()

    def entropy(self, size: int) -> bytes:
        self.drawn += 1
        return sha256(str(self.drawn).encode()).digest()[:size]

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def connect(self, client: ClientSession) -> None:
        server = ServerSession(
            self.options, keys=KEYS, entropy=self.entropy, store=self.store, now=self.now
        )
        client.connect()
        self.connections = [c for c in self.connections if c.live] + [Connection(client, server)]
        self.collect()

    @property
    def newest(self) -> Connection:
        return self.connections[-1]

    def collect(self) -> None:
        """Takes note of what happened, as an application would, until nothing more does."""
        for connection in self.connections:
            connection.collect()
        for connection in self.connections:
            happened, connection.server_events = connection.server_events, []
            for event in filter(None, map(lineage, happened)):
                self.follow(connection, event)

    def follow(self, connection: Connection, event: object) -> None:
        match event:
            case Established(resumed=False) if not self.options.order_cmds:
                self.ready.add(event.session_id)
            case Authenticated():
                session = connection.server.session_id
                self.ready.add(session)
                connection.pushed += self.queues.pop(session, Pushes()).waiting
            case Resumed():
                queue = self.queues.pop(event.replaced, Pushes())
                assert event.dropped == queue.dropped
                if event.replaced in self.ready:
                    self.ready.add(event.session_id)
                    connection.pushed += queue.waiting
                else:
                    self.queues[event.session_id] = Pushes(queue.waiting)
                for other in self.connections:
                    if other.server.session_id == event.replaced and not other.server.closed:
                        other.server.close(Reason.REPLACED)
                        other.collect()

    # -- what applications do ----------------------------------------------------------------

    @precondition(lambda self: self.newest.client.closed)
    @rule(settled=st.booleans())
    def reconnect(self, settled: bool) -> None:
        self.connect(self.newest.client.again(self.now))
        if settled:
            self.settle()

    @precondition(lambda self: self.newest.client.state in {"open", "confirming"})
    @rule(login=st.booleans(), size=st.sampled_from([0, 1, 16, 700]))
    def ask(self, login: bool, size: int) -> None:
        client, cmd = self.newest.client, LOGIN if login else 9
        if client.in_flight < client.options.max_requests:
            data = str(self.number()).encode() + bytes(size)
            self.newest.asked.append((client.send(Request(cmd, data)), cmd, data))
            self.collect()

    @precondition(lambda self: self.newest.open_requests)
    @rule(which=st.integers(0, 2), fails=st.integers(0, 3))
    def answer(self, which: int, fails: int) -> None:
        seq = sorted(self.newest.open_requests)[which % len(self.newest.open_requests)]
        del self.newest.open_requests[seq]
        if fails == 0:
            self.newest.answers[seq] = ErrorNumber.BUSINESS
            self.newest.server.send(Failure(seq, ErrorNumber.BUSINESS))
        else:
            self.newest.answers[seq] = str(self.number()).encode()
            data = self.newest.answers[seq]
            assert isinstance(data, bytes)
            self.newest.server.send(Reply(seq, data))
        self.collect()

    @precondition(lambda self: self.newest.server.state == "open")
    @rule()
    def push(self) -> None:
        number = self.number()
        self.newest.pushed.append(number)
        self.newest.server.send(Push(1, str(number).encode()))
        self.collect()

    @precondition(lambda self: self.newest.server.state == "confirming")
    @rule()
    def push_before_it_is_sure(self) -> None:
        number, old = self.number(), self.newest.server._replaces
        if self.store.find(old, self.now) is not None:
            self.queues.setdefault(old, Pushes()).add(number, MAX_QUEUED)
        self.newest.server.send(Push(1, str(number).encode()))
        self.collect()

    @precondition(lambda self: self.newest.server.closed)
    @rule()
    def push_while_away(self) -> None:
        number, session = self.number(), self.newest.server.session_id
        if self.store.queue(session, Push(1, str(number).encode()), self.now):
            self.queues.setdefault(session, Pushes()).add(number, MAX_QUEUED)

    @precondition(lambda self: self.newest.client.state == "open")
    @rule()
    def ping(self) -> None:
        if len(self.newest.client._pings) < 10:
            self.newest.client.ping()
            self.collect()

    @rule(
        end=st.sampled_from(["client", "server"]),
        reason=st.sampled_from([Reason.NORMAL, Reason.SHUTDOWN, Reason.AUTH]),
        err=st.booleans(),
    )
    def close(self, end: str, reason: Reason, err: bool) -> None:
        session = self.newest.client if end == "client" else self.newest.server
        if not session.closed:
            if err:
                session.abort(ErrorNumber.INTERNAL)
            else:
                session.close(reason)
            self.collect()

    @rule()
    def revoke(self) -> None:
        self.store.revoke("")

    # -- what the world does -----------------------------------------------------------------

    @rule(which=st.integers(0, 3), upward=st.booleans(), count=COUNTS)
    def deliver(self, which: int, upward: bool, count: int) -> None:
        chosen = self.connections[-1 - which % len(self.connections)]
        chosen.deliver(upward, count, self.now)
        self.collect()

    @rule()
    def deliver_all(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Until nothing is under way, and who has closed is known to have closed."""
        for _ in range(20):
            for connection in self.connections:
                for upward in (True, False):
                    connection.deliver(upward, 10_000, self.now)
                    self.collect()
            if all(connection.quiet for connection in self.connections):
                return
        raise AssertionError("the two ends never stop talking")

    @rule(
        upward=st.booleans(),
        how=st.sampled_from(["alter", "drop", "repeat"]),
        at=st.integers(0, 2000),
        count=st.sampled_from([1, 4, 20, 38]),
    )
    def spoil(self, upward: bool, how: str, at: int, count: int) -> None:
        wire = self.newest.up if upward else self.newest.down
        if not wire:
            return
        at %= len(wire)
        piece = wire[at : at + count]
        if how == "alter":
            wire[at] ^= count
        elif how == "drop":
            del wire[at : at + count]
        else:
            wire[at:at] = piece
        if upward:
            self.newest.spoiled_up = True
        else:
            self.newest.spoiled_down = True

    @rule(noticed=st.booleans())
    def lose_the_line(self, noticed: bool) -> None:
        """What was under way is gone; the server may not have noticed."""
        self.newest.lose_client()
        if noticed:
            self.newest.server.receive_eof()
        self.collect()

    @rule(seconds=st.sampled_from([0.5, 5, 11, 31, 91, 599, 601, 90_000]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.tick()

    def tick(self) -> None:
        for connection in self.connections:
            connection.client.on_timer(self.now)
            connection.server.on_timer(self.now)
        self.collect()

    # -- what must hold ----------------------------------------------------------------------

    @invariant()
    def within_limits_and_in_agreement(self) -> None:
        for connection in self.connections:
            connection.check()
        assert len(self.store) <= 5

    def teardown(self) -> None:
        """Time heals: whoever lost bytes finds out, and each end has closed with a reason."""
        if not self.connections:
            return
        for _ in range(30):
            self.settle()
            self.now += 11
            self.tick()
            for connection in self.connections:
                connection.check()
        for connection in self.connections:
            if connection.spoiled or connection.deaf:
                assert set(connection.ends) == {"client", "server"}
            assert len(connection.ends) != 1, "one end is open, the other closed"


TestMaglineMachine = MaglineMachine.TestCase
TestMaglineMachine.settings = settings(max_examples=max(150, settings.default.max_examples))
