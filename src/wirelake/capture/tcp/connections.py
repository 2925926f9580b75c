"""`ConnectionTable`: assigns segments to connections and directions, and computes connection ids.

The rules are *Connections* in `docs/concepts/captures.md`. What that page leaves open:

- A closed connection is kept for a minute of capture time, so that late retransmissions belong to
  it (as TCP keeps its state in TIME_WAIT). A later packet opens a new one.
- At most `limit` connections are held. The one that was idle for longest is dropped for a new one.
- A recorded connection is identified by its id alone, and the recorder marks the direction.
- A SYN for a port that an open connection uses (which was neither closed nor reset) opens another
  one, and both are held until a further packet fits the new one. Until then, packets that do not
  fit it belong to the old one: late answers, or all of them if nobody answers the SYN.
- When a connection begins with a SYN-ACK, the SYN that was not captured has the sequence number
  before the acknowledged one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from wirelake.records.tunnels import fnv1a_63

from ..format.items import Direction, Segment
from .headers import ACK, FIN, RST, SYN

__all__ = [
    "CONFIRMING_BYTES",
    "GRACE_NS",
    "LIMIT",
    "Assigned",
    "Connection",
    "ConnectionTable",
    "Endpoint",
    "connection_id",
]

GRACE_NS: Final = 60_000_000_000
"""How long a closed connection is kept: as long as a segment waits for a hole (`WAITING_NS`)."""
LIMIT: Final = 262_144
"""Default maximum of connections: some kilobytes each, so about a gigabyte."""

CONFIRMING_BYTES: Final = 1 << 20
"""How far the first packets of a connection may be behind its SYN: the numbers of another
connection are as close with a probability of 1 in 4,096."""

_MASK32: Final = (1 << 32) - 1
_MASK64: Final = (1 << 64) - 1


class Endpoint(NamedTuple):
    """An address of 4 or 16 bytes, and a port."""

    address: bytes
    port: int


_Key: TypeAlias = int | tuple[Endpoint, Endpoint] | tuple[Endpoint, Endpoint, str]
"""A recorder's id, or both endpoints in a fixed order; with a mark for a connection set aside."""
_ASIDE: Final = "aside"


def connection_id(client: Endpoint, server: Endpoint, first_ns: int, before: int = 0) -> int:
    """Return the id of a connection whose first packet was captured at `first_ns`.

    `before` is the id of the connection that it replaces, if their times do not differ.
    """
    return fnv1a_63(
        client.address
        + client.port.to_bytes(2, "big")
        + server.address
        + server.port.to_bytes(2, "big")
        + (first_ns & _MASK64).to_bytes(8, "big")
        + (before.to_bytes(8, "big") if before else b"")
    )


class Connection:
    """A connection: two endpoints and a first packet."""

    __slots__ = (
        "_closed",
        "_key",
        "_reset",
        "began_seq",
        "client",
        "id",
        "is_confirmed",
        "known_ns",
        "server",
    )

    def __init__(
        self,
        key: _Key,
        number: int,
        client: Endpoint,
        server: Endpoint,
        began_seq: int,
        known_ns: int = 0,
    ):
        self.id = number
        self.known_ns = known_ns
        """When it began or, once it is over, when it ended: a later one has another id."""
        self.is_confirmed = True
        """False while an open connection of the same endpoints is set aside for it."""
        self.client = client
        self.server = server
        self.began_seq = began_seq
        """The sequence number of the SYN, or of the first packet."""
        self._key = key
        self._closed: set[Direction] = set()
        self._reset = False

    @property
    def over(self) -> bool:
        """Whether both directions are closed, or the connection was reset."""
        return self._reset or len(self._closed) == 2

    def replaces(self, other: Connection) -> bool:
        """Return whether both have the same endpoints."""
        if isinstance(self._key, int) or isinstance(other._key, int):
            return self._key == other._key
        return self._key[:2] == other._key[:2]

    def has_begun(self, segment: Segment) -> bool:
        """Return whether a segment fits the beginning of the connection, behind its SYN."""
        is_mine = (segment.src, segment.src_port) == self.client
        number = segment.seq if is_mine else segment.ack
        return (number - self.began_seq - 1) & _MASK32 < CONFIRMING_BYTES

    def note(self, flags: int, direction: Direction) -> None:
        """Record FIN and RST of a segment."""
        if flags & FIN:
            self._closed.add(direction)
        if flags & RST:
            self._reset = True


class Assigned(NamedTuple):
    """The connection of a segment, and the connections that are dropped for it."""

    connection: Connection
    direction: Direction
    dropped: list[Connection]


class ConnectionTable:
    """The connections of a capture; `limit` bounds the memory."""

    def __init__(
        self,
        server_ports: Collection[int] = (),
        *,
        limit: int = LIMIT,
        grace_ns: int = GRACE_NS,
    ):
        if limit < 1:
            raise ValueError("limit: expected at least 1 connection")
        self._server_ports = frozenset(server_ports)
        self._limit = limit
        self._grace_ns = grace_ns
        self._held: OrderedDict[_Key, Connection] = OrderedDict()
        self._closed_since: deque[tuple[int, Connection]] = deque()
        self._now_ns = 0

    def __len__(self) -> int:
        return len(self._held)

    def assign(self, segment: Segment) -> Assigned:
        """Return the connection of a segment, opening one if needed."""
        packet = segment.packet
        # Never backwards: merged captures and several interfaces are slightly out of order.
        self._now_ns = max(self._now_ns, packet.ts_ns)
        dropped = self._drop_closed()
        source = Endpoint(segment.src, segment.src_port)
        target = Endpoint(segment.dst, segment.dst_port)
        # Sorted endpoints, so that both directions have the same key.
        key: _Key = packet.connection or (
            (source, target) if source <= target else (target, source)
        )
        found = self._held.get(key)
        before: Connection | None = None
        if found is not None and _is_new_connection(found, segment):
            before = self._held.pop(key)
            if before.over or not before.is_confirmed:
                dropped.append(before)
            else:
                self._set_aside(before)
            found = None
        elif found is not None and not found.is_confirmed and not _is_syn(segment):
            found = self._confirmed(found, segment, dropped)
            key = found._key
        if found is None:
            found = self._begin(key, segment, source, target, before)
            self._held[key] = found
            # After the new one was added, so that it cannot evict itself.
            if len(self._held) > self._limit:
                dropped.append(self._held.popitem(last=False)[1])
        else:
            # An OrderedDict is the list by last use: the first entry is the one to evict.
            self._held.move_to_end(key)
        direction = packet.direction or ("c2s" if source == found.client else "s2c")
        was_over = found.over
        found.note(segment.flags, direction)
        if found.over and not was_over:
            found.known_ns = self._now_ns
            self._closed_since.append((self._now_ns, found))
        return Assigned(found, direction, dropped)

    def _set_aside(self, connection: Connection) -> None:
        """Hold an open connection under another key, until the next one is confirmed."""
        assert not isinstance(connection._key, int)
        connection._key = (*connection._key[:2], _ASIDE)
        self._held[connection._key] = connection

    def _confirmed(
        self, found: Connection, segment: Segment, dropped: list[Connection]
    ) -> Connection:
        """Return the connection of a segment: an unconfirmed one, or the one set aside for it."""
        assert not isinstance(found._key, int)
        key = (*found._key[:2], _ASIDE)
        aside = self._held.get(key)
        if aside is not None and not found.has_begun(segment):
            return aside
        found.is_confirmed = True
        if aside is not None:
            dropped.append(self._held.pop(key))
        return found

    def finish(self) -> list[Connection]:
        """Remove and return all connections, the longest idle first."""
        left = list(self._held.values())
        self._held.clear()
        self._closed_since.clear()
        return left

    def _drop_closed(self) -> list[Connection]:
        dropped: list[Connection] = []
        while self._closed_since and self._closed_since[0][0] + self._grace_ns <= self._now_ns:
            _, connection = self._closed_since.popleft()
            # It may have been replaced or evicted meanwhile; then the key belongs to another
            # connection or to none.
            if self._held.get(connection._key) is connection:
                dropped.append(self._held.pop(connection._key))
        return dropped

    def _begin(
        self,
        key: _Key,
        segment: Segment,
        source: Endpoint,
        target: Endpoint,
        before: Connection | None,
    ) -> Connection:
        packet = segment.packet
        forward = self._from_client(segment)
        client, server = (source, target) if forward else (target, source)
        known_ns, same = packet.ts_ns, 0
        if before is not None and known_ns <= before.known_ns:
            known_ns, same = before.known_ns, before.id
        number = packet.connection or connection_id(client, server, packet.ts_ns, same)
        syn_ack = segment.flags & SYN and segment.flags & ACK
        began = (segment.ack - 1) & _MASK32 if syn_ack else segment.seq
        found = Connection(key, number, client, server, began, known_ns)
        found.is_confirmed = before is None or (before.over and before.is_confirmed)
        return found

    def _from_client(self, segment: Segment) -> bool:
        """Return whether the first packet of a connection comes from its client."""
        if segment.packet.direction is not None:
            return segment.packet.direction == "c2s"
        if segment.flags & SYN:
            return not segment.flags & ACK
        known = segment.src_port in self._server_ports, segment.dst_port in self._server_ports
        if known[0] != known[1]:
            return known[1]
        return segment.src_port >= segment.dst_port


def _is_new_connection(old: Connection, segment: Segment) -> bool:
    """Return whether a segment opens a new connection between the endpoints of an old one.

    A SYN with the sequence number of the old one is its retransmission. Any other packet after the
    close still belongs to the old connection.
    """
    if segment.packet.connection is not None:
        return False
    if not _is_syn(segment):
        return False
    return old.over or segment.seq != old.began_seq


def _is_syn(segment: Segment) -> bool:
    return segment.flags & (SYN | ACK) == SYN
