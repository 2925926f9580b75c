"""Inputs that arrive in pieces, one at a time: each is waited for, so windows end with it."""

from __future__ import annotations

import collections
import random
import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa

from wirelake.capture.live.inputs import Input
from wirelake.columnar.read.parallel import read_live
from wirelake.columnar.read.reader import ReadOptions
from wirelake.columnar.scan.live import LiveInputs

__all__ = ["Pieces", "bag", "cut", "live_rows"]


class Pieces(Input):
    """An input of these pieces. With `held`, it then waits until it is stopped."""

    def __init__(self, name: str, pieces: Iterable[bytes], *, held: bool = False):
        super().__init__(name)
        self._pieces: Iterator[bytes] = iter(pieces)
        self._held = held
        self._ended = threading.Event()

    def read(self, timeout_s: float | None) -> bytes | None:
        """The next piece, to whoever waits for it."""
        if timeout_s is not None:
            return None
        found = next(self._pieces, b"")
        if not found and self._held:
            self._ended.wait()
        return found

    def stop(self) -> None:
        """End the input."""
        super().stop()
        self._ended.set()


def cut(data: bytes, rng: random.Random, mean: int) -> list[bytes]:
    """Data in pieces of random sizes, down to one byte."""
    found, at = [], 0
    while at < len(data):
        size = rng.choice([1, rng.randrange(1, 40), rng.randrange(1, 2 * mean)])
        found.append(data[at : at + size])
        at += size
    return found


def bag(batches: Iterable[pa.RecordBatch]) -> collections.Counter[str]:
    """Rows without their order, and without the name of the file."""
    return collections.Counter(
        repr({name: value for name, value in row.items() if name != "file"})
        for batch in batches
        for row in batch.to_pylist()
    )


def live_rows(options: ReadOptions, *inputs: Input) -> list[list[pa.RecordBatch]]:
    """The batches of each window."""
    return [list(window) for window in read_live(LiveInputs(inputs), options)]
