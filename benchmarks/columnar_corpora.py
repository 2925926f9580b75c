"""The bytes that kernels and C are timed with: streams of the messages of `corpus.py`, as runs.

A run is what one direction of a connection brought in one window: some frames after each other.
Spoiled streams have wrong bytes in many places. Nothing is timed on them; they show that both
sides give up on the same frames.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wirelake.wire.protocol import Protocol

from .corpus import corpus

__all__ = ["Ints", "Stream", "spoiled", "stream"]

Ints = NDArray[np.int64]

RUN = 24
"""Frames in a run."""
SPOILED_EVERY = 150
"""One wrong byte in about so many."""


@dataclass(frozen=True)
class Stream:
    """Frames in runs of bytes."""

    protocol: Protocol
    data: NDArray[np.uint8]
    run_starts: Ints
    run_stops: Ints
    starts: Ints
    """Where each frame begins."""
    stops: Ints
    ways: NDArray[np.uint8]
    """Who sent each frame: 0 the client, 1 the server."""

    def __len__(self) -> int:
        return len(self.starts)


def stream(name: str, messages: int) -> Stream:
    """So many messages of a protocol, the same each time."""
    found = corpus(name, messages)
    sizes = np.array([len(sample.data) for sample in found.samples], np.int64)
    stops = np.cumsum(sizes)
    data = np.frombuffer(b"".join(sample.data for sample in found.samples), np.uint8)
    ways = np.array([sample.direction == "s2c" for sample in found.samples], np.uint8)
    last = np.minimum(np.arange(RUN, messages + RUN, RUN), messages) - 1
    run_stops = stops[last]
    run_starts = np.append(0, run_stops[:-1])
    return Stream(found.protocol, data, run_starts, run_stops, stops - sizes, stops, ways)


def spoiled(clean: Stream, seed: int = 1) -> Stream:
    """The same with wrong bytes: set to an edge, counted up or down, or with one bit turned."""
    rng = random.Random(seed)
    data = np.array(clean.data)
    for _ in range(len(data) // SPOILED_EVERY):
        place = rng.randrange(len(data))
        byte = int(data[place])
        edges = (0, 1, 0x7F, 0x80, 0xFF, byte + 1, byte - 1, byte ^ 1 << rng.randrange(8))
        data[place] = rng.choice(edges) & 0xFF
    data.flags.writeable = False
    return Stream(
        clean.protocol,
        data,
        clean.run_starts,
        clean.run_stops,
        clean.starts,
        clean.stops,
        clean.ways,
    )
