"""The generated dissector in a real tshark, compared field by field with the decoder."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from dissector_pcap import cut
from dissector_streams import CASES, DIRECTIONS, Streams, compare_groups, messages, mutated, vectors

from wirelake.protocols.registry import find
from wirelake.wire import model as m

Payloads = list[tuple[m.Direction, bytes]]


def every_vector(name: str, dialect: str) -> Streams:
    """Good and bad ones, in both directions: same fields, or the same problem."""
    del dialect
    return [[(way, data)] for data in vectors(name) for way in DIRECTIONS]


def _joined(name: str, dialect: str, largest: int) -> Payloads:
    """All good messages of both directions, taking turns, each as one payload."""
    protocol = find(name)
    ways = {
        way: [data for data in messages(protocol, dialect, way) if len(data) <= largest]
        for way in DIRECTIONS
    }
    payloads: Payloads = []
    for index in range(max(map(len, ways.values()))):
        payloads += [(way, ways[way][index]) for way in DIRECTIONS if index < len(ways[way])]
    assert payloads
    return payloads


def messages_share_segments(name: str, dialect: str) -> Streams:
    """All messages of one side in as few packets as possible."""
    payloads = _joined(name, dialect, largest=1 << 20)
    return [
        [(way, b"".join(data for sender, data in payloads if sender == way)) for way in DIRECTIONS]
    ]


def messages_cut_anywhere(name: str, dialect: str) -> Streams:
    """Segments of random sizes; the two directions take turns inside messages."""
    chance = random.Random(f"cuts of {name} {dialect}")
    payloads = _joined(name, dialect, largest=20_000)
    streams: Streams = []
    for sizes in ((1, 2, 3, 5, 8), (4, 40, 400), (1000, 1460)):
        left = {
            way: b"".join(data for sender, data in payloads if sender == way) for way in DIRECTIONS
        }
        if sizes[-1] < 100:
            left = {way: data[:3000] for way, data in left.items()}
        stream: Payloads = []
        while any(left.values()):
            way = chance.choice([way for way in DIRECTIONS if left[way]])
            size = chance.choice(sizes)
            stream.append((way, left[way][:size]))
            left[way] = left[way][size:]
        streams.append(stream)
    return streams


def every_byte_in_a_segment_of_its_own(name: str, dialect: str) -> Streams:
    """One byte per segment, one connection per message."""
    payloads = _joined(name, dialect, largest=60)[:60]
    return [[(way, byte) for byte in cut(data, 1)] for way, data in payloads]


def mutated_messages(name: str, dialect: str) -> Streams:
    """For mutated messages, dissector and decoder report the same problem at the same byte."""
    chance = random.Random(f"accidents of {name} {dialect}")
    seeds = _joined(name, dialect, largest=400)
    streams: Streams = []
    for _ in range(120):
        way, data = chance.choice(seeds)
        streams.append([(way, mutated(data, chance))])
    return streams


def random_bytes(name: str, dialect: str) -> Streams:
    """Noise, and noise behind the start of a message."""
    chance = random.Random(f"noise of {name} {dialect}")
    seeds = _joined(name, dialect, largest=400)
    streams: Streams = []
    for _ in range(60):
        way, data = chance.choice(seeds)
        start = data[: chance.randrange(len(data))] if chance.random() < 0.7 else b""
        streams.append([(way, start + chance.randbytes(chance.randint(1, 80)))])
    return streams


GROUPS: dict[str, Callable[[str, str], Streams]] = {
    group.__name__: group
    for group in (
        every_vector,
        messages_share_segments,
        messages_cut_anywhere,
        every_byte_in_a_segment_of_its_own,
        mutated_messages,
        random_bytes,
    )
}


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def differences(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """What tshark and the decoder disagree about, for each group of streams."""
    name, dialect = request.param
    groups = {group: streams(name, dialect) for group, streams in GROUPS.items()}
    assert all(groups.values())
    return compare_groups(tmp_path_factory.mktemp(name), find(name), dialect, groups)


@pytest.mark.parametrize("group", GROUPS)
def test_dissector_and_decoder_agree(differences: dict[str, list[str]], group: str) -> None:
    assert differences[group] == []
