"""`Evaluator`: the terms of a protocol's `Meaning` on columns of messages.

The terms are those that `wirelake.records.message` evaluates for one message at a time; a test
compares the two. Most texts in `messages` are one of a few: a kind, a name, a status. Such a column
is kept dictionary-coded (`Coded`) until it is finished, so that choosing between texts is choosing
between integers, and each distinct text is made once for a batch instead of once for each row.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.wire import meaning as terms

from ..jit.options import S, U, kernel
from .arrays import Mask, bitmap, scatter

__all__ = [
    "Coded",
    "Evaluator",
    "MessageFields",
    "array_of",
    "dictionary_of",
    "is_one_of",
    "repeated",
]

_DENSE_RANGE = 256
"""Numbers in a range of this size are their own dictionary codes: no hashing is needed."""


@dataclass(frozen=True)
class Coded:
    """A column of texts as indices into a list of distinct texts; -1 for null."""

    codes: NDArray[np.int32]
    texts: tuple[str, ...]

    def array(self) -> pa.Array:
        """Return the texts as an Arrow array."""
        rows = len(self.codes)
        if not self.texts or not rows:
            return pa.nulls(rows, pa.string())
        # A batch often has a single name or status: then the cached array is shared and nothing is
        # built.
        low, high = int(self.codes.min()), int(self.codes.max())
        if low == high:
            return pa.nulls(rows, pa.string()) if low < 0 else repeated(self.texts[low], rows)
        indices = pa.array(self.codes, mask=self.codes < 0) if low < 0 else pa.array(self.codes)
        return pa.array(self.texts, pa.string()).take(indices)

    def dictionary(self) -> pa.DictionaryArray:
        """Return the texts as an Arrow dictionary, which has each text that occurs once."""
        used = np.zeros(len(self.texts) + 1, np.bool_)
        _mark_used(self.codes, used)
        distinct: dict[str, int] = {}
        # The last one is that of -1, which has no text.
        numbers = np.full(len(used), -1, np.int32)
        for code in np.flatnonzero(used[:-1]).tolist():
            numbers[code] = distinct.setdefault(self.texts[code], len(distinct))
        codes = np.empty(len(self.codes), np.int32)
        _renumber(self.codes, numbers, codes)
        valid = bitmap(codes >= 0) if used[-1] else None
        indices = pa.Array.from_buffers(pa.int32(), len(codes), [valid, pa.py_buffer(codes)])
        texts = pa.array(list(distinct), pa.string())
        return pa.DictionaryArray.from_arrays(indices, texts, safe=False)


@kernel
def _mark_used(codes: NDArray[np.int32], used: Mask) -> None:
    """Mark the codes that occur; -1 is the last one."""
    last = len(used) - 1
    for i in range(len(codes)):
        code = S(codes[i])
        used[U(code if code >= 0 else last)] = True


@kernel
def _renumber(
    codes: NDArray[np.int32], numbers: NDArray[np.int32], found: NDArray[np.int32]
) -> None:
    """Look up a number for each code; that of -1 is the last one."""
    last = len(numbers) - 1
    for i in range(len(codes)):
        code = S(codes[i])
        found[i] = numbers[U(code if code >= 0 else last)]


def repeated(text: str, rows: int) -> pa.Array:
    """Return a column with the same text in each row.

    The sizes are rounded up to a power of two and cached, so that all batches share few arrays.
    """
    room = 1 << max(rows - 1, 1).bit_length()
    return _repeated(text, room).slice(0, rows)


@functools.lru_cache(maxsize=64)
def _repeated(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text), rows)


Value: TypeAlias = Coded | pa.Array
"""A column of texts or numbers; a test is an array of booleans without nulls."""


_Part: TypeAlias = tuple[NDArray[np.intp] | None, Value | None]
"""Some rows (None for all), ascending, and their values (None without values)."""


def array_of(value: Value | None, rows: int, kind: pa.DataType) -> pa.Array:
    """Return a value as a finished column of a type."""
    if value is None:
        return pa.nulls(rows, kind)
    found = value.array() if isinstance(value, Coded) else value
    return found if found.type == kind else found.cast(kind)


def dictionary_of(value: Value | None, rows: int) -> pa.DictionaryArray:
    """Return a value as a column of texts that is an Arrow dictionary."""
    if value is None:
        value = Coded(np.full(rows, -1, np.int32), ())
    return value.dictionary() if isinstance(value, Coded) else value.dictionary_encode()


def is_one_of(column: pa.DictionaryArray, texts: Collection[str]) -> Mask:
    """Return which texts of a column are one of these."""
    wanted = np.array([*(text in texts for text in column.dictionary.to_pylist()), False])
    return np.asarray(wanted[_indices(column)])


class MessageFields:
    """The decoded columns of a batch of messages, by the paths that a meaning uses."""

    def __init__(self, rows: int):
        self.rows = rows
        self.name = Coded(np.full(rows, -1, np.int32), ())
        self.structs: dict[str, tuple[NDArray[np.intp] | None, pa.StructArray]] = {}
        """By name of a body or a stage: its rows (None for all), and their values."""
        self.fields: dict[str, pa.Array] = {}
        """Fields of the frame itself."""
        self.row_kinds: dict[str, tuple[NDArray[np.intp], pa.StructArray]] = {}
        """By kind of row: the message of each row, and their values."""

    def at(self, path: str) -> tuple[NDArray[np.intp] | None, pa.Array] | None:
        """Return the rows (None for all) and values at a path; None when there are none."""
        first, *rest = path.split(".")
        if first in self.structs:
            chosen, values = self.structs[first]
        elif first in self.fields:
            chosen, values = None, self.fields[first]
        else:
            return None
        for name in rest:
            if values.type.get_field_index(name) < 0:
                return None
            values = values.field(name) if values.null_count == 0 else pc.struct_field(values, name)
        return chosen, values


class Evaluator:
    """Evaluates terms on one batch of messages."""

    def __init__(self, fields: MessageFields):
        self._fields = fields
        self._rows = fields.rows
        self._known: dict[int, Value | None] = {}
        """Results by identity of the term: a declaration uses some terms several times."""
        self._read: dict[str, pa.Array | None] = {}

    def value(self, term: terms.Term | str | None) -> Value | None:
        """Return the column of a term; None when no message has a value."""
        # By identity: terms live as long as their protocol, and comparing them by value would
        # compare whole trees.
        if id(term) not in self._known:
            self._known[id(term)] = self._evaluated(term)
        return self._known[id(term)]

    def _evaluated(self, term: terms.Term | str | None) -> Value | None:
        match term:
            case None:
                return None
            case str():
                return Coded(np.zeros(self._rows, np.int32), (term,))
            case terms.At():
                return self._at(term.path)
            case terms.Name():
                return self._fields.name
            case terms.Named():
                return self._named(term)
            case terms.Values() | terms.Text() | terms.Join():
                rows, value = self._on_rows(term)
                return value if rows is None else _scattered(value, rows, self._rows)
            case terms.First():
                return _first([self._on_rows(each) for each in term.terms], self._rows)
            case terms.RowField():
                return self._row_field(term)
            case terms.If():
                return self._if(term)
            case terms.Is() | terms.Equal() | terms.HasRow() | terms.Each():
                raise TypeError(f"{type(term).__name__} is not a column")

    def _at(self, path: str) -> pa.Array | None:
        if path not in self._read:
            found = self._fields.at(path)
            chosen, values = (None, None) if found is None else found
            if chosen is not None:
                values = scatter(values, chosen, self._rows)
            self._read[path] = values
        return self._read[path]

    # -- texts -------------------------------------------------------------------------------

    def _on_rows(self, term: terms.Term) -> _Part:
        """Evaluate a term that reads one body only on the messages with that body.

        Otherwise each alternative would be scattered over all rows, only to be joined again.
        """
        only = _bodies(term)
        body = only.pop() if len(only) == 1 else ""
        rows, values = self._fields.structs.get(body, (None, None))
        if rows is None or values is None:
            return None, self._direct(term)
        inner = MessageFields(len(rows))
        inner.structs = {body: (None, values)}
        return rows, Evaluator(inner)._direct(term)

    def _direct(self, term: terms.Term) -> Value | None:
        match term:
            case terms.Values():
                return self._values(term)
            case terms.Text():
                return _digits(self.value(term.of))
            case terms.Join():
                return self._join(term)
            case _:
                return self.value(term)

    def _named(self, term: terms.Named) -> Coded:
        """Return a text for each message name; null without a name."""
        names = self._fields.name
        texts: list[str] = []
        indices = np.full(len(names.texts) + 1, -1, np.int32)
        for index, name in enumerate(names.texts):
            text = term.texts.get(name, term.default)
            if text is not None:
                indices[index] = _index_in(texts, text)
        return Coded(indices[names.codes], tuple(texts))

    def _values(self, term: terms.Values) -> Value | None:
        numbers = self.value(term.of)
        if numbers is None:
            return None
        assert isinstance(numbers, pa.Array)
        codes, dictionary = _encoded(numbers)
        texts: list[str] = []
        indices = np.full(len(dictionary) + 1, -1, np.int32)
        for index, number in enumerate(dictionary):
            text = term.text_of(number)
            if text is not None:
                indices[index] = _index_in(texts, text)
        return Coded(indices[codes], tuple(texts))

    def _join(self, term: terms.Join) -> Value | None:
        found = [value for each in term.terms if (value := self.value(each)) is not None]
        if not found:
            return None
        # Two columns at a time, so that only pairs that occur are joined, not all combinations.
        joined = _coded(found[0])
        for each in found[1:]:
            joined = _joined_pairs(joined, _coded(each), term.separator)
        return joined

    # -- rows --------------------------------------------------------------------------------

    def _first_rows(
        self, kind: str, where: tuple[str, int] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], pa.StructArray] | None:
        """Return the messages with such a row, and the index of the first one in each."""
        if kind not in self._fields.row_kinds:
            return None
        messages, values = self._fields.row_kinds[kind]
        indices = np.arange(len(messages))
        if where is not None:
            name, wanted = where
            indices = np.flatnonzero(values.field(name).to_numpy() == wanted)
            messages = messages[indices]
        # Messages ascend, so the first row of each is where the number changes.
        first = np.ones(len(messages), np.bool_)
        first[1:] = messages[1:] != messages[:-1]
        return messages[first], indices[first], values

    def _row_field(self, term: terms.RowField) -> pa.Array | None:
        found = self._first_rows(term.row, term.where)
        if found is None:
            return None
        messages, indices, values = found
        picked = values.field(term.name)
        if len(indices) != len(values):
            picked = picked.take(pa.array(indices))
        return scatter(picked, messages, self._rows)

    # -- tests -------------------------------------------------------------------------------

    def _test(self, term: terms.Is | terms.Equal | terms.HasRow) -> NDArray[np.bool_]:
        match term:
            case terms.HasRow():
                holds = np.zeros(self._rows, np.bool_)
                found = self._first_rows(term.row, term.where)
                if found is not None:
                    holds[found[0]] = True
                return holds
            case terms.Is():
                value = self.value(term.of)
                if value is None:
                    return np.zeros(self._rows, np.bool_)
                assert isinstance(value, pa.Array)
                codes, dictionary = _encoded(value)
                wanted = np.array([*(number in term.numbers for number in dictionary), False])
                return np.asarray(wanted[codes])
            case terms.Equal():
                left, right = self.value(term.left), self.value(term.right)
                if left is None or right is None:
                    return np.zeros(self._rows, np.bool_)
                same = pc.fill_null(pc.equal(left, right), False)
                return np.asarray(same.to_numpy(zero_copy_only=False))

    def _if(self, term: terms.If) -> Value | None:
        test = self._test(term.test)
        then, otherwise = self.value(term.then), self.value(term.otherwise)
        if then is None and otherwise is None:
            return None
        if isinstance(then, Coded | None) and isinstance(otherwise, Coded | None):
            return _selected(test, then or self._no_texts(), otherwise or self._no_texts())
        arrays = [each.array() if isinstance(each, Coded) else each for each in (then, otherwise)]
        kind = next(each.type for each in arrays if each is not None)
        chosen = [pa.scalar(None, kind) if each is None else each for each in arrays]
        return pc.if_else(pa.array(test), *chosen)

    def _no_texts(self) -> Coded:
        return Coded(np.full(self._rows, -1, np.int32), ())


# -- dictionary-coded columns ----------------------------------------------------------------


def _index_in(texts: list[str], text: str) -> int:
    """Return the index of a text in a list; append it if necessary."""
    if text not in texts:
        texts.append(text)
    return texts.index(text)


def _indices(encoded: pa.DictionaryArray) -> NDArray[Any]:
    """Return the indices of a dictionary array; -1 for null."""
    indices = encoded.indices
    return np.asarray((pc.fill_null(indices, -1) if indices.null_count else indices).to_numpy())


def _encoded(numbers: pa.Array) -> tuple[NDArray[np.int32], list[int]]:
    """Return the index of each number in a list of distinct ones (-1 for null), and that list."""
    # Types, commands and codes are one or two bytes wide: no hash table for them.
    if numbers.type.bit_width <= 16 and not numbers.offset:
        dtype = f"i{numbers.type.bit_width // 8}"
        values = np.frombuffer(numbers.buffers()[1], dtype, len(numbers)).astype(np.int32)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if high - low < _DENSE_RANGE:
            values -= low
            if numbers.null_count:
                values[numbers.is_null().to_numpy(zero_copy_only=False)] = -1
            return values, list(range(low, high + 1))
    encoded = numbers.dictionary_encode()
    return _indices(encoded).astype(np.int32), encoded.dictionary.to_pylist()


def _coded(value: Value) -> Coded:
    """Return texts dictionary-coded."""
    if isinstance(value, Coded):
        return value
    encoded = value.dictionary_encode()
    return Coded(_indices(encoded).astype(np.int32), tuple(encoded.dictionary.to_pylist()))


def _digits(value: Value | None) -> Coded | None:
    """Return numbers as decimal texts."""
    if value is None:
        return None
    assert isinstance(value, pa.Array)
    codes, dictionary = _encoded(value)
    return Coded(codes, tuple(str(number) for number in dictionary))


def _selected(test: NDArray[np.bool_], then: Coded, otherwise: Coded) -> Coded:
    """Return one column where a test holds, another where it does not."""
    # The texts of both columns are concatenated, so the codes of the second are shifted.
    moved = np.where(otherwise.codes < 0, -1, otherwise.codes + len(then.texts))
    return Coded(np.where(test, then.codes, moved).astype(np.int32), then.texts + otherwise.texts)


# -- columns of a subset of rows -------------------------------------------------------------


def _bodies(term: object) -> set[str]:
    """Return the first names of all paths in a term; two names if it reads anything else."""
    match term:
        case terms.At():
            return {term.path.partition(".")[0]}
        case terms.Text() | terms.Values():
            return _bodies(term.of)
        case terms.Join():
            return set().union(*(_bodies(each) for each in term.terms))
        case _:
            return {"", "other"}


def _scattered(value: Value | None, rows: NDArray[np.intp], total: int) -> Value | None:
    """Return a column of some rows as one of all rows."""
    if isinstance(value, Coded):
        codes = np.full(total, -1, np.int32)
        codes[rows] = value.codes
        return Coded(codes, value.texts)
    return None if value is None else scatter(value, rows, total)


def _first(parts: list[_Part], total: int) -> Value | None:
    """Return for each row the first value that a part has."""
    found = [(rows, value) for rows, value in parts if value is not None]
    if not found:
        return None
    if all(isinstance(value, Coded) for _, value in found):
        # Written from the last term to the first, so that an earlier one overwrites a later one.
        codes, texts = np.full(total, -1, np.int32), list[str]()
        for rows, value in reversed(found):
            assert isinstance(value, Coded)
            has = value.codes >= 0
            codes[has if rows is None else rows[has]] = value.codes[has] + len(texts)
            texts += value.texts
        return Coded(codes, tuple(texts))
    whole = [value if rows is None else _scattered(value, rows, total) for rows, value in found]
    arrays = [value.array() if isinstance(value, Coded) else value for value in whole]
    return arrays[0] if len(arrays) == 1 else pc.coalesce(*arrays)


def _joined_pairs(left: Coded, right: Coded, separator: str) -> Coded:
    """Return two columns of texts joined; where one is null, the other alone."""
    # A pair of codes is one number, so each distinct pair is joined once.
    width = len(right.texts) + 1
    combined = (left.codes.astype(np.int64) + 1) * width + right.codes + 1
    codes, found = _encoded(pa.array(combined))
    texts: list[str] = []
    indices = np.full(len(found), -1, np.int32)
    for index, pair in enumerate(found):
        one, other = divmod(pair, width)
        parts = [left.texts[one - 1]] if one else []
        parts += [right.texts[other - 1]] if other else []
        if parts:
            texts.append(separator.join(parts))
            indices[index] = len(texts) - 1
    return Coded(indices[codes], tuple(texts))
