"""A comet client and server with random actions over a link that may be unreliable.

On a good link nothing is lost, invented or reordered. On a bad one, a session ends with a reason or
continues; sealed content always arrives unchanged and in order, or not at all.

All tokens, keys and secrets are throw-away test values.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.machines.ends import End, Line
from tests.playbooks.comet.peer import AUTH, EPH_PRIVATE, KEY, SECRET

from wirelake.protocols.comet import codec_seed
from wirelake.protocols.comet.layout import (
    Error,
    ErrorCode,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    MessageAck,
    MessageList,
    Notification,
    Ok,
    Subscribe,
    TopicList,
)
from wirelake.protocols.comet.limits import ClientOptions, ServerOptions
from wirelake.protocols.comet.session import (
    AuthRequested,
    ClientSession,
    KeyExchanged,
    Notified,
    Replied,
    Requested,
    ServerSession,
)
from wirelake.wire.errors import DecodeError, NeedMore

COMMANDS = (
    GetTopicList(),
    Subscribe(topics=("@news",)),
    Subscribe(topics=("no topic",)),
    MessageAck(msg_ids=("p1", "p2")),
    GetMessageList(),
    Heartbeat(),
)
LARGEST_FRAME = 65_537
MOST = 6
"""Commands under way; few, so that the limit is met."""


def notification(number: int, content: bytes) -> Notification:
    """The notification of that number."""
    return Notification(msg_type=number % 256, msg_id=f"p{number}", content=content, ts=number)


class CometMachine(RuleBasedStateMachine):
    """Two ends, two links, and the messages sent on both."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.client = ClientSession(ClientOptions(max_pending=MOST))
        self.server = ServerSession(ServerOptions(max_pending=MOST), server_key=KEY)
        self.client_end = End(self.client, LARGEST_FRAME, 2)
        self.server_end = End(self.server, LARGEST_FRAME, 2)
        self.up = Line(self.client_end, self.server_end)
        self.down = Line(self.server_end, self.client_end)
        self.asked: list[Any] = []
        self.answered: list[Any] = []
        self.pushed: list[tuple[bytes, bool]] = []
        self.to_decide = False
        self.to_answer: Any = None

    @initialize(begun=st.sampled_from(["new", "online", "keyed", "keyed"]))
    def begin(self, begun: str) -> None:
        """Usually start after the handshake."""
        if begun != "new":
            self.sign_on()
            self.carry_all()
            self.decide(True)
            self.carry_all()
        if begun == "keyed":
            self.exchange_key()
            self.carry_all()

    def carry_all(self) -> None:
        """Deliver all bytes in flight."""
        self.carry_up(1 << 20)
        self.carry_down(1 << 20)

    # -- what the applications do ------------------------------------------------------------

    def hear(self) -> None:
        """Let the server's application process its events."""
        for event in self.server_end.take():
            if isinstance(event, AuthRequested):
                self.to_decide = True
            elif isinstance(event, Requested):
                self.to_answer = event.command
        self.client_end.take()
        if self.server.closed:
            self.to_decide, self.to_answer = False, None

    @precondition(
        lambda self: self.client.state == "new" and not self.client.unanswered[MOST - 1 :]
    )
    @rule()
    def sign_on(self) -> None:
        self.client.send(AUTH)
        self.asked.append(AUTH)

    @precondition(lambda self: self.to_decide)
    @rule(accept=st.sampled_from([True, True, True, False]))
    def decide(self, accept: bool) -> None:
        self.to_decide = False
        if accept:
            self.server.accept()
        else:
            self.server.refuse()
        self.hear()

    @precondition(lambda self: self.client.authenticated and len(self.client.unanswered) < MOST)
    @rule(command=st.sampled_from(COMMANDS))
    def ask(self, command: Any) -> None:
        self.client.send(command)
        self.asked.append(command)

    @precondition(lambda self: self.client.state == "authenticated")
    @precondition(lambda self: len(self.client.unanswered) < MOST)
    @rule()
    def exchange_key(self) -> None:
        self.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
        self.asked.append("ExchangeKey")

    @precondition(lambda self: self.to_answer is not None)
    @rule(count=st.integers(0, 5), failing=st.sampled_from([False, False, True]))
    def answer(self, count: int, failing: bool) -> None:
        command, self.to_answer = self.to_answer, None
        reply: Any = Ok()
        if failing:
            reply = Error(error_code=ErrorCode.SERVER_ERROR, reason="sorry")
        elif isinstance(command, GetTopicList):
            reply = TopicList(topics=("@a",) * count)
        elif isinstance(command, GetMessageList):
            messages = tuple(notification(n, b"listed") for n in range(count))
            reply = MessageList(messages=messages)
        self.server.send(reply)
        self.answered.append(reply)
        self.hear()

    @precondition(lambda self: self.server.can_push)
    @rule(content=st.binary(max_size=40))
    def push(self, content: bytes) -> None:
        self.server.send(notification(len(self.pushed), content))
        self.pushed.append((content, self.server.state == "keyed"))

    @precondition(lambda self: len(self.asked) > 8)
    @rule(who=st.sampled_from(["client", "server", "nobody", "nobody"]))
    def hang_up(self, who: str) -> None:
        if who == "client":
            self.client.close()
        elif who == "server":
            self.server.replaced()
        self.hear()

    # -- what the line does ------------------------------------------------------------------

    @rule(count=st.one_of(st.integers(1, 9), st.just(1 << 20)))
    def carry_up(self, count: int) -> None:
        self.up.deliver(count, self.now)
        self.hear()

    @rule(count=st.one_of(st.integers(1, 9), st.just(1 << 20)))
    def carry_down(self, count: int) -> None:
        self.down.deliver(count, self.now)
        self.hear()

    @precondition(lambda self: self.up.flight or self.down.flight)
    @rule(
        upward=st.booleans(),
        how=st.sampled_from(["lose", "double", "change"]),
        at=st.integers(0, 500),
        count=st.integers(1, 40),
        really=st.sampled_from([False, False, False, True]),
    )
    def corrupt(self, upward: bool, how: str, at: int, count: int, really: bool) -> None:
        if really:
            (self.up if upward else self.down).corrupt(how, at, count)

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.1, 1.0, 1.0, 2.0, 12.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.client.on_timer(self.now)
        self.server.on_timer(self.now)
        self.hear()

    # -- what must hold ----------------------------------------------------------------------

    @property
    def good(self) -> bool:
        """Whether the link was reliable so far."""
        return not self.up.corrupted and not self.down.corrupted

    @invariant()
    def sessions_stay_consistent(self) -> None:
        self.client_end.check()
        self.server_end.check()
        assert self.server.pending <= MOST
        assert len(self.client.unanswered) <= MOST
        self.up.load()
        self.down.load()

    @invariant()
    def only_documented_codes_are_sent(self) -> None:
        for reply in self.replies():
            assert not isinstance(reply, Error) or reply.error_code in set(ErrorCode)

    def replies(self) -> list[Any]:
        """What the server has said so far, as it said it."""
        found, pos, said = [], 0, bytes(self.down.carried)
        while pos < len(said):
            try:
                message, pos = codec_seed.decode_frame_s2c(said, pos, len(said))
            except (DecodeError, NeedMore) as wrong:
                raise AssertionError("the server said half a frame, or a wrong one") from wrong
            found.append(message)
        return found

    @invariant()
    def nothing_is_invented(self) -> None:
        """On a good line every notification and every reply, in order."""
        if self.good:
            contents = [e.content for e in self.client_end.history if isinstance(e, Notified)]
            assert contents == [content for content, _ in self.pushed][: len(contents)]
            replied = [e.command for e in self.client_end.history if isinstance(e, Replied)]
            named, asked = names(replied), names(self.asked)
            assert named == asked[: len(named)]

    @invariant()
    def what_is_sealed_arrives_as_it_is_or_not_at_all(self) -> None:
        """On any line."""
        history = self.client_end.history
        if KeyExchanged() in history:
            after = history[history.index(KeyExchanged()) :]
            opened = [event.content for event in after if isinstance(event, Notified)]
            assert opened == [content for content, keyed in self.pushed if keyed][: len(opened)]

    def teardown(self) -> None:
        """After a reliable delivery of everything, both ends agree or have ended."""
        for _ in range(60):
            self.up.deliver(1 << 20, self.now)
            self.down.deliver(1 << 20, self.now)
            self.hear()
            if self.to_decide:
                self.decide(True)
            if self.to_answer is not None:
                self.answer(1, False)
        self.sessions_stay_consistent()
        self.nothing_is_invented()
        assert self.client.closed == self.server.closed or not self.good
        if self.good and not self.client.closed:
            self.they_agree()
        self.now += 500
        for end in (self.client_end, self.server_end):
            end.session.on_timer(self.now)
            end.session.on_timer(self.now + 500)
            end.take()
            end.check()
            assert end.session.closed or not end.doomed
        assert self.server.closed

    def they_agree(self) -> None:
        """Assert that both are in the same state with nothing in flight."""
        assert self.client.unanswered == ()
        assert self.server.pending == 0
        assert self.client.state == self.server.state
        contents = [e.content for e in self.client_end.history if isinstance(e, Notified)]
        assert contents == [content for content, _ in self.pushed]


def names(commands: list[Any]) -> list[str]:
    """Names of commands, without the automatic heartbeats."""
    shown = (each if isinstance(each, str) else type(each).__name__ for each in commands)
    return [name for name in shown if name != "Heartbeat"]


CometMachine.TestCase.settings = settings(stateful_step_count=60)
TestComet = CometMachine.TestCase
