"""Two sessions and an unreliable link between them: the checks that all protocols share.

A `Line` carries bytes one way, in pieces of any size; they can be lost, duplicated
or changed. An `End` is a session with all its events; after each step it checks the invariants:

    one `Closed`, with a reason, and nothing after it
    a fatal `Failed` is followed by a `Closed`
    every code is one of the documented
    the state is one that the table leads to
    what is held stays within limits
"""

from __future__ import annotations

from collections.abc import Mapping

from wirelake.protocols.sansio import CLOSED, Closed, Event, Failed, Session
from wirelake.wire.errors import CODES


class End:
    """One session and its events so far."""

    def __init__(self, session: Session, max_buffered: int, max_timers: int):
        self.session = session
        self.max_buffered = max_buffered
        self.max_timers = max_timers
        self.history: list[Event] = []
        self.state = session.state
        self._reach = reachable(session.TABLES[session.role])

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        found = self.session.events()
        self.history += found
        return found

    def check(self) -> None:
        """Assert the invariants of a session."""
        session = self.session
        assert session.state in self._reach[self.state], f"{self.state} -> {session.state}"
        self.state = session.state
        assert session.buffered <= self.max_buffered
        assert len(session.timers) <= self.max_timers
        due = session.next_timer()
        assert due is None or not session.closed
        self._check_history()

    def _check_history(self) -> None:
        ends = [n for n, event in enumerate(self.history) if isinstance(event, Closed)]
        assert ends in ([], [len(self.history) - 1]), self.history[-3:]
        assert bool(ends) == self.session.closed
        for event in self.history:
            if isinstance(event, Failed):
                assert event.code in CODES
                assert event.offset is None or 0 <= event.offset <= self.session.received_bytes
            elif isinstance(event, Closed):
                assert event.reason

    @property
    def doomed(self) -> bool:
        """Return whether a fatal fault occurred, after which the session must end."""
        return any(isinstance(event, Failed) and event.fatal for event in self.history)


class Line:
    """Bytes in flight from one session to another."""

    def __init__(self, sender: End, receiver: End):
        self.sender = sender
        self.receiver = receiver
        self.flight = bytearray()
        self.carried = bytearray()
        self.corrupted = False
        self.cut = False

    def load(self) -> None:
        """Take the bytes that the sender has to send."""
        said = self.sender.session.to_send()
        self.flight += said
        self.carried += said

    def deliver(self, count: int, now: float) -> None:
        """The next bytes arrive; after the last ones of a closed sender, the end of the stream."""
        self.load()
        if piece := bytes(self.flight[:count]):
            del self.flight[:count]
            self.receiver.session.receive(piece, now)
        if not self.flight and self.sender.session.closed and not self.cut:
            self.cut = True
            self.receiver.session.receive_eof()

    def corrupt(self, how: str, at: int, count: int) -> None:
        """Corrupt, drop or duplicate bytes in flight."""
        self.load()
        if not self.flight:
            return
        start = at % len(self.flight)
        piece = self.flight[start : start + count]
        if how == "lose":
            del self.flight[start : start + count]
        elif how == "double":
            self.flight[start:start] = piece
        else:
            self.flight[start] ^= 1 + count % 255
        self.corrupted = True


def reachable(table: Mapping[str, Mapping[str, str]]) -> dict[str, set[str]]:
    """Return the states reachable from each state, itself included."""
    found = {state: {state} for state in table}
    changed = True
    while changed:
        changed = False
        for state, seen in found.items():
            after = {step for each in seen for step in table[each].values()}
            if not after <= seen:
                found[state] = seen | after
                changed = True
    assert all(CLOSED in seen for seen in found.values())
    return found
