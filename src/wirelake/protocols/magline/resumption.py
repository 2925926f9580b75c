"""Resumption of magline sessions: a server's states, a client's ticket, and the keys of both.

Implements §4.10 and §6 of `docs/decisions/magline.md`. A state is stored under SHA-256 of its
session id, so that a copy of the store reveals no ids. It expires `ttl_s` after a disconnect and
`lifetime_s` after the first authentication. The number of states is bounded: the least recently
used are dropped first, and those of clients that never finished their ordered commands before all
others, so that unauthenticated connections cannot push out real sessions.

A reSYN creates a *pending* successor. Only the newest is pending, so that a replay of an old reSYN
cannot block the owner; a copy of a reSYN is refused. The first frame that verifies under the new
keys confirms it: `retire` exchanges the old id for the new one, once, if the successor is still the
pending one (compare and swap, also where several servers share a store).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple, Protocol

from wirelake.wire.errors import DecodeError, EncodeError

from .endpoint import Push
from .handshake import KEY_SIZE, Mode, psk_key_id, server_key_id, x25519_public
from .limits import RETRIED, ResumptionOptions

__all__ = [
    "Chosen",
    "ClientKey",
    "MemoryStore",
    "ResumptionState",
    "ResumptionStore",
    "ServerKeys",
    "Ticket",
    "session_id_of",
]


def session_id_of(sid: bytes) -> bytes:
    """Return the id of a session outside the wire, in events, stores and logs: SHA-256 of `sid`."""
    return sha256(sid).digest()


@dataclass(frozen=True, slots=True)
class Ticket:
    """The state of a client that resumes a session: as secret as a password."""

    sid: bytes = field(repr=False)
    res: bytes = field(repr=False)
    mode: Mode
    key_id: bytes | None
    since: float
    """When the first connection was made; the server's 24 hours start no earlier."""


@dataclass(frozen=True, slots=True)
class ResumptionState:
    """The state of a session at the server."""

    res: bytes = field(repr=False)
    mode: Mode
    since: float
    """First authentication: of the handshake, then of the ordered commands."""
    key_id: bytes | None = None
    principal: str = ""
    steps_done: int = 0
    ready: bool = True
    """Whether the ordered commands are done."""


class ResumptionStore(Protocol):
    """A store of states; sessions are identified by `session_id_of`."""

    def save(self, session: bytes, state: ResumptionState, now: float) -> None:
        """Store the state of a new connection."""

    def update(self, session: bytes, state: ResumptionState) -> None:
        """Replace the state of a session, if it exists."""

    def find(self, session: bytes, now: float) -> ResumptionState | None:
        """Return the state of a session; None when it is unknown or expired."""

    def begin(self, session: bytes, successor: bytes, binder: bytes, now: float) -> bool:
        """Register a pending resumption; False for a copy of an earlier one."""

    def retire(
        self, session: bytes, successor: bytes, res: bytes, now: float
    ) -> ResumptionState | None:
        """Replace a session by its pending successor; None when that is no longer possible."""

    def disconnect(self, session: bytes, now: float) -> None:
        """Let the state of a closed connection expire after `ttl_s`."""

    def forget(self, session: bytes) -> None:
        """Remove a state."""

    def revoke(self, principal: str) -> int:
        """Remove all states of a principal whose credential changed; return their number."""

    def queue(self, session: bytes, push: Push, now: float) -> bool:
        """Queue a push for a disconnected client; False when the session is unknown."""

    def take_queue(self, session: bytes) -> tuple[tuple[Push, ...], int]:
        """Remove and return the queued pushes, oldest first, and the number of dropped ones."""


class _Entry:
    """A state with the bookkeeping of the store."""

    __slots__ = ("dropped", "ends", "pending", "pushes", "queued_bytes", "state", "tried")

    def __init__(self, state: ResumptionState, ends: float):
        self.state = state
        self.ends = ends
        self.pending = b""
        self.tried: deque[bytes] = deque(maxlen=RETRIED)
        self.pushes: deque[Push] = deque()
        self.queued_bytes = 0
        self.dropped = 0

    def drop_oldest(self) -> None:
        """Drop the oldest push and count it."""
        self.queued_bytes -= len(self.pushes.popleft().data)
        self.dropped += 1


class MemoryStore:
    """A `ResumptionStore` in memory, for one server."""

    def __init__(self, options: ResumptionOptions | None = None):
        self.options = options or ResumptionOptions()
        self._ready: OrderedDict[bytes, _Entry] = OrderedDict()
        self._unready: OrderedDict[bytes, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ready) + len(self._unready)

    def save(self, session: bytes, state: ResumptionState, now: float) -> None:
        """Store the state of a new connection; drop expired states and those over the limit."""
        self._place(session, _Entry(state, state.since + self.options.lifetime_s))
        # Only the oldest entries are examined, so that saving stays cheap with 100,000 states;
        # `expire` removes all. Unready states go first, even if they are newer.
        for states in (self._unready, self._ready):
            while states and next(iter(states.values())).ends <= now:
                states.popitem(last=False)
        while len(self) > self.options.max_sessions:
            (self._unready or self._ready).popitem(last=False)

    def update(self, session: bytes, state: ResumptionState) -> None:
        """Replace a state; the 24 hours of an authentication start with it."""
        entry = self._remove(session)
        if entry is not None:
            entry.state = state
            entry.ends = state.since + self.options.lifetime_s
            self._place(session, entry)

    def find(self, session: bytes, now: float) -> ResumptionState | None:
        """Return the state of a session; an expired one is removed."""
        entry = self._alive(session, now)
        return None if entry is None else entry.state

    def begin(self, session: bytes, successor: bytes, binder: bytes, now: float) -> bool:
        """Make the newest resumption the pending one; a known binder is a copy."""
        entry = self._alive(session, now)
        if entry is None or binder in entry.tried:
            return False
        entry.tried.append(binder)
        entry.pending = successor
        return True

    def retire(
        self, session: bytes, successor: bytes, res: bytes, now: float
    ) -> ResumptionState | None:
        """Give the successor principal, order, queue and age of the session, and a new secret."""
        entry = self._alive(session, now)
        if entry is None or entry.pending != successor:
            return None
        self._remove(session)
        state = entry.state = replace(entry.state, res=res)
        entry.ends = state.since + self.options.lifetime_s
        entry.pending = b""
        entry.tried.clear()
        self._place(successor, entry)
        return state

    def disconnect(self, session: bytes, now: float) -> None:
        """Let the state expire after `ttl_s`, but never after its 24 hours."""
        entry = self._remove(session)
        if entry is not None:
            entry.ends = min(entry.ends, now + self.options.ttl_s)
            self._place(session, entry)

    def forget(self, session: bytes) -> None:
        """Remove a state."""
        self._remove(session)

    def revoke(self, principal: str) -> int:
        """Remove all states of a principal; pending resumptions of them fail as well."""
        count = 0
        for states in (self._ready, self._unready):
            doomed = [each for each, entry in states.items() if entry.state.principal == principal]
            count += len(doomed)
            for session in doomed:
                del states[session]
        return count

    def expire(self, now: float) -> int:
        """Remove every expired state; return their number."""
        count = 0
        for states in (self._ready, self._unready):
            over = [session for session, entry in states.items() if entry.ends <= now]
            count += len(over)
            for session in over:
                del states[session]
        return count

    def queue(self, session: bytes, push: Push, now: float) -> bool:
        """Queue a push; drop the oldest above the limits of count and bytes."""
        entry = self._alive(session, now)
        if entry is None:
            return False
        entry.pushes.append(push)
        entry.queued_bytes += len(push.data)
        while (
            len(entry.pushes) > self.options.max_queued
            or entry.queued_bytes > self.options.max_queued_bytes
        ):
            entry.drop_oldest()
        return True

    def take_queue(self, session: bytes) -> tuple[tuple[Push, ...], int]:
        """Remove and return the queued pushes, and the number of dropped ones."""
        entry = self._get(session)
        if entry is None:
            return (), 0
        taken = tuple(entry.pushes), entry.dropped
        entry.pushes.clear()
        entry.queued_bytes = entry.dropped = 0
        return taken

    def _get(self, session: bytes) -> _Entry | None:
        return self._ready.get(session) or self._unready.get(session)

    def _alive(self, session: bytes, now: float) -> _Entry | None:
        entry = self._get(session)
        if entry is not None and entry.ends <= now:
            self._remove(session)
            return None
        return entry

    def _remove(self, session: bytes) -> _Entry | None:
        return self._ready.pop(session, None) or self._unready.pop(session, None)

    def _place(self, session: bytes, entry: _Entry) -> None:
        """Store an entry as the most recently used."""
        states = self._ready if entry.state.ready else self._unready
        states[session] = entry
        states.move_to_end(session)


# -- keys of the two ends (§4.2), found by KEY_ID --------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKey:
    """How a client authenticates its server; exactly one of the three."""

    pinned: bytes | None = None
    """The server's static X25519 key, its public half."""
    psk: bytes | None = field(default=None, repr=False)
    """A shared key of 32 random bytes; a passphrase could be guessed from an ACK."""
    allow_anonymous: bool = False
    """Accept any server. Protects against passive listeners only."""

    def __post_init__(self) -> None:
        given = (self.pinned is not None) + (self.psk is not None) + self.allow_anonymous
        if given != 1:
            detail = "expected one of pinned=, psk= and allow_anonymous=True"
            raise EncodeError("bad_config", "key", detail=detail)
        for name, key in (("pinned", self.pinned), ("psk", self.psk)):
            if key is not None and len(key) != KEY_SIZE:
                raise EncodeError("bad_config", name, detail=f"expected exactly {KEY_SIZE} bytes")

    @property
    def mode(self) -> Mode:
        """The mode of a first connection."""
        if self.pinned is not None:
            return Mode.PINNED
        return Mode.PSK if self.psk is not None else Mode.ANONYMOUS

    @property
    def key_id(self) -> bytes | None:
        """KEY_ID of a SYN; None in anonymous mode."""
        if self.pinned is not None:
            return server_key_id(self.pinned)
        return psk_key_id(self.psk) if self.psk is not None else None


class Chosen(NamedTuple):
    """The key that a SYN names, and its mode."""

    mode: Mode
    static_private: bytes | None = None
    psk: bytes | None = None


class ServerKeys:
    """All keys of a server; one object serves all its connections."""

    __slots__ = ("_by_id",)

    def __init__(
        self,
        *,
        static: Iterable[bytes] = (),
        psks: Iterable[bytes] = (),
        allow_anonymous: bool = False,
    ):
        self._by_id: dict[bytes | None, Chosen] = {}
        for private in static:
            found = Chosen(Mode.PINNED, static_private=private)
            self._by_id[server_key_id(x25519_public(private))] = found
        for psk in psks:
            self._by_id[psk_key_id(psk)] = Chosen(Mode.PSK, psk=psk)
        if allow_anonymous:
            self._by_id[None] = Chosen(Mode.ANONYMOUS)
        if not self._by_id:
            detail = "expected a static key, a psk, or allow_anonymous=True"
            raise EncodeError("bad_config", "keys", detail=detail)

    def find(self, key_id: bytes | None) -> Chosen:
        """Return the key of a SYN, by its KEY_ID; without one the mode is anonymous."""
        chosen = self._by_id.get(key_id)
        if chosen is None:
            raise DecodeError("handshake_failed", "frame.key_id")
        return chosen
