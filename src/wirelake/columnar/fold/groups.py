"""Rows of tables in groups: the one primitive that merges across connections need.

Arrow's own `group_by` has no minimum of a pair such as (time, connection), and joins do not keep
the order of rows. So keys become integer codes, one sort brings the rows of a group together, and
`reduceat` of numpy reduces each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["Groups", "Ints", "column_of", "numbers_or", "present"]

Ints: TypeAlias = NDArray[np.int64]
"""Keys, times and positions."""
_LAST: Final = int(np.iinfo(np.int64).max)
_FIRST: Final = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Groups:
    """The groups of some rows, in the order in which the first row of each appears."""

    order: Ints
    """Rows such that those of one group are neighbours; in a group they keep their order."""
    begins: Ints
    """Where each group begins in `order`."""

    @staticmethod
    def by(*keys: pa.Array) -> Groups:
        """Group rows that have equal keys. Null equals null."""
        codes = [_codes(key) for key in keys]
        order = np.lexsort(codes)
        differs = np.zeros(len(order), np.bool_)
        differs[:1] = True
        for each in codes:
            ordered = each[order]
            differs[1:] |= ordered[1:] != ordered[:-1]
        begins = np.flatnonzero(differs)
        ends = np.append(begins[1:], len(order))
        # The order of codes means nothing: put the groups in the order of their first rows.
        rank = np.argsort(order[begins], kind="stable")
        sizes = (ends - begins)[rank]
        starts = np.cumsum(sizes) - sizes
        places = np.repeat(begins[rank] - starts, sizes) + np.arange(len(order))
        return Groups(order[places], starts)

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def firsts(self) -> Ints:
        """The first row of each group."""
        return self.order[self.begins]

    def numbers(self) -> Ints:
        """Return the number of the group of each row."""
        sizes = np.diff(np.append(self.begins, len(self.order)))
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.repeat(np.arange(len(self)), sizes)
        return found

    def sums(self, column: pa.Array) -> pa.Array:
        """Return the sum of each group."""
        if not len(self):
            return pa.array([], pa.int64())
        return pa.array(np.add.reduceat(numbers_or(column, 0)[self.order], self.begins))

    def least(self, column: pa.Array) -> pa.Array:
        """Return the minimum of each group; null where all values are."""
        return self._reduced(np.minimum, column, _LAST)

    def greatest(self, column: pa.Array) -> pa.Array:
        """Return the maximum of each group; null where all values are."""
        return self._reduced(np.maximum, column, _FIRST)

    def least_pair(self, first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the minimum of pairs in each group. A pair counts if `first` is known."""
        return self._pairs(self.least(first), first, second, np.minimum, _LAST)

    def greatest_pair(self, first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the maximum of pairs in each group. A pair counts if `first` is known."""
        return self._pairs(self.greatest(first), first, second, np.maximum, _FIRST)

    def _pairs(
        self, best: pa.Array, first: pa.Array, second: pa.Array, pick: np.ufunc, neutral: int
    ) -> tuple[pa.Array, pa.Array]:
        equal = present(first) & (numbers_or(first, 0) == numbers_or(best, 0)[self.numbers()])
        return best, self._reduced(pick, second, neutral, equal)

    def _reduced(
        self, pick: np.ufunc, column: pa.Array, neutral: int, only: NDArray[np.bool_] | None = None
    ) -> pa.Array:
        if not len(self):
            return pa.array([], pa.int64())
        counts = present(column) if only is None else present(column) & only
        values = np.where(counts, numbers_or(column, neutral), neutral)
        found = pick.reduceat(values[self.order], self.begins)
        known = np.logical_or.reduceat(counts[self.order], self.begins)
        return pa.array(found, mask=~known)


def column_of(table: pa.Table, name: str) -> pa.Array:
    """Return a column in one piece."""
    column = table.column(name).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)


def present(column: pa.Array) -> NDArray[np.bool_]:
    """Return where a column has a value."""
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def numbers_or(column: pa.Array, default: int) -> Ints:
    """Return the numbers of a column, `default` in place of null."""
    return np.asarray(pc.fill_null(column, default).to_numpy(), np.int64)


def _codes(column: pa.Array) -> NDArray[np.int32]:
    """Return a number for each distinct value (-1: null)."""
    indices = pc.dictionary_encode(column).indices
    return np.asarray(pc.fill_null(indices, -1).to_numpy(), np.int32)
