"""Connections: the rules of `wirelake.records.connections`, on arrays.

Implements "Connections" of `docs/concepts/matching.md`. `connections` and `deliveries` differ in
who is signed on: a fact about a connection of which nothing was captured counts for deliveries
only. So a record has both.
"""

from __future__ import annotations

from typing import Final

from ..jit.options import Int, S, U, inline, kernel
from .event_arrays import (
    ADDRESS,
    BY,
    CLAIMS,
    CLIENT,
    CLIENT_PORT,
    CONFIRMS,
    CONTROL,
    EXTRA,
    FIRST,
    FLAGS,
    FROM_SERVER,
    GAP,
    HANDSHAKE,
    HEARTBEAT,
    HOW,
    KIND,
    PROTOCOL,
    PUSH,
    REASON,
    REQUEST,
    RESPONSE,
    RESUMES,
    SERVER_ADDRESS,
    SERVER_PORT,
    SIZE,
    STATUS,
    TS,
    WHOLE,
    EventArrays,
)
from .tables import CLOSED, KNOWN, NO, NOTHING, SIGNED, Tables, free_slot

__all__ = [
    "begin_row",
    "count_fault",
    "count_message",
    "emit_row",
    "end_row",
    "fact_of_client",
    "fact_of_close",
]

_OK: Final = KNOWN.index("ok")
_EMPTY: Final = KNOWN.index("")


@inline
def _see(t: Tables, slot: Int, ts_ns: Int) -> None:
    found = t.connections[U(slot)]
    found.seen = 1
    if found.first_ns == NOTHING or ts_ns < found.first_ns:
        found.first_ns = ts_ns
    if found.last_ns == NOTHING or ts_ns > found.last_ns:
        found.last_ns = ts_ns


@kernel
def count_message(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Count a message."""
    found = t.connections[U(slot)]
    if found.protocol < 0:
        found.protocol = e.narrow[PROTOCOL, U(i)]
    _see(t, slot, S(e.wide[FIRST, U(i)]))
    _see(t, slot, S(e.wide[TS, U(i)]))
    flags, kind = S(e.narrow[FLAGS, U(i)]), S(e.narrow[KIND, U(i)])
    if flags & FROM_SERVER:
        found.messages_s2c += 1
        found.bytes_s2c += e.wide[SIZE, U(i)]
    else:
        found.messages_c2s += 1
        found.bytes_c2s += e.wide[SIZE, U(i)]
    if kind == REQUEST:
        found.requests += 1
    elif kind == RESPONSE:
        status = e.narrow[STATUS, U(i)]
        found.failures += 1 if status >= 0 and status != _OK else 0
    elif kind == PUSH:
        found.pushes += 1
    if flags & HEARTBEAT:
        found.heartbeats += 1
    if flags & CONFIRMS or (e.narrow[CLIENT, U(i)] >= 0 and not flags & CLAIMS):
        _signs_on(t, e, i, slot)
    if kind == HANDSHAKE:
        _handshake(t, e, i, slot)
    # The first control message with a reason counts, unless a fact has given one.
    elif kind == CONTROL and found.close_reason in (NO, _EMPTY):
        reason = e.narrow[REASON, U(i)]
        found.close_reason = found.close_reason if reason < 0 else reason
    extra = S(e.narrow[EXTRA, U(i)])
    if extra >= 0:
        found.network_type = e.extras[0, U(extra)]
        found.isp = e.extras[1, U(extra)]
        found.phone_type = e.extras[2, U(extra)]


@kernel
def _signs_on(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Record a sign-on, or its confirmation by the server."""
    found = t.connections[U(slot)]
    client = S(e.narrow[CLIENT, U(i)])
    if client >= 0:
        if not found.receiver_confirmed:
            found.receiver = client
        if not found.confirmed:
            found.signed_on = client
        _changed(t, e, i, slot, S(e.narrow[PROTOCOL, U(i)]))
    if e.narrow[FLAGS, U(i)] & CONFIRMS:
        found.confirmed = 1 if found.signed_on >= 0 else 0
        found.receiver_confirmed = 1 if found.receiver >= 0 else 0


@inline
def _changed(t: Tables, e: EventArrays, i: Int, slot: Int, protocol: Int) -> None:
    """Record that a connection has another client than before."""
    found = t.connections[U(slot)]
    if found.signed_on != found.client:
        found.client, found.signed_on_ns = found.signed_on, e.wide[TS, U(i)]
        at = t.counts[SIGNED]
        e.signed[0, U(at)], e.signed[1, U(at)], e.signed[2, U(at)] = i, found.client, protocol
        t.counts[SIGNED] += 1


@inline
def _handshake(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Measure a handshake, from client's to server's first message, and record a resumption."""
    found = t.connections[U(slot)]
    flags = S(e.narrow[FLAGS, U(i)])
    if not flags & FROM_SERVER:
        found.handshake_start_ns = e.wide[TS, U(i)]
        if flags & RESUMES:
            found.resumed = 0
    elif found.handshake_start_ns != NOTHING:
        found.handshake_ns = e.wide[TS, U(i)] - found.handshake_start_ns
        if found.resumed >= 0:
            found.resumed = 1


@kernel
def count_fault(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Count a fault or a gap."""
    found = t.connections[U(slot)]
    _see(t, slot, S(e.wide[TS, U(i)]))
    if found.protocol < 0:
        found.protocol = e.narrow[PROTOCOL, U(i)]
    found.faults += 1
    if e.narrow[FLAGS, U(i)] & GAP:
        found.gaps += 1
        found.missing_bytes += e.wide[SIZE, U(i)]


@kernel
def begin_row(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Set the addresses, and when the connection began."""
    found = t.connections[U(slot)]
    _see(t, slot, S(e.wide[TS, U(i)]))
    if e.narrow[FLAGS, U(i)] & WHOLE:
        found.opened_ns = e.wide[TS, U(i)]
    if found.protocol < 0:
        found.protocol = e.narrow[PROTOCOL, U(i)]
    found.client_address, found.client_port = e.narrow[ADDRESS, U(i)], e.wide[CLIENT_PORT, U(i)]
    found.server_address = e.narrow[SERVER_ADDRESS, U(i)]
    found.server_port = e.wide[SERVER_PORT, U(i)]


@kernel
def end_row(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Set when and how it ended, and by whom unless a fact named that."""
    found = t.connections[U(slot)]
    _see(t, slot, S(e.wide[TS, U(i)]))
    found.closed_ns, found.closed_how = e.wide[TS, U(i)], e.narrow[HOW, U(i)]
    if found.closed_by < 0:
        found.closed_by = e.narrow[BY, U(i)]


@inline
def fact_of_close(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Set why the hub closed it."""
    found = t.connections[U(slot)]
    if e.narrow[REASON, U(i)] >= 0:
        found.close_reason = e.narrow[REASON, U(i)]
    if e.narrow[BY, U(i)] >= 0:
        found.closed_by = e.narrow[BY, U(i)]


@inline
def fact_of_client(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Set the client that a fact names."""
    found = t.connections[U(slot)]
    client = S(e.narrow[CLIENT, U(i)])
    if not found.receiver_confirmed:
        found.receiver = client
    if not found.caller_confirmed:
        found.caller = client
    if found.seen and found.protocol >= 0:
        if not found.confirmed:
            found.signed_on = client
        _changed(t, e, i, slot, S(found.protocol))


@kernel
def emit_row(t: Tables, slot: Int) -> None:
    """Move a connection to the final ones, and free its slot."""
    if t.connections[U(slot)].seen:
        t.closed[U(t.counts[CLOSED])] = t.connections[U(slot)]
        t.counts[CLOSED] += 1
    free_slot(t, slot)
