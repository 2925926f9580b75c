"""What is fuzzed: for each protocol a target, which tries any bytes in all dialects and directions.

A target lets only the documented answers pass: a message, `NeedMore`, or a `DecodeError` whose
code is listed and whose offset lies in the bytes. What decodes must encode, and decode to the same
again. Anything else is an exception that leaves `Target.run`, and a finding.

The checks that cost much are made on some of the executions only.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire import CODES, DecodeError, NeedMore, Protocol
from wirelake.wire import model as m

AROUND_EVERY = 8
"""One execution in so many is repeated in the middle of a larger buffer."""
MEASURE_EVERY = 2048
"""One execution in so many is measured."""
BYTES_PER_BYTE = 200
"""Memory that a decoder may take for each byte: one byte can be a value, so an object."""
BYTES_AT_ALL = 32 * 1024
SECONDS_AT_ALL = 2.0
"""Far more than any input of a fuzzer takes; a quadratic reader would still break it."""
JUNK = b"\xff\x80\x00\x7f"

Decode = Callable[[bytes, int, int], tuple[Any, int]]


class BrokenPromiseError(AssertionError):
    """A promise of the codecs does not hold."""


class Speech(NamedTuple):
    """The functions of one dialect and direction."""

    name: str
    decode: Decode
    scan: Callable[[bytes, int, int], int]
    encode: Callable[[Any], bytes]


class Stage(NamedTuple):
    """Where a message holds bytes that are a layout of their own."""

    outer: type
    field: str
    inner: list[Inner]


class Inner(NamedTuple):
    """The functions of a layout that stands inside a slice."""

    name: str
    read: Decode
    write: Callable[[Any], bytes]


def _speeches(protocol: Protocol) -> Iterator[Speech]:
    for dialect in protocol.dialects:
        codec: Any = protocol.codec(dialect)
        frame = protocol.model(dialect).name
        for suffix in ("_c2s", "_s2c") if protocol.directed else ("",):
            yield Speech(
                f"{protocol.name}.{dialect}{suffix}",
                getattr(codec, f"decode_{frame}{suffix}"),
                getattr(codec, f"scan_{frame}"),
                getattr(codec, f"encode_{frame}"),
            )


def _inners(protocol: Protocol) -> Iterator[Inner]:
    for dialect in protocol.dialects:
        codec: Any = protocol.codec(dialect)
        for layout in protocol.layouts(dialect):
            read = getattr(codec, f"read_{layout.name}", None)
            if read is not None:
                write = getattr(codec, f"write_{layout.name}")
                yield Inner(f"{protocol.name}.{dialect}.{layout.name}", read, write)
        if hasattr(codec, "read_var"):
            yield Inner(f"{protocol.name}.{dialect}.var", _var_reader(codec), _var_writer(codec))


def _var_reader(codec: Any) -> Decode:
    def read(buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        found: tuple[Any, int] = codec.read_var(buf, pos, end, 0, [65_536])
        return found

    return read


def _var_writer(codec: Any) -> Callable[[Any], bytes]:
    def write(value: Any) -> bytes:
        written: bytes = codec.write_var(value, 0, [65_536])
        return written

    return write


def _head_fields(protocol: Protocol) -> frozenset[str]:
    """The fields that an error names when the head of a frame is refused."""
    found: set[str] = set()
    frame = protocol.model()
    frames = [frame]
    if frame.body is not None and frame.find(m.Length) is None:
        frames += [a.layout for a in frame.body.alternatives]
    for layout in frames:
        for part in layout.parts:
            match part:
                case m.BitGroup():
                    names = [bit.name for bit in part.bits if bit.role == "tag"]
                case m.Field() if isinstance(part.type, m.Rows):
                    names = [part.name]
                case m.Field() | m.Options() | m.Body():
                    names = []
                case _:
                    names = [part.name]
            found |= {f"{layout.name}.{name}" for name in names}
    return frozenset(found)


def _stages(protocol: Protocol, inners: list[Inner]) -> Iterator[Stage]:
    for layout in protocol.layouts():
        for part in layout.parts:
            if isinstance(part, m.Field) and part.stage is not None:
                found = [each for each in inners if each.name.endswith(f".{part.stage.name}")]
                yield Stage(layout.cls, part.name, found)


class Target:
    """The checks of one protocol, and what they have seen."""

    def __init__(self, name: str):
        protocol = find(name)
        self.name = name
        self.speeches = list(_speeches(protocol))
        self.inners = list(_inners(protocol))
        self.stages = list(_stages(protocol, self.inners))
        self.head = _head_fields(protocol)
        self.executions = 0
        self.past_head = 0
        self.messages = 0
        self.codes: set[str] = set()
        self.measuring = True
        """Not under instrumentation: it makes each frame of a traceback ten thousand bytes larger,
        so that a refused value, deeply nested, would seem to cost what it does not."""

    def run(self, data: bytes) -> None:
        """One execution: all dialects and directions, and one layout inside a slice."""
        self.executions += 1
        past = False
        for speech in self.speeches:
            past |= self.whole(speech, data)
        self.past_head += past
        if data:
            self.slice(self.inners[data[-1] % len(self.inners)], data[:-1])
        if self.executions % AROUND_EVERY == 0:
            self.around(self.speeches[self.executions // AROUND_EVERY % len(self.speeches)], data)
        if self.measuring and self.executions % MEASURE_EVERY == 0:
            self.measure_all(data)

    # -- whole messages ----------------------------------------------------------------------

    def whole(self, speech: Speech, data: bytes) -> bool:
        """Decodes, and what decodes goes there and back; whether it got past the head."""
        try:
            message, stop = speech.decode(data, 0, len(data))
        except NeedMore as more:
            if more.need < 1:
                raise BrokenPromiseError(f"{speech.name} needs {more.need} more bytes") from more
            return False
        except DecodeError as error:
            self.judge(error, 0, len(data))
            return error.field not in self.head
        self.messages += 1
        if speech.scan(data, 0, len(data)) != stop:
            raise BrokenPromiseError(f"{speech.name}: scanning stops elsewhere")
        self.settle(speech.name, speech.decode, speech.encode, message, data[:stop])
        if self.stages:
            self.staged(message)
        return True

    def staged(self, message: Any) -> None:
        """Bytes that stand for a layout go to its readers too."""
        for stage in self.stages:
            body = getattr(message, "body", message)
            if isinstance(body, stage.outer):
                for inner in stage.inner:
                    self.slice(inner, getattr(body, stage.field))

    def settle(
        self, name: str, read: Decode, write: Callable[[Any], bytes], message: Any, data: bytes
    ) -> None:
        """Bytes that are not canonical become so, and mean the same."""
        written = write(message)
        if written == data:
            return
        again, stop = read(written, 0, len(written))
        if stop != len(written) or write(again) != written or repr(again) != repr(message):
            raise BrokenPromiseError(
                f"{name}: {data.hex()} becomes {written.hex()}, which means another thing"
            )

    def judge(self, error: DecodeError, start: int, end: int) -> None:
        """An error is documented and points into the bytes."""
        self.codes.add(error.code)
        if error.code not in CODES:
            raise BrokenPromiseError(f"unlisted code {error.code}") from error
        if error.offset is None or not start <= error.offset <= end or not error.field:
            raise BrokenPromiseError(f"{error!r} does not say where") from error

    # -- parts of messages -------------------------------------------------------------------

    def slice(self, inner: Inner, data: bytes) -> None:
        """A layout reads no further than its slice, and what it reads it can write."""
        whole = JUNK + data + JUNK
        start, end = len(JUNK), len(JUNK) + len(data)
        try:
            value, stop = inner.read(whole, start, end)
        except DecodeError as error:
            self.judge(error, start, end)
            return
        if not start <= stop <= end:
            raise BrokenPromiseError(f"{inner.name}: stops at {stop}, outside {start} to {end}")
        self.settle(inner.name, inner.read, inner.write, value, whole[start:stop])

    def around(self, speech: Speech, data: bytes) -> None:
        """The same bytes mean the same in the middle of a buffer, unless more were wanted."""
        alone = _outcome(speech, data, 0, len(data))
        inside = _outcome(speech, JUNK + data, len(JUNK), len(JUNK) + len(data))
        if alone != inside:
            raise BrokenPromiseError(f"{speech.name}: {alone} alone, {inside} behind other bytes")
        if alone[0] == "need":
            return
        longer = _outcome(speech, data + JUNK, 0, len(data) + len(JUNK))
        if alone != longer:
            raise BrokenPromiseError(f"{speech.name}: {alone} alone, {longer} before other bytes")

    # -- what it costs -----------------------------------------------------------------------

    def measure_all(self, data: bytes) -> None:
        """Every reader that there is."""
        for speech in self.speeches:
            self.measure(speech.decode, data)
        for inner in self.inners:
            self.measure(inner.read, data)

    def measure(self, read: Decode, data: bytes) -> None:
        """Memory grows no faster than the bytes, and time is short."""
        tracemalloc.start()
        before = time.process_time()
        try:
            read(data, 0, len(data))
        except (DecodeError, NeedMore):
            pass
        finally:
            seconds = time.process_time() - before
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        if peak > BYTES_PER_BYTE * len(data) + BYTES_AT_ALL:
            raise BrokenPromiseError(f"{peak} bytes of memory for {len(data)} bytes")
        if seconds > SECONDS_AT_ALL:
            raise BrokenPromiseError(f"{seconds:.1f} s for {len(data)} bytes")


def _outcome(speech: Speech, data: bytes, start: int, end: int) -> tuple[Any, ...]:
    """What decoding gives, with offsets from the start of the message."""
    try:
        message, stop = speech.decode(data, start, end)
    except NeedMore as more:
        return "need", more.need
    except DecodeError as error:
        return error.code, error.field, (error.offset or 0) - start
    return "message", repr(message), stop - start


TARGETS = tuple(BUILT_IN)
"""One for each protocol."""
