"""The shape of every session, on a small protocol made for it: a length, then that many bytes.

`!` breaks a rule when handled, a length of 0 when decoded; `q` closes, `t` sets a timer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.sansio import (
    CLOSED,
    Closed,
    Event,
    Failed,
    Role,
    Session,
    SessionError,
    Side,
    Table,
    Timers,
    diagram,
)
from wirelake.wire.errors import CODES, DecodeError, NeedMore


class Said(Event, frozen=True, gc=False):
    """Something was said."""

    data: bytes


class Small(Session):
    """Says back what it hears."""

    FIRST: ClassVar[str] = "open"
    TABLES: ClassVar[Mapping[Role, Table]] = {
        Role.CLIENT: {"open": {"ask": "asking"}, "asking": {"hear": "open"}, CLOSED: {}},
        Role.SERVER: {"open": {"hear": "open", "give up": CLOSED}, CLOSED: {}},
    }

    def __init__(self, role: Role = Role.SERVER, now: float = 0.0):
        super().__init__(role, now=now)
        self.decoded_bytes = 0
        self.decodings = 0
        self.fired: list[tuple[str, float]] = []

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        self.decodings += 1
        self.decoded_bytes += end - pos
        size = buf[pos]
        if size == 0:
            raise DecodeError("bad_length", "size", pos)
        stop = pos + 1 + size
        if stop > end:
            raise NeedMore(stop - end)
        return buf[pos + 1 : stop], stop

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        assert buf[pos + 1 : stop] == message
        if b"!" in message:
            raise DecodeError("bad_args", "what", pos + 1 + message.index(b"!"), "loud")
        self._emit(Said(message))
        self._write(buf[pos:stop])
        if message == b"q":
            self._close("quit", Side.REMOTE)
        elif message.startswith(b"t"):
            self.timers.set("t", self.now + 5)

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)
        self._write(b"\x03no!")

    def _timer(self, name: str) -> None:
        self.fired.append((name, self.now))
        if name == "end":
            self._close("timeout", Side.LOCAL, clean=False)


def said(*texts: bytes) -> bytes:
    """A stream of these."""
    return b"".join(bytes([len(text)]) + text for text in texts)


# -- bytes -----------------------------------------------------------------------------------


def test_frames_in_one_chunk() -> None:
    one = Small()
    one.receive(said(b"a", b"bc"), 1.0)
    assert one.events() == [Said(b"a"), Said(b"bc")]
    assert one.events() == []
    assert one.to_send() == said(b"a", b"bc")
    assert one.to_send() == b""
    assert (one.received_bytes, one.sent_bytes, one.buffered, one.now) == (5, 5, 0, 1.0)


@given(
    texts=st.lists(
        st.binary(min_size=1, max_size=30).filter(lambda t: b"!" not in t and t != b"q")
    ),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
def test_any_cut_means_the_same(texts: list[bytes], cuts: list[int]) -> None:
    stream, one, pos, n = said(*texts), Small(), 0, 0
    while pos < len(stream):
        one.receive(stream[pos : pos + cuts[n % len(cuts)]], 0.0)
        pos += cuts[n % len(cuts)]
        n += 1
    assert one.events() == [Said(text) for text in texts]
    assert one.buffered == 0


class Quiet(Small):
    """Answers without events, unless the frame closes it."""

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        super()._handle(message, buf, pos, stop)
        if self.state != CLOSED:
            self._events.clear()


def test_an_exchange_without_events_returns_the_reply() -> None:
    session = Quiet()
    assert session.exchange(b"\x02hi\x02yo", 1.0) == said(b"hi", b"yo")
    assert session.now == 1.0
    assert session.exchange(b"\x02a", 2.0) == b""
    assert session.to_send() == b""


@pytest.mark.parametrize("data", [b"\x02hi", b"\x01q", b"\x00"])
def test_an_exchange_with_events_leaves_the_reply_queued(data: bytes) -> None:
    session, plain = Small(), Small()
    plain.receive(data, 1.0)
    assert session.exchange(data, 1.0) is None
    assert (session.events(), session.to_send()) == (plain.events(), plain.to_send())


def test_bytes_that_are_held_are_looked_at_once() -> None:
    """A frame of n bytes, byte by byte, is decoded when it is there, not n times."""
    one = Small()
    stream = said(b"x" * 200)
    for start in range(len(stream)):
        one.receive(stream[start : start + 1], 0.0)
    assert one.events() == [Said(b"x" * 200)]
    assert one.decodings == 2
    assert one.decoded_bytes == len(stream) + 1


def test_an_incomplete_frame_behind_others_is_kept() -> None:
    one = Small()
    one.receive(said(b"a", b"b") + b"\x03cd", 0.0)
    assert (len(one.events()), one.buffered) == (2, 3)
    one.receive(b"e" + said(b"f") + b"\x01", 0.0)
    assert (one.events(), one.buffered) == ([Said(b"cde"), Said(b"f")], 1)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_like_chunk(kind: Any) -> None:
    one = Small()
    one.receive(kind(b"\x02a"), 0.0)
    one.receive(kind(b"b\x01"), 0.0)
    one.receive(kind(b"c"), 0.0)
    assert one.events() == [Said(b"ab"), Said(b"c")]


def test_a_scan_that_ends_by_content() -> None:
    """Where a frame ends only by its content, `_scan` goes on where it stopped."""

    class Line(Small):
        def __init__(self) -> None:
            super().__init__()
            self.resume = self.looked_at = 0

        def _scan(self, buf: bytearray) -> None:
            self.looked_at += len(buf) - self.resume
            if b"\n" not in buf[self.resume :]:
                self.resume = len(buf)
                raise NeedMore(1)
            self.resume = 0

        def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
            self.decodings += 1
            stop = buf.find(b"\n", pos, end)
            if stop < 0:
                raise NeedMore(1)
            if stop == pos:
                raise DecodeError("bad_length", "line", pos)
            return buf[pos + 1 : stop + 1], stop + 1

    one = Line()
    for start in range(300):
        one.receive(b"x" if start < 299 else b"\n", 0.0)
    assert len(one.events()) == 1
    assert (one.decodings, one.looked_at) == (2, 300)
    one.receive(b"x", 0.0)
    one.receive(b"\n\n", 0.0)
    assert [type(event) for event in one.events()] == [Said, Failed, Closed]


# -- what breaks a rule ----------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 3, 100])
@pytest.mark.parametrize(
    ("bad", "code", "at"), [(b"\x00", "bad_length", 0), (said(b"ab!c"), "bad_args", 3)]
)
def test_a_broken_frame_is_refused_and_ends_it(bad: bytes, code: str, at: int, step: int) -> None:
    one = Small()
    stream = said(b"a", b"bcd") + bad + said(b"never")
    for start in range(0, len(stream), step):
        one.receive(stream[start : start + step], 0.0)
    first, second, failure, end = one.events()
    assert [first, second] == [Said(b"a"), Said(b"bcd")]
    assert isinstance(failure, Failed)
    assert (failure.code, failure.offset, failure.fatal) == (code, 6 + at, True)
    assert failure.side is Side.REMOTE
    assert end == Closed(code, Side.REMOTE, clean=False)
    assert one.to_send() == said(b"a", b"bcd", b"no!")
    assert (one.closed, one.buffered, one.received_bytes) == (True, 0, len(stream))


def test_a_handler_that_closes_stops_reading() -> None:
    one = Small()
    one.receive(said(b"a", b"q", b"never"), 0.0)
    assert one.events() == [Said(b"a"), Said(b"q"), Closed("quit", Side.REMOTE)]
    one.receive(said(b"never"), 0.0)
    one.receive_eof()
    one.on_timer(99.0)
    assert one.events() == []


# -- the end of the stream -------------------------------------------------------------------


def test_the_end_between_frames() -> None:
    one = Small()
    one.receive(said(b"a"), 0.0)
    one.receive_eof()
    one.receive_eof()
    assert one.events() == [Said(b"a"), Closed("eof", Side.REMOTE, clean=True)]


def test_the_end_inside_a_frame() -> None:
    one = Small()
    one.receive(b"\x05abc", 0.0)
    one.receive_eof()
    failure, end = one.events()
    assert isinstance(failure, Failed)
    assert (failure.code, "4 bytes" in failure.detail) == ("short", True)
    assert end == Closed("eof", Side.REMOTE, clean=False)
    assert one.buffered == 0


# -- time ------------------------------------------------------------------------------------


def test_timers() -> None:
    timers = Timers()
    assert (timers.next(), timers.pop_due(1e9), len(timers)) == (None, None, 0)
    timers.set("b", 2)
    timers.set("a", 1)
    timers.set("c", 3)
    assert (timers.next(), timers.at("b"), timers.at("z"), len(timers)) == (1, 2, None, 3)
    timers.set("a", 2.5)
    assert [timers.pop_due(2.9) for _ in range(3)] == ["b", "a", None]
    timers.clear("c", "never set")
    assert timers.next() is None
    timers.set("d", 4)
    timers.clear()
    assert len(timers) == 0


def test_a_session_that_has_ended_has_no_deadlines() -> None:
    """Whoever called what ended it may still set one."""
    one = Small()
    one.timers.set("idle", 7)
    one.receive_eof()
    one.timers.set("idle", 8)
    assert (one.next_timer(), len(one.timers)) == (None, 0)
    assert Small().next_timer() is None


def test_deadlines_act_in_their_order_and_once() -> None:
    one = Small()
    one.timers.set("late", 7)
    one.timers.set("early", 3)
    assert one.next_timer() == 3
    one.on_timer(2.9)
    assert one.fired == []
    one.on_timer(8.0)
    one.on_timer(9.0)
    assert one.fired == [("early", 8.0), ("late", 8.0)]
    assert one.next_timer() is None


def test_a_deadline_that_ends_it_is_the_last() -> None:
    one = Small()
    one.timers.set("end", 1)
    one.timers.set("after", 2)
    one.on_timer(5.0)
    assert one.fired == [("end", 5.0)]
    assert one.next_timer() is None
    assert one.events() == [Closed("timeout", Side.LOCAL, clean=False)]


def test_time_does_not_run_backwards() -> None:
    one = Small(now=10.0)
    one.receive(said(b"t"), 4.0)
    assert (one.now, one.next_timer()) == (10.0, 15.0)
    one.on_timer(3.0)
    assert (one.now, one.fired) == (10.0, [])
    one.receive(said(b"t"), 12.0)
    one.receive(said(b"t"), 11.0)
    assert one.next_timer() == 17.0


# -- states ----------------------------------------------------------------------------------


def test_the_table_decides() -> None:
    one = Small(Role.CLIENT)
    assert one._step("ask")
    assert one.state == "asking"
    assert not one._step("ask")
    with pytest.raises(SessionError, match="ask is not allowed in state asking") as caught:
        one._must("ask")
    assert (caught.value.code, one.state) == ("bad_state", "asking")
    one._must("hear")
    assert one.state == "open"


def test_an_error_of_the_caller_reads_well() -> None:
    assert str(SessionError("too_busy", "three wait")) == "too_busy: three wait"
    assert str(SessionError("too_busy")) == f"too_busy: {CODES['too_busy']}"


def test_the_diagram_of_a_table() -> None:
    assert diagram(Small.TABLES, Role.SERVER).splitlines() == [
        "digraph {",
        "  rankdir=LR;",
        "  node [shape=box, style=rounded];",
        '  "open" -> "open" [label="hear"];',
        '  "open" -> "closed" [label="give up"];',
        "}",
    ]
    together = {Role.CLIENT: {"a": {"x": "b", "y": "b"}, "b": {}}}
    assert '  "a" -> "b" [label="x\\ny"];' in diagram(together, Role.CLIENT)


def test_a_role_can_be_given_as_text() -> None:
    one: Any = Small("client")  # type: ignore[arg-type]
    assert one.role is Role.CLIENT
    with pytest.raises(ValueError, match="nobody"):
        Small("nobody")  # type: ignore[arg-type]
