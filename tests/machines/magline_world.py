"""Connections of the magline machine: sessions, corruptible bytes, and a log of messages.

A `Connection` is a client and a server session with the bytes in flight between them. It
records what was sent and compares what was received: messages come in order, none twice, none
invented, and none is missing from a connection that ends cleanly.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wirelake.protocols.magline.endpoint import ANSWERS, reason_name
from wirelake.protocols.magline.layout import ErrorNumber, Reason
from wirelake.protocols.magline.limits import MAX_PINGS, ClientOptions, ServerOptions
from wirelake.protocols.magline.session import (
    Authenticated,
    ClientSession,
    Established,
    Pushed,
    Refused,
    Replied,
    Requested,
    RequestFailed,
    RequestLost,
    Resumed,
    ServerSession,
)
from wirelake.protocols.sansio import CLOSED, Closed, Event, Failed, Side
from wirelake.wire.errors import CODES

CLIENT_OPTIONS = ClientOptions(max_requests=5, max_frame=2048)
SERVER_OPTIONS = ServerOptions(max_requests=3, max_frame=2048)
CODES_OF_MAGLINE = {*ANSWERS, "too_busy", "unexpected_reply", "idle", "short"}
REASONS = {
    *ANSWERS,
    *(reason_name(reason) for reason in Reason),
    "eof",
    "refused",
    "untrusted_fin",
}
assert set(CODES) >= CODES_OF_MAGLINE


@dataclass
class Pushes:
    """Expected queue of pushes for an offline client."""

    waiting: list[int] = field(default_factory=list)
    dropped: int = 0

    def add(self, number: int, most: int) -> None:
        self.waiting.append(number)
        if len(self.waiting) > most:
            del self.waiting[0]
            self.dropped += 1


class Wire:
    """Bytes in flight in one direction, with the starts of frames."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.starts: list[int] = []
        self._sent, self._gone = bytearray(), bytearray()
        self._spoiled_before = False

    def __len__(self) -> int:
        return len(self.bytes)

    def add(self, data: bytes) -> None:
        """Add whole frames, as a session writes them."""
        pos = 0
        while pos < len(data):
            self.starts.append(len(self.bytes) + pos)
            pos += 16 + int.from_bytes(data[pos + 12 : pos + 16], "big")
        self.bytes += data
        self._sent += data

    @property
    def corrupted(self) -> bool:
        """Whether the received bytes differ from the sent ones."""
        return self._spoiled_before or self._gone + self.bytes != self._sent

    def take(self, count: int) -> bytes:
        data = bytes(self.bytes[:count])
        del self.bytes[:count]
        self._gone += data
        self.starts = [start - len(data) for start in self.starts if start >= len(data)]
        return data

    def corrupt(self, how: str, at: int, count: int) -> None:
        """Alters a byte, drops some or lets some come twice; a count of 0 is a whole frame."""
        start, stop = at % len(self.bytes), at % len(self.bytes) + count
        if not count and self.starts:
            which = at % len(self.starts)
            start = self.starts[which]
            stop = [*self.starts, len(self.bytes)][which + 1]
        if how == "alter":
            self.bytes[start] ^= count or 1
        elif how == "drop":
            del self.bytes[start : max(stop, start + 1)]
        else:
            self.bytes[start:start] = self.bytes[start : max(stop, start + 1)]
        self.starts = []  # what follows is anybody's guess

    def clear(self) -> None:
        """Drop the bytes in flight."""
        self._spoiled_before = self.corrupted
        self.take(len(self.bytes))
        self._sent, self._gone = bytearray(), bytearray()


class Connection:
    """Two sessions, two wires, and the messages that crossed them."""

    def __init__(self, client: ClientSession, server: ServerSession):
        self.client = client
        self.server = server
        self.up, self.down = Wire(), Wire()
        self.deaf = False
        self.asked: list[tuple[int, int, bytes]] = []
        self.heard = 0
        self.answers: dict[int, bytes | int] = {}
        self.open_requests: dict[int, int] = {}
        self.outcomes: dict[int, Event] = {}
        self.pushed: list[int] = []
        self.received: list[int] = []
        self.ends: dict[str, Closed] = {}
        self.server_events: list[Event] = []

    @property
    def corrupted(self) -> bool:
        return self.up.corrupted or self.down.corrupted

    @property
    def quiet(self) -> bool:
        return not self.up and not self.down

    @property
    def live(self) -> bool:
        return not (self.client.closed and self.server.closed)

    # -- bytes -------------------------------------------------------------------------------

    def collect(self) -> None:
        """What the sessions want to send goes on the wires; events are checked and noted."""
        self.up.add(self.client.to_send())
        down = self.server.to_send()
        self.down.add(b"" if self.deaf else down)
        for event in self.client.events():
            self._note("client", event)
            self._client_says(event)
        for event in self.server.events():
            self._note("server", event)
            self._server_says(event)
            self.server_events.append(event)

    def deliver(self, upward: bool, count: int, now: float) -> None:
        """Some bytes arrive, in one piece; a side that has closed lets the other know."""
        wire = self.up if upward else self.down
        target = self.server if upward else self.client
        source = self.client if upward else self.server
        target.receive(wire.take(count), now)
        if source.closed and not wire and not (upward and self.deaf):
            target.receive_eof()
        self.collect()

    def corrupt(self, how: str, upward: bool, at: int, count: int) -> None:
        """Alters a byte, drops some, or lets some come twice."""
        wire = self.up if upward else self.down
        if wire:
            wire.corrupt(how, at, count)

    def lose_client(self, *, noticed: bool) -> None:
        """The connection is lost with its bytes in flight; the server may not know."""
        self.deaf = True
        self.up.clear()
        self.down.clear()
        self.client.receive_eof()
        if noticed:
            self.server.receive_eof()
        self.collect()
        self.up.clear()

    def close(self, by_client: bool, reason: int | None) -> None:
        """Close by the application; without a reason, abort."""
        session = self.client if by_client else self.server
        if session.closed:
            return
        if reason is None:
            session.abort(ErrorNumber.INTERNAL)
        else:
            session.close(reason)

    # -- what is heard -----------------------------------------------------------------------

    def _note(self, who: str, event: Event) -> None:
        assert who not in self.ends, f"{event} after {self.ends[who]}"
        if isinstance(event, Failed):
            assert event.code in CODES_OF_MAGLINE, event
        if isinstance(event, Closed):
            assert event.reason in REASONS, event
            self.ends[who] = event

    def _client_says(self, event: Event) -> None:
        match event:
            case Pushed():
                self.received.append(int(event.data))
                assert self.pushed[: len(self.received)] == self.received
            case Replied():
                assert self.answers[event.seq] == event.data
                self._outcome(event.seq, event)
            case RequestFailed():
                assert self.answers[event.seq] == event.error_number
                self._outcome(event.seq, event)
            case RequestLost():
                self._outcome(event.seq, event)
            case Closed() if event.clean and event.side is Side.REMOTE:
                assert self.received == self.pushed
            case Refused():
                assert self.server.closed or self.corrupted or self.deaf

    def _server_says(self, event: Event) -> None:
        match event:
            case Requested():
                assert self.asked[self.heard] == (event.seq, event.business_cmd, event.data)
                self.heard += 1
                self.open_requests[event.seq] = event.business_cmd
            case Failed(code="too_busy"):
                self.answers[self.asked[self.heard][0]] = 11
                self.heard += 1
            case Closed():
                self.open_requests.clear()
                if event.clean and event.side is Side.REMOTE:
                    assert self.heard == len(self.asked)

    def _outcome(self, seq: int, event: Event) -> None:
        assert seq not in self.outcomes, f"{event} after {self.outcomes[seq]}"
        assert any(asked[0] == seq for asked in self.asked)
        self.outcomes[seq] = event

    # -- what must always hold ---------------------------------------------------------------

    def check(self) -> None:
        client, server = self.client, self.server
        assert client.in_flight <= client.options.max_requests
        assert len(client._requests) <= 2 * client.options.max_requests
        assert len(client._pings) <= MAX_PINGS
        assert server.unanswered <= server.options.max_requests
        for session in (client, server):
            limit = 2048 if session.established else 512
            assert session.buffered <= 16 + limit
            assert len(session.timers) <= 6
            assert session.closed == (session.next_timer() is None) or session.state == "new"
        for who, session in (("client", client), ("server", server)):
            assert session.closed == (who in self.ends)
        if client.closed:
            assert {asked[0] for asked in self.asked} == set(self.outcomes)
        if self.quiet and not self.corrupted and not self.deaf:
            self._agree()

    def _agree(self) -> None:
        """With nothing in flight, both ends agree or both are closed."""
        client, server = self.client, self.server
        if CLOSED not in {client.state, server.state}:
            assert client.state in {"open", "refused"}
            assert server.state in {"open", "ordering", "deciding", "refused"}
            assert client.session_id == server.session_id
            assert (client.mode, client.exporter) == (server.mode, server.exporter)
            assert client._seq_out.last == server._seq_in.last
            assert server._seq_out.last == client._seq_in.last
            assert self.received == self.pushed
            assert self.heard == len(self.asked)


def lineage(event: Event) -> Any:
    """The events that tell how sessions follow each other."""
    return event if isinstance(event, Established | Resumed | Authenticated) else None
