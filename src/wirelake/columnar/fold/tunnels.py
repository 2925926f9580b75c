"""Tunnels, and the calls and notifications in them, over all links that carry them.

    fold = TunnelFold(share=0, shares=1, state=state)
    fold.feed(batches)                  # of `_tunnel_events`
    for table, batch in fold.take():    # final rows of `tunnels`, and of `calls` in tunnels;
        ...                             # parts of deliveries (`deliveries.py`)
    state = fold.save()

Implements "Tunnels" of `docs/concepts/matching.md`. A tunnel may move from link to link, and links
may be recorded by different sources. So the fold of each connection only writes what happens to
tunnels (`tunnel_rows`, the table `_tunnel_events`); `TunnelFold` sorts these rows by time over all
links (`tunnel_arrays`) and folds them with kernels of its own (`tunnel_kernels.py`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.calls import HARMLESS
from wirelake.records.deliveries import CROSSING
from wirelake.records.engine import EngineLimits
from wirelake.records.protocol_rules import ADDRESS, PORT, RESULT, ProtocolRules, rules_of
from wirelake.records.schema import schema
from wirelake.records.tunnels import tunnel_of

from ..decode.meaning import Coded, repeated
from ..decode.messages import tunnel_connections
from ..state_format import StateError, batch_of, check, records_of
from . import event_arrays as k
from .calls import STILL_OPEN, calls_batch, integers
from .deliveries import NotificationUses, last_faults, parts_of, published_times
from .event_builder import Columns, claims, field_of, from_server, id_hashes, named, numbers_of
from .memory import Memory, TunnelState
from .tables import NO, NOTHING, Texts, indices_of
from .tunnel_kernels import (
    OUTCOMES,
    TUNNEL_RECORD,
    TUNNEL_TIMES,
    Tunnels,
    end_all_calls,
    fold_tunnels,
    forget_tunnels,
)

__all__ = [
    "TunnelFold",
    "events_of_share",
    "tunnel_arrays",
    "tunnel_rows",
]


_EVENT_SCHEMA: Final = CROSSING["_tunnel_events"]
_EVENT_COLUMNS: Final = [name for name in _EVENT_SCHEMA.names if name not in ("rank", "number")]
_OF_MESSAGE: Final = (
    *("connection", "direction", "protocol", "kind", "name", "message_id", "reply_to", "target"),
    *("status", "reason", "client", "size_bytes", "tunnel_link"),
)
"""Columns of `messages` that events of tunnels have, too."""
_TUNNEL_SCHEMA: Final = schema("tunnels")
_LIMITS: Final = EngineLimits()
_MORE: Final = 1_024
"""Records added when a kernel runs out of room."""
_LOST, _OPEN = OUTCOMES.index("lost"), OUTCOMES.index("open")
_ENDS: Final = ("gateway", "server")
_ADDRESS_HALVES: Final = ("user_high", "user_low")
_64_BITS: Final = (1 << 64) - 1
_BLANK: Final = np.zeros(1, TUNNEL_RECORD)
for _name in (*TUNNEL_TIMES, "first_link", "last_link"):
    _BLANK[_name] = NOTHING
for _name in ("outcome", "closed_by", "user_port"):
    _BLANK[_name] = NO

Rows = NDArray[np.intp]
Ints = NDArray[np.int64]
Records = NDArray[Any]


# -- events of tunnels to arrays ---------------------------------------------------------------


def tunnel_arrays(table: pa.Table, texts: Texts) -> k.EventArrays:
    """Return rows of `_tunnel_events`, in order; of one chunk."""
    order = np.lexsort(
        [table.column(name).to_numpy() for name in ("number", "link", "rank", "ts_ns")]
    )
    found = table.select(_EVENT_COLUMNS)
    wide = np.zeros((k.WIDE, len(order)), np.int64)
    narrow = np.full((k.NARROW, len(order)), NO, np.int32)
    if len(order):
        _fill({name: found.column(name).chunk(0) for name in _EVENT_COLUMNS}, texts, wide, narrow)
    return k.EventArrays(
        wide,
        narrow,
        np.empty((3, 0), np.int32),
        order.astype(np.int64),
        np.empty(0, np.bool_),
        np.full(len(order), NO, np.int32),
        np.empty(0, np.bool_),
        np.empty(0, np.int32),
        np.empty((3, 0), np.int64),
    )


def events_of_share(batch: pa.RecordBatch, share: int, shares: int) -> pa.RecordBatch:
    """Return rows of `_tunnel_events` without the tunnels of other shares."""
    if shares == 1:
        return batch
    tunnels = batch.column("tunnel")
    numbers = np.zeros(len(tunnels), np.int64)
    known = numbers_of(tunnels, numbers)
    # Events of links name no tunnel: every share needs them.
    return batch.filter(pa.array(~known | (id_hashes(numbers) % shares == share)))


def _fill(
    found: dict[str, pa.Array],
    texts: Texts,
    wide: NDArray[np.int64],
    narrow: NDArray[np.int32],
) -> None:
    wide[k.TS] = found["ts_ns"].to_numpy()
    wide[k.KEY] = pc.coalesce(found["tunnel"], found["link"]).to_numpy()
    wide[k.LINK] = found["link"].to_numpy()
    numbers_of(found["size_bytes"], wide[k.SIZE])
    flags = from_server(found["direction"])
    flags |= numbers_of(found["message_id"], wide[k.NUMBER]) * np.int32(k.NUMBERED)
    flags |= numbers_of(found["reply_to"], wide[k.REPLY]) * np.int32(k.REPLIES)
    for row, name in (
        (k.TARGET, "target"),
        (k.STATUS, "status"),
        (k.REASON, "reason"),
        (k.CLIENT, "client"),
        (k.PROTOCOL, "protocol"),
    ):
        narrow[row] = texts.codes(found[name])
    kinds, kind_texts = indices_of(found["kind"])
    codes = [*(k.KINDS.get(text, k.OTHER) for text in kind_texts), k.END]
    narrow[k.KIND] = np.array(codes)[kinds]
    protocols, protocol_texts = indices_of(found["protocol"])
    sign_on = texts.coded([*(rules_of(each).sign_on_target for each in protocol_texts), None])
    flags |= claims(narrow, flags, sign_on[protocols])
    broken = np.asarray(pc.is_valid(found["code"]))
    _faults(found["code"], broken, texts, narrow, flags)
    narrow[k.FLAGS] = flags
    packets = np.asarray(pc.is_valid(found["instance_id"]))
    _packets(found, packets, wide, narrow)


def _faults(
    column: pa.Array,
    broken: NDArray[Any],
    texts: Texts,
    narrow: NDArray[np.int32],
    flags: NDArray[np.int32],
) -> None:
    if broken.any():
        codes, code_texts = indices_of(column)
        harmless = np.array([*(text in HARMLESS for text in code_texts), False], np.int32)
        narrow[k.KIND, broken] = k.FAULT
        narrow[k.CODE, broken] = texts.codes(column)[broken]
        flags |= harmless[codes] * np.int32(k.HARMLESS)


def _packets(
    found: dict[str, pa.Array],
    packets: NDArray[Any],
    wide: NDArray[np.int64],
    narrow: NDArray[np.int32],
) -> None:
    """Fill in the packets of links about tunnels, which have columns of their own."""
    picked = pa.array(np.flatnonzero(packets))
    if not len(picked):
        return
    of = {name: found[name].take(picked) for name in ("protocol", "name", ADDRESS, PORT, RESULT)}
    protocols, protocol_texts = indices_of(of["protocol"])
    names, name_texts = indices_of(of["name"])
    # One small table of kinds: a row for each link protocol, a column for each name.
    kinds_of = np.array(
        [[_packet_kind(rules_of(each), name) for name in name_texts] for each in protocol_texts]
    )
    kinds = kinds_of[protocols, names]
    refused = pc.fill_null(pc.invert(of[RESULT]), False).to_numpy(zero_copy_only=False)
    narrow[k.KIND, packets] = np.where(refused & (kinds == k.CONNECTED), k.REFUSED, kinds)
    wide[k.INSTANCE, packets] = found["instance_id"].take(picked).to_numpy()
    wide[k.TUNNEL, packets] = found["tunnel_id"].take(picked).to_numpy()
    addresses, packed = indices_of(of[ADDRESS])
    halves = np.array([*(_address(each) for each in packed), _address(b"")], np.uint64)
    users = halves.astype(np.int64)[addresses]
    wide[k.USER_HIGH, packets], wide[k.USER_LOW, packets] = users[:, 0], users[:, 1]
    narrow[k.USER_FAMILY, packets] = users[:, 2]
    narrow[k.USER_PORT, packets] = pc.fill_null(of[PORT], NO).to_numpy()


def _packet_kind(rules: ProtocolRules, name: str) -> int:
    """Return the kind of a packet about a tunnel, by its name."""
    tunnels = rules.tunnels
    if tunnels is None:
        return k.ABOUT
    return {
        tunnels.connect: k.CONNECT,
        tunnels.connected: k.CONNECTED,
        tunnels.disconnect: k.DISCONNECT,
        tunnels.carrier: k.CARRIER,
    }.get(name, k.ABOUT)


def _address(packed: Any) -> tuple[int, int, int]:
    """Return the halves of an address, and its family (0: no address)."""
    number = int.from_bytes(packed, "big")
    family = {4: 4, 16: 6}.get(len(packed), 0)
    return (number >> 64, number & _64_BITS, family) if family else (0, 0, 0)


# -- events of tunnels in a window -------------------------------------------------------------


def tunnel_rows(
    columns: Columns, arrays: k.EventArrays, texts: Texts, before: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `_tunnel_events`; `before` counts the events of earlier windows."""
    # Even numbers, so that `_follow_carriers` can put a message between its carrier and the next.
    numbers = np.empty(len(columns), np.int64)
    numbers[arrays.order] = np.arange(before, before + len(columns)) * 2
    _follow_carriers(columns, numbers)
    for at, (table, batch) in enumerate(columns.sources):
        if table != "messages" or not batch.num_rows:
            continue
        here = slice(int(columns.starts[at]), int(columns.starts[at + 1]))
        passed, links = ~arrays.pending[here], columns.wide[k.KEY, here]
        if batch.column("tunnel_link").null_count < batch.num_rows:
            inside = columns.narrow[k.KIND, here] == k.TUNNELLED
            rows = np.flatnonzero(inside & passed)
            yield from _messages(batch, rows, links, numbers[here], columns.narrow[k.FLAGS, here])
        elif rules_of(batch.column("protocol")[0].as_py()).tunnels is not None:
            yield from _link_packets(batch, passed, links, numbers[here])
    yield from _of_links(columns, arrays, texts, numbers)


def _follow_carriers(columns: Columns, numbers: Ints) -> None:
    """Number the messages in tunnels so that each comes right after the packet that carried it.

    The packets of a link and the messages in them are in batches of their own. Where one captured
    packet completes several of them, they have the same time, and only this tells their order.
    """
    carriers, carried = _carriers(columns), np.flatnonzero(columns.narrow[k.KIND] == k.TUNNELLED)
    # Of all packets of links: one about a tunnel may follow the only one that carries a message.
    _, counts = np.unique(columns.wide[k.TS, _packets_of_links(columns)], return_counts=True)
    if not len(carried) or counts.max(initial=0) < 2:
        return
    places = np.concatenate([carriers[0], carried])
    tunnels = np.concatenate([carriers[1], columns.carried[carried]])
    keys = np.stack([columns.wide[k.KEY, places], columns.wide[k.TS, places], tunnels])
    is_carried = np.arange(len(places)) >= len(carriers[0])
    # By key, then carriers before carried messages, each in their order: the n-th carried message
    # of a key belongs to the n-th carrier of it.
    order = np.lexsort((numbers[places], is_carried, *keys))
    keys, places, is_carried = keys[:, order], places[order], is_carried[order]
    begins = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
    group = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)[group]
    packets = np.bincount(group, ~is_carried).astype(np.int64)[group]
    nth = np.arange(len(places)) - first - packets
    found = is_carried & (packets > 0)
    nth = np.minimum(nth[found], packets[found] - 1)
    numbers[places[found]] = numbers[places[first[found] + nth]] + 1


def _links(columns: Columns) -> Iterator[tuple[int, pa.RecordBatch, str]]:
    """Yield the packets of links: the place of the first, a batch, the name of carriers."""
    for at, (table, batch) in enumerate(columns.sources):
        if table == "messages" and batch.num_rows:
            tunnels = rules_of(batch.column("protocol")[0].as_py()).tunnels
            if tunnels is not None:
                yield int(columns.starts[at]), batch, tunnels.carrier


def _packets_of_links(columns: Columns) -> Rows:
    ranges = [np.arange(start, start + batch.num_rows) for start, batch, _ in _links(columns)]
    return np.concatenate([np.empty(0, np.intp), *ranges])


def _carriers(columns: Columns) -> tuple[Rows, Ints]:
    """Return the packets of links that carry messages, and their tunnels."""
    places: list[Rows] = [np.empty(0, np.intp)]
    tunnels: list[Ints] = [np.empty(0, np.int64)]
    for start, batch, carrier in _links(columns):
        names, name_texts = indices_of(batch.column("name"))
        targets, target_texts = indices_of(batch.column("target"))
        instances, ids, good = _ids(target_texts)
        rows = named(names, name_texts, carrier)
        rows = rows[np.append(good, False)[targets[rows]]]
        places.append(rows + start)
        tunnels.append(tunnel_connections(instances[targets[rows]], ids[targets[rows]]))
    return np.concatenate(places), np.concatenate(tunnels)


def _messages(
    batch: pa.RecordBatch, rows: Rows, links: Ints, numbers: Ints, flags: NDArray[np.int32]
) -> Iterator[pa.RecordBatch]:
    """Yield the messages in tunnels."""
    if len(rows):
        made = _columns(batch, rows, links, numbers)
        made["tunnel"], made["ids"] = made["connection"], batch.column("ids").take(pa.array(rows))
        counts = pc.fill_null(pc.list_value_length(made["ids"]), 0).to_numpy().astype(np.int64)
        if counts.any():
            some = rows[counts > 0]
            times = integers(published_times(batch, some, counts[counts > 0], flags[some]))
            offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
            made["published_ns"] = pa.ListArray.from_arrays(offsets, times)
        yield _batch(made, len(rows))


def _link_packets(
    batch: pa.RecordBatch, passed: NDArray[np.bool_], links: Ints, numbers: Ints
) -> Iterator[pa.RecordBatch]:
    """Yield the packets about tunnels; of those that carry messages, the first of each tunnel.

    Their messages are events of their own, and after the first packet the tunnel is known.
    """
    protocol = batch.column("protocol")[0].as_py()
    rules = rules_of(protocol)
    assert rules.tunnels is not None
    names, name_texts = indices_of(batch.column("name"))
    targets, target_texts = indices_of(batch.column("target"))
    about = np.array([text in rules.tunnel_messages for text in name_texts])[names]
    instances, ids, good = _ids(target_texts)
    rows = np.flatnonzero(passed & about & np.append(good, False)[targets])
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    carriers = np.isin(rows, named(names, name_texts, rules.tunnels.carrier))
    _, firsts = np.unique(targets[rows[carriers]], return_index=True)
    kept = ~carriers
    kept[np.flatnonzero(carriers)[firsts]] = True
    rows = rows[kept]
    if not len(rows):
        return
    made = _columns(batch, rows, links, numbers)
    instances, ids = instances[targets[rows]], ids[targets[rows]]
    made |= {
        "tunnel": pa.array(tunnel_connections(instances, ids)),
        "target": pa.nulls(len(rows), pa.string()),
        "instance_id": pa.array(instances),
        "tunnel_id": pa.array(ids),
    }
    for name, paths in rules.fields.items():
        if name not in rules.tunnel_messages:
            continue
        places = np.flatnonzero(np.isin(rows, named(names, name_texts, name)))
        for column in paths.keys() & {ADDRESS, PORT, RESULT}:
            found = field_of(batch, protocol, paths[column], rows[places])
            if found is not None:
                made[column] = _spread(found, places, len(rows), _EVENT_SCHEMA.field(column).type)
    yield _batch(made, len(rows))


def _ids(targets: list[str]) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return instance and number of tunnels, and whether a target names one."""
    pairs = [tunnel_of(text) for text in targets]
    good = np.array([pair is not None for pair in pairs], np.bool_)
    masked = [[number & _64_BITS for number in pair or (0, 0)] for pair in pairs]
    numbers = np.array(masked, np.uint64).reshape(-1, 2).astype(np.int64)
    return numbers[:, 0], numbers[:, 1], good


def _columns(batch: pa.RecordBatch, rows: Rows, links: Ints, numbers: Ints) -> dict[str, pa.Array]:
    """Return the columns that messages and packets share."""
    picked = pa.array(rows)
    return {name: batch.column(name).take(picked) for name in ("ts_ns", *_OF_MESSAGE)} | {
        "event": repeated("message", len(rows)),
        "rank": pa.array(np.full(len(rows), k.RANKS[k.OTHER])),
        "link": pa.array(links[rows]),
        "number": pa.array(numbers[rows]),
    }


def _spread(values: pa.Array, places: Rows, rows: int, kind: pa.DataType) -> pa.Array:
    """Return values at their rows, null elsewhere."""
    numbers = np.full(rows, NO, np.int64)
    numbers[places] = np.arange(len(places))
    return pc.cast(values, kind).take(pa.array(numbers, mask=numbers < 0))


def _of_links(
    columns: Columns, arrays: k.EventArrays, texts: Texts, numbers: Ints
) -> Iterator[pa.RecordBatch]:
    for event, kind in (("fault", k.FAULT), ("closed", k.END)):
        rows = np.flatnonzero(arrays.of_link & (columns.narrow[k.KIND] == kind))
        if not len(rows):
            continue
        times = columns.wide[k.TS, rows]
        if kind == k.END:
            times = np.maximum(times, _last_of(columns, arrays, columns.wide[k.KEY, rows]))
        made: dict[str, Any] = {
            "event": repeated(event, len(rows)),
            "ts_ns": pa.array(times),
            "rank": pa.array(np.full(len(rows), k.RANKS[kind])),
            "link": pa.array(columns.wide[k.KEY, rows]),
            "number": pa.array(numbers[rows]),
            "connection": pa.array(columns.wide[k.KEY, rows]),
        }
        if kind == k.FAULT:
            directions = columns.narrow[k.FLAGS, rows] & k.FROM_SERVER
            made["direction"] = pa.array(["c2s", "s2c"]).take(pa.array(directions))
            made["code"] = texts.array(columns.narrow[k.CODE, rows])
        yield _batch(made, len(rows))


def _last_of(columns: Columns, arrays: k.EventArrays, links: Ints) -> Ints:
    """Return the time of the last message or fault of each link: its end comes after it."""
    kinds = columns.narrow[k.KIND]
    counts = ~arrays.pending & ((kinds == k.FAULT) | ((kinds >= k.REQUEST) & (kinds < k.END)))
    known, places = np.unique(links, return_inverse=True)
    keys, times = columns.wide[k.KEY, counts], columns.wide[k.TS, counts]
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    mine = known[at] == keys
    last = np.full(len(known), NOTHING)
    np.maximum.at(last, at[mine], times[mine])
    return last[places]


def _batch(made: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    arrays = [
        made[field.name] if field.name in made else pa.nulls(rows, field.type)
        for field in _EVENT_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_EVENT_SCHEMA)


# -- the fold ----------------------------------------------------------------------------------


class TunnelFold:
    """Folds the tunnels of one share; `state` is what the fold of this share has saved."""

    def __init__(self, share: int = 0, shares: int = 1, state: bytes | None = None):
        self._share, self._shares = share, shares
        self._memory = Memory()
        self._rows = np.empty(0, TUNNEL_RECORD)
        self._final = np.empty(_MORE, TUNNEL_RECORD)
        self._counts = np.zeros(3, np.int64)
        self._hidden = np.empty((3, _MORE), np.int64)
        self._taken: list[Records] = []
        self._crossing: list[tuple[str, pa.RecordBatch]] = []
        """Parts of deliveries, and faults that may hide an acknowledgement."""
        self._closed_links = np.empty(0, np.int64)
        if state is not None:
            self._restore(state)

    def feed(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows of `_tunnel_events`, in any order; those of later calls are later."""
        parts = [events_of_share(batch, self._share, self._shares) for batch in batches]
        table = pa.Table.from_batches(parts, schema=_EVENT_SCHEMA).combine_chunks()
        arrays = tunnel_arrays(table, self._memory.texts)
        reached = 0
        while reached < len(arrays.order):
            self._make_room()
            reached = fold_tunnels(self._memory.tables(), self.records(), arrays, reached)
        self._take_hidden()
        self._crossing += (
            ("_delivery_parts", batch)
            for batch in _delivery_parts(table, arrays, self._memory.texts)
        )
        closed = arrays.wide[k.KEY, arrays.order[arrays.narrow[k.KIND, arrays.order] == k.END]]
        self._closed_links = _distinct([self._closed_links, closed])[-_LIMITS.connections :]
        self._evict()

    def take(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield what became final since the last call."""
        crossing, self._crossing = self._crossing, []
        yield from crossing
        calls = self._memory.take_calls()
        if len(calls):
            yield "calls", calls_batch(calls, self._memory.texts)
        tunnels = np.concatenate([*self._taken, self._final[: self._counts[0]]])
        self._counts[0], self._taken = 0, []
        if len(tunnels):
            yield "tunnels", _tunnels_batch(tunnels, self._closed_links)
        self._memory.drop_unused()

    def save(self) -> bytes:
        """Return the state, when everything final was taken. Changes nothing."""
        slots = self._memory.live_slots
        return TunnelState(
            share=self._share,
            shares=self._shares,
            memory=self._memory.save(),
            rows=batch_of(self._rows, slots),
            ended=int(self._counts[1]),
            closed_links=self._closed_links,
        ).to_bytes()

    def finish(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield what would be final if the input ended here; the fold cannot be used afterwards."""
        end_all_calls(self._memory.tables(), self._memory.live_slots, STILL_OPEN, NO)
        self._taken.append(self._rows[self._rows["used"] == 1])
        yield from self.take()

    # -- what is remembered ------------------------------------------------------------------

    def records(self) -> Tunnels:
        """Return the arrays for kernels."""
        return Tunnels(self._rows, self._final, _BLANK, self._counts, self._hidden)

    def _make_room(self) -> None:
        self._memory.reserve(_MORE, _MORE)
        missing = self._memory.slots - len(self._rows)
        self._rows = np.concatenate([self._rows, np.repeat(_BLANK, missing)])
        if self._counts[0] == len(self._final):
            self._final = np.concatenate([self._final, np.empty_like(self._final)])
        if self._hidden.shape[1] - self._counts[2] < len(self._rows):
            self._take_hidden()
            if self._hidden.shape[1] < len(self._rows):
                self._hidden = np.empty((3, 2 * len(self._rows)), np.int64)

    def _take_hidden(self) -> None:
        """Make rows of `_delivery_faults` of what faults of links may hide: the last of each."""
        tunnels, whom, times = self._hidden[:, : self._counts[2]]
        self._counts[2] = 0
        if len(tunnels):
            clients = self._memory.texts.array(whom.astype(np.int32))
            columns = [clients, pa.array(tunnels), pa.array(times)]
            faults = last_faults(pa.table(columns, schema=CROSSING["_delivery_faults"]))
            self._crossing += (("_delivery_faults", each) for each in faults.to_batches())

    def _evict(self) -> None:
        """Evict the oldest tunnels when there are too many."""
        known = np.flatnonzero(self._rows["used"])
        ended = self._rows["outcome"][known] >= 0
        for slots, limit in (
            (known[ended], _LIMITS.closed_tunnels),
            (known[~ended], _LIMITS.tunnels),
        ):
            if len(slots) > limit:
                oldest = slots[np.argsort(self._rows["ended"][slots], kind="stable")[:-limit]]
                self._taken.append(self._rows[oldest])
                forget_tunnels(self._memory.tables(), self.records(), oldest.astype(np.int32))

    def _restore(self, state: bytes) -> None:
        saved = TunnelState.from_bytes(state)
        if (saved.share, saved.shares) != (self._share, self._shares):
            raise StateError(
                f"expected the state of share {self._share} of {self._shares},"
                f" found share {saved.share} of {saved.shares}"
            )
        rows = records_of(saved.rows, TUNNEL_RECORD)
        check(len(rows) == saved.memory.connections.num_rows, "tunnels")
        check(np.all((rows["outcome"] >= NO) & (rows["outcome"] < len(OUTCOMES))), "outcome")
        check(np.all((rows["closed_by"] >= NO) & (rows["closed_by"] < len(_ENDS))), "closed_by")
        [slots] = self._memory.restore([(saved.memory, np.ones(len(rows), np.bool_))])
        self._make_room()
        self._rows[slots] = rows
        self._counts[1] = saved.ended
        self._closed_links = saved.closed_links


def _delivery_parts(
    table: pa.Table, arrays: k.EventArrays, texts: Texts
) -> Iterator[pa.RecordBatch]:
    """Yield rows of `_delivery_parts`, of messages in tunnels with notifications."""
    rows = np.flatnonzero(pc.is_valid(table.column("ids")).to_numpy())
    if not len(rows):
        return
    rank = np.empty(len(table), np.int64)
    rank[arrays.order] = np.arange(len(table))
    protocols, names = indices_of(table.column("protocol").combine_chunks())
    for number, protocol in enumerate(names):
        own = rows[protocols[rows] == number]
        ids = table.column("ids").take(pa.array(own)).combine_chunks()
        event = np.repeat(own, pc.list_value_length(ids).to_numpy())
        if len(event):
            times = table.column("published_ns").take(pa.array(own)).combine_chunks().flatten()
            published = pc.fill_null(times, NOTHING).to_numpy()
            yield parts_of(
                protocol, NotificationUses(ids.flatten(), event, published), rank, arrays, texts
            )


def _distinct(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the distinct numbers of several parts, in the order of first occurrence."""
    joined = np.concatenate(parts)
    _, firsts = np.unique(joined, return_index=True)
    return joined[np.sort(firsts)]


def _tunnels_batch(tunnels: Records, closed_links: NDArray[np.int64]) -> pa.RecordBatch:
    """Return tunnels as rows; one that has not ended is lost with its link, or open."""
    open_still = np.where(np.isin(tunnels["last_link"], closed_links), _LOST, _OPEN)
    outcome = np.where(tunnels["outcome"] < 0, open_still, tunnels["outcome"])
    unnamed = tunnels["named"] == 0
    made = {
        "instance_id": integers(tunnels["instance_id"], unnamed),
        "tunnel_id": integers(tunnels["tunnel_id"], unnamed),
        "outcome": Coded(outcome.astype(np.int32), OUTCOMES).array(),
        "user_address": pa.array(map(_user_address, tunnels), pa.string()),
        "user_port": integers(tunnels["user_port"], tunnels["user_port"] == NO),
        "closed_by": Coded(tunnels["closed_by"].astype(np.int32), _ENDS).array(),
    }
    arrays = [
        made[field.name]
        if field.name in made
        else integers(np.ascontiguousarray(tunnels[field.name]))
        for field in _TUNNEL_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_TUNNEL_SCHEMA)


def _user_address(tunnel: Any) -> str | None:
    """Return the user's address as text."""
    halves = (int(tunnel[name]).to_bytes(8, "big", signed=True) for name in _ADDRESS_HALVES)
    packed_address = b"".join(halves)
    match int(tunnel["user_family"]):
        case 4:
            return str(ipaddress.IPv4Address(packed_address[-4:]))
        case 6:
            return str(ipaddress.IPv6Address(packed_address))
        case _:
            return None
