"""Streams to dissect, and the results of the decoder."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from dissector_expected import Builder, Node, differences
from dissector_pcap import Connection, write_pcap
from dissector_tshark import Shown, pdml

from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire import model as m
from wirelake.wire.errors import DecodeError, NeedMore
from wirelake.wire.protocol import Protocol
from wirelake.wire.views.lua import dissector

__all__ = [
    "CASES",
    "DIRECTIONS",
    "Streams",
    "compare",
    "compare_groups",
    "expected",
    "messages",
    "mutated",
    "vectors",
    "write_script",
]

VECTORS = Path(__file__).parent.parent / "vectors"
DIRECTIONS: tuple[m.Direction, m.Direction] = ("c2s", "s2c")
CASES = [(name, dialect) for name in BUILT_IN for dialect in find(name).dialects]
"""Every built-in protocol in each of its dialects."""

FIRST_PORT = 20_000


def vectors(protocol: str) -> list[bytes]:
    """The bytes of every vector that could be of this protocol, good ones and bad ones."""
    file = VECTORS / f"{'tny' if protocol == 'relay' else protocol}.jsonl"
    found: dict[bytes, None] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        vector = json.loads(line)
        found[bytes.fromhex(vector.get("hex") or "")] = None
    found.pop(b"", None)
    assert found, f"no vectors for {protocol}"
    return list(found)


def expected(
    protocol: Protocol, dialect: str, direction: m.Direction, data: bytes
) -> Iterator[tuple[Node, bytes]]:
    """The tree of each message in a stream, and its bytes; a bad one has a problem."""
    builder = Builder(protocol, dialect, direction)
    start = 0
    while start < len(data):
        try:
            stop = protocol.scan(data, start, dialect=dialect)
        except NeedMore:
            return
        except DecodeError as error:
            yield _bad(protocol, error, start), data[start:]
            return
        frame = data[start:stop]
        try:
            decoded = protocol.decode(data, start, direction=direction, dialect=dialect)
        except DecodeError as error:
            yield _bad(protocol, error, start), frame
        else:
            assert decoded.stop == stop
            yield builder.message(decoded.message, frame), frame
        start = stop


def _bad(protocol: Protocol, error: DecodeError, start: int) -> Node:
    assert error.offset is not None
    problem = (error.code, error.field, error.offset - start)
    return Node(f"wirelake.{protocol.name}", problem=problem)


def messages(protocol: Protocol, dialect: str, direction: m.Direction) -> list[bytes]:
    """Every message in the vectors that decodes, once."""
    found: dict[bytes, None] = {}
    for data in vectors(protocol.name):
        for node, frame in expected(protocol, dialect, direction, data):
            if node.problem is None:
                found[frame] = None
    return list(found)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Mutate bytes one to three times: change, cut, insert or repeat."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(5):
            case 0 | 1 if at < len(out):
                out[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 2:
                del out[at : at + chance.randint(1, 4)]
            case 3:
                out[at:at] = chance.randbytes(chance.randint(1, 4))
            case _:
                out[at:at] = out[max(0, at - 8) : at]
    return bytes(out)


def write_script(folder: Path, protocols: list[Protocol], **options: object) -> Path:
    """The generated script as a file."""
    path = folder / "dissector.lua"
    path.write_text(dissector(protocols, **options), encoding="utf-8")  # type: ignore[arg-type]
    return path


Streams = list[list[tuple[m.Direction, bytes]]]
"""The payloads of packets in order, for each connection."""


def compare(
    folder: Path, protocol: Protocol, dialect: str, streams: Streams, *options: str
) -> list[str]:
    """Dissect each stream in its own connection; return the differences from the decoder."""
    return compare_groups(folder, protocol, dialect, {"": streams}, *options)[""]


def compare_groups(
    folder: Path, protocol: Protocol, dialect: str, groups: dict[str, Streams], *options: str
) -> dict[str, list[str]]:
    """`compare` for several groups of streams in one run of tshark, which takes 1 s to start."""
    script = write_script(folder, [protocol], dialect={protocol.name: dialect})
    assert protocol.port is not None
    numbered = [(group, stream) for group, streams in groups.items() for stream in streams]
    connections = [
        Connection(protocol.port, FIRST_PORT + index, list(stream))
        for index, (_, stream) in enumerate(numbered)
    ]
    capture = folder / "capture.pcap"
    write_pcap(capture, connections)
    shown = pdml(script, capture, protocol.name, *options)
    found: dict[str, list[str]] = {group: [] for group in groups}
    for index, (group, stream) in enumerate(numbered):
        for direction in DIRECTIONS:
            data = b"".join(payload for way, payload in stream if way == direction)
            items = shown.get((FIRST_PORT + index, direction), Shown(protocol.name))
            nodes = [node for node, _ in expected(protocol, dialect, direction, data)]
            where = f"stream {index} {direction} {data[:60].hex()}"
            if len(items.messages) != len(nodes):
                count = f"{len(nodes)} messages expected, {len(items.messages)} shown"
                found[group].append(f"{where}: {count}")
            for node, item in zip(nodes, items.messages, strict=False):
                found[group] += [f"{where}: {line}" for line in differences(node, item)]
    return found
