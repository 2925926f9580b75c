"""Who is timed: for each, a pass over the corpus in either direction, and a check of its content.

A pass is a plain loop over prepared inputs, written the same way for everyone, so that the cost of
the loop is shared. The check runs before any clock does: a contender that decodes less than the
others, or other bytes than the others, is an error and not a result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from wirelake.protocols.esnp.layout import Var
from wirelake.protocols.tny.layout import Envelope, Message, Packet
from wirelake.wire import Layout
from wirelake.wire.declare import build
from wirelake.wire.model import Direction

from .construct_layouts import FORMATS
from .corpus import Corpus, Sample
from .kaitai import compare_layout, parser
from .msgpack_layouts import Mirror

__all__ = ["Contender", "contenders"]

Pass: TypeAlias = Callable[[], None]


@dataclass(frozen=True)
class Contender:
    """One way to read and write a corpus."""

    name: str
    decode: Pass
    encode: Pass | None
    """None for who only reads."""
    check: Callable[[], None]
    """Raises AssertionError when it does not read or write what the others do."""


def contenders(name: str, corpus: Corpus) -> list[Contender]:
    """Everyone who can read the corpus of a protocol; ours is first."""
    return [
        _tny_codec(corpus) if name == "tny" else _codec(corpus),
        _tny_wrapper(corpus) if name == "tny" else _wrapper(corpus),
        _construct(name, corpus, compiled=False),
        _construct(name, corpus, compiled=True),
        _kaitai_tny(corpus) if name == "tny" else _kaitai(corpus),
        _msgpack(name, corpus, array=False),
        _msgpack(name, corpus, array=True),
    ]


def _by_direction(corpus: Corpus) -> dict[Direction | None, list[Sample]]:
    found: dict[Direction | None, list[Sample]] = {}
    for sample in corpus.samples:
        found.setdefault(sample.direction, []).append(sample)
    return found


def _applied(groups: Iterable[tuple[Callable[[Any], Any], Sequence[Any]]]) -> Pass:
    """A pass that gives each item of each group to the group's function."""
    fixed = tuple(groups)

    def run() -> None:
        for function, items in fixed:
            for item in items:
                function(item)

    return run


# -- ours: the functions that a server calls ---------------------------------------------------


def _codec(corpus: Corpus) -> Contender:
    codec = corpus.protocol.codec()
    frame = corpus.protocol.model().name
    groups = _by_direction(corpus)
    decoders = {way: getattr(codec, f"decode_{frame}{'_' + way if way else ''}") for way in groups}
    encode = getattr(codec, f"encode_{frame}")
    work = tuple((decoders[way], [s.data for s in samples]) for way, samples in groups.items())

    def decode_all() -> None:
        for decode, buffers in work:
            for buf in buffers:
                decode(buf, 0, len(buf))

    def check() -> None:
        for sample in corpus.samples:
            found = decoders[sample.direction](sample.data, 0, len(sample.data))
            assert found == (sample.message, len(sample.data))
            assert encode(sample.message) == sample.data

    messages = [sample.message for sample in corpus.samples]
    return Contender("wirelake", decode_all, _applied([(encode, messages)]), check)


def _wrapper(corpus: Corpus) -> Contender:
    protocol = corpus.protocol
    decoders = {
        way: functools.partial(protocol.decode, direction=way) for way in _by_direction(corpus)
    }
    work = [(decoders[w], [s.data for s in found]) for w, found in _by_direction(corpus).items()]

    def check() -> None:
        for sample in corpus.samples:
            found = decoders[sample.direction](sample.data)
            assert found == (sample.message, len(sample.data))
            assert protocol.encode(sample.message) == sample.data

    messages = [sample.message for sample in corpus.samples]
    encode = _applied([(protocol.encode, messages)])
    return Contender("wirelake_protocol", _applied(work), encode, check)


def _tny(name: str, corpus: Corpus, decode: Any, encode: Any) -> Contender:
    """The whole way of a packet, given how its outermost part is read and written."""
    codec = corpus.protocol.codec()
    read_message, write_message = codec.read_message, codec.write_message
    buffers = [sample.data for sample in corpus.samples]
    items = [_tny_item(sample) for sample in corpus.samples]

    def decode_all() -> None:
        for buf in buffers:
            body = decode(buf, 0, len(buf))[0].body
            if type(body) is Envelope:
                content = body.content
                read_message(content, 0, len(content))

    def encode_all() -> None:
        for access_id, number, message, tick in items:
            if message is None:
                encode(tick)
            else:
                content = write_message(message)
                envelope = Envelope(access_id=access_id, number=number, content=content)
                encode(Packet(body=envelope))

    def check() -> None:
        for sample in corpus.samples:
            assert decode(sample.data, 0, len(sample.data)) == (sample.message, len(sample.data))
            assert encode(sample.message) == sample.data
            if sample.inner is not None:
                content = sample.message.body.content
                assert read_message(content, 0, len(content)) == (sample.inner, len(content))
                assert write_message(sample.inner) == content

    return Contender(name, decode_all, encode_all, check)


def _tny_item(sample: Sample) -> tuple[int, int, Message | None, Packet]:
    body = sample.message.body
    if sample.inner is None:
        return 0, 0, None, sample.message
    return body.access_id, body.number, sample.inner, sample.message


def _tny_codec(corpus: Corpus) -> Contender:
    codec = corpus.protocol.codec()
    return _tny("wirelake", corpus, codec.decode_packet, codec.encode_packet)


def _tny_wrapper(corpus: Corpus) -> Contender:
    protocol = corpus.protocol

    def decode(buf: bytes, start: int, _end: int) -> Any:
        return protocol.decode(buf, start)

    return _tny("wirelake_protocol", corpus, decode, protocol.encode)


# -- Construct ---------------------------------------------------------------------------------


def _construct(name: str, corpus: Corpus, *, compiled: bool) -> Contender:
    formats = FORMATS[name]
    if compiled:
        formats = {way: found.compile() for way, found in formats.items()}
    parsed = {
        way: [formats[way].parse(sample.data) for sample in samples]
        for way, samples in _by_direction(corpus).items()
    }
    groups = _by_direction(corpus)

    def check() -> None:
        for way, samples in groups.items():
            for sample, found in zip(samples, parsed[way], strict=True):
                _agrees(sample.message, _unwrapped(name, found), sample.inner)
                assert formats[way].build(found) == sample.data

    return Contender(
        "construct_compiled" if compiled else "construct",
        _applied((formats[way].parse, [s.data for s in groups[way]]) for way in groups),
        _applied((formats[way].build, parsed[way]) for way in groups),
        check,
    )


def _unwrapped(name: str, found: Any) -> Any:
    """Where the fields of a message begin."""
    match name:
        case "comet":
            return found.body
        case "relay":
            return found.rest
        case "esnp":
            assert found[-1].type == 0
            return {"rows": [row.body for row in found[:-1]]}
        case _:
            return found


def _agrees(value: Any, found: Any, inner: Any = None) -> None:
    """Asserts that Construct read what ours read: every field, to the same depth."""
    if isinstance(value, Var):
        assert found["type"] == value.type
        _agrees(value.value, found["value"])
    elif isinstance(value, Envelope):
        assert (found.access_id, found.number) == (value.access_id, value.number)
        _agrees(inner, found.content)
    elif isinstance(value, Layout):
        for field in value.__struct_fields__:
            _agrees(getattr(value, field), _field(value, found, field), inner)
    elif isinstance(value, tuple):
        assert len(value) == len(found or ())
        for item, other in zip(value, found or (), strict=True):
            _agrees(item, other)
    else:
        assert value == found
        assert isinstance(value, bool) == isinstance(found, bool)


def _field(value: Layout, found: Any, name: str) -> Any:
    """A field, which Construct may have in a group. What the dialect lacks has its default."""
    for group in (found, found.get("option"), found.get("rest")):
        if group is not None and name in group:
            return group[name]
    return next(f.default for f in msgspec.structs.fields(value) if f.name == name)


# -- Kaitai ------------------------------------------------------------------------------------


def _kaitai(corpus: Corpus) -> Contender:
    groups = _by_direction(corpus)
    parse = {way: parser(corpus.protocol, way).from_bytes for way in groups}

    def check() -> None:
        for sample in corpus.samples:
            node = parse[sample.direction](sample.data)
            compare_layout(corpus.protocol.model(), sample.message, node)

    work = [(parse[way], [s.data for s in found]) for way, found in groups.items()]
    return Contender("kaitai", _applied(work), None, check)


def _kaitai_tny(corpus: Corpus) -> Contender:
    """The message is in the content of the packet: a second type of the same file."""
    top = parser(corpus.protocol, None)
    packet_of, message_of = top.from_bytes, top.Message.from_bytes

    def parse(buf: bytes) -> Any:
        node = packet_of(buf)
        rest = getattr(node.body, "rest", None)
        return node, None if rest is None else message_of(rest.content)

    def check() -> None:
        for sample in corpus.samples:
            node, inner = parse(sample.data)
            compare_layout(corpus.protocol.model(), sample.message, node)
            assert (inner is None) == (sample.inner is None)
            if inner is not None:
                compare_layout(build(Message), sample.inner, inner)

    return Contender("kaitai", _applied([(parse, [s.data for s in corpus.samples])]), None, check)


# -- msgpack -----------------------------------------------------------------------------------


def _msgpack(name: str, corpus: Corpus, *, array: bool) -> Contender:
    mirror = Mirror(name, array=array)
    values = [mirror.of(sample) for sample in corpus.samples]
    packed = [mirror.encode(value) for value in values]

    def check() -> None:
        for sample, value, data in zip(corpus.samples, values, packed, strict=True):
            found = mirror.decoder(sample.direction).decode(data)
            assert found == value
            assert type(found) is type(value)
            assert mirror.encode(found) == data

    work: dict[str | None, list[bytes]] = {}
    for sample, data in zip(corpus.samples, packed, strict=True):
        work.setdefault(sample.direction, []).append(data)
    return Contender(
        "msgpack_array" if array else "msgpack_map",
        _applied((mirror.decoder(way).decode, found) for way, found in work.items()),
        _applied([(mirror.encode, values)]),
        check,
    )
