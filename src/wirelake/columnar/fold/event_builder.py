"""Batches and events of a window to arrays for the kernels; the shares of connections.

Columns are converted as a whole, and texts through the dictionary of each column: a window has
hundreds of thousands of messages and a few hundred different texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.calls import HARMLESS as HARMLESS_CODES
from wirelake.records.protocol_rules import (
    DEVICE_COLUMNS,
    SESSION,
    ProtocolRules,
    link_protocols,
    rules_of,
)
from wirelake.records.rows import Closed, Fact, Opened
from wirelake.wire.meaning import Values

from . import event_arrays as k
from .tables import NO, Texts, indices_of

__all__ = [
    "Columns",
    "Source",
    "claims",
    "field_of",
    "from_server",
    "id_hash",
    "id_hashes",
    "named",
    "numbers_of",
    "usable_faults",
]


_MASK: Final = (1 << 64) - 1
# The multipliers of MurmurHash3's 64-bit finalizer.
_FIRST: Final = 0xFF51AFD7ED558CCD
_SECOND: Final = 0xC4CEB9FE1A85EC53


def id_hash(connection: int) -> int:
    """Return a hash of a recorder's id, or of a tunnel's; the share is its remainder.

    The same as the front end's (`flows.py`) for a connection that a recorder has numbered.
    """
    value = connection & _MASK
    value ^= value >> 33
    value = value * _FIRST & _MASK
    value ^= value >> 33
    value = value * _SECOND & _MASK
    return (value ^ value >> 33) >> 32


def id_hashes(connections: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `id_hash` of each."""
    value = connections.astype(np.uint64)
    for factor in (_FIRST, _SECOND):
        value ^= value >> np.uint64(33)
        value *= np.uint64(factor)
    return ((value ^ value >> np.uint64(33)) >> np.uint64(32)).astype(np.int64)


# -- events ------------------------------------------------------------------------------------


Source: TypeAlias = tuple[str, Any]
"""The name of a table, and a batch of it; or a list of events."""
Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.intp]

_ENDS: Final = {"c2s": "client", "s2c": "server"}
_SIDES: Final[dict[str | None, str]] = {"client": "client", "server": "server"}


class Columns:
    """The events of some sources, as arrays."""

    def __init__(self, sources: Sequence[Source], texts: Texts, share: int, shares: int):
        self._texts = texts
        self._share, self._shares = share, shares
        self.sources = sources
        self.starts = np.cumsum([0, *(_length(found) for _, found in sources)])
        """Where the events of each source begin; at last, how many there are."""
        total = int(self.starts[-1])
        self.wide = np.zeros((k.WIDE, total), np.int64)
        self.narrow = np.full((k.NARROW, total), NO, np.int32)
        self._extras = np.empty((3, 0), np.int32)
        self.carried = np.zeros(total, np.int64)
        """The tunnel of each message in one; `wide` has the link as its connection."""
        for number, (table, found) in enumerate(sources):
            here = slice(int(self.starts[number]), int(self.starts[number + 1]))
            self._fill(table, found, self.wide[:, here], self.narrow[:, here])
            if table == "messages" and len(found):
                self.carried[here] = found.column("connection").to_numpy()

    def __len__(self) -> int:
        return self.wide.shape[1]

    def arrays(self) -> k.EventArrays:
        """Return the events as kernels want them."""
        total = len(self)
        return k.EventArrays(
            self.wide,
            self.narrow,
            np.ascontiguousarray(self._extras),
            self._order(),
            np.zeros(total, np.bool_),
            np.full(total, NO, np.int32),
            np.zeros(total, np.bool_),
            self._texts.coded(link_protocols()),
            np.empty((3, total), np.int64),
        )

    def _order(self) -> NDArray[np.int64]:
        """Return the order by time, then by rank; stable.

        Time and rank in one integer need one sort instead of two. They fit unless the times of a
        window are 36 years apart, which only a broken clock makes.
        """
        times, ranks = self.wide[k.TS], k.RANKS[self.narrow[k.KIND]]
        if not len(times):
            return np.empty(0, np.int64)
        first, last = int(times.min()), int(times.max())
        if last - first >= 1 << 60:
            return np.lexsort((ranks, times))
        return np.argsort((times - first) << 3 | ranks, kind="stable")

    def _fill(
        self, table: str, found: Any, wide: NDArray[np.int64], narrow: NDArray[np.int32]
    ) -> None:
        if not wide.shape[1]:
            return
        match table:
            case "messages":
                self._messages(found, wide, narrow)
            case "faults":
                self._faults(found, wide, narrow)
            case "connections":
                self._connections(found, wide, narrow)
            case _:
                self._facts(found, wide, narrow)

    # -- messages ----------------------------------------------------------------------------

    def _messages(
        self, batch: pa.RecordBatch, wide: NDArray[np.int64], narrow: NDArray[np.int32]
    ) -> None:
        code = self._texts.codes
        wide[k.TS] = batch.column("ts_ns").to_numpy()
        wide[k.FIRST] = pc.coalesce(batch.column("first_ns"), batch.column("ts_ns")).to_numpy()
        wide[k.KEY] = batch.column("connection").to_numpy()
        wide[k.SIZE] = batch.column("size_bytes").to_numpy()
        flags = from_server(batch.column("direction")).astype(np.int32)
        flags |= numbers_of(batch.column("message_id"), wide[k.NUMBER]) * np.int32(k.NUMBERED)
        flags |= numbers_of(batch.column("reply_to"), wide[k.REPLY]) * np.int32(k.REPLIES)
        kinds, kind_texts = indices_of(batch.column("kind"))
        narrow[k.KIND] = np.array([k.KINDS.get(text, k.OTHER) for text in kind_texts])[kinds]
        for row, name in (
            (k.TARGET, "target"),
            (k.STATUS, "status"),
            (k.REASON, "reason"),
            (k.CLIENT, "client"),
        ):
            narrow[row] = code(batch.column(name))
        protocol = batch.column("protocol")[0].as_py()
        narrow[k.PROTOCOL] = self._texts.code(protocol)
        inside = numbers_of(batch.column("tunnel_link"), wide[k.LINK])
        if inside.any():
            # To this fold, a message in a tunnel is an event of the link that carries it. What it
            # means to its tunnel is decided by the fold of tunnels, over all links.
            narrow[k.KIND, inside] = k.TUNNELLED
            wide[k.KEY, inside] = wide[k.LINK, inside]
        names, name_texts = indices_of(batch.column("name"))
        rules = rules_of(protocol)
        flags |= np.array([_name_flags(rules, text) for text in name_texts], np.int32)[names]
        flags |= claims(narrow, flags, self._texts.code(rules.sign_on_target))
        narrow[k.FLAGS] = flags
        if rules.device_message is not None:
            rows = named(names, name_texts, rules.device_message)
            self._devices(batch, protocol, rules, rows, narrow)
        if rules.resuming_message is not None:
            rows = named(names, name_texts, rules.resuming_message)
            session = field_of(batch, protocol, rules.fields[rules.resuming_message][SESSION], rows)
            if session is not None:
                narrow[k.FLAGS, rows[np.asarray(session.is_valid())]] |= k.RESUMES

    def _devices(
        self,
        batch: pa.RecordBatch,
        protocol: str,
        rules: ProtocolRules,
        rows: Rows,
        narrow: NDArray[np.int32],
    ) -> None:
        """Add the codes of what devices report about themselves."""
        if not len(rows) or batch.schema.get_field_index(protocol) < 0:
            return
        assert rules.device_message is not None
        first = self._extras.shape[1]
        narrow[k.EXTRA, rows] = np.arange(first, first + len(rows))
        codes = np.full((len(DEVICE_COLUMNS), len(rows)), NO, np.int32)
        for at, column in enumerate(DEVICE_COLUMNS):
            path = rules.fields[rules.device_message].get(column)
            values = None if path is None else field_of(batch, protocol, path, rows)
            if values is not None:
                texts = rules.device_texts.get(column)
                codes[at] = (
                    self._texts.codes(values) if texts is None else self._named_codes(values, texts)
                )
        self._extras = np.concatenate([self._extras, codes], axis=1)

    def _named_codes(self, numbers: pa.Array, texts: Values) -> NDArray[np.int32]:
        """Return the codes of the texts of numbers."""
        indices, values = indices_of(numbers)
        codes = self._texts.coded(texts.text_of(int(value)) for value in values)
        return np.append(codes, np.int32(NO))[indices]

    # -- all others --------------------------------------------------------------------------

    def _faults(
        self, batch: pa.RecordBatch, wide: NDArray[np.int64], narrow: NDArray[np.int32]
    ) -> None:
        wide[k.TS] = batch.column("ts_ns").to_numpy()
        wide[k.KEY] = batch.column("connection").to_numpy()
        wide[k.SIZE] = batch.column("missing_bytes").to_numpy()
        codes, texts = indices_of(batch.column("code"))
        flags = np.array(
            [(text in HARMLESS_CODES) * k.HARMLESS | (text == "gap") * k.GAP for text in texts],
            np.int32,
        )
        narrow[k.KIND] = k.FAULT
        narrow[k.FLAGS] = flags[codes] | from_server(batch.column("direction"))
        narrow[k.CODE] = self._texts.codes(batch.column("code"))
        narrow[k.PROTOCOL] = self._texts.codes(batch.column("protocol"))

    def _connections(
        self,
        events: Sequence[Opened | Closed],
        wide: NDArray[np.int64],
        narrow: NDArray[np.int32],
    ) -> None:
        coded = self._texts.coded
        wide[k.TS] = [event.ts_ns for event in events]
        wide[k.KEY] = [event.connection for event in events]
        opens = np.array([type(event) is Opened for event in events])
        opened = [event for event in events if type(event) is Opened]
        ended = [event for event in events if type(event) is Closed]
        narrow[k.KIND] = np.where(opens, k.OPENED, k.END)
        narrow[k.FLAGS, opens] = [event.whole * k.WHOLE for event in opened]
        narrow[k.ADDRESS, opens] = coded([event.client_address for event in opened])
        narrow[k.SERVER_ADDRESS, opens] = coded([event.server_address for event in opened])
        narrow[k.PROTOCOL, opens] = coded([event.protocol for event in opened])
        wide[k.CLIENT_PORT, opens] = [_port(event.client_port) for event in opened]
        wide[k.SERVER_PORT, opens] = [_port(event.server_port) for event in opened]
        narrow[k.BY, ~opens] = coded([_ENDS.get(event.side or "") for event in ended])
        narrow[k.HOW, ~opens] = coded([event.how for event in ended])

    def _facts(
        self, facts: Sequence[Fact], wide: NDArray[np.int64], narrow: NDArray[np.int32]
    ) -> None:
        coded = self._texts.coded
        wide[k.TS] = [fact.ts_ns for fact in facts]
        wide[k.KEY] = [fact.connection or 0 for fact in facts]
        close = np.array([fact.kind == "close" for fact in facts])
        narrow[k.KIND] = np.where(close, k.CLOSE, k.SIGN_ON)
        data = [fact.data for fact in facts if fact.kind == "close"]
        narrow[k.REASON, close] = coded([_text(each.get("reason")) for each in data])
        narrow[k.BY, close] = coded([_SIDES.get(_text(each.get("side"))) for each in data])
        sign_ons = [fact for fact in facts if fact.kind != "close"]
        narrow[k.CLIENT, ~close] = coded([fact.data["client"] for fact in sign_ons])
        narrow[k.FLAGS, ~close] = [self._is_mine(fact) * k.MINE for fact in sign_ons]

    def _is_mine(self, fact: Fact) -> bool:
        # All shares get all facts. A sign-on may come before the first packet of its connection:
        # then the kernels add a record for it, and only one share may.
        return id_hash(fact.connection or 0) % self._shares == self._share


def claims(
    narrow: NDArray[np.int32], flags: NDArray[np.int32], sign_on_target: NDArray[np.int32] | int
) -> NDArray[np.int32]:
    """Return the flag of calls to sign on; `sign_on_target` is the code of their target, or NO.

    Other messages with that target name no client. Messages in tunnels keep what they are until the
    fold of tunnels.
    """
    aimed = (narrow[k.TARGET] >= 0) & (narrow[k.TARGET] == sign_on_target)
    asked = (flags & (k.FROM_SERVER | k.NUMBERED)) == k.NUMBERED
    claiming = aimed & asked & (narrow[k.KIND] == k.REQUEST) & (narrow[k.CLIENT] >= 0)
    narrow[k.CLIENT, aimed & ~claiming] = NO
    return np.asarray(claiming * np.int32(k.CLAIMS), np.int32)


def usable_faults(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the faults that belong to a stream and have a time."""
    placed = pc.and_(pc.is_valid(batch.column("ts_ns")), pc.is_valid(batch.column("direction")))
    return batch.filter(placed)


def named(names: NDArray[np.int32], texts: Sequence[str], name: str) -> Rows:
    """Return the messages with a name."""
    return np.flatnonzero(names == texts.index(name)) if name in texts else np.empty(0, np.intp)


def field_of(batch: pa.RecordBatch, protocol: str, path: str, rows: Rows) -> pa.Array | None:
    """Return the field at a path of the struct of some messages; a list if the path has one.

    None when there are no such messages, or the batch has no struct.
    """
    column = batch.schema.get_field_index(protocol)
    if not len(rows) or column < 0:
        return None
    struct = batch.column(column).take(pa.array(rows))
    before, listed, after = path.partition("[]")
    found = pc.struct_field(struct, before.split("."))
    if not listed or not after:
        return found
    lengths = pc.fill_null(pc.list_value_length(found), 0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = pc.struct_field(found.flatten(), after.removeprefix(".").split("."))
    return pa.ListArray.from_arrays(offsets, values)


def _name_flags(rules: ProtocolRules, name: str) -> int:
    """Return the flags of a message, by its name."""
    return (name in rules.heartbeats) * k.HEARTBEAT | (name in rules.confirmations) * k.CONFIRMS


def _length(found: Any) -> int:
    return int(found.num_rows) if isinstance(found, pa.RecordBatch) else len(found)


def from_server(directions: pa.Array) -> NDArray[np.int32]:
    """Return 1 where the server is the sender."""
    codes, texts = indices_of(directions)
    return np.array([*(text == "s2c" for text in texts), False], np.int32)[codes]


def numbers_of(column: pa.Array, values: NDArray[np.int64]) -> Mask:
    """Write the numbers of a column (0: null); return where there is one."""
    if column.null_count == len(column):
        return np.zeros(len(column), np.bool_)
    values[:] = pc.fill_null(column, 0).to_numpy()
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _port(port: int | None) -> int:
    return NO if port is None else port
