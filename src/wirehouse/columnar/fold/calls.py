"""Calls in kernels: the rules of `wirehouse.records.calls`, on arrays.

The names are those of the engine; see there, and "Calls" in `docs/concepts/matching.md`.
"""

from __future__ import annotations

from typing import Final

from wirehouse.records.call_rows import DUPLICATE_WINDOW_NS, EXPIRE_AFTER_NS, QUIET_NS
from wirehouse.records.engine import EngineLimits

from ..numba_options import Int, S, U, inline, kernel
from .tables import (
    ANSWERED,
    DONE,
    FREE_CALLS,
    KNOWN,
    NO,
    NOTHING,
    OPEN,
    ORDER,
    Tables,
    add_call,
    append,
    find_call,
    find_slot,
    remove,
    remove_call,
)
from .told import (
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
    Told,
)

__all__ = [
    "LOST",
    "OUTCOMES",
    "STILL_OPEN",
    "UNKNOWN",
    "end_calls",
    "expire_idle",
    "message_of_call",
    "stream_broke",
    "unsettle",
]

OUTCOMES: Final = ("answered", "failed", "lost", "unknown", "open", "orphan")
_OK, _FAILED, LOST, UNKNOWN, STILL_OPEN, _ORPHAN = range(6)
"""Places in `OUTCOMES`."""

_OK_TEXT: Final = KNOWN.index("ok")
_UNFINISHED: Final = KNOWN.index("unfinished")
_UNSETTLED: Final = KNOWN.index("unsettled")
_SEALED_TEXT: Final = KNOWN.index("sealed")
_LIMIT: Final = KNOWN.index("limit")
_OPEN_LIMIT: Final = EngineLimits().open_calls
_ANSWERED_LIMIT: Final = EngineLimits().answered_calls
_BOTH: Final = 2


# -- doubt -------------------------------------------------------------------------------------


@inline
def _broken(t: Tables, slot: Int, way: Int, ts_ns: Int, code: Int) -> None:
    """Messages of this direction may be missing here."""
    found = t.connections[U(slot)]
    if way:
        found.broken_s2c_ns, found.broken_s2c = ts_ns, code
    else:
        found.broken_c2s_ns, found.broken_c2s = ts_ns, code


@inline
def unsettle(t: Tables, slot: Int, ts_ns: Int) -> None:
    """Order cannot be trusted from here on."""
    found = t.connections[U(slot)]
    found.unsettled = 1
    found.quiet_ns = max(S(found.quiet_ns), ts_ns)


@inline
def _notice(t: Tables, slot: Int, kind: Int, way: Int, ts_ns: Int) -> None:
    """With a request after a quiet time, order can be trusted again."""
    found = t.connections[U(slot)]
    if found.unsettled:
        settled = False
        if REQUEST <= kind <= PART:
            quiet = ts_ns - found.quiet_ns >= QUIET_NS
            settled = quiet and kind == REQUEST and found.awaited == 0
            if settled:
                found.unsettled = 0
            else:
                found.quiet_ns = ts_ns
        if not settled:
            found.awaited = S(found.awaited) & ~(1 << way)


@inline
def _hides(t: Tables, slot: Int, call: Int) -> Int:
    """The code of a fault that may hide the answer of an open call, or NO."""
    found, place = t.calls[U(call)], t.connections[U(slot)]
    if found.way:
        code, ts_ns = S(place.broken_c2s), S(place.broken_c2s_ns)
    else:
        code, ts_ns = S(place.broken_s2c), S(place.broken_s2c_ns)
    return NO if found.request_ns == NOTHING or ts_ns < found.request_ns else code


# -- calls begin and end -------------------------------------------------------------------------


@kernel
def _new(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> Int:
    """A call of which nothing is known but where it is."""
    t.counts[FREE_CALLS] -= 1
    call = S(t.free_calls[U(t.counts[FREE_CALLS])])
    found = t.calls[U(call)]
    found.connection = e.wide[KEY, U(i)]
    found.tunnel_link = e.wide[LINK, U(i)]
    found.protocol = e.narrow[PROTOCOL, U(i)]
    found.target = e.narrow[TARGET, U(i)]
    found.client = t.connections[U(slot)].caller
    found.slot, found.way = slot, way
    found.response_ns, found.first_part_ns, found.response_bytes = NOTHING, NOTHING, NOTHING
    found.parts, found.traces, found.duplicates = 0, 0, 0
    found.status, found.reason, found.cause, found.outcome = NO, NO, NO, NO
    return call


@inline
def _asked(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> Int:
    """The call of a request."""
    call = _new(t, e, i, slot, way)
    found = t.calls[U(call)]
    found.message_id = e.wide[NUMBER, U(i)]
    found.numbered = 1 if e.narrow[FLAGS, U(i)] & NUMBERED else 0
    found.request_ns, found.request_bytes = e.wide[TS, U(i)], e.wide[SIZE, U(i)]
    found.requests = 1
    return call


@inline
def _unasked(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> Int:
    """The call of an answer whose request was not seen."""
    call = _new(t, e, i, slot, way)
    found = t.calls[U(call)]
    found.message_id = e.wide[REPLY, U(i)]
    found.numbered = 1 if e.narrow[FLAGS, U(i)] & REPLIES else 0
    found.request_ns, found.request_bytes = NOTHING, NOTHING
    found.requests = 0
    return call


@inline
def _ready(t: Tables, call: Int) -> None:
    """A call that is in no list is final."""
    t.done[U(t.counts[DONE])] = call
    t.counts[DONE] += 1


@inline
def _end(t: Tables, call: Int, outcome: Int, cause: Int) -> None:
    found = t.calls[U(call)]
    found.outcome, found.cause = outcome, cause
    _ready(t, call)


@inline
def _part(t: Tables, e: Told, i: Int, call: Int) -> None:
    """A message of the answer."""
    found = t.calls[U(call)]
    if found.first_part_ns == NOTHING:
        found.first_part_ns, found.response_bytes = e.wide[TS, U(i)], e.wide[SIZE, U(i)]
    else:
        found.response_bytes += e.wide[SIZE, U(i)]
    found.parts += 1


@kernel
def _complete(t: Tables, e: Told, i: Int, call: Int) -> None:
    """The last message of the answer."""
    _part(t, e, i, call)
    found = t.calls[U(call)]
    status = e.narrow[STATUS, U(i)]
    found.response_ns = e.wide[TS, U(i)]
    found.status, found.reason = status, e.narrow[REASON, U(i)]
    if found.request_ns == NOTHING:
        found.outcome = _ORPHAN
    else:
        found.outcome = _OK if status in (_OK_TEXT, NO) else _FAILED


@kernel
def _orphan(t: Tables, e: Told, i: Int, slot: Int, way: Int, cause: Int) -> None:
    call = _unasked(t, e, i, slot, way)
    _complete(t, e, i, call)
    t.calls[U(call)].cause = cause
    _ready(t, call)


@kernel
def _forget(t: Tables, slot: Int, call: Int) -> None:
    """Take a call that has an id out of its list, and from where it can be found."""
    remove_call(t, slot, call)
    remove(t, slot, call)


@inline
def _first(t: Tables, slot: Int, way: Int, which: Int) -> Int:
    return S(t.ends[U(slot), U(S(way) * 9 + (which - 1) * 3)])


@inline
def _count(t: Tables, slot: Int, way: Int, which: Int) -> Int:
    return S(t.ends[U(slot), U(S(way) * 9 + (which - 1) * 3 + 2)])


# -- messages ------------------------------------------------------------------------------------


@kernel
def message_of_call(t: Tables, e: Told, i: Int, slot: Int) -> None:
    """A message: requests, answers and what stands between them; the rest is passed over."""
    kind = S(e.narrow[KIND, U(i)])
    way = S(e.narrow[FLAGS, U(i)]) & FROM_SERVER
    _notice(t, slot, kind, way, S(e.wide[TS, U(i)]))
    if kind == REQUEST:
        _request(t, e, i, slot, way)
    elif kind == RESPONSE:
        _response(t, e, i, slot, way)
    elif kind == PART:
        _partly(t, e, i, slot, way)
    elif kind == TRACE:
        _trace(t, e, i, slot, way)
    elif kind == SEALED:
        _broken(t, slot, way, S(e.wide[TS, U(i)]), _SEALED_TEXT)


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
        _forget(t, slot, call)
        if was_open:
            _end(t, call, _ORPHAN, _UNFINISHED)
        else:
            _ready(t, call)
    _await(t, slot, _asked(t, e, i, slot, way))


@kernel
def _await(t: Tables, slot: Int, call: Int) -> None:
    """An open call that has an id; the oldest is given up when there are too many."""
    append(t, slot, call, S(OPEN))
    add_call(t, slot, call)
    way = S(t.calls[U(call)].way)
    if _count(t, slot, way, OPEN) > _OPEN_LIMIT:
        oldest = _first(t, slot, way, OPEN)
        _forget(t, slot, oldest)
        _end(t, oldest, UNKNOWN if t.calls[U(oldest)].requests else _ORPHAN, _LIMIT)


@kernel
def _request_in_order(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    call = _asked(t, e, i, slot, way)
    if t.connections[U(slot)].unsettled:
        _end(t, call, UNKNOWN, _UNSETTLED)
        return
    append(t, slot, call, S(ORDER))
    if _count(t, slot, way, ORDER) > _OPEN_LIMIT:
        unsettle(t, slot, S(e.wide[TS, U(i)]))
        _give_up_order(t, slot, S(_LIMIT))


@kernel
def _give_up_order(t: Tables, slot: Int, cause: Int) -> None:
    for way in range(_BOTH):
        call = _first(t, slot, way, ORDER)
        while call >= 0:
            remove(t, slot, call)
            _end(t, call, UNKNOWN, cause)
            call = _first(t, slot, way, ORDER)


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
    _orphan(t, e, i, slot, asked, S(NO))


@kernel
def _answered(t: Tables, e: Told, i: Int, slot: Int, call: Int) -> None:
    """An open call that has an id gets its answer; older answered ones may be let go."""
    _complete(t, e, i, call)
    remove(t, slot, call)
    ts_ns, way = S(e.wide[TS, U(i)]), S(t.calls[U(call)].way)
    held = _count(t, slot, way, ANSWERED)
    if held == 0:
        t.oldest[U(slot), U(way)] = ts_ns
    elif ts_ns - t.oldest[U(slot), U(way)] > EXPIRE_AFTER_NS or held >= _ANSWERED_LIMIT:
        _expire(t, slot, way, ts_ns)
    append(t, slot, call, S(ANSWERED))


@kernel
def _expire(t: Tables, slot: Int, way: Int, now_ns: Int) -> None:
    """Lets answered calls go: those past the window; half of them when there are too many."""
    held = _count(t, slot, way, ANSWERED)
    excess = held - _ANSWERED_LIMIT // 2 if held >= _ANSWERED_LIMIT else 0
    final = 0
    call = _first(t, slot, way, ANSWERED)
    while call >= 0:
        t.oldest[U(slot), U(way)] = t.calls[U(call)].response_ns
        if t.calls[U(call)].response_ns >= now_ns - DUPLICATE_WINDOW_NS and final >= excess:
            break
        _forget(t, slot, call)
        _ready(t, call)
        final += 1
        call = _first(t, slot, way, ANSWERED)


@kernel
def expire_idle(t: Tables, before_ns: int) -> None:
    """Lets answered calls go that were answered before a time, on idle connections as well."""
    for call in range(len(t.calls)):
        found = t.calls[U(call)]
        if found.state == ANSWERED and found.response_ns < before_ns:
            slot = S(found.slot)
            if not t.connections[U(slot)].waits:
                _forget(t, slot, call)
                _ready(t, call)


@kernel
def _response_in_order(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    asked = 1 - way
    if t.connections[U(slot)].unsettled:
        # It answered some call, which must not count as lost for want of an answer.
        _broken(t, slot, way, S(e.wide[TS, U(i)]), _UNSETTLED)
        _orphan(t, e, i, slot, asked, S(_UNSETTLED))
        return
    call = _first(t, slot, asked, ORDER)
    if call >= 0:
        remove(t, slot, call)
        _complete(t, e, i, call)
        _ready(t, call)
        return
    target = e.narrow[TARGET, U(i)]
    if target >= 0:
        call = _first(t, slot, asked, OPEN)
        while call >= 0:
            if t.calls[U(call)].target == target:
                _answered(t, e, i, slot, call)
                return
            call = S(t.calls[U(call)].after)
    _orphan(t, e, i, slot, asked, S(NO))


@kernel
def _partly(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> None:
    asked = 1 - way
    if not e.narrow[FLAGS, U(i)] & REPLIES:
        call = _first(t, slot, asked, ORDER)
        if call >= 0:
            _part(t, e, i, call)
        return
    call = find_call(t, slot, asked, S(e.wide[REPLY, U(i)]))
    if call >= 0 and t.calls[U(call)].state == ANSWERED:
        found = t.calls[U(call)]
        if e.wide[TS, U(i)] - found.response_ns <= DUPLICATE_WINDOW_NS:
            found.duplicates += 1
            return
        _forget(t, slot, call)
        _ready(t, call)
        call = NO
    if call < 0:
        call = _unasked(t, e, i, slot, asked)
        _await(t, slot, call)
    _part(t, e, i, call)


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
    _broken(t, slot, way, ts_ns, code)
    unsettle(t, slot, ts_ns)
    found = t.connections[U(slot)]
    found.awaited = S(found.awaited) | (1 << way)
    _give_up_order(t, slot, code)


@kernel
def end_calls(t: Tables, slot: Int, outcome: Int, cause: Int) -> None:
    """All calls of a connection are final; open ones have this outcome, unless more is known."""
    for way in range(_BOTH):
        for which in range(OPEN, ORDER + 1):
            call = _first(t, slot, way, which)
            while call >= 0:
                if which == ORDER:
                    remove(t, slot, call)
                else:
                    _forget(t, slot, call)
                if which == ANSWERED:
                    _ready(t, call)
                else:
                    _end_open(t, slot, call, outcome, cause)
                call = _first(t, slot, way, which)


@kernel
def _end_open(t: Tables, slot: Int, call: Int, outcome: Int, cause: Int) -> None:
    found = t.calls[U(call)]
    hidden = _hides(t, slot, call)
    if hidden < 0 and found.tunnel_link:
        link = find_slot(t, S(found.tunnel_link))
        if link >= 0:
            hidden = _hides(t, link, call)
    if found.request_ns == NOTHING:
        _end(t, call, _ORPHAN, _UNFINISHED)
    elif hidden >= 0:
        _end(t, call, UNKNOWN, hidden)
    else:
        _end(t, call, outcome, cause)
