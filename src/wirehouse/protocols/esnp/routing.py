"""Routing: passing messages on with their bytes unchanged, and finding the way back.

A router adds one SESSION_INFO row, named after itself, with the number of the channel that a
message came from. Whoever answers copies the row back (section 3 of the decisions), so the router
needs no memory: it takes its row out again and sends the rest to that channel. Routers may be
nested; each knows only its own name. The original wrote the number as a bare varint; both forms are read.
"""

from __future__ import annotations

from wirehouse.wire import runtime as rt
from wirehouse.wire.errors import DecodeError

from . import codec_seed
from .layout import BrokenRow, Message, RowType, SessionInfo, Var, VarType

__all__ = ["Router"]

_END = b"\0\0\0\0"
_HEAD = 4


class Router:
    """One node that passes messages on. `name` must be unique among the nodes of a route."""

    def __init__(self, name: str):
        self.name = name

    def outward(self, raw: bytes, channel: int) -> bytes:
        """A message of a channel, ready to be passed on: its own rows, then ours."""
        inner, _ = self._without_ours(raw)
        row = SessionInfo(name=self.name, value=Var(type=VarType.UINT32, value=channel))
        added: bytes = codec_seed.encode_message(Message(rows=(row,)))
        return inner[: -len(_END)] + added

    def homeward(self, raw: bytes) -> tuple[int | None, bytes]:
        """The channel that a response belongs to, and the response without our row."""
        inner, channel = self._without_ours(raw)
        return channel, inner

    def _without_ours(self, raw: bytes) -> tuple[bytes, int | None]:
        pos, channel, kept = 0, None, []
        while True:
            size = int.from_bytes(raw[pos + 1 : pos + _HEAD], "big")
            stop = pos + _HEAD + size
            kind = raw[pos]
            if kind == RowType.END:
                kept.append(raw[pos:stop])
                return b"".join(kept), channel
            found = self._channel(raw[pos:stop]) if kind == RowType.SESSION_INFO else None
            if found is None:
                kept.append(raw[pos:stop])
            else:
                channel = found
            pos = stop

    def _channel(self, row: bytes) -> int | None:
        """The channel in a SESSION_INFO row of ours; None for another's."""
        message, _ = codec_seed.decode_message(row + _END, 0, len(row) + len(_END))
        match message.rows[0]:
            case SessionInfo(name=self.name, value=Var(value=int() as channel)):
                return channel
            case BrokenRow(data=data):
                return self._bare(data)
            case _:
                return None

    def _bare(self, data: bytes) -> int | None:
        name = self.name.encode()
        prefix = rt.put_zigzag32(len(name), "session_info.name") + name
        if not data.startswith(prefix):
            return None
        try:
            channel, stop = rt.uvarint32(data, len(prefix), len(data), "session_info.value")
        except DecodeError:
            return None
        return channel if stop == len(data) else None
