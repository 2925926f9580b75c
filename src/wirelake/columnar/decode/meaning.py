"""A protocol's `Meaning` on columns: the same terms as `wirelake.records.message`, many at once.

Most texts in `messages` are one of a few: a kind, a name, a status. Such a column is kept as codes
(`Coded`) until it is finished; choosing between them is then choosing between numbers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.wire import meaning as w

from .arrays import spread

__all__ = ["Coded", "Evaluator", "Found", "array_of", "repeated"]

_FEW = 256
"""So many distinct numbers need no hashing."""


@dataclass(frozen=True)
class Coded:
    """Texts as places in a list; -1 has no value."""

    codes: NDArray[np.int32]
    texts: tuple[str, ...]

    def array(self) -> pa.Array:
        """The texts themselves."""
        rows = len(self.codes)
        if not self.texts or not rows:
            return pa.nulls(rows, pa.string())
        low, high = int(self.codes.min()), int(self.codes.max())
        if low == high:
            return pa.nulls(rows, pa.string()) if low < 0 else repeated(self.texts[low], rows)
        places = pa.array(self.codes, mask=self.codes < 0) if low < 0 else pa.array(self.codes)
        return pa.array(self.texts, pa.string()).take(places)


def repeated(text: str, rows: int) -> pa.Array:
    """A text for each row; batches of a run share one array."""
    room = 1 << max(rows - 1, 1).bit_length()
    return _repeated(text, room).slice(0, rows)


@functools.lru_cache(maxsize=64)
def _repeated(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text), rows)


Value: TypeAlias = Coded | pa.Array
"""A column of texts or numbers; a test is an array of booleans without nulls."""


_Part: TypeAlias = tuple[NDArray[np.intp] | None, Value | None]
"""Some rows (None for all), ascending, and their values (None for none)."""


def array_of(value: Value | None, rows: int, kind: pa.DataType) -> pa.Array:
    """A finished column."""
    if value is None:
        return pa.nulls(rows, kind)
    found = value.array() if isinstance(value, Coded) else value
    return found if found.type == kind else found.cast(kind)


class Found:
    """The messages under evaluation: names and fields, by path."""

    def __init__(self, rows: int):
        self.rows = rows
        self.name = Coded(np.full(rows, -1, np.int32), ())
        self.structs: dict[str, tuple[NDArray[np.intp] | None, pa.StructArray]] = {}
        """By name of a body or a stage: its rows (None for all), and their values."""
        self.fields: dict[str, pa.Array] = {}
        """Fields of the frame itself."""
        self.row_kinds: dict[str, tuple[NDArray[np.intp], pa.StructArray]] = {}
        """By kind of row: the messages that the rows belong to, and their values."""

    def at(self, path: str) -> tuple[NDArray[np.intp] | None, pa.Array] | None:
        """The values at a path, and their rows (None for all); None when there are none."""
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

    def __init__(self, found: Found):
        self._found = found
        self._rows = found.rows
        self._known: dict[int, Value | None] = {}
        """Terms by identity: a declaration uses some of them several times."""
        self._read: dict[str, pa.Array | None] = {}

    def value(self, term: w.Term | str | None) -> Value | None:
        """The column of a term; None when no message has a value."""
        if id(term) not in self._known:
            self._known[id(term)] = self._evaluated(term)
        return self._known[id(term)]

    def _evaluated(self, term: w.Term | str | None) -> Value | None:
        match term:
            case None:
                return None
            case str():
                return Coded(np.zeros(self._rows, np.int32), (term,))
            case w.At():
                return self._at(term.path)
            case w.Name():
                return self._found.name
            case w.Named():
                return self._named(term)
            case w.Values() | w.Text() | w.Join():
                rows, value = self._narrow(term)
                return value if rows is None else _scattered(value, rows, self._rows)
            case w.First():
                return _first([self._narrow(each) for each in term.terms], self._rows)
            case w.RowField():
                return self._row_field(term)
            case w.If():
                return self._if(term)
            case w.Is() | w.Equal() | w.HasRow() | w.Each():
                raise TypeError(f"{type(term).__name__} is no column of its own")

    def _at(self, path: str) -> pa.Array | None:
        if path not in self._read:
            found = self._found.at(path)
            chosen, values = (None, None) if found is None else found
            if chosen is not None:
                values = spread(values, chosen, self._rows)
            self._read[path] = values
        return self._read[path]

    # -- texts -------------------------------------------------------------------------------

    def _narrow(self, term: w.Term) -> _Part:
        """A term that is about one body, on the messages that have it; any other on all."""
        only = _bodies(term)
        body = only.pop() if len(only) == 1 else ""
        rows, values = self._found.structs.get(body, (None, None))
        if rows is None or values is None:
            return None, self._plainly(term)
        inner = Found(len(rows))
        inner.structs = {body: (None, values)}
        return rows, Evaluator(inner)._plainly(term)

    def _plainly(self, term: w.Term) -> Value | None:
        match term:
            case w.Values():
                return self._values(term)
            case w.Text():
                return _digits(self.value(term.of))
            case w.Join():
                return self._join(term)
            case _:
                return self.value(term)

    def _named(self, term: w.Named) -> Coded:
        """A text for each name; messages without a name have none."""
        names = self._found.name
        texts: list[str] = []
        places = np.full(len(names.texts) + 1, -1, np.int32)
        for index, name in enumerate(names.texts):
            text = term.texts.get(name, term.default)
            if text is not None:
                places[index] = _place(texts, text)
        return Coded(places[names.codes], tuple(texts))

    def _values(self, term: w.Values) -> Value | None:
        numbers = self.value(term.of)
        if numbers is None:
            return None
        assert isinstance(numbers, pa.Array)
        codes, dictionary = _encoded(numbers)
        texts: list[str] = []
        places = np.full(len(dictionary) + 1, -1, np.int32)
        for index, number in enumerate(dictionary):
            text = term.texts.get(number, str(number) if term.digits else term.default)
            if text is not None:
                places[index] = _place(texts, text)
        return Coded(places[codes], tuple(texts))

    def _join(self, term: w.Join) -> Value | None:
        found = [value for each in term.terms if (value := self.value(each)) is not None]
        if not found:
            return None
        joined = _coded(found[0])
        for each in found[1:]:
            joined = _pairs(joined, _coded(each), term.separator)
        return joined

    # -- rows --------------------------------------------------------------------------------

    def _first_rows(
        self, kind: str, where: tuple[str, int] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], pa.StructArray] | None:
        """Of each message that has such a row: the message, and the place of its first one."""
        if kind not in self._found.row_kinds:
            return None
        messages, values = self._found.row_kinds[kind]
        places = np.arange(len(messages))
        if where is not None:
            name, wanted = where
            places = np.flatnonzero(values.field(name).to_numpy() == wanted)
            messages = messages[places]
        first = np.ones(len(messages), np.bool_)
        first[1:] = messages[1:] != messages[:-1]
        return messages[first], places[first], values

    def _row_field(self, term: w.RowField) -> pa.Array | None:
        found = self._first_rows(term.row, term.where)
        if found is None:
            return None
        messages, places, values = found
        picked = values.field(term.name)
        if len(places) != len(values):
            picked = picked.take(pa.array(places))
        return spread(picked, messages, self._rows)

    # -- tests -------------------------------------------------------------------------------

    def _test(self, term: w.Is | w.Equal | w.HasRow) -> NDArray[np.bool_]:
        match term:
            case w.HasRow():
                holds = np.zeros(self._rows, np.bool_)
                found = self._first_rows(term.row, term.where)
                if found is not None:
                    holds[found[0]] = True
                return holds
            case w.Is():
                value = self.value(term.of)
                if value is None:
                    return np.zeros(self._rows, np.bool_)
                assert isinstance(value, pa.Array)
                codes, dictionary = _encoded(value)
                wanted = np.array([*(number in term.numbers for number in dictionary), False])
                return np.asarray(wanted[codes])
            case w.Equal():
                left, right = self.value(term.left), self.value(term.right)
                if left is None or right is None:
                    return np.zeros(self._rows, np.bool_)
                same = pc.fill_null(pc.equal(left, right), False)
                return np.asarray(same.to_numpy(zero_copy_only=False))

    def _if(self, term: w.If) -> Value | None:
        test = self._test(term.test)
        then, otherwise = self.value(term.then), self.value(term.otherwise)
        if then is None and otherwise is None:
            return None
        if isinstance(then, Coded | None) and isinstance(otherwise, Coded | None):
            return _either(test, then or self._nothing(), otherwise or self._nothing())
        arrays = [each.array() if isinstance(each, Coded) else each for each in (then, otherwise)]
        kind = next(each.type for each in arrays if each is not None)
        chosen = [pa.scalar(None, kind) if each is None else each for each in arrays]
        return pc.if_else(pa.array(test), *chosen)

    def _nothing(self) -> Coded:
        return Coded(np.full(self._rows, -1, np.int32), ())


# -- columns of codes ------------------------------------------------------------------------


def _place(texts: list[str], text: str) -> int:
    """Where a text is in a list, put there if it is not."""
    if text not in texts:
        texts.append(text)
    return texts.index(text)


def _indices(encoded: pa.DictionaryArray) -> NDArray[Any]:
    """The places in a dictionary; -1 for null."""
    indices = encoded.indices
    return np.asarray((pc.fill_null(indices, -1) if indices.null_count else indices).to_numpy())


def _encoded(numbers: pa.Array) -> tuple[NDArray[np.int32], list[int]]:
    """The place of each number in a list of the distinct ones; -1 for null."""
    if numbers.type.bit_width <= 16 and not numbers.offset:
        dtype = f"i{numbers.type.bit_width // 8}"
        values = np.frombuffer(numbers.buffers()[1], dtype, len(numbers)).astype(np.int32)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if high - low < _FEW:
            values -= low
            if numbers.null_count:
                values[numbers.is_null().to_numpy(zero_copy_only=False)] = -1
            return values, list(range(low, high + 1))
    encoded = numbers.dictionary_encode()
    return _indices(encoded).astype(np.int32), encoded.dictionary.to_pylist()


def _coded(value: Value) -> Coded:
    """Texts as codes."""
    if isinstance(value, Coded):
        return value
    encoded = value.dictionary_encode()
    return Coded(_indices(encoded).astype(np.int32), tuple(encoded.dictionary.to_pylist()))


def _digits(value: Value | None) -> Coded | None:
    """Numbers as decimal text."""
    if value is None:
        return None
    assert isinstance(value, pa.Array)
    codes, dictionary = _encoded(value)
    return Coded(codes, tuple(str(number) for number in dictionary))


def _either(test: NDArray[np.bool_], then: Coded, otherwise: Coded) -> Coded:
    """Codes of one column where a test holds, of another where not."""
    moved = np.where(otherwise.codes < 0, -1, otherwise.codes + len(then.texts))
    return Coded(np.where(test, then.codes, moved).astype(np.int32), then.texts + otherwise.texts)


# -- columns of some rows --------------------------------------------------------------------


def _bodies(term: object) -> set[str]:
    """The first names of all paths in a term; with another source of values, more than one."""
    match term:
        case w.At():
            return {term.path.partition(".")[0]}
        case w.Text() | w.Values():
            return _bodies(term.of)
        case w.Join():
            return set().union(*(_bodies(each) for each in term.terms))
        case _:
            return {"", "other"}


def _scattered(value: Value | None, rows: NDArray[np.intp], total: int) -> Value | None:
    """A column of some rows as one of all."""
    if isinstance(value, Coded):
        codes = np.full(total, -1, np.int32)
        codes[rows] = value.codes
        return Coded(codes, value.texts)
    return None if value is None else spread(value, rows, total)


def _first(parts: list[_Part], total: int) -> Value | None:
    """Of each row the first value that some part has."""
    found = [(rows, value) for rows, value in parts if value is not None]
    if not found:
        return None
    if all(isinstance(value, Coded) for _, value in found):
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


def _pairs(left: Coded, right: Coded, separator: str) -> Coded:
    """Two columns of texts joined; where one has no value, the other alone."""
    width = len(right.texts) + 1
    combined = (left.codes.astype(np.int64) + 1) * width + right.codes + 1
    codes, found = _encoded(pa.array(combined))
    texts: list[str] = []
    places = np.full(len(found), -1, np.int32)
    for index, pair in enumerate(found):
        one, other = divmod(pair, width)
        parts = [left.texts[one - 1]] if one else []
        parts += [right.texts[other - 1]] if other else []
        if parts:
            texts.append(separator.join(parts))
            places[index] = len(texts) - 1
    return Coded(places[codes], tuple(texts))
