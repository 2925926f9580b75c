"""Playbooks: a session's dialogue, written as the document tells it.

    (
        Playbook(server, decode=decode_s2c, encode=encode_c2s)
        >> Heartbeat()                  the peer says this
        << Ok()                         the session must say this back
        >> At(120)                      the clock reaches 120 s
        << Emits(Closed("idle", Side.LOCAL, clean=False))
    ).done()

`>>` gives the session something: a message (encoded as the peer would), bytes, `At`, `Eof`, or a
call on the session (a lambda). `<<` names the next thing that it must have done: a message that it
sent, or `Emits(event)`. Sent messages and events are two queues, each compared in order; what is
left over at the next `>>` is a failure, so a playbook can neither miss nor invent anything.

`@rule("comet.12")` says which rule of `docs/decisions` a playbook proves;
`tests/playbooks/test_rule_coverage.py` lists rules that have none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from wirelake.protocols.sansio import Event, Session
from wirelake.wire.errors import NeedMore

PROVEN: dict[str, list[str]] = {}
"""Rule ids, each with the playbooks that prove it."""

F = TypeVar("F", bound=Callable[..., Any])


def rule(*ids: str) -> Callable[[F], F]:
    """Marks a test as the proof of rules."""

    def mark(test: F) -> F:
        for each in ids:
            PROVEN.setdefault(each, []).append(f"{test.__module__}.{test.__qualname__}")
        return test

    return mark


@dataclass(frozen=True)
class At:
    """The clock reaches this second, and the session's timers act."""

    seconds: float


@dataclass(frozen=True)
class Eof:
    """The peer closes its side."""


@dataclass(frozen=True)
class Emits:
    """The next event."""

    event: Event


@dataclass(frozen=True)
class EmitsKind:
    """The next event is of this class, whatever it holds; attributes may be named."""

    kind: type[Event]
    having: tuple[tuple[str, Any], ...] = ()

    @staticmethod
    def of(kind: type[Event], **having: Any) -> EmitsKind:
        """`EmitsKind.of(Failed, code="idle")`."""
        return EmitsKind(kind, tuple(having.items()))


class Playbook:
    """A dialogue with one session; see the module's docstring."""

    def __init__(
        self,
        session: Session,
        *,
        decode: Callable[[bytes, int, int], tuple[Any, int]],
        encode: Callable[[Any], bytes],
        now: float = 0.0,
    ):
        self.session = session
        self.now = now
        self._decode = decode
        self._encode = encode
        self._sent: list[Any] = []
        self._events: list[Event] = []
        self._bytes = b""

    def __rshift__(self, given: Any) -> Playbook:
        self._nothing_left(f"before {given!r}")
        match given:
            case At():
                self.now = given.seconds
                self.session.on_timer(self.now)
            case Eof():
                self.session.receive_eof()
            case bytes():
                self.session.receive(given, self.now)
            case _ if callable(given):
                given(self.session)
            case _:
                self.session.receive(self._encode(given), self.now)
        self._collect()
        return self

    def __lshift__(self, wanted: Any) -> Playbook:
        match wanted:
            case Emits():
                assert self._events, f"no event, wanted {wanted.event!r}"
                assert self._events.pop(0) == wanted.event
            case EmitsKind():
                assert self._events, f"no event, wanted {wanted!r}"
                found = self._events.pop(0)
                assert type(found) is wanted.kind, found
                for name, value in wanted.having:
                    assert getattr(found, name) == value, found
            case _:
                assert self._sent, f"nothing sent, wanted {wanted!r}; events {self._events}"
                found = self._sent.pop(0)
                assert wanted(found) if callable(wanted) else found == wanted, found
        return self

    def done(self) -> Session:
        """The dialogue is over: nothing may be left."""
        self._nothing_left("at the end")
        return self.session

    def _collect(self) -> None:
        self._events += self.session.events()
        self._bytes += self.session.to_send()
        pos = 0
        while pos < len(self._bytes):
            try:
                message, pos = self._decode(self._bytes, pos, len(self._bytes))
            except NeedMore:
                break
            self._sent.append(message)
        self._bytes = self._bytes[pos:]

    def _nothing_left(self, when: str) -> None:
        assert not self._sent, f"{when}: sent and not expected: {self._sent}"
        assert not self._events, f"{when}: happened and not expected: {self._events}"
        assert not self._bytes, f"{when}: half a frame was sent: {self._bytes.hex()}"


class Pair:
    """A client and a server wired back to back in memory, with a clock that the test moves."""

    def __init__(self, client: Session, server: Session, now: float = 0.0):
        self.client = client
        self.server = server
        self.now = now
        self.client_events: list[Event] = []
        self.server_events: list[Event] = []

    def run(self) -> Pair:
        """Carries bytes both ways until neither has anything to say."""
        while True:
            up, down = self.client.to_send(), self.server.to_send()
            self.client_events += self.client.events()
            self.server_events += self.server.events()
            if not up and not down:
                return self
            if up:
                self.server.receive(up, self.now)
            if down:
                self.client.receive(down, self.now)

    def at(self, seconds: float) -> Pair:
        """Moves the clock, through every deadline on the way."""
        while True:
            due = [t for s in (self.client, self.server) if (t := s.next_timer()) is not None]
            step = min(due, default=seconds)
            self.now = max(self.now, min(step, seconds))
            self.client.on_timer(self.now)
            self.server.on_timer(self.now)
            self.run()
            if step > seconds or not due:
                return self

    def take(self) -> tuple[list[Event], list[Event]]:
        """(client events, server events) since the last call."""
        taken = self.client_events, self.server_events
        self.client_events, self.server_events = [], []
        return taken
