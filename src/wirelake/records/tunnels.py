"""Tunnels: virtual connections inside links, and the engine behind the table `tunnels`.

Implements "Tunnels" of `docs/concepts/matching.md`. The id of a tunnel is defined in "Connections"
of `docs/concepts/captures.md`: a hash of the gateway's two ids, because a tunnel outlives the link
that carries it and needs one id on all of them.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

import msgspec

from wirelake.wire.meaning import Tunnels

from .engine import Engine, EngineLimits, oldest
from .protocol_rules import ADDRESS, PORT, RESULT, rules_of
from .rows import Closed, MessageRow

__all__ = [
    "FNV_BASIS",
    "FNV_PRIME",
    "TunnelRow",
    "TunnelsEngine",
    "fnv1a_63",
    "is_refusal",
    "tunnel_connection",
    "tunnel_of",
]


FNV_BASIS: Final = 0xCBF29CE484222325
"""The first value of 64-bit FNV-1a."""
FNV_PRIME: Final = 0x100000001B3
"""The factor of 64-bit FNV-1a."""
_MASK: Final = (1 << 64) - 1


def fnv1a_63(data: bytes) -> int:
    """Return a hash that fits an int64: 64-bit FNV-1a shifted right by one, and 1 instead of 0."""
    # Stable across processes and versions, unlike hash(), and a few instructions in a kernel: the
    # ids of both readers must be equal.
    value = FNV_BASIS
    for byte in data:
        value = ((value ^ byte) * FNV_PRIME) & _MASK
    return (value >> 1) or 1


def tunnel_connection(instance_id: int, tunnel_id: int) -> int:
    """Return the connection id of a tunnel."""
    ids = ((number & _MASK).to_bytes(8, "big") for number in (instance_id, tunnel_id))
    return fnv1a_63(b"tunnel" + b"".join(ids))


def tunnel_of(target: str | None) -> tuple[int, int] | None:
    """Return instance id and tunnel id from the column `target` of a link's message."""
    if target is None:
        return None
    instance, _, tunnel = target.partition("/")
    try:
        return int(instance), int(tunnel)
    except ValueError:
        return None


def is_refusal(tunnels: Tunnels, row: MessageRow) -> bool:
    """Return whether a message refuses a tunnel."""
    return row.name == tunnels.connected and (row.fields or {}).get(RESULT) is False


_ENDS: Final = {"c2s": "gateway", "s2c": "server"}


class TunnelRow(msgspec.Struct, gc=False):
    """A row of `tunnels`. It is filled in until the tunnel ends."""

    connection: int
    instance_id: int | None = None
    tunnel_id: int | None = None
    outcome: str | None = None
    user_address: str | None = None
    user_port: int | None = None
    first_link: int | None = None
    last_link: int | None = None
    switches: int = 0
    opened_ns: int | None = None
    connected_ns: int | None = None
    closed_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    closed_by: str | None = None
    messages_c2s: int = 0
    messages_s2c: int = 0
    bytes_c2s: int = 0
    bytes_s2c: int = 0
    late_messages: int = 0

    def seen(self, ts_ns: int, link: int) -> None:
        """Note the time and the link of an event."""
        if self.first_ns is None:
            self.first_ns = ts_ns
            self.first_link = link
        elif link != self.last_link:
            self.switches += 1
        self.last_ns = ts_ns
        self.last_link = link

    def count(self, row: MessageRow) -> None:
        """Count a message."""
        if row.direction == "c2s":
            self.messages_c2s += 1
            self.bytes_c2s += row.size_bytes
        else:
            self.messages_s2c += 1
            self.bytes_s2c += row.size_bytes
        self.late_messages += self.outcome is not None

    def end(self, row: MessageRow, outcome: str) -> None:
        """End the tunnel."""
        self.outcome = outcome
        self.closed_ns = row.ts_ns
        self.closed_by = _ENDS[row.direction]


class _TunnelsState(msgspec.Struct):
    open: list[TunnelRow]
    over: list[TunnelRow]
    closed_links: list[int]
    ready: list[TunnelRow]


class TunnelsEngine(Engine[TunnelRow]):
    """Follows tunnels across the links that carry them."""

    def __init__(self, limits: EngineLimits | None = None):
        super().__init__(limits)
        self._forget()

    def _forget(self) -> None:
        self._open: dict[int, TunnelRow] = {}
        self._over: dict[int, TunnelRow] = {}
        """Tunnels that have ended; messages for them may still arrive."""
        self._closed_links: dict[int, None] = {}
        self._ready = []

    def feed(self, row: MessageRow) -> None:
        """Handle a message in a tunnel, or a message of a link about one."""
        if row.tunnel_link is not None:
            found = self._open.get(row.connection) or self._of(row.connection)
            found.seen(row.ts_ns, row.tunnel_link)
            found.count(row)
            return
        rules = rules_of(row.protocol)
        if rules.tunnels is not None and row.name in rules.tunnel_messages:
            tunnel = tunnel_of(row.target)
            if tunnel is not None:
                self._packet(rules.tunnels, row, *tunnel)

    def _of(self, connection: int) -> TunnelRow:
        return self._open.get(connection) or self._over.get(connection) or self._new(connection)

    def _new(self, connection: int) -> TunnelRow:
        found = self._open[connection] = TunnelRow(connection)
        for _, over in oldest(self._open, self.limits.tunnels):
            self._emit(over)
        return found

    def _packet(self, tunnels: Tunnels, row: MessageRow, instance_id: int, tunnel_id: int) -> None:
        connection = tunnel_connection(instance_id, tunnel_id)
        if row.name == tunnels.connect:
            self._connect(row, connection)
        elif connection not in self._open and connection not in self._over:
            if row.name == tunnels.disconnect:
                return  # the answer to a message for an unknown tunnel: it opens none
            self._new(connection)
        found = self._of(connection)
        found.instance_id, found.tunnel_id = instance_id, tunnel_id
        if row.name != tunnels.carrier:  # its message has a row of its own
            found.seen(row.ts_ns, row.connection)
        if found.outcome is not None:
            return
        if is_refusal(tunnels, row):
            self._end(found, row, "refused")
        elif row.name == tunnels.connected:
            if found.connected_ns is None:
                found.connected_ns = row.ts_ns
        elif row.name == tunnels.disconnect:
            self._end(found, row, "closed")

    def _connect(self, row: MessageRow, connection: int) -> None:
        """Open a tunnel, replacing one with the same ids."""
        # Gateways reuse tunnel ids: a second TUNNEL_CONNECT starts another row.
        before = self._open.pop(connection, None) or self._over.pop(connection, None)
        if before is not None:
            if before.outcome is None:
                before.end(row, "replaced")
            self._emit(before)
        found = self._new(connection)
        found.opened_ns = row.ts_ns
        fields = row.fields or {}
        found.user_address, found.user_port = _address(fields.get(ADDRESS)), fields.get(PORT)

    def _end(self, found: TunnelRow, row: MessageRow, outcome: str) -> None:
        found.end(row, outcome)
        self._over[found.connection] = self._open.pop(found.connection)
        for _, over in oldest(self._over, self.limits.closed_tunnels):
            self._emit(over)

    def carried_by(self, link: int) -> list[int]:
        """Return the open tunnels whose last event was on a link."""
        return [each.connection for each in self._open.values() if each.last_link == link]

    def closed(self, event: Closed) -> None:
        """Note the end of a link. Its tunnels may move to another link."""
        # So a tunnel is `lost` only at the end of the input, if no other link has carried it since.
        self._closed_links[event.connection] = None
        for _ in oldest(self._closed_links, self.limits.connections):
            pass

    def finish(self) -> None:
        """End the input. A tunnel whose link has ended is lost, others are open."""
        for found in (*self._over.values(), *self._open.values()):
            self._emit(found)
        ready = self._ready
        self._forget()
        self._ready = ready

    def _emit(self, row: TunnelRow) -> None:
        if row.outcome is None:
            row.outcome = "lost" if row.last_link in self._closed_links else "open"
        self._ready.append(row)

    def state(self) -> Any:
        """Return the whole memory as plain data, including rows that were not taken yet."""
        state = _TunnelsState(
            list(self._open.values()),
            list(self._over.values()),
            list(self._closed_links),
            self._ready,
        )
        return msgspec.to_builtins(state)

    def restore(self, state: Any) -> None:
        """Replace the memory by what `state` returned."""
        found = msgspec.convert(state, _TunnelsState)
        self._forget()
        self._open = {row.connection: row for row in found.open}
        self._over = {row.connection: row for row in found.over}
        self._closed_links = dict.fromkeys(found.closed_links)
        self._ready = found.ready


def _address(packed: bytes | None) -> str | None:
    """Return a packed address of 4 or 16 bytes as text."""
    if packed is None or len(packed) not in (4, 16):
        return None
    return str(ipaddress.ip_address(packed))
