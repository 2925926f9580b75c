"""Routing: passing messages on with their bytes unchanged, and finding the way back.

A router adds one SESSION_INFO row, named after itself, with the number of the channel that a
message came from. Whoever answers copies the row back (section 3 of the decisions), so the router
needs no memory: it takes its row out again and sends the rest to that channel. Routers may be
nested; each knows only its own name.

    channel:  Passed(message, raw)   ->   target.forward(router.outward(raw, channel_number))
    target:   Passed(message, raw)   ->   number, raw = router.homeward(raw)
                                          channels[number].forward(raw)

The original wrote the number as a bare varint where a Var belongs; both forms are read. A router
changes no MESSAGE_ID: two clients that use the same one at a time get an error reply from a target
that sees both, so clients begin with numbers of their own (`first_id`), as the original's do.
"""

from __future__ import annotations

from typing import TypeAlias

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, NeedMore

from . import codec_seed
from .layout import Message, RowType, SessionInfo, Var, VarType

__all__ = [
    "Numbers",
    "Part",
    "Router",
    "Sequences",
    "in_range",
]


_END = b"\0\0\0\0"
_HEAD = 4
_NAME = "session_info.name"
_VALUE = "session_info.value"
_INTEGERS = frozenset(
    {
        VarType.INT,
        VarType.INT8,
        VarType.INT16,
        VarType.INT32,
        VarType.INT64,
        VarType.UINT,
        VarType.UINT8,
        VarType.UINT16,
        VarType.UINT32,
        VarType.UINT64,
    }
)


class Router:
    """One node that passes messages on. `name` must be unique among the nodes of a route."""

    def __init__(self, name: str):
        if not name:
            raise ValueError("a router needs a name of its own")
        self.name = name
        self._name = name.encode()

    def outward(self, raw: bytes, channel: int) -> bytes:
        """Return a message of a channel, ready to be passed on: its own rows, then ours.

        A row with our name that the message already has is not ours: it is taken out.
        """
        inner, _ = self._without_ours(raw)
        row = SessionInfo(name=self.name, value=Var(type=VarType.UINT32, value=channel))
        added: bytes = codec_seed.encode_message(Message(rows=(row,)))
        return inner[: -len(_END)] + added

    def homeward(self, raw: bytes) -> tuple[int | None, bytes]:
        """Return the channel that a response belongs to, and the response without our row.

        None when it has no row of ours, or one that holds no number: it cannot be delivered.
        """
        inner, channel = self._without_ours(raw)
        return channel, inner

    def _without_ours(self, raw: bytes) -> tuple[bytes, int | None]:
        """Raise DecodeError when `raw` is not one whole message."""
        try:
            end = codec_seed.scan_message(raw, 0, len(raw), len(raw)) if raw else 0
        except NeedMore:
            end = 0
        if end != len(raw) or not raw:
            raise DecodeError("short", "message", len(raw), "not one whole message")
        pos, start, channel, kept = 0, 0, None, []
        while raw[pos] != RowType.END:
            stop = pos + _HEAD + int.from_bytes(raw[pos + 1 : pos + _HEAD], "big")
            value = self._value(raw, pos, stop) if raw[pos] == RowType.SESSION_INFO else None
            if value is not None:
                channel = _channel(raw[pos:stop], value) if channel is None else channel
                kept.append(raw[start:pos])
                start = stop
            pos = stop
        kept.append(raw[start:])
        return b"".join(kept), channel

    def _value(self, raw: bytes, pos: int, stop: int) -> bytes | None:
        """What follows our name in a SESSION_INFO row; None in the row of another."""
        try:
            length, at = rt.zigzag32(raw, pos + _HEAD, stop, _NAME)
        except DecodeError:
            return None
        value_at = at + length
        if length != len(self._name) or value_at > stop or raw[at:value_at] != self._name:
            return None
        return raw[value_at:stop]


def _channel(row: bytes, value: bytes) -> int | None:
    """Return the number in a row of ours, as a Var or as the original's bare varint.

    The two cannot be confused: a Var has its type before the number, so it is longer than a varint
    whose first byte is that type.
    """
    message, _ = codec_seed.decode_message(row + _END, 0, len(row) + len(_END))
    found = message.rows[0]
    if isinstance(found, SessionInfo) and found.value.type in _INTEGERS:
        number = found.value.value
        return number if isinstance(number, int) and number >= 0 else None
    try:
        channel, stop = rt.uvarint32(value, 0, len(value), _VALUE)
    except DecodeError:
        return None
    return channel if stop == len(value) else None


# Messages that belong together: MT_SEQ_NO of both documents, and the sequence rule of section 8.


Numbers: TypeAlias = tuple[int, int]
"""(current, maximum) of a SEQ_NO row; maximum 0 is unknown."""
Part: TypeAlias = tuple[Message, bytes, bool]
"""A message, its bytes, and whether it is the last."""


def in_range(numbers: Numbers) -> bool:
    """Return whether a part can have these numbers."""
    current, maximum = numbers
    return current >= 1 and (maximum == 0 or current <= maximum)


class _Sequence:
    """What has come of one sequence."""

    __slots__ = ("held", "next", "refused", "size", "taken")

    def __init__(self) -> None:
        self.next = 1
        self.held: dict[int, Part] = {}
        self.taken: list[Part] = []
        self.size = 0
        self.refused = False


class Sequences:
    """The sequences of one direction that are not over yet; `whole` keeps parts to the last."""

    def __init__(self, max_parts: int, max_bytes: int, *, whole: bool = False):
        self.max_parts = max_parts
        self.max_bytes = max_bytes
        self.whole = whole
        self.held_bytes = 0
        self._open: dict[int, _Sequence] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: int) -> bool:
        return key in self._open

    def add(self, key: int, numbers: Numbers, message: Message, raw: bytes) -> list[Part]:
        """Take a part; return those that can be delivered now, in order.

        DecodeError when the part cannot be one: the sequence is as it was before.
        """
        sequence = self._open.get(key)
        if sequence is not None and sequence.refused:
            if numbers[0] == numbers[1]:
                self.drop(key)
            return []
        self._check(sequence, numbers, len(raw))
        if sequence is None:
            sequence = self._open[key] = _Sequence()
        sequence.held[numbers[0]] = message, raw, numbers[0] == numbers[1]
        sequence.size += len(raw)
        self.held_bytes += len(raw)
        return self._ready(key, sequence)

    def _check(self, sequence: _Sequence | None, numbers: Numbers, size: int) -> None:
        current, maximum = numbers
        if not in_range(numbers):
            raise DecodeError("seq_range", "seq_no", None, f"{current} of {maximum}")
        if sequence is not None and (current < sequence.next or current in sequence.held):
            raise DecodeError("seq_range", "seq_no.current", None, f"part {current} came before")
        count = 0 if sequence is None else len(sequence.held) + len(sequence.taken)
        if count >= self.max_parts or self.held_bytes + size > self.max_bytes:
            raise DecodeError("too_many", "seq_no", None, f"{count} parts are held")

    def _ready(self, key: int, sequence: _Sequence) -> list[Part]:
        ready: list[Part] = []
        while (part := sequence.held.pop(sequence.next, None)) is not None:
            ready.append(part)
            sequence.next += 1
            if part[2]:
                ready = sequence.taken + ready
                self.drop(key)
                return ready
        if self.whole:
            sequence.taken += ready
            return []
        self._release(sequence, sum(len(raw) for _, raw, _ in ready))
        return ready

    def _release(self, sequence: _Sequence, size: int) -> None:
        sequence.size -= size
        self.held_bytes -= size

    def refuse(self, key: int) -> None:
        """Forget a sequence, and discard the parts that are still to come."""
        self.drop(key)
        self._open[key] = _Sequence()
        self._open[key].refused = True

    def refused(self, key: int) -> bool:
        """Return whether the rest of this sequence is being discarded."""
        return key in self._open and self._open[key].refused

    def drop(self, key: int) -> None:
        """Forget a sequence; one that does not exist is no error."""
        sequence = self._open.pop(key, None)
        if sequence is not None:
            self.held_bytes -= sequence.size

    def clear(self) -> None:
        """Forget all."""
        self._open.clear()
        self.held_bytes = 0
