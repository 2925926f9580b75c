"""Kernels and C at work on the same stream, in the same arrays.

Both find the frames of all runs (`scan`) and read the fields of every frame (`decode`): of tny
packets first and then messages, of everything else once. The arrays are shared, so that neither
side has the luckier pages.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelake.columnar.decode.kernel import load
from wirelake.columnar.generate.module import STACK
from wirelake.columnar.generate.plan import Plan, Staged, Structs
from wirelake.columnar.jit.options import readonly

from .columnar_c import junk, library
from .columnar_corpora import Ints, Stream

__all__ = ["Bench", "DisagreementError"]

DIALECT = "seed"


class DisagreementError(Exception):
    """Kernels and C did not do the same."""


@dataclass(frozen=True)
class Slices:
    """What one decoder reads and writes."""

    layout: str
    plan: Plan
    starts: Ints
    stops: Ints
    ways: NDArray[np.uint8]
    bad: Ints
    counts: Ints
    stack: Ints
    columns: list[NDArray[Any]]

    def arguments(self) -> list[NDArray[Any]]:
        """All arguments of a decoding function but the buffer."""
        return [*self.places(), self.bad, self.counts, self.stack, *self.columns]

    def places(self) -> tuple[Ints, Ints, NDArray[np.uint8]]:
        """Where the slices are, and who sent them."""
        return self.starts, self.stops, self.ways

    def written(self) -> list[NDArray[Any]]:
        """Every array that a decoder fills."""
        return [self.bad, self.counts, *self.columns]

    def results(self, n_bad: int) -> Iterator[tuple[str, NDArray[Any]]]:
        """What means something after a call: of the root table the rows of good slices."""
        yield f"{self.layout}: slices given up", self.bad[:n_bad]
        good = np.ones(len(self.starts), np.bool_)
        good[self.bad[:n_bad]] = False
        arrays = dict(zip(self.plan.columns, self.columns, strict=True))
        counted = iter(self.counts)
        for table in self.plan.tables:
            if not table.columns:
                continue
            is_root = table is self.plan.tables[0]
            rows: Any = good if is_root else slice(int(next(counted)))
            for column in table.columns:
                yield f"{self.layout}: {column.name}", arrays[column][rows]


class Bench:
    """One stream, the arrays for it, and both sides."""

    def __init__(self, name: str, stream: Stream):
        self.stream = stream
        self.kernels = load(stream.protocol, DIALECT)
        self._buf = readonly(stream.data)
        self._scanned = _scan_arrays(stream)
        frame = stream.protocol.model(DIALECT).name
        frames = _slices(frame, self.kernels.frames.plan, stream.starts, stream.stops, stream.ways)
        self._slices = [frames, *self._staged(frames)]
        self._functions = {"kernel": self._kernel_functions(), "C": self._c_functions(name)}

    def _staged(self, frames: Slices) -> Iterator[Slices]:
        """The slices of a second stage, where the first has one."""
        found = _stage(frames.plan.shape)
        if found is None:
            return
        columns = self.kernels.frames.decode(self._buf, *frames.places())
        starts = columns[found.start].astype(np.int64)
        stops = starts + columns[found.size]
        layout = found.layout.name
        ways = np.zeros(len(starts), np.uint8)
        yield _slices(layout, self.kernels.stage(layout).plan, starts, stops, ways)

    def _kernel_functions(self) -> tuple[Callable[..., int], list[Callable[..., int]]]:
        name = f"wirelake.columnar.kernels.{self.stream.protocol.name}_{DIALECT}"
        module = importlib.import_module(name)
        scan = getattr(module, f"scan_{self._slices[0].layout}")
        return scan, [getattr(module, f"decode_{each.layout}") for each in self._slices]

    def _c_functions(self, name: str) -> tuple[Callable[..., int], list[Callable[..., int]]]:
        built = library(name)
        return built.scan(), [built.decode(each.layout) for each in self._slices]

    # -- work --------------------------------------------------------------------------------

    def scan(self, side: str) -> int:
        """Finds all frames; their number."""
        function, _ = self._functions[side]
        runs = self.stream.run_starts, self.stream.run_stops
        return int(function(self._buf, *runs, *self._scanned))

    def decode(self, side: str) -> list[int]:
        """Reads all frames, and the messages in them; how many of each were given up."""
        return [self.decode_stage(side, place) for place in range(len(self._slices))]

    def decode_stage(self, side: str, place: int) -> int:
        """Reads the slices of one stage."""
        function = self._functions[side][1][place]
        return int(function(self._buf, *self._slices[place].arguments()))

    def messages(self, place: int) -> int:
        """How many slices a stage has."""
        return len(self._slices[place].starts)

    def stages(self) -> list[str]:
        """The names of what is decoded, in order."""
        return [each.layout for each in self._slices]

    # -- agreement ---------------------------------------------------------------------------

    def check(self) -> int:
        """Compares all that both write, byte for byte; how many slices both gave up on."""
        first = self._results("kernel", 0x5A)
        second = self._results("C", 0xA5)
        if first.keys() != second.keys():
            raise DisagreementError("they wrote different tables")
        for what, found in first.items():
            if found.dtype != second[what].dtype or not np.array_equal(found, second[what]):
                raise DisagreementError(f"{self.stream.protocol.name}: {what}")
        given_up = [found for what, found in first.items() if what.endswith("given up")]
        return sum(map(len, given_up))

    def _results(self, side: str, byte: int) -> dict[str, NDArray[Any]]:
        for array in self._scanned:
            junk(array, byte)
        count = self.scan(side)
        places = [count, count, count, len(self.stream.run_starts), len(self.stream.run_starts)]
        names = ("starts", "stops", "runs", "reached", "wrong")
        found = {
            f"scan: {name}": array[:place].copy()
            for name, array, place in zip(names, self._scanned, places, strict=True)
        }
        for place, slices in enumerate(self._slices):
            for array in slices.written():
                junk(array, byte)
            n_bad = self.decode_stage(side, place)
            found |= {what: array.copy() for what, array in slices.results(n_bad)}
        return found


def _scan_arrays(stream: Stream) -> list[NDArray[Any]]:
    room = len(stream.data) // max(stream.protocol.model(DIALECT).min_size, 1) + 1
    arrays: list[NDArray[Any]] = [np.empty(room, np.int64) for _ in range(3)]
    runs = len(stream.run_starts)
    return [*arrays, np.empty(runs, np.int64), np.empty(runs, np.bool_)]


def _slices(layout: str, plan: Plan, starts: Ints, stops: Ints, ways: NDArray[np.uint8]) -> Slices:
    """Room for all that these slices can hold."""
    count, size = len(starts), int((stops - starts).sum())
    columns = [
        np.empty(size // table.min_row_bytes + 1 if table.min_row_bytes else count, column.dtype)
        for table in plan.tables
        for column in table.columns
    ]
    tables = sum(1 for table in plan.tables[1:] if table.columns)
    bad, counts, stack = (np.empty(size, np.int64) for size in (count, tables, STACK))
    return Slices(layout, plan, starts, stops, ways, bad, counts, stack, columns)


def _stage(shape: Structs) -> Staged | None:
    """The field of an alternative that holds another layout."""
    for _, field in shape.fields:
        for each in getattr(field, "shapes", ()):
            for _, inner in each.fields:
                if isinstance(inner, Staged):
                    return inner
    return None
