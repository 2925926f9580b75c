"""Random use and abuse of magline: two endpoints, a store, wires that corrupt bytes.

The machine sends requests, responses, pushes and pings, closes, loses connections, resumes,
advances time, and cuts, drops, repeats and alters bytes. Invariants: no message is lost, invented,
repeated or out of order; every request has one outcome; every error is documented; both ends
agree, or the connection is closed with a reason; buffers, queues and timers stay within limits.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from hashlib import sha256

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.machines.magline_world import CLIENT_OPTIONS, SERVER_OPTIONS, Connection, Pushes, lineage

from wirelake.protocols.magline.handshake import x25519_public
from wirelake.protocols.magline.layout import ErrorNumber, Reason
from wirelake.protocols.magline.limits import MAX_PINGS, ResumptionOptions, ServerOptions
from wirelake.protocols.magline.session import (
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
WORDS = ["login", "ask", "ask_another", "answer", "answer_newest", "fail", "push", "ping", "settle"]
ENDINGS = [Reason.NORMAL, Reason.SHUTDOWN, Reason.AUTH, None]
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
        # Sessions that the store dropped (expired, evicted or revoked) no longer wait.
        alive = {each for each in self.queues if self.store.find(each, self.now) is not None}
        self.queues = {each: queue for each, queue in self.queues.items() if each in alive}

    def follow(self, connection: Connection, event: object) -> None:
        match event:
            case Established(resumed=False) if not self.options.order_cmds:
                self.ready.add(event.session_id)
            case Authenticated():
                session = connection.server.session_id
                self.ready.add(session)
                queue = self.queues.pop(session, Pushes())
                assert event.dropped == queue.dropped
                connection.pushed += queue.waiting
            case Resumed():
                queue = self.queues.pop(event.replaced, Pushes())
                if event.replaced in self.ready:
                    self.ready.add(event.session_id)
                    assert event.dropped == queue.dropped
                    connection.pushed += queue.waiting
                else:
                    self.queues[event.session_id] = queue
                for other in self.connections:
                    if other.server.session_id == event.replaced and not other.server.closed:
                        other.server.close(Reason.REPLACED)
                        other.collect()

    # -- what applications do ----------------------------------------------------------------

    @precondition(lambda self: self.newest.client.closed)
    @rule(away=st.integers(0, 6), settled=st.booleans())
    def reconnect(self, away: int, settled: bool) -> None:
        """Before the client comes back, something may be pushed to it."""
        for _ in range(away):
            self.push()
        self.connect(self.newest.client.again(self.now))
        if settled:
            self.settle()

    @precondition(lambda self: not self.newest.client.closed)
    @rule(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
    def talk(self, words: list[str]) -> None:
        for word in words:
            getattr(self, word)()
            self.collect()

    def login(self) -> None:
        """What a client of an ordered connection does first."""
        if self.newest.server.state == "ordering" and self.newest.client.state == "open":
            self.ask(LOGIN)
            self.settle()
            self.answer()
            self.settle()

    def ask(self, cmd: int = 9) -> None:
        client = self.newest.client
        busy = client.in_flight >= client.options.max_requests
        if client.state in {"open", "confirming"} and not busy:
            number = self.number()
            data = str(number).encode() + bytes(number * 97 % 700)
            self.newest.asked.append((client.send(Request(cmd, data)), cmd, data))

    def ask_another(self) -> None:
        self.ask(8)

    def answer(self, newest: bool = False) -> None:
        if self.newest.open_requests:
            seq = sorted(self.newest.open_requests)[-1 if newest else 0]
            del self.newest.open_requests[seq]
            data = str(self.number()).encode()
            self.newest.answers[seq] = data
            self.newest.server.send(Reply(seq, data))

    def answer_newest(self) -> None:
        self.answer(newest=True)

    def fail(self) -> None:
        if self.newest.open_requests:
            seq = sorted(self.newest.open_requests)[0]
            del self.newest.open_requests[seq]
            self.newest.answers[seq] = ErrorNumber.BUSINESS
            self.newest.server.send(Failure(seq, ErrorNumber.BUSINESS))

    def push(self) -> None:
        """To the client if it is there, else to its queue."""
        server, number = self.newest.server, self.number()
        message = Push(1, str(number).encode())
        if server.state == "open":
            self.newest.pushed.append(number)
            server.send(message)
        elif server.state == "confirming":
            if self.store.find(server._replaces, self.now) is not None:
                self.queues.setdefault(server._replaces, Pushes()).add(number, MAX_QUEUED)
            server.send(message)
        elif server.closed and self.store.queue(server.session_id, message, self.now):
            self.queues.setdefault(server.session_id, Pushes()).add(number, MAX_QUEUED)

    def ping(self) -> None:
        client = self.newest.client
        if client.state in {"open", "confirming"} and len(client._pings) < MAX_PINGS:
            client.ping()

    # -- what the world does -----------------------------------------------------------------

    @rule(
        which=st.integers(0, 3),
        pieces=st.lists(st.tuples(st.booleans(), COUNTS), min_size=1, max_size=8),
    )
    def deliver(self, which: int, pieces: list[tuple[bool, int]]) -> None:
        chosen = self.connections[-1 - which % len(self.connections)]
        for upward, count in pieces:
            chosen.deliver(upward, count, self.now)
            self.collect()

    @rule()
    def settle(self) -> None:
        """Deliver until nothing is in flight and both ends know of a close."""
        for _ in range(20):
            for connection in self.connections:
                for upward in (True, False):
                    connection.deliver(upward, 10_000, self.now)
                    self.collect()
            if all(connection.quiet for connection in self.connections):
                return
        raise AssertionError("the two ends never stop talking")

    @rule(
        how=st.sampled_from(["alter", "drop", "repeat", "lose", "cut", "close", "revoke"]),
        upward=st.booleans(),
        at=st.integers(0, 2000),
        count=st.sampled_from([0, 0, 1, 20]),
    )
    def trouble(self, how: str, upward: bool, at: int, count: int) -> None:
        if how in {"alter", "drop", "repeat"}:
            self.talk(["ask", "push", "ask"])  # so that there is something
            self.newest.corrupt(how, upward, at, count)
        elif how in {"lose", "cut"}:
            self.newest.lose_client(noticed=how == "cut")
        elif how == "close":
            self.newest.close(upward, ENDINGS[at % len(ENDINGS)])
        else:
            self.store.revoke("")
        self.collect()

    @rule(seconds=st.sampled_from([0.1, 1, 9, 11, 29, 31, 61, 601, 90_000]), served=st.booleans())
    def wait(self, seconds: float, served: bool) -> None:
        """Advance time in steps, or all at once, as for a suspended process."""
        until = self.now + seconds
        while served and self.now + 5 < until and self.newest.live and seconds < 1000:
            self.now += 5
            self.tick()
            self.settle()
        self.now = until
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
        """After the timeouts, each end has closed with a reason."""
        if not self.connections:
            return
        for _ in range(30):
            self.settle()
            self.now += 11
            self.tick()
            for connection in self.connections:
                connection.check()
        for connection in self.connections:
            if connection.corrupted or connection.deaf:
                assert set(connection.ends) == {"client", "server"}
            assert len(connection.ends) != 1, "one end is open, the other closed"


TestMaglineMachine = MaglineMachine.TestCase
TestMaglineMachine.settings = settings(max_examples=max(150, settings().max_examples))
