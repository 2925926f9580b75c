"""What resuming a magline session needs: a server's states, a client's ticket (§4.10, §6).

A state is kept under SHA-256 of its session id, so that a copy of the store gives no ids away. It
lives `ttl_s` after a disconnect and `lifetime_s` from the first authentication, whatever happens;
the number of states is bounded, and the least recently used go first, those of clients that never
finished their ordered commands before all others.

A reSYN makes a *pending* successor. There is one at a time, the newest, so that nobody who repeats
an old reSYN keeps the owner waiting; a copy of a reSYN is not taken at all. The first frame that
verifies under the new keys confirms: `retire` exchanges the old id for the new one, once, if the
successor is still the pending one (compare and swap, also where several servers share a store).
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
    """What a session is known by outside the wire."""
    return sha256(sid).digest()


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a client needs to resume: keep it as secret as a password."""

    sid: bytes = field(repr=False)
    res: bytes = field(repr=False)
    mode: Mode
    key_id: bytes | None
    since: float
    """When the first connection was made; the server's 24 hours began no earlier."""


@dataclass(frozen=True, slots=True)
class ResumptionState:
    """What a server knows of a session."""

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
    """Where states are kept; sessions are named by `session_id_of`."""

    def save(self, session: bytes, state: ResumptionState, now: float) -> None:
        """A connection was made."""

    def update(self, session: bytes, state: ResumptionState) -> None:
        """Its client got further; nothing happens when the session is not known."""

    def find(self, session: bytes, now: float) -> ResumptionState | None:
        """Return the state that a reSYN may use."""

    def begin(self, session: bytes, successor: bytes, binder: bytes, now: float) -> bool:
        """Notes a resumption that waits to be confirmed; False for a copy of an earlier one."""

    def retire(
        self, session: bytes, successor: bytes, res: bytes, now: float
    ) -> ResumptionState | None:
        """Exchanges a session for its pending successor; None when that is no longer possible."""

    def disconnect(self, session: bytes, now: float) -> None:
        """The connection is gone: the state lives `ttl_s` longer."""

    def forget(self, session: bytes) -> None:
        """End a state."""

    def revoke(self, principal: str) -> int:
        """End all states of a principal whose credential changed; how many there were."""

    def queue(self, session: bytes, push: Push, now: float) -> bool:
        """Keep a push for a client that is away; False when the session is not known."""

    def take_queue(self, session: bytes) -> tuple[tuple[Push, ...], int]:
        """Return the pushes that waited, oldest first, and how many were dropped."""


class _Entry:
    """A state with what only the store needs."""

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
        """One push less, one counted."""
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
        """A connection was made; `now` may push out what has ended meanwhile, oldest first."""
        self._place(session, _Entry(state, state.since + self.options.lifetime_s))
        for states in (self._unready, self._ready):
            while states and next(iter(states.values())).ends <= now:
                states.popitem(last=False)
        while len(self) > self.options.max_sessions:
            (self._unready or self._ready).popitem(last=False)

    def update(self, session: bytes, state: ResumptionState) -> None:
        """The client got further; the 24 hours of an authentication begin with it."""
        entry = self._remove(session)
        if entry is not None:
            entry.state = state
            entry.ends = state.since + self.options.lifetime_s
            self._place(session, entry)

    def find(self, session: bytes, now: float) -> ResumptionState | None:
        """Return the state that a reSYN may use; one whose time is over is removed."""
        entry = self._alive(session, now)
        return None if entry is None else entry.state

    def begin(self, session: bytes, successor: bytes, binder: bytes, now: float) -> bool:
        """Return the newest resumption is the one that waits; a binder that was seen is a copy."""
        entry = self._alive(session, now)
        if entry is None or binder in entry.tried:
            return False
        entry.tried.append(binder)
        entry.pending = successor
        return True

    def retire(
        self, session: bytes, successor: bytes, res: bytes, now: float
    ) -> ResumptionState | None:
        """The successor takes over principal, order, queue and age, with a secret of its own."""
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
        """Let the state live `ttl_s` longer, but never past its 24 hours."""
        entry = self._remove(session)
        if entry is not None:
            entry.ends = min(entry.ends, now + self.options.ttl_s)
            self._place(session, entry)

    def forget(self, session: bytes) -> None:
        """End a state."""
        self._remove(session)

    def revoke(self, principal: str) -> int:
        """End all states of a principal; resumptions that wait for them fail as well."""
        count = 0
        for states in (self._ready, self._unready):
            doomed = [each for each, entry in states.items() if entry.state.principal == principal]
            count += len(doomed)
            for session in doomed:
                del states[session]
        return count

    def expire(self, now: float) -> int:
        """Remove every state whose time is over; how many there were."""
        count = 0
        for states in (self._ready, self._unready):
            over = [session for session, entry in states.items() if entry.ends <= now]
            count += len(over)
            for session in over:
                del states[session]
        return count

    def queue(self, session: bytes, push: Push, now: float) -> bool:
        """Keep a push, and drops the oldest when there are too many or too large ones."""
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
        """Empties a queue."""
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
        """As the most recently used."""
        states = self._ready if entry.state.ready else self._unready
        states[session] = entry
        states.move_to_end(session)


# Which keys the two ends of magline know each other by (§4.2), and how they are found (KEY_ID).


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKey:
    """How a client knows its server; exactly one of the three."""

    pinned: bytes | None = None
    """The server's static X25519 key, its public half."""
    psk: bytes | None = field(default=None, repr=False)
    """A shared key of 32 random bytes; a passphrase could be guessed from an ACK."""
    allow_anonymous: bool = False
    """Accept any server. Only passive listeners are kept out."""

    def __post_init__(self) -> None:
        given = (self.pinned is not None) + (self.psk is not None) + self.allow_anonymous
        if given != 1:
            detail = "wanted one of pinned=, psk= and allow_anonymous=True"
            raise EncodeError("bad_config", "key", detail=detail)
        for name, key in (("pinned", self.pinned), ("psk", self.psk)):
            if key is not None and len(key) != KEY_SIZE:
                raise EncodeError("bad_config", name, detail=f"wanted exactly {KEY_SIZE} bytes")

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
    """The key that a SYN names, and the mode that goes with it."""

    mode: Mode
    static_private: bytes | None = None
    psk: bytes | None = None


class ServerKeys:
    """All the keys that a server accepts clients by; one object serves all its connections."""

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
            detail = "wanted a static key, a psk, or allow_anonymous=True"
            raise EncodeError("bad_config", "keys", detail=detail)

    def find(self, key_id: bytes | None) -> Chosen:
        """Return the key of a SYN, by its KEY_ID; without one the mode is anonymous."""
        chosen = self._by_id.get(key_id)
        if chosen is None:
            raise DecodeError("handshake_failed", "frame.key_id")
        return chosen
