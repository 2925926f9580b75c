"""The nodes of a compiled filter: conditions that are true, false or unknown.

Each evaluates a whole batch (`mask`, with Arrow's compute functions) or one row (`test`, in plain
Python) with the same result. Unknown is null in a batch and None in a row, as in SQL.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "COMPARISONS",
    "All",
    "Among",
    "AnyOf",
    "Column",
    "Columns",
    "Compare",
    "CompareColumns",
    "Condition",
    "Flag",
    "Glob",
    "Holds",
    "IsNull",
    "Kind",
    "Not",
    "Settled",
    "near",
    "resolve",
]


# -- columns: lookup in a schema, and values in a batch or a row -----------------------------------


Kind: TypeAlias = Literal["integer", "float", "text", "bytes", "bool", "texts", "other"]
"""The kind of a column, which determines its comparisons; `texts` is a list of text."""

_ARROW: Final[dict[Kind, pa.DataType]] = {
    "integer": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "bool": pa.bool_(),
    "texts": pa.list_(pa.string()),
}
"""The type in which values of each kind are compared."""

_UNITS: Final = {"_ns": 1, "_us": 10**3, "_ms": 10**6, "_s": 10**9}


class Column(msgspec.Struct, frozen=True):
    """A column, or a field of a struct."""

    path: tuple[str, ...]
    kind: Kind

    @property
    def name(self) -> str:
        """Its dotted name."""
        return ".".join(self.path)

    @property
    def unit_ns(self) -> int | None:
        """Nanoseconds per unit; None when the column is not a time."""
        for suffix, length in _UNITS.items():
            if self.path[-1].endswith(suffix):
                return length
        return None

    def of(self, row: Mapping[str, Any]) -> Any:
        """Return its value in a row, or None."""
        value: Any = row
        for step in self.path:
            if value is None:
                return None
            value = value.get(step)
        return value


class Columns:
    """The columns of a batch, each fetched once and cast to the type used for comparison."""

    def __init__(self, batch: pa.RecordBatch):
        self.batch = batch
        self._found: dict[tuple[str, ...], pa.Array] = {}

    def __getitem__(self, column: Column) -> pa.Array:
        found = self._found.get(column.path)
        if found is None:
            found = self._found[column.path] = self._fetch(column)
        return found

    def _fetch(self, column: Column) -> pa.Array:
        """Return a column, or nulls if the batch lacks it: files of a protocol have only its own
        struct."""
        place = self.batch.schema.get_field_index(column.path[0])
        if place < 0:
            return pa.nulls(self.batch.num_rows, _ARROW.get(column.kind, pa.null()))
        array = self.batch.column(place)
        for step in column.path[1:]:
            if array.type.get_field_index(step) < 0:
                return pa.nulls(self.batch.num_rows, _ARROW.get(column.kind, pa.null()))
            array = pc.struct_field(array, step)
        # One type per kind, so that both sides of every comparison have the same type.
        kind = _ARROW.get(column.kind, array.type)
        return array if array.type == kind else pc.cast(array, kind)


def resolve(schema: pa.Schema, name: str) -> Column:
    """Return the column of a dotted name. Raises LookupError."""
    path = tuple(name.split("."))
    if schema.get_field_index(path[0]) < 0:
        raise LookupError(f"unknown column {path[0]!r}{_suggestion(schema, name)}")
    kind = schema.field(path[0]).type
    for place, step in enumerate(path[1:], 1):
        so_far = ".".join(path[:place])
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            raise LookupError(f"{so_far} is a list; its items cannot be filtered")
        if not pa.types.is_struct(kind):
            raise LookupError(f"{so_far} has no fields")
        if kind.get_field_index(step) < 0:
            raise LookupError(f"{so_far} has no field {step!r}{_suggestion(schema, name)}")
        kind = kind.field(step).type
    return Column(path, _kind(kind))


def _kind(kind: pa.DataType) -> Kind:
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_integer(kind) and kind != pa.uint64():
        return "integer"
    if types.is_floating(kind):
        return "float"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_boolean(kind):
        return "bool"
    if (types.is_list(kind) or types.is_large_list(kind)) and _kind(kind.value_type) == "text":
        return "texts"
    return "other"


def near(schema: pa.Schema, name: str) -> list[str]:
    """Return the columns whose names are most similar to an unknown one."""
    known = list(_names(schema))
    last = name.rsplit(".", 1)[-1]
    same = [each for each in known if each.rsplit(".", 1)[-1] == last]
    close = get_close_matches(name, known, 3, 0.6)
    return list(dict.fromkeys([*close, *same]))[:3]


def _suggestion(schema: pa.Schema, name: str) -> str:
    found = near(schema, name)
    if not found:
        quoted = "" if "." in name else f'; for text, write "{name}"'
        return f"; expected one of {', '.join(schema.names)}{quoted}"
    return f"; did you mean {' or '.join(found)}?"


def _names(fields: Any, prefix: str = "") -> Iterator[str]:
    for field in fields:
        yield prefix + field.name
        if pa.types.is_struct(field.type):
            inner = [field.type.field(place) for place in range(field.type.num_fields)]
            yield from _names(inner, f"{prefix}{field.name}.")


_Row = Mapping[str, Any]

COMPARISONS: Final[dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]]] = {
    "==": (operator.eq, pc.equal),
    "!=": (operator.ne, pc.not_equal),
    "<": (operator.lt, pc.less),
    "<=": (operator.le, pc.less_equal),
    ">": (operator.gt, pc.greater),
    ">=": (operator.ge, pc.greater_equal),
}
"""The comparisons, of values and of arrays."""


class Condition(Protocol):
    """An expression that is true, false or unknown."""

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""


class All(msgspec.Struct, frozen=True):
    """Several conditions, joined by `and`."""

    conditions: tuple[Any, ...]

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row: false if one is false, else unknown if one is unknown."""
        first, *rest = (each.mask(columns) for each in self.conditions)
        for each in rest:
            first = pc.and_kleene(first, each)
        return first

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        found: bool | None = True
        for each in self.conditions:
            answer = each.test(row)
            if answer is False:
                return False
            found = None if answer is None else found
        return found


class AnyOf(msgspec.Struct, frozen=True):
    """Several conditions, joined by `or`."""

    conditions: tuple[Any, ...]

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row: true if one is true, else unknown if one is unknown."""
        first, *rest = (each.mask(columns) for each in self.conditions)
        for each in rest:
            first = pc.or_kleene(first, each)
        return first

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        found: bool | None = False
        for each in self.conditions:
            answer = each.test(row)
            if answer is True:
                return True
            found = None if answer is None else found
        return found


class Not(msgspec.Struct, frozen=True):
    """The opposite of a condition; unknown stays unknown."""

    condition: Any

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""
        return pc.invert(self.condition.mask(columns))

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        answer = self.condition.test(row)
        return None if answer is None else not answer


class Compare(msgspec.Struct, frozen=True):
    """A column compared with a value of its own kind."""

    mark: str
    column: Column
    value: Any

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""
        array = columns[self.column]
        return COMPARISONS[self.mark][1](array, pa.scalar(self.value, array.type))

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        value = self.column.of(row)
        return None if value is None else bool(COMPARISONS[self.mark][0](value, self.value))


class CompareColumns(msgspec.Struct, frozen=True):
    """Two columns compared; an integer and a float are compared as floats."""

    mark: str
    left: Column
    right: Column

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""
        pair = [columns[self.left], columns[self.right]]
        if self._mixed:
            pair = [pc.cast(array, pa.float64(), safe=False) for array in pair]
        return COMPARISONS[self.mark][1](*pair)

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        left, right = self.left.of(row), self.right.of(row)
        if left is None or right is None:
            return None
        if self._mixed:
            left, right = float(left), float(right)
        return bool(COMPARISONS[self.mark][0](left, right))

    @property
    def _mixed(self) -> bool:
        return self.left.kind != self.right.kind


class Among(msgspec.Struct, frozen=True):
    """Whether the value of a column is one of several."""

    column: Column
    values: tuple[Any, ...]

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""
        array = columns[self.column]
        found = pc.is_in(array, value_set=pa.array(self.values, array.type))
        return _unknown_where_null(array, found)

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        value = self.column.of(row)
        return None if value is None else value in self.values


class Glob(msgspec.Struct, frozen=True):
    """Whether a text matches a pattern: `*` is any text, `?` any character."""

    column: Column
    for_arrow: str
    for_python: re.Pattern[str]

    @classmethod
    def of(cls, column: Column, pattern: str) -> Glob:
        """Return a glob as two regular expressions, neither of which backtracks exponentially."""
        # Arrow uses RE2, which never backtracks; characters are written as code points, a form that
        # RE2 accepts for every character. Python's engine does backtrack: an atomic group for
        # each piece takes its first occurrence, which is sufficient for a glob, and never retries.
        first, *rest = _pieces(pattern, lambda letter: f"\\x{{{ord(letter):x}}}")
        arrow = rf"(?s)\A{'.*'.join([first, *rest])}\z"
        first, *rest = _pieces(pattern, re.escape)
        python = first + "".join(f"(?>.*?{piece})" for piece in rest[:-1])
        if rest:
            python += f".*{rest[-1]}"
        return cls(column, arrow, re.compile(python, re.DOTALL))

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""
        return pc.match_substring_regex(columns[self.column], self.for_arrow)

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        value = self.column.of(row)
        return None if value is None else self.for_python.fullmatch(value) is not None


class Holds(msgspec.Struct, frozen=True):
    """Whether a list of text contains a text."""

    column: Column
    value: str

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row: a list has a hit if more hits precede its end than its start."""
        # Lists are slices of one flat array. A running count of hits over it, read at the offsets,
        # answers all lists with four vectorised calls instead of a Python loop over rows.
        array = columns[self.column]
        hits = pc.fill_null(pc.equal(array.values, pa.scalar(self.value, pa.string())), False)
        totals = pc.cumulative_sum(pc.cast(hits, pa.int64()))
        upto = pa.concat_arrays([pa.array([0], pa.int64()), totals])
        ends = pc.take(upto, array.offsets)
        return _unknown_where_null(array, pc.greater(ends[1:], ends[:-1]))

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        value = self.column.of(row)
        return None if value is None else self.value in value


class IsNull(msgspec.Struct, frozen=True):
    """Whether a column is null; never unknown."""

    column: Column

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""
        return pc.is_null(columns[self.column])

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        return self.column.of(row) is None


class Flag(msgspec.Struct, frozen=True):
    """A boolean column."""

    column: Column

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""
        return columns[self.column]

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        value = self.column.of(row)
        return None if value is None else bool(value)


class Settled(msgspec.Struct, frozen=True):
    """A constant result, such as an integer below 1e30; unknown where the column is null."""

    column: Column
    answer: bool

    def mask(self, columns: Columns) -> pa.Array:
        """Evaluate each row of a batch."""
        array = columns[self.column]
        valid = pc.is_valid(array)
        return _unknown_where_null(array, valid if self.answer else pc.invert(valid))

    def test(self, row: _Row) -> bool | None:
        """Evaluate one row."""
        return None if self.column.of(row) is None else self.answer


def _unknown_where_null(array: pa.Array, answers: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(array), answers, pa.scalar(None, pa.bool_()))


def _pieces(pattern: str, literal: Callable[[str], str]) -> list[str]:
    """Return the regular expressions between the stars of a glob; a backslash escapes."""
    pieces = [""]
    for escaped, star, one, plain in re.findall(r"\\(.)|(\*)|(\?)|(.)", pattern, re.DOTALL):
        if star:
            pieces.append("")
        else:
            pieces[-1] += "." if one else literal(escaped or plain)
    return pieces
