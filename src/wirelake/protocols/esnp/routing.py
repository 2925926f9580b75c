"""Routing: forwarding messages with their bytes unchanged, and returning the responses.

A router adds one SESSION_INFO row, named after itself, with the number of the channel that a
message came from. A reply carries the row back (section 3 of `docs/decisions/esnp.md`), so the
router keeps no state: it removes its row and sends the rest to that channel. Routers may be nested;
each knows only its own name.

    channel:  Forwarded(message, raw)   ->   target.forward(router.forward_request(raw, number))
    target:   Forwarded(message, raw)   ->   number, raw = router.forward_response(raw)
                                          channels[number].forward(raw)

The original writes the number as a bare varint where a Var belongs; both forms are read. A router
changes no MESSAGE_ID: if two clients use the same id at a time on one connection to the target, it
refuses the second. Clients start with different ids (`first_id`), as the original's do; a hub gives
each request a connection of its own.
"""

from __future__ import annotations

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, NeedMore

from . import codec_seed
from .layout import Message, RowType, SessionInfo, Var, VarType

__all__ = ["Router"]


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
    """A node that forwards messages. `name` must be unique among the nodes of a route."""

    def __init__(self, name: str):
        if not name:
            raise ValueError("the name of a router must not be empty")
        self.name = name
        self._name = name.encode()

    def forward_request(self, raw: bytes, channel: int) -> bytes:
        """Return a message of a channel with our row appended.

        A row with our name that the message already has is removed: only we may write one, and a
        client could otherwise direct the response to another channel.
        """
        inner, _ = self._without_ours(raw)
        row = SessionInfo(name=self.name, value=Var(type=VarType.UINT32, value=channel))
        added: bytes = codec_seed.encode_message(Message(rows=(row,)))
        return inner[: -len(_END)] + added

    def forward_response(self, raw: bytes) -> tuple[int | None, bytes]:
        """Return the channel of a response, and the response without our row.

        None without a row of ours, or with one that holds no number: it cannot be delivered.
        """
        inner, channel = self._without_ours(raw)
        return channel, inner

    def _without_ours(self, raw: bytes) -> tuple[bytes, int | None]:
        """Remove our rows; return the rest and the channel. DecodeError unless `raw` is a
        message."""
        try:
            end = codec_seed.scan_message(raw, 0, len(raw), len(raw)) if raw else 0
        except NeedMore:
            end = 0
        if end != len(raw) or not raw:
            raise DecodeError("short", "message", len(raw), "expected exactly one message")
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
        """Return the bytes after our name in a SESSION_INFO row; None if it is not ours."""
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
