"""One subject from its state to its end: inputs, and what must hold after each of them.

    nothing is raised, whatever comes in
    every code is a documented one; every end has a reason, and comes once
    a fatal failure is followed by the end
    held bytes, pending calls, tunnels, timers and written bytes stay within their limits
    after the end nothing happens any more

An *input* is one `receive` of hostile bytes. Between inputs the application acts, time jumps, or
the peer closes its side.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from tests.fuzz.hostile import Attacker
from tests.fuzz.subject import Subject

from wirelake.protocols.sansio import Closed, Failed, Session, SessionError
from wirelake.wire.errors import CODES

__all__ = ["MOST_INPUTS", "Crash", "Tally", "Trial"]

MOST_INPUTS = 30
"""Inputs for one subject: enough to wander through its states."""
MOST_TIMERS = 8
MOST_CRASHES = 20
"""Crashes of a run that are described; further ones are only counted."""
_ANSWER_ROOM = 1024
_ANSWER_FACTOR = 16
"""An input is answered with at most so many bytes for each of its own, and some beside."""
_JUMPS = (0.1, 0.5, 1, 2, 4, 4, 6, 11, 31, 65, 130, 25 * 3600)
_AFTER_END = 0.2
_TEMPERS = (0.3, 1.0)
"""Some attackers break everything, others get further."""
_PATIENCE = 1
"""Inputs that may vanish in a frame whose length was spoilt, before another subject is taken."""


@dataclass
class Crash:
    """Something that must not happen. `key` makes it happen again: `--replay KEY`."""

    key: str
    what: str
    state: str
    steps: list[list[Any]]
    """What was done, in order; bytes in hexadecimal."""


@dataclass
class Tally:
    """What a run has seen."""

    inputs: int = 0
    handled: int = 0
    """Inputs with at least one frame that was decoded and handled."""
    sessions: int = 0
    states: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    crash_count: int = 0
    crashes: list[Crash] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Takes in what another run has seen."""
        self.inputs += other.inputs
        self.handled += other.handled
        self.sessions += other.sessions
        self.states.update(other.states)
        self.codes.update(other.codes)
        self.reasons.update(other.reasons)
        self.crash_count += other.crash_count
        self.crashes += other.crashes[: MOST_CRASHES - len(self.crashes)]


class _WrongError(Exception):
    """A promise of a session is broken."""


class Trial:
    """One subject under attack."""

    def __init__(self, key: str, make: Callable[[Random], Subject], tally: Tally):
        self._key = key
        self._make = make
        self._tally = tally
        self._rng = Random(key)
        self._ends: dict[int, Closed] = {}
        self._steps: list[tuple[str, int, float, bytes]] = []
        self._state = "being made"
        self._handled = False

    def run(self, most: int = MOST_INPUTS) -> None:
        """Attacks until the sessions are over, or `most` inputs were given."""
        self._tally.sessions += 1
        try:
            self._attack(most)
        except Exception as error:
            self._tally.crash_count += 1
            if len(self._tally.crashes) < MOST_CRASHES:
                self._tally.crashes.append(self._crash(error))

    def _crash(self, error: Exception) -> Crash:
        what = str(error) if isinstance(error, _WrongError) else traceback.format_exc(limit=-6)
        steps = [[name, which, now, data.hex()] for name, which, now, data in self._steps]
        return Crash(self._key, what, self._state, steps)

    def _attack(self, most: int) -> None:
        subject = self._subject = self._make(self._rng)
        rude = subject.rude * self._rng.choice(_TEMPERS)
        attackers = [
            Attacker(self._rng, partial(subject.frame, session), rude)
            for session in subject.sessions
        ]
        for session in subject.sessions:
            self._watch(session)
        self._settle_all(None)
        swallowed = 0
        for _ in range(most):
            which = int(self._rng.random() * len(attackers)) if len(attackers) > 1 else 0
            session = subject.sessions[which]
            if session.closed and (self._over() or self._rng.random() < 0.5):
                if self._rng.random() > _AFTER_END:
                    return
            else:
                self._between(session, which)
            self._input(session, which, attackers[which].next())
            swallowed = swallowed + 1 if session.buffered and not self._handled else 0
            if swallowed > _PATIENCE:
                return

    def _over(self) -> bool:
        return all(session.closed for session in self._subject.sessions)

    def _watch(self, session: Session) -> None:
        """Notes whether a frame gets as far as being handled."""
        inner = session._handle

        def handle(message: Any, buf: bytes, pos: int, stop: int) -> None:
            self._handled = self._handled or message is not None
            inner(message, buf, pos, stop)

        session._handle = handle  # type: ignore[method-assign]

    # -- what is done ------------------------------------------------------------------------

    def _input(self, session: Session, which: int, data: bytes) -> None:
        tally, subject = self._tally, self._subject
        busy = ", busy" if subject.busy(session) else ""
        self._state = f"{session.role}: {session.state}{busy}"
        tally.states[self._state] += 1
        tally.inputs += 1
        self._steps.append(("receive", which, subject.now, data))
        given = len(data) + session.buffered
        self._handled = False
        session.receive(data, subject.now)
        tally.handled += self._handled
        self._settle_all(given)
        subject.after(session)

    def _between(self, session: Session, which: int) -> None:
        """What else happens before the next input."""
        roll = self._rng.random()
        if roll < 0.25 or self._subject.waits(session):
            self._steps.append(("act", which, self._subject.now, b""))
            with suppress(SessionError):
                self._subject.act(session)
        elif roll < 0.32:
            self._jump()
        elif roll < 0.33:
            self._steps.append(("eof", which, self._subject.now, b""))
            session.receive_eof()
            if not session.closed:
                raise _WrongError("still there after the peer closed its side")
        else:
            return
        self._settle_all(None)

    def _jump(self) -> None:
        subject = self._subject
        subject.now += self._rng.choice(_JUMPS)
        self._steps.append(("timer", -1, subject.now, b""))
        for session in subject.sessions:
            session.on_timer(subject.now)
            due = session.next_timer()
            if due is not None and due <= subject.now:
                raise _WrongError(f"a deadline of {due} is left at {subject.now}")
        subject.on_timer()

    # -- what must hold ----------------------------------------------------------------------

    def _settle_all(self, given: int | None) -> None:
        for index, session in enumerate(self._subject.sessions):
            self._settle(index, session, given)

    def _settle(self, index: int, session: Session, given: int | None) -> None:
        events, sent = session.events(), session.to_send()
        ended = self._ends.get(index)
        if ended is not None:
            if events or sent:
                raise _WrongError(f"after {ended}: {events}, {sent.hex()}")
            return
        fatal = False
        for event in events:
            if index in self._ends:
                raise _WrongError(f"{event} after {self._ends[index]}")
            if isinstance(event, Failed):
                self._check_failed(event, session)
                fatal = fatal or event.fatal
            elif isinstance(event, Closed):
                self._check_closed(index, event)
            else:
                self._subject.heard(session, event)
        if session.closed != (index in self._ends):
            raise _WrongError(f"closed {session.closed} and events {events}")
        if fatal and not session.closed and not self._subject.waits(session):
            raise _WrongError(f"not closed after {events}")
        if given is not None and len(sent) > _ANSWER_ROOM + _ANSWER_FACTOR * given:
            raise _WrongError(f"{len(sent)} bytes sent for {given}")
        self._check_limits(session)
        if sent:
            self._subject.wrote(session, sent)

    def _check_failed(self, event: Failed, session: Session) -> None:
        if event.code not in CODES:
            raise _WrongError(f"undocumented code: {event}")
        if event.offset is not None and not 0 <= event.offset <= session.received_bytes:
            raise _WrongError(f"offset outside {session.received_bytes} bytes: {event}")
        self._tally.codes[event.code] += 1

    def _check_closed(self, index: int, event: Closed) -> None:
        if not event.reason:
            raise _WrongError("an end without a reason")
        self._tally.reasons[event.reason] += 1
        self._ends[index] = event

    def _check_limits(self, session: Session) -> None:
        if session.buffered > self._subject.room(session):
            raise _WrongError(f"{session.buffered} bytes are held")
        if len(session.timers) > MOST_TIMERS or (session.closed and len(session.timers)):
            raise _WrongError(f"{len(session.timers)} timers when {session.state}")
        excess = self._subject.excess(session)
        if excess:
            raise _WrongError(f"over its limit: {excess}")
