"""`Framing`: finds the frames of a protocol in a stream of bytes, from its layout.

`Framing.classify` says what is at one position: a valid frame, a delimited frame with invalid
content, an invalid head, or too few bytes. It also knows the protocol's magic, if it has one.
Nothing here depends on the name of a protocol.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Final, NamedTuple, TypeAlias

from wirelake.records.message import Describer
from wirelake.wire import model as m
from wirelake.wire.errors import CODES, DecodeError, NeedMore, WireError
from wirelake.wire.model import Direction
from wirelake.wire.protocol import Protocol

__all__ = [
    "SEARCHED_BYTES",
    "BadFrame",
    "BadHead",
    "Framing",
    "Incomplete",
    "KnownStop",
    "ValidFrame",
    "Verdict",
    "describe",
    "head_size",
    "magics",
]


SEARCHED_BYTES: Final = 1 << 16
"""Maximum size of a frame that is found by searching after a fault (captures.md, Messages 2)."""


class ValidFrame(NamedTuple):
    """A complete, valid frame and its bytes."""

    message: Any
    raw: bytes


class BadFrame(NamedTuple):
    """A delimited frame with invalid content, and its bytes."""

    error: WireError
    raw: bytes


class BadHead(NamedTuple):
    """No frame begins here."""

    error: DecodeError


class Incomplete(NamedTuple):
    """This many more bytes are needed. The scan can then continue at `resume`."""

    more: int
    resume: int | None


class KnownStop(NamedTuple):
    """How far an incomplete frame goes, from the part of it that is there."""

    stop: int
    """Position in the buffer, behind its end."""
    in_rows: bool
    """Whether only a row ends there: the frame goes on with the next one."""


Verdict: TypeAlias = ValidFrame | BadFrame | BadHead | Incomplete
"""The classification of the bytes at one position."""


class Framing:
    """Reads the frames of one direction."""

    def __init__(self, protocol: Protocol, dialect: str | None, direction: Direction):
        self.protocol = protocol
        self.dialect = protocol.dialect(dialect)
        self._direction: Direction | None = direction if protocol.directed else None
        model = protocol.model(self.dialect)
        self._scan = getattr(protocol.codec(self.dialect), f"scan_{model.name}")
        # The generated scan knows the protocol's limit as the default of its argument.
        self._limit: int = inspect.signature(self._scan).parameters["limit"].default
        self._searched = min(self._limit, SEARCHED_BYTES)
        self._head_size = head_size(model)
        self._describer = Describer(protocol, self.dialect)
        self._has_rows = any(
            isinstance(part, m.Field) and isinstance(part.type, m.Rows) for part in model.parts
        )
        # Constants at the beginning of a frame. With one, searching after a fault is a regular
        # expression over the buffer.
        self._magics = patterns = magics(model)
        self.magic_size = max(map(len, patterns), default=0)
        """Length of the longest magic; 0 without one."""
        self._magic = re.compile(b"|".join(map(re.escape, patterns))) if patterns else None

    def find_magic(self, buffer: bytearray, start: int) -> int | None:
        """Return the next position of a magic value in the buffer."""
        if self._magic is None:
            return None
        found = self._magic.search(buffer, start)
        return None if found is None else found.start()

    def classify(
        self,
        buffer: bytearray,
        at: int,
        *,
        final: bool,
        resume: int | None = None,
        searching: bool = False,
    ) -> Verdict:
        """Return what begins at a position of the buffer.

        `final`: no more bytes will follow. `searching`: the position is a guess, so a frame of more
        than `SEARCHED_BYTES` is rejected. Otherwise each position of a hostile stream could cost as
        much as a large frame.

        The result does not depend on how the bytes arrived: an incomplete head is waited for even
        if it is already invalid, because its missing bytes may still delimit the frame. Only bytes
        that contradict the magic are no frame whatever follows.
        """
        available = len(buffer) - at
        try:
            stop = self._stop(buffer, at, resume, self._searched if searching else self._limit)
        except NeedMore as error:
            return Incomplete(error.need, error.resume)
        except DecodeError as error:
            if available < self._head_size and not final and self._may_begin(buffer, at):
                return Incomplete(1, None)
            return BadHead(error)
        # Through a memoryview, so that the bytes are copied once, not twice.
        raw = bytes(memoryview(buffer)[at:stop])
        try:
            message, _ = self.protocol.decode(
                raw, 0, direction=self._direction, dialect=self.dialect
            )
        except DecodeError as error:
            return BadFrame(error, raw)
        return ValidFrame(message, raw)

    def known_stop(self, buffer: bytearray, at: int) -> KnownStop | None:
        """Return how far the incomplete frame at a position goes; None while its head is
        incomplete."""
        try:
            self._stop(buffer, at, None, self._limit)
        except NeedMore as error:
            begin = at if error.resume is None else error.resume
            if len(buffer) - begin >= self._head_size:
                return KnownStop(len(buffer) + error.need, error.resume is not None)
        except DecodeError:
            pass
        return None

    def identifies(self, message: Any) -> bool:
        """Return whether a frame has content that other bytes do not have by chance: the magic of
        its protocol, or an id, a target, a client or a body."""
        return self._magic is not None or self._describer.identifies(message)

    def speaks(self, good: ValidFrame) -> bool:
        """Return whether a frame tells the protocol of its connection.

        A short message that says nothing does, such as a heartbeat, unless it is one byte repeated.
        In rows almost any bytes are a message: they must identify something.
        """
        if self._has_rows or good.raw.count(good.raw[0]) == len(good.raw):
            return self.identifies(good.message)
        return True

    def is_head(self, buffer: bytearray, at: int) -> bool:
        """Return whether an incomplete frame has all of its head, with a magic."""
        return self._magic is not None and len(buffer) - at >= self._head_size

    def _may_begin(self, buffer: bytearray, at: int) -> bool:
        """Return whether the bytes that are there do not contradict the magic."""
        prefix = bytes(buffer[at : at + self.magic_size])
        return not self._magics or any(
            each.startswith(prefix[: len(each)]) for each in self._magics
        )

    def _stop(self, buffer: bytearray, at: int, resume: int | None, limit: int) -> int:
        if resume is not None:
            return int(self._scan(buffer, at, len(buffer), limit, resume=resume))
        if len(buffer) - at < self._head_size:
            return at + self._stop_in_partial_head(bytes(memoryview(buffer)[at:]), limit)
        return int(self._scan(buffer, at, len(buffer), limit))

    def _stop_in_partial_head(self, head: bytes, limit: int) -> int:
        """Scan an incomplete head, which needs bytes and counts positions from their start."""
        try:
            return int(self._scan(head, 0, len(head), limit))
        except NeedMore as error:
            raise NeedMore(error.need) from error


def describe(error: WireError) -> str:
    """Return the description of an error."""
    words = CODES.get(error.code, error.code)
    return f"{words} ({error.detail})" if error.detail else words


def magics(layout: m.Layout) -> list[bytes]:
    """Return the magic values of a layout; empty when it has none."""
    found = [b""]
    for part in layout.parts:
        match part:
            case m.Const():
                found = [each + part.value for each in found]
            case m.TagConst() if layout.body is not None:
                numbers = {a.const for a in layout.body.alternatives if a.const is not None}
                values = [n.to_bytes(part.type.size, part.type.order) for n in sorted(numbers)]
                found = [each + value for each in found for value in values]
            case _:
                break
    return [each for each in found if each]


def head_size(layout: m.Layout) -> int:
    """Return the maximum size of the head that delimits a frame; for rows, that of the first
    row."""
    total = 0
    for part in layout.parts:
        match part:
            case m.Body():
                return total + max((head_size(a.layout) for a in part.alternatives), default=0)
            case m.Const():
                total += len(part.value)
            case m.BitGroup():
                total += part.size
            case m.Field():
                total += m.type_size(part.type)[0]
            case m.Options():
                pass
            case _:
                total += part.type.size
        if isinstance(part, m.Length):
            return total
    return total
