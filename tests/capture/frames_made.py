"""Frames of every protocol, as real sessions send them, for tests of streams."""

from __future__ import annotations

import functools

from benchmarks.session_pairs import MAKERS

from wirelake.capture.format.items import Direction

PROTOCOLS = tuple(MAKERS)


@functools.cache
def talk(protocol: str, rounds: int = 3) -> tuple[tuple[Direction, bytes], ...]:
    """What the two ends say, one frame each: requests, their answers, and pushes."""
    pair = MAKERS[protocol]()
    said: list[tuple[Direction, bytes]] = []
    for _ in range(rounds):
        for frame, up in [*pair.frames("request"), *pair.frames("push")]:
            said.append(("c2s" if up else "s2c", frame))
    return tuple(said)


def frames(protocol: str, direction: Direction) -> list[bytes]:
    """The frames of one direction."""
    return [frame for way, frame in talk(protocol) if way == direction]
