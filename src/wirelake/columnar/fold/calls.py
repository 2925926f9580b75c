"""Calls: the rules of `wirelake.records.calls` on arrays, and final records as rows.

Implements "Calls" of `docs/concepts/matching.md`. First the records of calls and what is added to
them, then what messages, faults and ends do to the calls of a connection, at last the batches of
`calls`, `connections` and `_sign_ons`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.records.calls import DUPLICATE_WINDOW_NS, EXPIRE_AFTER_NS
from wirelake.records.deliveries import CROSSING
from wirelake.records.engine import EngineLimits
from wirelake.records.schema import schema

from ..decode.meaning import Coded
from ..jit.options import Int, S, U, inline, kernel
from .event_arrays import (
    CLAIMS,
    CLIENT,
    CODE,
    CONFIRMS,
    FLAGS,
    FROM_SERVER,
    KEY,
    KIND,
    LINK,
    NUMBER,
    NUMBERED,
    PART,
    PROTOCOL,
    REASON,
    REPLIES,
    REPLY,
    REQUEST,
    RESPONSE,
    SEALED,
    SIZE,
    STATUS,
    TARGET,
    TRACE,
    TS,
    EventArrays,
)
from .pending import broken, hiding_fault, mark_unsettled, notice
from .tables import (
    ANSWERED,
    CALL_TEXTS,
    CONNECTION_TEXTS,
    DONE,
    FREE_CALLS,
    KNOWN,
    NO,
    NOTHING,
    OPEN,
    ORDER,
    Tables,
    Texts,
    add_call,
    append,
    count_of,
    find_call,
    find_slot,
    first_of,
    remove,
    remove_call,
)

__all__ = [
    "LOST",
    "ORPHAN",
    "OUTCOMES",
    "STILL_OPEN",
    "UNKNOWN",
    "add_part",
    "asked_call",
    "calls_batch",
    "complete",
    "connections_batch",
    "end_call",
    "end_calls",
    "expire_idle",
    "forget_call",
    "integers",
    "message_of_call",
    "orphan",
    "ready",
    "sign_ons_batch",
    "stream_broke",
    "unsolicited_call",
]


OUTCOMES: Final = ("answered", "failed", "lost", "unknown", "open", "orphan")
_OK, _FAILED, LOST, UNKNOWN, STILL_OPEN, ORPHAN = range(6)
"""Places in `OUTCOMES`."""
_OK_TEXT: Final = KNOWN.index("ok")
_UNFINISHED: Final = KNOWN.index("unfinished")
_UNSETTLED: Final = KNOWN.index("unsettled")
_SEALED_TEXT: Final = KNOWN.index("sealed")
_LIMIT: Final = KNOWN.index("limit")
_OPEN_LIMIT: Final = EngineLimits().open_calls
_ANSWERED_LIMIT: Final = EngineLimits().answered_calls
_BOTH: Final = 2
_SIGNS_ON: Final = 2
"""In `numbered` of a call: it has an id, and is one to sign on."""
_CALLS: Final = schema("calls")
_CONNECTIONS: Final = schema("connections")
_DIRECTIONS: Final = ("c2s", "s2c")

Records = NDArray[Any]


# -- records of calls --------------------------------------------------------------------------


@kernel
def _new(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> Int:
    """Return a new call; only its connection and direction are set."""
    t.counts[FREE_CALLS] -= 1
    call = S(t.free_calls[U(t.counts[FREE_CALLS])])
    found = t.calls[U(call)]
    found.connection = e.wide[KEY, U(i)]
    found.tunnel_link = e.wide[LINK, U(i)]
    found.protocol = e.narrow[PROTOCOL, U(i)]
    found.target = e.narrow[TARGET, U(i)]
    found.client = t.connections[U(slot)].caller
    found.slot, found.way = slot, direction
    found.response_ns, found.first_part_ns, found.response_bytes = NOTHING, NOTHING, NOTHING
    found.parts, found.traces, found.duplicates = 0, 0, 0
    found.status, found.reason, found.cause, found.outcome = NO, NO, NO, NO
    return call


@inline
def asked_call(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> Int:
    """Return a new call for a request."""
    call = _new(t, e, i, slot, direction)
    found = t.calls[U(call)]
    found.message_id = e.wide[NUMBER, U(i)]
    found.numbered = 1 if e.narrow[FLAGS, U(i)] & NUMBERED else 0
    found.request_ns, found.request_bytes = e.wide[TS, U(i)], e.wide[SIZE, U(i)]
    found.requests = 1
    _claim(t, e, i, call)
    return call


@inline
def _claim(t: Tables, e: EventArrays, i: Int, call: Int) -> None:
    """Note that a call is one to sign on, and the client that it names."""
    if e.narrow[FLAGS, U(i)] & CLAIMS:
        found = t.calls[U(call)]
        found.client, found.numbered = e.narrow[CLIENT, U(i)], _SIGNS_ON


@inline
def unsolicited_call(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> Int:
    """Return a new call for an answer whose request was not seen."""
    call = _new(t, e, i, slot, direction)
    found = t.calls[U(call)]
    found.message_id = e.wide[REPLY, U(i)]
    found.numbered = 1 if e.narrow[FLAGS, U(i)] & REPLIES else 0
    found.request_ns, found.request_bytes = NOTHING, NOTHING
    found.requests = 0
    return call


@inline
def ready(t: Tables, call: Int) -> None:
    """Mark a call that is in no list as final."""
    t.done[U(t.counts[DONE])] = call
    t.counts[DONE] += 1


@inline
def end_call(t: Tables, call: Int, outcome: Int, cause: Int) -> None:
    """Mark a call that is in no list as final, with an outcome."""
    found = t.calls[U(call)]
    found.outcome, found.cause = outcome, cause
    ready(t, call)


@inline
def add_part(t: Tables, e: EventArrays, i: Int, call: Int) -> None:
    """Add a part of the answer."""
    found = t.calls[U(call)]
    if found.first_part_ns == NOTHING:
        found.first_part_ns, found.response_bytes = e.wide[TS, U(i)], e.wide[SIZE, U(i)]
    else:
        found.response_bytes += e.wide[SIZE, U(i)]
    found.parts += 1


@kernel
def complete(t: Tables, e: EventArrays, i: Int, call: Int) -> None:
    """Add the last part of the answer, and set the outcome."""
    add_part(t, e, i, call)
    found = t.calls[U(call)]
    status = e.narrow[STATUS, U(i)]
    found.response_ns = e.wide[TS, U(i)]
    found.status, found.reason = status, e.narrow[REASON, U(i)]
    if found.request_ns == NOTHING:
        found.outcome = ORPHAN
    else:
        found.outcome = _OK if status in (_OK_TEXT, NO) else _FAILED


@kernel
def orphan(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int, cause: Int) -> None:
    """Record an answer without a call as a call of its own."""
    call = unsolicited_call(t, e, i, slot, direction)
    complete(t, e, i, call)
    t.calls[U(call)].cause = cause
    ready(t, call)


@kernel
def forget_call(t: Tables, slot: Int, call: Int) -> None:
    """Remove a call with an id from its list and from the index."""
    remove_call(t, slot, call)
    remove(t, slot, call)


# -- messages ------------------------------------------------------------------------------------


@kernel
def message_of_call(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Process a message: requests, answers and parts; other kinds are ignored."""
    kind = S(e.narrow[KIND, U(i)])
    direction = S(e.narrow[FLAGS, U(i)]) & FROM_SERVER
    notice(t, slot, kind, direction, S(e.wide[TS, U(i)]))
    if kind == REQUEST:
        _request(t, e, i, slot, direction)
    elif kind == RESPONSE:
        _response(t, e, i, slot, direction)
    elif kind == PART:
        _part(t, e, i, slot, direction)
    elif kind == TRACE:
        _trace(t, e, i, slot, direction)
    elif kind == SEALED:
        broken(t, slot, direction, S(e.wide[TS, U(i)]), _SEALED_TEXT)


@inline
def _signs_on(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    found = t.connections[U(slot)]
    client = S(e.narrow[CLIENT, U(i)])
    # A confirmed client stays: further attempts are refused by the server (matching.md, "The client
    # of a connection").
    if client >= 0 and not found.caller_confirmed:
        found.caller = client
    if e.narrow[FLAGS, U(i)] & CONFIRMS and found.caller >= 0:
        found.caller_confirmed = 1


@kernel
def _request(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> None:
    if e.narrow[CLIENT, U(i)] >= 0 and not e.narrow[FLAGS, U(i)] & CLAIMS:
        _signs_on(t, e, i, slot)
    if not e.narrow[FLAGS, U(i)] & NUMBERED:
        _request_in_order(t, e, i, slot, direction)
        return
    call = find_call(t, slot, direction, S(e.wide[NUMBER, U(i)]))
    if call >= 0:
        found = t.calls[U(call)]
        # The same call, resent or continued; after its answer the id starts a new one.
        if found.state == OPEN and found.request_ns != NOTHING:
            found.requests += 1
            found.request_bytes += e.wide[SIZE, U(i)]
            _claim(t, e, i, call)
            return
        was_open = found.state == OPEN
        forget_call(t, slot, call)
        if was_open:
            end_call(t, call, ORPHAN, _UNFINISHED)
        else:
            ready(t, call)
    _await(t, slot, asked_call(t, e, i, slot, direction))


@kernel
def _await(t: Tables, slot: Int, call: Int) -> None:
    """Add an open call with an id; the oldest is dropped when there are too many."""
    append(t, slot, call, S(OPEN))
    add_call(t, slot, call)
    direction = S(t.calls[U(call)].way)
    if count_of(t, slot, direction, OPEN) > _OPEN_LIMIT:
        oldest = first_of(t, slot, direction, OPEN)
        forget_call(t, slot, oldest)
        end_call(t, oldest, UNKNOWN if t.calls[U(oldest)].requests else ORPHAN, _LIMIT)


@kernel
def _request_in_order(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> None:
    call = asked_call(t, e, i, slot, direction)
    if t.connections[U(slot)].unsettled:
        end_call(t, call, UNKNOWN, _UNSETTLED)
        return
    append(t, slot, call, S(ORDER))
    if count_of(t, slot, direction, ORDER) > _OPEN_LIMIT:
        # All of them, not the oldest: without ids, dropping one shifts every later match.
        mark_unsettled(t, slot, S(e.wide[TS, U(i)]))
        _give_up_order(t, slot, S(_LIMIT))


@kernel
def _give_up_order(t: Tables, slot: Int, cause: Int) -> None:
    for direction in range(_BOTH):
        call = first_of(t, slot, direction, ORDER)
        while call >= 0:
            remove(t, slot, call)
            end_call(t, call, UNKNOWN, cause)
            call = first_of(t, slot, direction, ORDER)


@kernel
def _response(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> None:
    flags = S(e.narrow[FLAGS, U(i)])
    if flags & CONFIRMS:
        _signs_on(t, e, i, slot)
    asked = 1 - direction
    if not flags & REPLIES:
        _response_in_order(t, e, i, slot, direction)
        return
    call = find_call(t, slot, asked, S(e.wide[REPLY, U(i)]))
    if call >= 0:
        found = t.calls[U(call)]
        if found.state == OPEN:
            if found.numbered == _SIGNS_ON and e.narrow[STATUS, U(i)] == _OK_TEXT:
                # For the rules of connections and deliveries, which see this event next, too.
                e.narrow[CLIENT, U(i)] = found.client
                e.narrow[FLAGS, U(i)] |= CONFIRMS
                _signs_on(t, e, i, slot)
            _answered(t, e, i, slot, call)
            return
        if e.wide[TS, U(i)] - found.response_ns <= DUPLICATE_WINDOW_NS:
            found.duplicates += 1
            return
    orphan(t, e, i, slot, asked, S(NO))


@kernel
def _answered(t: Tables, e: EventArrays, i: Int, slot: Int, call: Int) -> None:
    """Answer an open call with an id; older answered calls may become final."""
    complete(t, e, i, call)
    remove(t, slot, call)
    ts_ns, direction = S(e.wide[TS, U(i)]), S(t.calls[U(call)].way)
    answered = count_of(t, slot, direction, ANSWERED)
    if answered == 0:
        t.oldest[U(slot), U(direction)] = ts_ns
    elif ts_ns - t.oldest[U(slot), U(direction)] > EXPIRE_AFTER_NS or answered >= _ANSWERED_LIMIT:
        _expire(t, slot, direction, ts_ns)
    append(t, slot, call, S(ANSWERED))


@kernel
def _expire(t: Tables, slot: Int, direction: Int, now_ns: Int) -> None:
    """Finish answered calls: those past the duplicate window, or half when there are too many.

    Half, because to remove one for each new one would walk this path for every answer of a busy
    connection.
    """
    answered = count_of(t, slot, direction, ANSWERED)
    excess = answered - _ANSWERED_LIMIT // 2 if answered >= _ANSWERED_LIMIT else 0
    final = 0
    call = first_of(t, slot, direction, ANSWERED)
    while call >= 0:
        t.oldest[U(slot), U(direction)] = t.calls[U(call)].response_ns
        if t.calls[U(call)].response_ns >= now_ns - DUPLICATE_WINDOW_NS and final >= excess:
            break
        forget_call(t, slot, call)
        ready(t, call)
        final += 1
        call = first_of(t, slot, direction, ANSWERED)


@kernel
def expire_idle(t: Tables, before_ns: int) -> None:
    """Finish calls that were answered before a time, on idle connections as well.

    Answers of a connection finish its earlier calls (`_expire`), so only calls of connections that
    fell silent need this scan of all records.
    """
    for call in range(len(t.calls)):
        found = t.calls[U(call)]
        if found.state == ANSWERED and found.response_ns < before_ns:
            slot = S(found.slot)
            if not t.connections[U(slot)].waiting:
                forget_call(t, slot, call)
                ready(t, call)


@kernel
def _response_in_order(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> None:
    asked = 1 - direction
    if t.connections[U(slot)].unsettled:
        # Rule 3 of "When order can be trusted".
        # It answered some call, which must not count as lost for want of an answer.
        broken(t, slot, direction, S(e.wide[TS, U(i)]), _UNSETTLED)
        orphan(t, e, i, slot, asked, S(_UNSETTLED))
        return
    call = first_of(t, slot, asked, ORDER)
    if call >= 0:
        remove(t, slot, call)
        complete(t, e, i, call)
        ready(t, call)
        return
    # magline without REPLY_TO: FIFO for each business command (magline, section 3, rule 12).
    target = e.narrow[TARGET, U(i)]
    if target >= 0:
        call = first_of(t, slot, asked, OPEN)
        while call >= 0:
            if t.calls[U(call)].target == target:
                _answered(t, e, i, slot, call)
                return
            call = S(t.calls[U(call)].after)
    orphan(t, e, i, slot, asked, S(NO))


@kernel
def _part(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> None:
    asked = 1 - direction
    if not e.narrow[FLAGS, U(i)] & REPLIES:
        call = first_of(t, slot, asked, ORDER)
        if call >= 0:
            add_part(t, e, i, call)
        return
    call = find_call(t, slot, asked, S(e.wide[REPLY, U(i)]))
    if call >= 0 and t.calls[U(call)].state == ANSWERED:
        found = t.calls[U(call)]
        if e.wide[TS, U(i)] - found.response_ns <= DUPLICATE_WINDOW_NS:
            found.duplicates += 1
            return
        forget_call(t, slot, call)
        ready(t, call)
        call = NO
    if call < 0:
        call = unsolicited_call(t, e, i, slot, asked)
        _await(t, slot, call)
    add_part(t, e, i, call)


@kernel
# In ESNP a trace arrives before the answer, with the same SOURCE_MESSAGE_ID and the flags of an
# answer (section 3): it is counted and must not complete the call, as it does in the original.
def _trace(t: Tables, e: EventArrays, i: Int, slot: Int, direction: Int) -> None:
    if e.narrow[FLAGS, U(i)] & REPLIES:
        call = find_call(t, slot, 1 - direction, S(e.wide[REPLY, U(i)]))
        if call >= 0:
            found = t.calls[U(call)]
            late = e.wide[TS, U(i)] - found.response_ns > DUPLICATE_WINDOW_NS
            if found.state == OPEN or not late:
                found.traces += 1


# -- what breaks and ends ------------------------------------------------------------------------


@kernel
def stream_broke(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Give up open calls that are matched by order: messages are missing."""
    ts_ns, code = S(e.wide[TS, U(i)]), S(e.narrow[CODE, U(i)])
    direction = S(e.narrow[FLAGS, U(i)]) & FROM_SERVER
    broken(t, slot, direction, ts_ns, code)
    mark_unsettled(t, slot, ts_ns)
    found = t.connections[U(slot)]
    # Until a message arrives in this direction the gap may still go on, so silence does not settle
    # the connection (rule 4 of "When order can be trusted").
    found.awaited = S(found.awaited) | (1 << direction)
    _give_up_order(t, slot, code)


@kernel
def end_calls(t: Tables, slot: Int, outcome: Int, cause: Int) -> None:
    """Finish all calls of a connection; open ones get this outcome unless a fault explains them."""
    for direction in range(_BOTH):
        for which in range(OPEN, ORDER + 1):
            call = first_of(t, slot, direction, which)
            while call >= 0:
                if which == ORDER:
                    remove(t, slot, call)
                else:
                    forget_call(t, slot, call)
                if which == ANSWERED:
                    ready(t, call)
                else:
                    _end_open(t, slot, call, outcome, cause)
                call = first_of(t, slot, direction, which)


@kernel
def _end_open(t: Tables, slot: Int, call: Int, outcome: Int, cause: Int) -> None:
    found = t.calls[U(call)]
    hidden = hiding_fault(t, slot, call)
    # The answer may also have been lost on the link that carried the request.
    if hidden < 0 and found.tunnel_link:
        link = find_slot(t, S(found.tunnel_link))
        if link >= 0:
            hidden = hiding_fault(t, link, call)
    if found.request_ns == NOTHING:
        end_call(t, call, ORPHAN, _UNFINISHED)
    elif hidden >= 0:
        end_call(t, call, UNKNOWN, hidden)
    else:
        end_call(t, call, outcome, cause)


# -- final records as rows ---------------------------------------------------------------------


def integers(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a column of numbers, null where they are missing (default: where NOTHING)."""
    absent = values == NOTHING if missing is None else missing
    return pa.array(values, mask=absent if absent.any() else None)


def calls_batch(calls: Records, texts: Texts) -> pa.RecordBatch:
    """Return final calls as rows of `calls`."""
    asked, answered = calls["request_ns"], calls["response_ns"]
    latency = np.where((asked == NOTHING) | (answered == NOTHING), NOTHING, answered - asked)
    columns = {
        "direction": Coded(calls["way"].astype(np.int32), _DIRECTIONS).array(),
        "message_id": integers(calls["message_id"], calls["numbered"] == 0),
        "outcome": Coded(calls["outcome"].astype(np.int32), OUTCOMES).array(),
        "latency_ns": integers(latency),
        "tunnel_link": integers(calls["tunnel_link"], calls["tunnel_link"] == 0),
    }
    return _batch(_CALLS, columns, calls, CALL_TEXTS, texts)


def connections_batch(connections: Records, texts: Texts) -> pa.RecordBatch:
    """Return final connections as rows; `sign_ons.py` adds `previous_connection`."""
    columns = {
        "duration_ns": pa.array(connections["last_ns"] - connections["first_ns"]),
        "resumed": pa.array(connections["resumed"] == 1, mask=connections["resumed"] < 0),
        "previous_connection": pa.nulls(len(connections), pa.int64()),
    }
    for name in ("client_port", "server_port"):
        columns[name] = integers(connections[name], connections[name] == NO)
    return _batch(_CONNECTIONS, columns, connections, CONNECTION_TEXTS, texts)


def sign_ons_batch(
    signed: NDArray[np.int64],
    connections: NDArray[np.int64],
    times: NDArray[np.int64],
    texts: Texts,
) -> pa.RecordBatch:
    """Return rows of `_sign_ons`: those of `EventArrays.signed`, their connections and times."""
    client, protocol = (texts.array(codes.astype(np.int32)) for codes in signed[1:])
    arrays = [protocol, client, pa.array(connections), pa.array(times)]
    return pa.RecordBatch.from_arrays(arrays, schema=CROSSING["_sign_ons"])


def _batch(
    columns: pa.Schema,
    made: dict[str, pa.Array],
    records: Records,
    coded: tuple[str, ...],
    texts: Texts,
) -> pa.RecordBatch:
    """Return a batch of columns that are made already, and of fields of the records."""
    arrays = []
    for field in columns:
        if field.name in made:
            arrays.append(made[field.name])
        elif field.name in coded:
            arrays.append(texts.array(np.ascontiguousarray(records[field.name])))
        else:
            arrays.append(integers(np.ascontiguousarray(records[field.name])))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
