"""Loads and calls the kernels of a protocol: `scan` for frames in runs, `decode` for their fields.

    kernels = load(protocol, dialect)
    frames = kernels.scan(buf, run_starts, run_stops)
    decoded = kernels.frames.decode(buf, starts, stops, directions)

The kernels of the built-in protocols in their default dialects are files of this package. All
others are generated on first use into the cache folder, as their codecs are.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import mmap
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelake.wire.generate.dynamic import is_committed, load_source
from wirelake.wire.protocol import Protocol

from .. import jit
from ..generate.module import STACK, decoders, kernel_source
from ..generate.plan import Column, Plan, Table
from ..jit.options import readonly

__all__ = ["Columns", "Decoder", "Frames", "Kernels", "load"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Frames:
    """Frames found in runs of bytes, in the order of the runs."""

    starts: Ints
    stops: Ints
    runs: Ints
    """The run of each frame."""
    reached: Ints
    """For each run: where the first frame begins that is incomplete or invalid."""
    wrong: NDArray[np.bool_]
    """For each run: whether that frame is invalid."""


class Columns:
    """The output of a decoder: arrays by column, cut to the number of rows."""

    def __init__(self, plan: Plan, buf: NDArray[np.uint8], arrays: dict[Column, Any], bad: Ints):
        self.plan = plan
        self.buf = buf
        self._arrays = arrays
        self.bad = bad
        """The bad slices, ascending; their rows in the root table are undefined."""

    def __getitem__(self, column: Column) -> Any:
        return self._arrays[column]

    def rows(self, table: Table) -> int:
        """Return the number of rows of a table."""
        return len(self._arrays[table.columns[0]])


class Decoder:
    """One decoding kernel, with the plan of its buffers."""

    def __init__(self, plan: Plan, function: Any):
        self.plan = plan
        self._function = function
        self._scratch: dict[Column, NDArray[Any]] = {}
        # Passed in, because kernels cannot allocate (`jit/options.py`).
        self._stack = np.empty(STACK, np.int64)

    def decode(
        self,
        data: NDArray[np.uint8],
        starts: Ints,
        stops: Ints,
        directions: NDArray[np.uint8] | None = None,
    ) -> Columns:
        """Decode slices; `directions` has 0 for those from the client, 1 for the server's.

        The arrays of the result are scratch arrays, valid until the next call: reusing them means
        that their pages are faulted in once, not in every window.
        """
        buf = readonly(data)
        if directions is None:
            directions = np.zeros(len(starts), np.uint8)
        count = len(starts)
        size = int((stops - starts).sum()) if count else 0
        arrays = self._arrays(count, size)
        # An alternative without fields has no columns and needs no counter.
        tables = [table for table in self.plan.tables[1:] if table.columns]
        bad = np.empty(count, np.int64)
        counts = np.zeros(len(tables), np.int64)
        columns = [arrays[column] for column in self.plan.columns]
        n_bad = int(
            self._function(buf, starts, stops, directions, bad, counts, self._stack, *columns)
        )
        rows = {self.plan.tables[0]: count} | {
            table: int(number) for table, number in zip(tables, counts, strict=True)
        }
        # Views of the scratch arrays, cut to the rows that were written.
        cut = {
            column: arrays[column][: rows[table]]
            for table in self.plan.tables
            for column in table.columns
        }
        return Columns(self.plan, buf, cut, bad[:n_bad])

    def _arrays(self, count: int, size: int) -> dict[Column, NDArray[Any]]:
        """Return scratch arrays for the most rows that this many bytes can hold.

        An upper bound instead of a counting pass, which took 43 % of the time of a two-pass ESNP
        kernel; pages that are never touched cost nothing.
        """
        for table in self.plan.tables:
            rows = count if not table.min_row_bytes else size // table.min_row_bytes + 1
            for column in table.columns:
                scratch = self._scratch.get(column)
                # Grown by doubling (`_reserve`), so a long capture allocates a few times at most.
                if scratch is None or len(scratch) < rows:
                    self._scratch[column] = _reserve(rows, np.dtype(column.dtype))
        return self._scratch


def _reserve(rows: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return space for rows in pages of its own, most of which are never touched.

    `np.empty` may return memory that was used before, whose pages count as resident.
    """
    # Rounded up to a power of two, in rows. mmap needs a size above 0.
    size = dtype.itemsize << max(rows - 1, 1).bit_length()
    return np.frombuffer(mmap.mmap(-1, size), dtype)


class Kernels:
    """The kernels of a protocol in one dialect."""

    def __init__(self, protocol: Protocol, dialect: str):
        self.protocol = protocol
        self.dialect = dialect
        self._module = _module(protocol, dialect)
        self._scan = getattr(self._module, f"scan_{protocol.model(dialect).name}")
        self._min_frame_bytes = max(protocol.model(dialect).min_size, 1)
        self._plans = _plans(protocol, dialect)
        self._decoders: dict[str, Decoder] = {}

    @functools.cached_property
    def frames(self) -> Decoder:
        """The decoder of frames."""
        return self._decoder(self.protocol.model(self.dialect).name)

    def stage(self, name: str) -> Decoder:
        """Return the decoder of a stage."""
        return self._decoder(name)

    def _decoder(self, name: str) -> Decoder:
        if name not in self._decoders:
            function = getattr(self._module, f"decode_{name}")
            self._decoders[name] = Decoder(self._plans[name], function)
        return self._decoders[name]

    def scan(self, data: NDArray[np.uint8], run_starts: Ints, run_stops: Ints) -> Frames:
        """Find the frames of runs, each from its start."""
        # No run can have more frames than its bytes divided by the smallest frame.
        capacity = int((run_stops - run_starts).sum()) // self._min_frame_bytes + 1
        starts, stops, runs = (np.empty(capacity, np.int64) for _ in range(3))
        reached, wrong = np.empty(len(run_starts), np.int64), np.empty(len(run_starts), np.bool_)
        found = int(
            self._scan(readonly(data), run_starts, run_stops, starts, stops, runs, reached, wrong)
        )
        return Frames(starts[:found], stops[:found], runs[:found], reached, wrong)

    def warm(self) -> None:
        """Compile or load every kernel, by calling it with empty arrays."""
        # Empty arrays have the same Numba types as full ones, so this compiles the one signature.
        nothing, none = np.empty(0, np.uint8), np.empty(0, np.int64)
        self.scan(nothing, none, none)
        for name in self._plans:
            self._decoder(name).decode(nothing, none, none)


def load(protocol: Protocol, dialect: str | None = None) -> Kernels:
    """Return the kernels of a protocol, with their own scratch arrays: for one thread at a time."""
    return Kernels(protocol, protocol.dialect(dialect))


@functools.cache
def _plans(protocol: Protocol, dialect: str) -> dict[str, Plan]:
    """Return the plan of each decoder, by the name of its layout."""
    return {each.layout.name: each.result for each in decoders(protocol, dialect)}


@functools.cache
def _module(protocol: Protocol, dialect: str) -> ModuleType:
    # Committed kernels are modules of the package, others are written to the cache folder. Both are
    # files, which Numba's cache needs.
    if is_committed(protocol, dialect):
        return importlib.import_module(f"wirelake.columnar.kernels.{protocol.name}_{dialect}")
    stem = f"wirelake_kernel_{protocol.name.replace('-', '_')}_{dialect}"
    return load_source(stem, kernel_source(protocol, dialect), _helper_version())


@functools.cache
def _helper_version() -> str:
    """Return a hash of the helpers that are compiled into kernels.

    Numba compares the file of the kernel alone with its cache. A change in a helper has to give the
    kernel another name, or the machine code of the old helper would be used.
    """
    # All files of `jit`, in a fixed order: each of them may be inlined into a kernel.
    digest = hashlib.sha256()
    for path in sorted(Path(jit.__path__[0]).glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
