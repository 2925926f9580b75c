"""Two ESNP sessions that both send requests, over a link that may be unreliable.

On a good link every call ends once: with its complete response, in order, or with its own timeout;
every event arrives, in order. On a bad one, a session ends with a reason or continues; no response
is matched to a call that has ended or never existed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.machines.ends import End, Line

from wirelake.protocols.esnp.layout import (
    Data,
    Flag,
    FlagType,
    Message,
    MessageId,
    Payload,
    SeqNo,
    Var,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import source_message_id
from wirelake.protocols.esnp.session import (
    Announced,
    Answered,
    Call,
    CallFailed,
    EsnpSession,
    Requested,
    Traced,
)
from wirelake.protocols.sansio import Role, SessionError

LIMIT = 2_000
MOST = 4
"""Calls and requests under way; few, so that limits are met."""


def text(message: Message) -> bytes:
    """The payload of a message."""
    return b"".join(row.data for row in message.rows if isinstance(row, Payload))


@dataclass
class Side:
    """One end, its application, and its calls."""

    end: End
    session: EsnpSession
    open: list[Call] = field(default_factory=list)
    asked: dict[int, list[bytes]] = field(default_factory=dict)
    """What each of our calls said."""
    given: dict[int, list[bytes]] = field(default_factory=dict)
    """What we answered to each call of the other side."""
    got: dict[int, list[bytes]] = field(default_factory=dict)
    """What we were answered."""
    over: set[int] = field(default_factory=set)
    """Calls of ours that have ended."""
    announced: list[bytes] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    """Requests of the other side, as they were handed over in turn."""
    corrupted: bool = False

    def hear(self) -> None:
        """Process the events."""
        for event in self.end.take():
            self.take(event)
        if self.session.closed:
            self.open.clear()

    def take(self, event: Any) -> None:
        """One event."""
        if isinstance(event, Requested):
            self.open.append(event.call)
            if not event.call.concurrent:
                self.order.append(event.call.id or 0)
        elif isinstance(event, Announced):
            self.heard.append(text(event.message))
        elif isinstance(event, Answered):
            assert event.id in self.asked, "an answer to nothing"
            assert event.id not in self.over, "an answer to a call that is over"
            assert source_message_id(event.message) == event.id
            self.got.setdefault(event.id, []).append(text(event.message))
            if event.last:
                self.over.add(event.id)
        elif isinstance(event, CallFailed):
            assert event.id in self.asked
            assert event.id not in self.over, "a call ended twice"
            self.over.add(event.id)
        elif isinstance(event, Traced):
            assert event.id is None or event.id in self.asked or self.corrupted


class EsnpMachine(RuleBasedStateMachine):
    """Two sides, two lines."""

    @initialize(strict=st.booleans(), dialect=st.sampled_from(["seed", "go"]))
    def begin(self, strict: bool, dialect: Any) -> None:
        """Both ends with the same options."""
        options = SessionOptions(
            strict=strict,
            dialect=dialect,
            message_limit=LIMIT,
            max_calls=MOST,
            max_requests=MOST,
            max_parts=4,
            max_part_bytes=LIMIT,
            max_request_bytes=LIMIT,
            trace_name="n",
        )
        self.now = 0.0
        ends = []
        for role, first_id in ((Role.CLIENT, 100), (Role.SERVER, 500)):
            session = EsnpSession(role, options, first_id=first_id)
            ends.append(End(session, LIMIT, 2))
        self.client_end, self.server_end = ends
        self.sides = [Side(end, end.session) for end in ends]  # type: ignore[arg-type]
        self.up = Line(ends[0], ends[1])
        self.down = Line(ends[1], ends[0])

    # -- what the applications do ------------------------------------------------------------

    @rule(
        who=st.integers(0, 1),
        said=st.binary(min_size=1, max_size=30),
        flags=st.sets(st.sampled_from([FlagType.ASYNC, FlagType.TRACE, 200]), max_size=2),
        info=st.booleans(),
    )
    def ask(self, who: int, said: bytes, flags: set[int], info: bool) -> None:
        side = self.sides[who]
        flag = FlagType.INFO if info else FlagType.REQUEST
        self.send(side, [said], flag, sorted(flags))

    @rule(who=st.integers(0, 1), parts=st.lists(st.binary(max_size=20), min_size=1, max_size=5))
    def ask_in_parts(self, who: int, parts: list[bytes]) -> None:
        self.send(self.sides[who], parts, FlagType.REQUEST, [], numbered=True)

    def send(
        self, side: Side, parts: list[bytes], flag: int, more: list[int], numbered: bool = False
    ) -> None:
        """A call in one message, or in several; the limit of calls is the only reason to refuse."""
        number: int | None = None
        for n, part in enumerate(parts, 1):
            seq = (n, len(parts) if n == len(parts) else 0) if numbered else None
            rows = [Payload(data=part)]
            try:
                number = side.session.request(
                    rows, flag=flag, more_flags=more, seq=seq, number=number, timeout_s=5
                )
            except SessionError as error:
                full = error.code == "too_busy" and side.session.calls == MOST
                assert side.session.closed or (full and n == 1)
                return
            side.asked.setdefault(number, []).append(part)

    @rule(who=st.integers(0, 1), said=st.binary(max_size=30))
    def announce(self, who: int, said: bytes) -> None:
        side = self.sides[who]
        if not side.session.closed:
            side.session.announce([Payload(data=said)])
            side.announced.append(said)

    @rule(
        who=st.integers(0, 1),
        which=st.integers(0, 9),
        pieces=st.lists(st.binary(max_size=20), min_size=1, max_size=3),
        error=st.sampled_from([None, None, "", "sorry"]),
    )
    def answer(self, who: int, which: int, pieces: list[bytes], error: str | None) -> None:
        side = self.sides[who]
        if not side.open:
            return
        call = side.open.pop(which % len(side.open))
        for n, piece in enumerate(pieces, 1):
            last = n == len(pieces)
            seq = None if len(pieces) == 1 else (n, n if last else 0)
            side.session.answer(call, [Payload(data=piece)], seq=seq, error=error if last else None)
        side.given[call.id or 0] = pieces
        side.hear()

    @rule(who=st.integers(0, 1), number=st.integers(100, 110), current=st.integers(0, 6))
    def misbehave(self, who: int, number: int, current: int) -> None:
        """Legal bytes that a careful application would not send: a reused id, odd numbers."""
        side = self.sides[who]
        if side.session.closed or number not in side.asked or current % 3:
            return
        message = Message(
            rows=(
                Data(name="first", value=Var(type=0)),
                Flag(value=FlagType.REQUEST),
                MessageId(value=number),
                SeqNo(current=current, maximum=5),
            )
        )
        codec = side.session._codec
        side.session.forward(codec.encode_message(message))
        self.up.corrupted = True  # the peer is not what it should be: as good as a bad line

    # -- what the line does ------------------------------------------------------------------

    @rule(count=st.sampled_from([1, 7, 30, 1 << 20, 1 << 20]), upward=st.booleans())
    def carry(self, count: int, upward: bool) -> None:
        (self.up if upward else self.down).deliver(count, self.now)
        self.hear()

    def hear(self) -> None:
        """Let both applications process their events."""
        for side in self.sides:
            side.corrupted = self.up.corrupted or self.down.corrupted
            side.hear()

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

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.02, 0.03, 0.1, 0.1, 0.1, 0.2, 0.3, 1.0, 6.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for side in self.sides:
            side.session.on_timer(self.now)
        self.hear()

    # -- what must hold ----------------------------------------------------------------------

    @property
    def good(self) -> bool:
        """Whether the link and both applications behaved correctly so far."""
        return not self.up.corrupted and not self.down.corrupted

    @invariant()
    def sessions_stay_consistent(self) -> None:
        for side in self.sides:
            side.end.check()
            session = side.session
            assert session.calls <= MOST
            assert session.pending <= MOST
            assert session._open_bytes <= 2 * LIMIT
            assert session._parts.held_bytes <= LIMIT
            assert session._answers.held_bytes <= LIMIT
        self.up.load()
        self.down.load()

    @invariant()
    def nothing_is_lost_invented_or_out_of_order(self) -> None:
        if not self.good:
            return
        for side, other in (self.sides, self.sides[::-1]):
            assert side.heard == other.announced[: len(side.heard)]
            for number, got in side.got.items():
                given = other.given.get(number)
                assert given is None or got == given[: len(got)]
            turns = [number for number in side.order if number]
            asked = [number for number in other.asked if number in set(turns)]
            assert turns == asked

    def teardown(self) -> None:
        """After a reliable delivery of everything, both ends agree or have ended."""
        if not hasattr(self, "sides"):
            return
        for _ in range(40):
            for line in (self.up, self.down):
                line.deliver(1 << 20, self.now)
            self.hear()
            for who in (0, 1):
                self.answer(who, 0, [b"at last"], None)
        self.sessions_stay_consistent()
        self.nothing_is_lost_invented_or_out_of_order()
        client, server = self.sides
        if self.good:
            assert not client.session.closed
            assert not server.session.closed
            for side, other in (self.sides, self.sides[::-1]):
                assert side.heard == other.announced
                assert side.session.calls == 0
                assert side.over == set(side.asked)
                assert side.session.buffered == 0
        self.wait(100.0)
        for side in self.sides:
            assert side.session.calls == 0
            assert side.session._parts.held_bytes == 0
            assert side.session.closed or not side.end.doomed


EsnpMachine.TestCase.settings = settings(stateful_step_count=60)
TestEsnp = EsnpMachine.TestCase
