"""Which bodies of a batch are sealed, and decryption of those in counter mode, in batches.

AES-CTR is AES of counter blocks, XORed with the data. The counter blocks of all frames are built in
one array, each key encrypts its part of it in one ECB call, and one kernel XORs the result with the
data: 0.27 us a frame of 128 bytes, where a new cipher object for each frame takes 16.8 us and a
kept one 0.92 us. ECB is only the primitive here: every block is a distinct counter.

Key logs have no key for the HMAC, so what is decrypted this way is not authenticated. Keys that
come with one, and every other cipher, are left to the scalar openers
(`wirelake.capture.decode.decryption`).
"""

from __future__ import annotations

import bisect
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from wirelake.capture.decode.decryption import KeyRing
from wirelake.records.message import Describer
from wirelake.wire.errors import WireError
from wirelake.wire.meaning import CounterCipher
from wirelake.wire.protocol import Protocol

from ..generate.plan import Binary, Choice, Lists, Structs
from ..jit.options import U, kernel, readonly
from .arrays import ArrowBuilder
from .kernel import Columns
from .meaning import Coded, MessageFields

if TYPE_CHECKING:
    from .messages import Slices

__all__ = ["ConnectionKeys", "OpenRow", "SealedRows", "decrypt_batch", "decrypt_rows"]

OpenRow: TypeAlias = Callable[[int], bytes | None]
"""Decrypts the body of a row; None when it stays sealed. Raises WireError when it is a fault."""

KeyName: TypeAlias = tuple[str, str]
"""The field that selects keys, and its value."""
Ints: TypeAlias = NDArray[np.int64]
_LATEST: Final = 1 << 62
"""As the number of a packet: behind all packets so far."""
_KEPT_NAMES: Final = 16
"""Maximum number of ciphers that are cached for each connection. A usual one names one key, and has
two directions."""
_KEPT_CIPHERS: Final = 32_768
"""Maximum number of connections whose ciphers are cached: some kilobytes each in OpenSSL."""
_BLOCK_BYTES: Final = 16
"""Size of an AES block."""


class SealedRows:
    """Finds the rows with a sealed body."""

    def __init__(self, protocol: Protocol, dialect: str):
        sealed = protocol.meaning.sealed
        self._names = [path.split(".") for path in sealed if "[]" not in path]
        self._lists = [path.replace("[]", "").split(".") for path in sealed if "[]" in path]
        mark = protocol.meaning.seal_mark
        self.always = bool(self._names) and mark is None
        """Whether sealable bodies are always sealed: without a key there are no bodies."""
        self.unmarked = mark is not None and dialect in mark.unmarked_dialects
        """Whether only a key shows what is sealed: without one, bodies count as plaintext."""
        self._overhead = 0 if mark is None else mark.overhead_bytes
        self._prefix = None if mark is None else np.frombuffer(mark.prefix, np.uint8)

    def mask(self, slices: Slices, columns: Columns, arrays: ArrowBuilder) -> NDArray[np.bool_]:
        """Return which rows are sealed."""
        found = np.zeros(len(slices), np.bool_)
        if self.unmarked:
            return found
        choice = next((s for _, s in columns.plan.shape.fields if isinstance(s, Choice)), None)
        for name, field in self._names:
            if choice is None or name not in arrays.chosen:
                continue
            rows, _ = arrays.chosen[name]
            shape = dict(choice.shapes[choice.names.index(name)].fields)[field]
            assert isinstance(shape, Binary)
            found[rows] = (
                True if self._prefix is None else self._looks_sealed(columns, shape, self._prefix)
            )
        return found

    def sealable(self, slices: Slices, arrays: ArrowBuilder) -> NDArray[np.bool_]:
        """Return which rows have bytes that may be sealed."""
        found = np.zeros(len(slices), np.bool_)
        for name, *_ in (*self._names, *self._lists):
            if name in arrays.chosen:
                found[arrays.chosen[name][0]] = True
        return found

    def lists(self, slices: Slices, columns: Columns, arrays: ArrowBuilder) -> NDArray[np.bool_]:
        """Return which rows have a list with a sealed item."""
        found = np.zeros(len(slices), np.bool_)
        if self.unmarked or self._prefix is None:
            return found
        choice = next((s for _, s in columns.plan.shape.fields if isinstance(s, Choice)), None)
        for name, items, field in self._lists:
            if choice is None or name not in arrays.chosen:
                continue
            rows, _ = arrays.chosen[name]
            shape = dict(choice.shapes[choice.names.index(name)].fields)[items]
            assert isinstance(shape, Lists)
            assert isinstance(shape.item, Structs)
            content = dict(shape.item.fields)[field]
            assert isinstance(content, Binary)
            counts = np.diff(columns[shape.ends], prepend=0)
            owners = np.repeat(rows, counts)
            found[owners[self._looks_sealed(columns, content, self._prefix)]] = True
        return found

    def _looks_sealed(
        self, columns: Columns, shape: Binary, prefix: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Return which bodies begin with the seal mark, as `Decryptor` decides it."""
        starts, sizes = columns[shape.start], columns[shape.size]
        sealed = np.asarray(sizes >= self._overhead)
        # Only bodies long enough for the mark and the overhead; shorter ones cannot be sealed, and
        # reading their prefix would leave the body.
        places = starts[sealed].astype(np.int64)
        begins = columns.buf[places[:, np.newaxis] + np.arange(len(prefix))]
        sealed[sealed] = (begins == prefix).all(axis=1)
        return sealed


class _SelectedKeys(NamedTuple):
    """The keys of one direction of a connection, for one version of the key ring."""

    version: int
    keys: dict[str, Any] | None
    cipher: tuple[Any, bytes] | None


@functools.lru_cache(maxsize=32)
def _describer(protocol: Protocol, dialect: str | None) -> Describer:
    """Return the describer of a dialect. It has no state, and compiles every term of a meaning."""
    return Describer(protocol, dialect)


class ConnectionKeys:
    """The keys of the connections of one protocol."""

    def __init__(self, protocol: Protocol, ring: KeyRing, dialect: str | None = None):
        self.protocol = protocol
        self.ring = ring
        self._describer = _describer(protocol, dialect)
        self.key_names: dict[int, KeyName] = {}
        """By connection: the key selector that its messages named last, and its value."""
        self._namings: dict[int, list[tuple[int, KeyName | None]]] = {}
        """By connection: all that its messages named in this window, each with the number of the
        packet, and before them what was known at its beginning."""
        self._ciphers: OrderedDict[int, dict[tuple[int, KeyName | None], _SelectedKeys]] = (
            OrderedDict()
        )
        """By connection, for both directions; the least recently added is dropped first."""

    def begin_window(self) -> None:
        """Forget when keys were named: all messages that follow come later."""
        self._namings.clear()

    @property
    def any(self) -> bool:
        """Whether any connection of the protocol has or had keys."""
        return self.ring.knows(self.protocol.name)

    def learn(self, slices: Slices, found: MessageFields) -> None:
        """Remember the key selectors that messages name."""
        selector = self.protocol.meaning.key_selector
        part = None if selector is None else found.at(selector.path)
        if selector is None or part is None:
            return
        rows, values = part
        which = slice(None) if rows is None else rows
        connections, arrivals = slices.connection[which].tolist(), slices.arrival[which].tolist()
        for connection, arrival, value in zip(
            connections, arrivals, values.to_pylist(), strict=True
        ):
            if value is not None:
                self._learn(connection, arrival, selector.name, value)

    def learn_from(self, connection: int, message: Any, arrival: int) -> None:
        """Remember the key selector that a message names, and the packet that completed it."""
        selector = self.protocol.meaning.key_selector
        value = self._describer.key_name(message)
        if selector is not None and value is not None:
            self._learn(connection, arrival, selector.name, value)

    def _learn(self, connection: int, arrival: int, field: str, value: str | bytes) -> None:
        name = field, value.hex() if isinstance(value, bytes) else value
        known = self._namings.get(connection)
        if known is None:  # the usual case: the first one of a connection in this window
            before = self.key_names.get(connection)
            if before != name:
                self._namings[connection] = [(-1, before), (arrival, name)]
                self.key_names[connection] = name
            return
        if self.name_at(connection, arrival) == name:
            return
        bisect.insort(known, (arrival, name), key=_packet)
        latest = known[-1][1]
        assert latest is not None
        self.key_names[connection] = latest

    def name_at(self, connection: int, arrival: int) -> KeyName | None:
        """Return the key selector of a connection when a packet of this window was captured, and
        its value."""
        known = self._namings.get(connection)
        if known is None:
            return self.key_names.get(connection)
        return known[max(0, bisect.bisect_right(known, arrival, key=_packet) - 1)][1]

    def epochs(self, connections: NDArray[np.int64], arrivals: NDArray[np.int64]) -> Ints:
        """Return for each row how many keys its connection has named in this window so far."""
        found = np.zeros(len(connections), np.int64)
        if not self._namings:
            return found
        named = np.isin(connections, np.fromiter(self._namings, np.int64, len(self._namings)))
        for connection in np.unique(connections[named]).tolist():
            rows = np.flatnonzero(connections == connection)
            packets = [arrival for arrival, _ in self._namings[connection]]
            found[rows] = np.searchsorted(packets, arrivals[rows], side="right")
        return found

    def forget(self, connections: Iterable[int]) -> None:
        """Forget dropped connections."""
        if not self.key_names and not self._ciphers:
            return
        for connection in connections:
            self.key_names.pop(connection, None)
            self._ciphers.pop(connection, None)

    def cipher(
        self, connection: int, direction: int, arrival: int = _LATEST
    ) -> tuple[Any, bytes] | None:
        """Return an encryptor of counter blocks and the IV; None without such a key."""
        name = self.name_at(connection, arrival)
        known = self._ciphers.setdefault(connection, {})
        chosen = known.get((direction, name))
        # A key may arrive after the first message of its connection, so the choice is repeated
        # whenever the ring has changed.
        if chosen is None or chosen.version != self.ring.version:
            if len(known) >= _KEPT_NAMES:
                known.clear()
            way = ("c2s", "s2c")[direction]
            chosen = known[direction, name] = self._select(connection, way, name, chosen)
            if len(self._ciphers) > _KEPT_CIPHERS:
                self._ciphers.popitem(last=False)
        return chosen.cipher

    def candidates(self, connection: int, name: KeyName | None) -> list[dict[str, Any]]:
        """Return the keys that may fit a connection, the most specific first."""
        protocol = self.protocol.name
        selectors: list[Any] = [(protocol, "connection", connection)]
        if name is not None:
            selectors.append((protocol, *name))
        return self.ring.candidates([*selectors, (protocol, "", "")])

    def _select(
        self, connection: int, direction: str, name: KeyName | None, before: _SelectedKeys | None
    ) -> _SelectedKeys:
        """Return the first keys that fit; the cipher of `before` is reused for the same keys."""
        version = self.ring.version
        cipher = self.protocol.meaning.cipher
        assert cipher is not None
        key, iv_name, mac = (f"{direction}_{part}" for part in (cipher.key, cipher.iv, cipher.mac))
        for keys in self.candidates(connection, name):
            if key not in keys or iv_name not in keys:
                continue
            if mac in keys:  # the HMAC can be checked: the scalar opener does
                break
            if before is not None and keys is before.keys:
                return before._replace(version=version)
            try:
                encrypt, iv = bytes.fromhex(keys[key]), bytes.fromhex(keys[iv_name])
                return _SelectedKeys(version, keys, (Cipher(AES(encrypt), ECB()).encryptor(), iv))
            except (TypeError, ValueError):
                continue
        return _SelectedKeys(version, None, None)


def _packet(naming: tuple[int, KeyName | None]) -> int:
    return naming[0]


def decrypt_batch(
    keys: ConnectionKeys,
    slices: Slices,
    found: MessageFields,
    body: pa.Array,
    sealed: NDArray[np.bool_],
) -> tuple[pa.Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Decrypt what batches can; return bodies, rows still sealed, rows for the scalar opener."""
    left_over = np.zeros(len(slices), np.bool_)
    rows = np.flatnonzero(sealed)
    cipher = keys.protocol.meaning.cipher
    if cipher is None:
        left_over[rows] = True
        return body, sealed, left_over
    # One group for each connection, the keys that it has named, and direction: these have their own
    # key and IV.
    connections, arrivals = slices.connection[rows], slices.arrival[rows]
    senders = _senders(cipher, found.name, slices.directions)[rows]
    epochs = keys.epochs(connections, arrivals)
    _, place = np.unique(connections, return_inverse=True)
    groups = 2 * (place * (int(epochs.max(initial=0)) + 1) + epochs) + senders
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    ciphers = [
        keys.cipher(*each)
        for each in zip(
            connections[first].tolist(),
            senders[first].tolist(),
            arrivals[first].tolist(),
            strict=True,
        )
    ]
    known = np.array([each is not None for each in ciphers], np.bool_)[group]
    # Keys that batches cannot use (another cipher, or with an HMAC key) are tried by the scalar
    # opener; without any candidate the row just stays sealed.
    for at in np.flatnonzero(~known).tolist():
        connection = int(connections[at])
        name = keys.name_at(connection, int(arrivals[at]))
        left_over[rows[at]] = bool(keys.candidates(connection, name))
    order = np.argsort(group[known], kind="stable")
    rows, group = rows[known][order], group[known][order]
    if not len(rows):
        return body, sealed & ~left_over, left_over
    numbers = found.fields[cipher.number].to_numpy()
    opened = _decrypt_ctr(cipher, body, rows, group, ciphers, numbers)
    sealed = sealed & ~left_over
    sealed[rows] = False
    return opened, sealed, left_over


def decrypt_rows(
    body: pa.Array, sealed: NDArray[np.bool_], rows: NDArray[np.bool_], open_row: OpenRow
) -> tuple[pa.Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Decrypt some rows one by one; return bodies, rows still sealed, rows that are faults."""
    sealed, opened, wrong = sealed.copy(), np.zeros_like(rows), np.zeros_like(rows)
    found = []
    for row in np.flatnonzero(rows).tolist():
        try:
            plain = open_row(row)
        except WireError:
            wrong[row] = True
            continue
        sealed[row] = plain is None
        if plain is not None:
            opened[row] = True
            found.append(plain)
    if found:
        body = pc.replace_with_mask(body, pa.array(opened), pa.array(found, body.type))
    return body, sealed, wrong


def _senders(
    cipher: CounterCipher, names: Coded, directions: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return the ends that sent messages: those that only one end sends tell it by their name."""
    fixed = [cipher.senders.get(name) for name in names.texts]
    known = np.array([each is not None for each in fixed] + [False], np.bool_)
    ends = np.array([each == "s2c" for each in fixed] + [False], np.uint8)
    return np.where(known[names.codes], ends[names.codes], directions)


def _decrypt_ctr(
    cipher: CounterCipher,
    body: pa.Array,
    rows: NDArray[np.intp],
    group: NDArray[np.intp],
    ciphers: list[tuple[Any, bytes] | None],
    numbers: NDArray[np.int64],
) -> pa.Array:
    """Return the bodies with some rows decrypted, which are sorted by group (key and direction)."""
    valid, offset_buffer, data_buffer = body.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[body.offset : body.offset + len(body) + 1]
    # A copy, because Arrow buffers are immutable, and shared with the struct of the frame.
    data = np.array(np.frombuffer(data_buffer, np.uint8), copy=True)
    sizes = offsets[rows + 1] - offsets[rows]
    blocks = (sizes.astype(np.int64) + _BLOCK_BYTES - 1) // _BLOCK_BYTES
    stops = np.cumsum(blocks)
    # All counter blocks of the batch, 16 bytes each: as many as there are blocks of data.
    counters = np.zeros((int(stops[-1]), _BLOCK_BYTES), np.uint8)
    block_row = np.repeat(np.arange(len(rows)), blocks)
    # A counter block: the IV with the frame number XORed into its end, then the block number.
    iv_end, number_start = cipher.iv_bytes, cipher.iv_bytes - cipher.number_bytes
    ivs = b"".join(bytes(iv_end) if each is None else each[1] for each in ciphers)
    counters[:, :iv_end] = np.frombuffer(ivs, np.uint8).reshape(-1, iv_end)[group][block_row]
    counters[:, number_start:iv_end] ^= _big_endian(numbers[rows], cipher.number_bytes)[block_row]
    inside = np.arange(len(block_row)) - np.repeat(stops - blocks, blocks)
    counters[:, iv_end:] = _big_endian(inside, cipher.block_number_bytes)
    # `update_into` asks for a block less one byte more than it writes.
    stream = np.empty(counters.size + 15, np.uint8)
    # Rows are sorted by group, so each key's counter blocks are one range.
    last = np.flatnonzero(np.append(group[1:] != group[:-1], True))
    begin = 0
    for place in last:
        end = int(stops[place])
        encryptor = ciphers[group[place]]
        assert encryptor is not None
        if end > begin:
            room = stream[16 * begin : 16 * end + 15]
            encryptor[0].update_into(counters[begin:end].reshape(-1), room.data)
        begin = end
    firsts = ((stops - blocks) * 16).astype(np.int64)
    _xor_in_place(readonly(stream), firsts, offsets[rows].astype(np.int64), sizes, data)
    parts = [valid, offset_buffer, pa.py_buffer(data)]
    return pa.Array.from_buffers(body.type, len(body), parts, offset=body.offset)


def _big_endian(numbers: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Return the low bytes of numbers, big-endian, one row for each."""
    return numbers.astype(f">u{size}").view(np.uint8).reshape(-1, size)


@kernel
def _xor_in_place(stream: Any, firsts: Any, starts: Any, sizes: Any, data: Any) -> Any:
    """XOR bytes with their key stream, in place."""
    for i in range(U(firsts.shape[0])):
        first = U(firsts[i])
        start = U(starts[i])
        for k in range(U(sizes[i])):
            data[start + k] ^= stream[first + k]
