"""Every message of every protocol, in every dialect: there and back, cut anywhere, in a row.

The values come from the declarations (`wirelake.wire.views.strategy`). The last tests here count
what those strategies reach, so that none of the others passes for want of examples.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from wirelake.protocols.esnp.layout import BrokenRow, Message, OpaqueRow
from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire import DecodeError, Layout, NeedMore, Protocol
from wirelake.wire import model as m
from wirelake.wire.views.strategy import messages, values

pytestmark = pytest.mark.slow

EXAMPLES = settings.default.max_examples if settings.default else 100
"""How many, by the profile that is loaded."""
few = settings(max_examples=max(10, EXAMPLES // 3))
"""For what is done for every single message type."""
cuts = settings(max_examples=EXAMPLES)


class Speech(NamedTuple):
    """What one side of a connection may say."""

    protocol: Protocol
    dialect: str
    direction: m.Direction | None

    def __str__(self) -> str:
        return "-".join(filter(None, (self.protocol.name, self.dialect, self.direction)))

    def encode(self, message: Any) -> bytes:
        return self.protocol.encode(message, dialect=self.dialect)

    def decode(self, data: bytes, start: int = 0) -> tuple[Any, int]:
        return self.protocol.decode(data, start, direction=self.direction, dialect=self.dialect)

    def scan(self, data: bytes, start: int = 0) -> int:
        return self.protocol.scan(data, start, dialect=self.dialect)

    def messages(self) -> SearchStrategy[Any]:
        return _messages(self)


@functools.cache
def _messages(speech: Speech) -> SearchStrategy[Any]:
    """Made once: that takes longer than drawing from it."""
    return messages(speech.protocol, speech.dialect, speech.direction)


def _speeches() -> Iterator[Speech]:
    for name in BUILT_IN:
        protocol = find(name)
        directions: tuple[m.Direction | None, ...] = (None,)
        if protocol.directed:
            directions = ("c2s", "s2c")
        for dialect in protocol.dialects:
            for direction in directions:
                yield Speech(protocol, dialect, direction)


SPEECHES = list(_speeches())
every_speech = pytest.mark.parametrize("speech", SPEECHES, ids=str)


# -- one strategy for each message type ------------------------------------------------------


def _only(frame: m.Layout, body: m.Body, chosen: m.Alternative) -> m.Layout:
    """A frame with one body instead of several."""
    single = dataclasses.replace(body, alternatives=(chosen,))
    parts = tuple(single if part is body else part for part in frame.parts)
    return dataclasses.replace(frame, parts=parts)


def _types(speech: Speech) -> Iterator[tuple[str, SearchStrategy[Any]]]:
    frame = speech.protocol.model(speech.dialect)
    if frame.body is not None:
        for chosen in frame.body.of(speech.direction):
            name = f"{chosen.layout.name}-{chosen.tag}"
            yield name, values(_only(frame, frame.body, chosen), direction=speech.direction)
        return
    (rows,) = frame.parts
    assert isinstance(rows, m.Field)
    assert isinstance(rows.type, m.Rows)
    for row in rows.type.alternatives:
        yield row.layout.name, values(row.layout).map(lambda value: Message(rows=(value,)))
    known = {row.tag for row in rows.type.alternatives} | {rows.type.end}
    spare = st.sampled_from([tag for tag in range(256) if tag not in known])
    opaque = st.builds(OpaqueRow, type=spare, data=st.binary(max_size=300))
    yield "opaque", opaque.map(lambda row: Message(rows=(row,)))


TYPES = [(speech, name, found) for speech in SPEECHES for name, found in _types(speech)]
LAYOUTS = [
    (speech, layout, values(layout))
    for speech in SPEECHES
    if speech.direction != "s2c"
    for layout in speech.protocol.layouts(speech.dialect)
    if hasattr(speech.protocol.codec(speech.dialect), f"read_{layout.name}")
]
"""Everything that can be read inside a slice, stages and headers too."""


def test_no_message_type_is_missing() -> None:
    assert len([name for speech, name, _ in TYPES if speech.protocol.name == "comet"]) == 2 * 15
    assert len([name for speech, name, _ in TYPES if speech.protocol.name == "tny"]) == 2 * 3
    assert len([name for speech, name, _ in TYPES if speech.protocol.name == "relay"]) == 2 * 10
    assert len([name for speech, name, _ in TYPES if speech.protocol.name == "magline"]) == 9
    assert len([name for speech, name, _ in TYPES if speech.protocol.name == "esnp"]) == 2 * 14


# -- equal to the last bit -------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as tuples, with floats as their bytes: NaN is then equal to itself."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, tuple | list):
        return tuple(plain(each) for each in value)
    if isinstance(value, Layout):
        fields = (getattr(value, name) for name in value.__struct_fields__)
        return (type(value), *(plain(field) for field in fields))
    return (type(value) is bool, value)


def test_equal_means_equal_to_the_bit() -> None:
    nan = struct.unpack(">d", bytes.fromhex("7ff0000000000001"))[0]
    other = struct.unpack(">d", bytes.fromhex("7ff0000000000002"))[0]
    assert plain(nan) == plain(nan) != plain(other)
    assert plain(0.0) != plain(-0.0)
    assert plain((1, nan)) != plain((True, nan))


# -- there and back --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speech", "found"),
    [(speech, found) for speech, _, found in TYPES],
    ids=[f"{speech}-{name}" for speech, name, _ in TYPES],
)
@few
@given(data=st.data())
def test_a_message_round_trips(
    speech: Speech, found: SearchStrategy[Any], data: st.DataObject
) -> None:
    message = data.draw(found)
    written = speech.encode(message)
    again, stop = speech.decode(written)
    assert stop == len(written)
    assert plain(again) == plain(message)
    assert speech.encode(again) == written
    assert speech.scan(written) == stop


@pytest.mark.parametrize(
    ("speech", "layout", "found"),
    LAYOUTS,
    ids=[f"{speech}-{layout.name}" for speech, layout, _ in LAYOUTS],
)
@few
@given(data=st.data())
def test_a_layout_inside_a_slice_round_trips(
    speech: Speech, layout: m.Layout, found: SearchStrategy[Any], data: st.DataObject
) -> None:
    codec = speech.protocol.codec(speech.dialect)
    value = data.draw(found)
    written = getattr(codec, f"write_{layout.name}")(value)
    around = data.draw(st.binary(max_size=12))
    buf = around + written + around
    start, end = len(around), len(around) + len(written)
    again, stop = getattr(codec, f"read_{layout.name}")(buf, start, end)
    assert stop == end
    assert plain(again) == plain(value)
    assert getattr(codec, f"write_{layout.name}")(again) == written


@every_speech
@cuts
@given(data=st.data())
def test_bytes_around_a_message_do_not_matter(speech: Speech, data: st.DataObject) -> None:
    message = data.draw(speech.messages())
    written = speech.encode(message)
    before, after = data.draw(st.binary(max_size=9)), data.draw(st.binary(max_size=40))
    buf = before + written + after
    again, stop = speech.decode(buf, len(before))
    assert stop == len(before) + len(written) == speech.scan(buf, len(before))
    assert plain(again) == plain(message)


# -- cut anywhere ----------------------------------------------------------------------------


def wanted(speech: Speech, prefix: bytes) -> int:
    """How many bytes decoder and scanner ask for; both must ask."""
    with pytest.raises(NeedMore) as scanning:
        speech.scan(prefix)
    with pytest.raises(NeedMore) as decoding:
        speech.decode(prefix)
    assert scanning.value.need == decoding.value.need
    return decoding.value.need


@every_speech
@cuts
@given(data=st.data())
def test_every_prefix_asks_for_more_and_not_for_too_much(
    speech: Speech, data: st.DataObject
) -> None:
    written = speech.encode(data.draw(speech.messages()))
    stops: Any = range(len(written))
    if len(written) > 200:
        picked = st.lists(st.integers(40, len(written) - 1), min_size=100, max_size=100)
        stops = [*range(40), *data.draw(picked)]
    for stop in stops:
        assert 1 <= wanted(speech, written[:stop]) <= len(written) - stop


def fed(speech: Speech, chunks: list[bytes]) -> list[Any]:
    """What a reader finds that gets bytes in chunks, and keeps those of a message that is not
    whole."""
    found, buf = [], b""
    for chunk in chunks:
        buf += chunk
        start = 0
        while True:
            try:
                message, stop = speech.decode(buf, start)
            except NeedMore:
                break
            assert speech.scan(buf, start) == stop
            found.append(message)
            start = stop
        buf = buf[start:]
    assert buf == b""
    return found


@every_speech
@cuts
@given(data=st.data())
def test_random_cuts_give_the_same_messages(speech: Speech, data: st.DataObject) -> None:
    said = data.draw(st.lists(speech.messages(), min_size=1, max_size=4))
    whole = b"".join(speech.encode(message) for message in said)
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=12))
    edges = [0, *sorted(places), len(whole)]
    chunks = [whole[a:b] for a, b in itertools.pairwise(edges)]
    assert plain(fed(speech, chunks)) == plain(said)


@every_speech
@few
@given(data=st.data())
def test_one_byte_at_a_time_gives_the_same_messages(speech: Speech, data: st.DataObject) -> None:
    said = data.draw(st.lists(speech.messages(), min_size=1, max_size=2))
    whole = b"".join(speech.encode(message) for message in said)
    assert plain(fed(speech, [bytes([byte]) for byte in whole])) == plain(said)


@every_speech
@cuts
@given(data=st.data())
def test_messages_in_a_row_are_their_parts(speech: Speech, data: st.DataObject) -> None:
    said = data.draw(st.lists(speech.messages(), max_size=5))
    parts = [speech.encode(message) for message in said]
    whole = b"".join(parts)
    start = 0
    for message, part in zip(said, parts, strict=True):
        again, stop = speech.decode(whole, start)
        assert whole[start:stop] == part
        assert plain(again) == plain(message)
        start = stop
    assert start == len(whole)


# -- bytes that nobody encoded ---------------------------------------------------------------


@every_speech
@cuts
@given(data=st.data())
def test_altered_bytes_decode_to_something_stable_or_not_at_all(
    speech: Speech, data: st.DataObject
) -> None:
    """What decodes is written in its canonical form, which decodes to the same."""
    written = bytearray(speech.encode(data.draw(speech.messages())))
    places = st.integers(0, len(written) - 1)
    changes = data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4))
    for place, byte in changes:
        written[place] = byte
    try:
        message, stop = speech.decode(bytes(written))
    except (DecodeError, NeedMore):
        return
    assert speech.scan(bytes(written)) == stop
    canonical = speech.encode(message)
    again, end = speech.decode(canonical)
    assert end == len(canonical)
    assert plain(again) == plain(message)
    assert speech.encode(again) == canonical


ROW_TYPES = sorted(
    row.tag
    for part in find("esnp").model().parts
    if isinstance(part, m.Field) and isinstance(part.type, m.Rows)
    for row in part.type.alternatives
)


@pytest.mark.parametrize("dialect", find("esnp").dialects)
@cuts
@given(tag=st.sampled_from(ROW_TYPES), data=st.binary(max_size=60))
def test_a_row_of_any_bytes_keeps_them(dialect: str, tag: int, data: bytes) -> None:
    esnp = find("esnp")
    whole = bytes([tag]) + len(data).to_bytes(3, "big") + data + bytes(4)
    message, stop = esnp.decode(whole, dialect=dialect)
    assert stop == len(whole)
    (row,) = message.rows
    if isinstance(row, BrokenRow):
        assert (row.type, row.data) == (tag, data)
        assert 0 <= row.offset <= len(data)
        assert row.field
        assert esnp.encode(message, dialect=dialect) == whole
    else:
        again = esnp.decode(esnp.encode(message, dialect=dialect), dialect=dialect).message
        assert plain(again) == plain(message)


# -- what the strategies reach ---------------------------------------------------------------


def expected(layout: m.Layout, direction: m.Direction | None) -> Iterator[tuple[str, str, Any]]:
    """What must be seen of a layout: itself, its optional parts with and without, its bits both
    ways, its lists empty and not, and all that stands inside."""
    yield layout.cls.__name__, "", True
    for part in layout.parts:
        yield from _expected_part(layout.cls.__name__, part, direction)


def _expected_part(
    name: str, part: m.Part, direction: m.Direction | None
) -> Iterator[tuple[str, str, Any]]:
    match part:
        case m.Field():
            if part.when is not None or part.optional:
                yield from ((name, part.name, there) for there in (True, False))
            if part.sizes:
                yield from ((name, part.name, size) for size in part.sizes)
            yield from _expected_type(name, part.name, part.type)
        case m.BitGroup():
            for bit in part.bits:
                if bit.flag and bit.role == "stored":
                    yield from ((name, bit.name, on) for on in (True, False))
        case m.Options():
            yield name, part.unknown, True
            yield name, part.unknown, False
            for option in part.fields:
                for tag in option.on:
                    yield name, f"{option.name}@{tag}", True
                    yield name, f"{option.name}@{tag}", False
        case m.Body():
            for alternative in part.of(direction):
                yield from expected(alternative.layout, direction)
        case _:
            pass


def _expected_type(name: str, field: str, kind: m.Type) -> Iterator[tuple[str, str, Any]]:
    match kind:
        case m.Nested():
            yield from expected(kind.layout, None)
        case m.Many():
            yield from ((name, field, there) for there in (True, False))
            yield from _expected_type(name, field, kind.item)
        case m.Dynamic():
            yield from ((kind.cls.__name__, "type", each.tag) for each in kind.kinds)
        case m.Rows():
            yield kind.opaque.__name__, "", True
            for alternative in kind.alternatives:
                yield from expected(alternative.layout, None)
        case m.Bool():
            yield from ((name, field, on) for on in (True, False))
        case _:
            pass


def seen(value: Any, tags: dict[type, int]) -> Iterator[tuple[str, str, Any]]:
    """The same facts, of a value."""
    if isinstance(value, tuple):
        for each in value:
            yield from seen(each, tags)
    if not isinstance(value, Layout):
        return
    name = type(value).__name__
    yield name, "", True
    tag = tags.get(type(getattr(value, "body", None)))
    for field in value.__struct_fields__:
        inner = getattr(value, field)
        if isinstance(inner, bool) or (isinstance(inner, int) and (name, field) == ("Var", "type")):
            yield name, field, inner
        elif isinstance(inner, bytes):
            yield name, field, len(inner)
        there = inner is not None and inner != ()
        yield name, field, there
        yield name, f"{field}@{tag}", there
        yield from seen(inner, tags)


@every_speech
def test_the_strategies_reach_everything(speech: Speech) -> None:
    frame = speech.protocol.model(speech.dialect)
    wanted = set(expected(frame, speech.direction))
    if frame.transparent:
        wanted.discard((frame.cls.__name__, "", True))
    assert len(wanted) > 5
    tags = {a.layout.cls: a.tag for a in frame.body.alternatives} if frame.body else {}
    facts: set[tuple[str, str, Any]] = set()
    for round_ in range(20):
        facts |= facts_of(speech, tags, round_)
        if wanted <= facts:
            break
    assert wanted - facts == set()


def facts_of(speech: Speech, tags: dict[type, int], round_: int) -> set[tuple[str, str, Any]]:
    """What a hundred messages show; the same ones for the same round."""
    facts: set[tuple[str, str, Any]] = set()

    @seed(round_)
    @settings(max_examples=100, database=None, phases=[Phase.generate], deadline=None)
    @given(speech.messages())
    def collect(message: Any) -> None:
        facts.update(seen(message, tags))

    collect()
    return facts
