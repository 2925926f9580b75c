"""Messages that belong together: MT_SEQ_NO of both documents, and the sequence rule of section 8.

Parts are gathered by message id and handed on in the order of their numbers, from 1. The last one
is the one whose number is its maximum.
"""

from __future__ import annotations

from wirehouse.wire.errors import DecodeError

from .layout import Message
from .message import seq

__all__ = ["Sequences"]


class Sequences:
    """The sequences of one direction that are not whole yet."""

    def __init__(self, max_parts: int, max_bytes: int):
        self.max_parts = max_parts
        self.max_bytes = max_bytes
        self._next: dict[int, int] = {}
        self._held: dict[int, dict[int, tuple[Message, bytes]]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._next)

    def __contains__(self, key: int) -> bool:
        return key in self._next

    def add(self, key: int, message: Message, raw: bytes) -> list[tuple[Message, bytes, bool]]:
        """Takes a part; returns those that are now in order, each with whether it is the last."""
        found = seq(message)
        if found is None:
            self.drop(key)
            return [(message, raw, True)]
        current, wanted = found[0], self._next.get(key, 1)
        held = self._held.setdefault(key, {})
        if current < wanted or current in held:
            raise DecodeError("seq_range", "seq_no.current", None, f"part {current} came before")
        if len(held) >= self.max_parts or self._bytes + len(raw) > self.max_bytes:
            raise DecodeError("too_many", "seq_no", None, f"{len(held)} parts are held")
        self._next[key] = wanted
        held[current] = message, raw
        self._bytes += len(raw)
        return self._ready(key)

    def _ready(self, key: int) -> list[tuple[Message, bytes, bool]]:
        ready: list[tuple[Message, bytes, bool]] = []
        held = self._held[key]
        while self._next[key] in held:
            message, raw = held.pop(self._next[key])
            self._bytes -= len(raw)
            found = seq(message)
            last = found is not None and found[0] == found[1]
            ready.append((message, raw, last))
            self._next[key] += 1
            if last:
                self.drop(key)
                break
        return ready

    def drop(self, key: int) -> None:
        """Forgets a sequence."""
        self._next.pop(key, None)
        for _, raw in self._held.pop(key, {}).values():
            self._bytes -= len(raw)
