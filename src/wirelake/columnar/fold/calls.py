"""Calls in kernels: the rules of `wirelake.records.calls`, on arrays.

The names are those of the engine; see there, and "Calls" in `docs/concepts/matching.md`.
"""

from __future__ import annotations

from typing import Final

from wirelake.records.call_rows import DUPLICATE_WINDOW_NS, EXPIRE_AFTER_NS
from wirelake.records.engine import EngineLimits

from ..numba_options import Int, S, U, inline, kernel
from .call_records import (
    ORPHAN,
    UNKNOWN,
    add_part,
    asked_call,
    complete,
    end_call,
    forget_call,
    orphan,
    ready,
    unasked_call,
)
from .doubt import broken, hides, notice, unsettle
from .tables import (
    ANSWERED,
    KNOWN,
    NO,
    NOTHING,
    OPEN,
    ORDER,
    Tables,
    add_call,
    append,
    count_of,
    find_call,
    find_slot,
    first_of,
    remove,
)
from .told import (
    CLIENT,
    CODE,
    CONFIRMS,
    FLAGS,
    FROM_SERVER,
    KIND,
    NUMBER,
    NUMBERED,
    PART,
    REPLIES,
    REPLY,
    REQUEST,
    RESPONSE,
    SEALED,
    SIZE,
    TARGET,
    TRACE,
    TS,
    Told,
)

__all__ = ["end_calls", "expire_idle", "message_of_call", "stream_broke"]

_UNFINISHED: Final = KNOWN.index("unfinished")
_UNSETTLED: Final = KNOWN.index("unsettled")
_SEALED_TEXT: Final = KNOWN.index("sealed")
_LIMIT: Final = KNOWN.index("limit")
_OPEN_LIMIT: Final = EngineLimits().open_calls
_ANSWERED_LIMIT: Final = EngineLimits().answered_calls
_BOTH: Final = 2


# -- messages ------------------------------------------------------------------------------------


@kernel
def message_of_call(t: Tables, e: Told, i: Int, slot: Int) -> None:
    """A message: requests, answers and what stands between them; the rest is passed over."""
    kind = S(e.narrow[KIND, U(i)])
    way = S(e.narrow[FLAGS, U(i)]) & FROM_SERVER
    notice(t, slot, kind, way, S(e.wide[TS, U(i)]))
    if kind == REQUEST:
        _request(t, e, i, slot, way)
    elif kind == RESPONSE:
        _response(t, e, i, slot, way)
    elif kind == PART:
        _partly(t, e, i, slot, way)
    elif kind == TRACE:
        _trace(t, e, i, slot, way)
    elif kind == SEALED:
        broken(t, slot, way, S(e.wide[TS, U(i)]), _SEALED_TEXT)


@inline
def _signs_on(t: Tables, e: Told, i: Int, slot: Int) -> None:
    found = t.connections[U(slot)]
    client = S(e.narrow[CLIENT, U(i)])
    if client >= 0:
        if not found.caller_confirmed:
            found.caller = client
    elif e.narrow[FLAGS, U(i)] & CONFIRMS and found.caller >= 0:
        found.caller_confirmed = 1


@kernel
def _request(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    if e.narrow[CLIENT, U(i)] >= 0:
        _signs_on(t, e, i, slot)
    if not e.narrow[FLAGS, U(i)] & NUMBERED:
        _request_in_order(t, e, i, slot, way)
        return
    call = find_call(t, slot, way, S(e.wide[NUMBER, U(i)]))
    if call >= 0:
        found = t.calls[U(call)]
        if found.state == OPEN and found.request_ns != NOTHING:
            found.requests += 1
            found.request_bytes += e.wide[SIZE, U(i)]
            return
        was_open = found.state == OPEN
        forget_call(t, slot, call)
        if was_open:
            end_call(t, call, ORPHAN, _UNFINISHED)
        else:
            ready(t, call)
    _await(t, slot, asked_call(t, e, i, slot, way))


@kernel
def _await(t: Tables, slot: Int, call: Int) -> None:
    """An open call that has an id; the oldest is given up when there are too many."""
    append(t, slot, call, S(OPEN))
    add_call(t, slot, call)
    way = S(t.calls[U(call)].way)
    if count_of(t, slot, way, OPEN) > _OPEN_LIMIT:
        oldest = first_of(t, slot, way, OPEN)
        forget_call(t, slot, oldest)
        end_call(t, oldest, UNKNOWN if t.calls[U(oldest)].requests else ORPHAN, _LIMIT)


@kernel
def _request_in_order(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    call = asked_call(t, e, i, slot, way)
    if t.connections[U(slot)].unsettled:
        end_call(t, call, UNKNOWN, _UNSETTLED)
        return
    append(t, slot, call, S(ORDER))
    if count_of(t, slot, way, ORDER) > _OPEN_LIMIT:
        unsettle(t, slot, S(e.wide[TS, U(i)]))
        _give_up_order(t, slot, S(_LIMIT))


@kernel
def _give_up_order(t: Tables, slot: Int, cause: Int) -> None:
    for way in range(_BOTH):
        call = first_of(t, slot, way, ORDER)
        while call >= 0:
            remove(t, slot, call)
            end_call(t, call, UNKNOWN, cause)
            call = first_of(t, slot, way, ORDER)


@kernel
def _response(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    flags = S(e.narrow[FLAGS, U(i)])
    if flags & CONFIRMS:
        _signs_on(t, e, i, slot)
    asked = 1 - way
    if not flags & REPLIES:
        _response_in_order(t, e, i, slot, way)
        return
    call = find_call(t, slot, asked, S(e.wide[REPLY, U(i)]))
    if call >= 0:
        found = t.calls[U(call)]
        if found.state == OPEN:
            _answered(t, e, i, slot, call)
            return
        if e.wide[TS, U(i)] - found.response_ns <= DUPLICATE_WINDOW_NS:
            found.duplicates += 1
            return
    orphan(t, e, i, slot, asked, S(NO))


@kernel
def _answered(t: Tables, e: Told, i: Int, slot: Int, call: Int) -> None:
    """An open call that has an id gets its answer; older answered ones may be let go."""
    complete(t, e, i, call)
    remove(t, slot, call)
    ts_ns, way = S(e.wide[TS, U(i)]), S(t.calls[U(call)].way)
    held = count_of(t, slot, way, ANSWERED)
    if held == 0:
        t.oldest[U(slot), U(way)] = ts_ns
    elif ts_ns - t.oldest[U(slot), U(way)] > EXPIRE_AFTER_NS or held >= _ANSWERED_LIMIT:
        _expire(t, slot, way, ts_ns)
    append(t, slot, call, S(ANSWERED))


@kernel
def _expire(t: Tables, slot: Int, way: Int, now_ns: Int) -> None:
    """Lets answered calls go: those past the window; half of them when there are too many."""
    held = count_of(t, slot, way, ANSWERED)
    excess = held - _ANSWERED_LIMIT // 2 if held >= _ANSWERED_LIMIT else 0
    final = 0
    call = first_of(t, slot, way, ANSWERED)
    while call >= 0:
        t.oldest[U(slot), U(way)] = t.calls[U(call)].response_ns
        if t.calls[U(call)].response_ns >= now_ns - DUPLICATE_WINDOW_NS and final >= excess:
            break
        forget_call(t, slot, call)
        ready(t, call)
        final += 1
        call = first_of(t, slot, way, ANSWERED)


@kernel
def expire_idle(t: Tables, before_ns: int) -> None:
    """Lets answered calls go that were answered before a time, on idle connections as well."""
    for call in range(len(t.calls)):
        found = t.calls[U(call)]
        if found.state == ANSWERED and found.response_ns < before_ns:
            slot = S(found.slot)
            if not t.connections[U(slot)].waits:
                forget_call(t, slot, call)
                ready(t, call)


@kernel
def _response_in_order(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    asked = 1 - way
    if t.connections[U(slot)].unsettled:
        # It answered some call, which must not count as lost for want of an answer.
        broken(t, slot, way, S(e.wide[TS, U(i)]), _UNSETTLED)
        orphan(t, e, i, slot, asked, S(_UNSETTLED))
        return
    call = first_of(t, slot, asked, ORDER)
    if call >= 0:
        remove(t, slot, call)
        complete(t, e, i, call)
        ready(t, call)
        return
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
def _partly(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    asked = 1 - way
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
        call = unasked_call(t, e, i, slot, asked)
        _await(t, slot, call)
    add_part(t, e, i, call)


@kernel
def _trace(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    if e.narrow[FLAGS, U(i)] & REPLIES:
        call = find_call(t, slot, 1 - way, S(e.wide[REPLY, U(i)]))
        if call >= 0:
            found = t.calls[U(call)]
            late = e.wide[TS, U(i)] - found.response_ns > DUPLICATE_WINDOW_NS
            if found.state == OPEN or not late:
                found.traces += 1


# -- what breaks and ends ------------------------------------------------------------------------


@kernel
def stream_broke(t: Tables, e: Told, i: Int, slot: Int) -> None:
    """Messages are missing: open calls that are matched by order are given up."""
    ts_ns, code = S(e.wide[TS, U(i)]), S(e.narrow[CODE, U(i)])
    way = S(e.narrow[FLAGS, U(i)]) & FROM_SERVER
    broken(t, slot, way, ts_ns, code)
    unsettle(t, slot, ts_ns)
    found = t.connections[U(slot)]
    found.awaited = S(found.awaited) | (1 << way)
    _give_up_order(t, slot, code)


@kernel
def end_calls(t: Tables, slot: Int, outcome: Int, cause: Int) -> None:
    """All calls of a connection are final; open ones have this outcome, unless more is known."""
    for way in range(_BOTH):
        for which in range(OPEN, ORDER + 1):
            call = first_of(t, slot, way, which)
            while call >= 0:
                if which == ORDER:
                    remove(t, slot, call)
                else:
                    forget_call(t, slot, call)
                if which == ANSWERED:
                    ready(t, call)
                else:
                    _end_open(t, slot, call, outcome, cause)
                call = first_of(t, slot, way, which)


@kernel
def _end_open(t: Tables, slot: Int, call: Int, outcome: Int, cause: Int) -> None:
    found = t.calls[U(call)]
    hidden = hides(t, slot, call)
    if hidden < 0 and found.tunnel_link:
        link = find_slot(t, S(found.tunnel_link))
        if link >= 0:
            hidden = hides(t, link, call)
    if found.request_ns == NOTHING:
        end_call(t, call, ORPHAN, _UNFINISHED)
    elif hidden >= 0:
        end_call(t, call, UNKNOWN, hidden)
    else:
        end_call(t, call, outcome, cause)
