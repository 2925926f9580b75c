"""What the tests of views run over: every protocol, dialect and direction; and damaged bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st
from view_sink import FIXED, PLAIN, SINK

from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire import DecodeError, NeedMore, Protocol
from wirelake.wire.model import Direction
from wirelake.wire.views._trace_layouts import Span, trace
from wirelake.wire.views.json import to_json


class Case(NamedTuple):
    """A protocol in one dialect, heard from one side."""

    protocol: Protocol
    dialect: str
    direction: Direction | None

    def encode(self, message: Any) -> bytes:
        return self.protocol.encode(message, dialect=self.dialect)

    def answer(self, data: bytes) -> tuple[Any, ...]:
        """What the codec says of some bytes, in a form that can be compared."""
        try:
            message, stop = self.protocol.decode(
                data, direction=self.direction, dialect=self.dialect
            )
        except DecodeError as error:
            return "error", error.code, error.field, error.offset
        except NeedMore as error:
            return "need", error.need
        return "value", self.json(message), stop

    def trace(self, data: bytes) -> Span:
        return trace(self.protocol.model(self.dialect), data, direction=self.direction)

    def traced(self, span: Span) -> tuple[Any, ...]:
        """What a span says, in the form of `answer`."""
        if isinstance(span.error, DecodeError):
            return "error", span.error.code, span.error.field, span.error.offset
        if isinstance(span.error, NeedMore):
            return "need", span.error.need
        return "value", self.json(span.value), span.stop

    def json(self, message: Any) -> dict[str, Any]:
        """A message as JSON: equal for equal messages, NaN included."""
        return to_json(self.protocol.model(self.dialect), message, reveal=True)


def _cases(protocol: Protocol) -> list[Case]:
    ways: tuple[Direction | None, ...] = ("c2s", "s2c") if protocol.directed else (None,)
    return [Case(protocol, dialect, way) for dialect in protocol.dialects for way in ways]


BUILT_IN_CASES = [case for name in BUILT_IN for case in _cases(find(name))]
CASES = [*BUILT_IN_CASES, *(case for p in (SINK, FIXED, PLAIN) for case in _cases(p))]


def name_of(case: Case) -> str:
    """The id of a case in pytest."""
    return "-".join(filter(None, (case.protocol.name, case.dialect, case.direction)))


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with one to three alterations."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        match draw(st.sampled_from(["set", "flip", "delete", "insert", "cut"])):
            case "set" if found:
                edges = st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF])
                found[at] = draw(edges | st.integers(0, 255))
            case "flip" if found:
                found[at] ^= 1 << draw(st.integers(0, 7))
            case "delete":
                del found[at : at + draw(st.integers(1, 4))]
            case "insert":
                found[at:at] = draw(st.binary(max_size=4))
            case _:
                del found[at:]
    return bytes(found)
