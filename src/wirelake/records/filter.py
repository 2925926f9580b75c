"""The filter language: conditions on the columns of a table, for batches and for single rows.

    chosen = compile_filter('protocol == "comet" and latency_ns > 5ms', schema("calls"))
    chosen.select(batch)       the rows of an Arrow batch
    chosen.test(row)           one row, as a dict

    condition  := and-part { "or" and-part }
    and-part   := not-part { "and" not-part }
    not-part   := "not" not-part | "(" condition ")" | comparison
    comparison := operand ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand
                | column ( "~" | "!~" ) text
                | column [ "not" ] "in" "(" literal { "," literal } ")"
                | text [ "not" ] "in" column
                | column "is" [ "not" ] "null"
                | column

The guide is `docs/guides/filters.md`. An invalid filter raises a `FilterError` with the position;
once compiled, a filter does not fail.

A filter is compiled against a schema: names and types are checked once, so that a typing mistake is
an error and not an empty result. It is compiled to nodes (`filter_nodes.py`) that evaluate a batch
with Arrow's vectorised functions, or one row in plain Python for the live hub. Both follow SQL's
three-valued logic, and tests compare them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final, Literal, NoReturn, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.wire.errors import did_you_mean
from wirelake.wire.meaning import KINDS

from . import filter_nodes as n
from .filter_nodes import Column, Columns, resolve

__all__ = [
    "MAX_TEXT",
    "Filter",
    "FilterError",
    "Kind",
    "Token",
    "compile_filter",
    "tokens",
]


# -- tokens ----------------------------------------------------------------------------------------


MAX_TEXT: Final = 100_000
"""Maximum length of a filter: far more than a person writes. Filters also come over HTTP, so the
work that one request can cause is bounded."""

Kind: TypeAlias = Literal[
    "name", "word", "mark", "text", "bytes", "number", "duration", "time", "bool", "end"
]
"""The kind of a token; `text` to `bool` are literals."""


class FilterError(ValueError):
    """An invalid filter.

    `detail` is the message alone; `start` and `stop` are positions in `text`. As a string it is the
    message, the line, and a caret under the position.
    """

    def __init__(self, detail: str, text: str, start: int, stop: int):
        super().__init__(detail, text, start, stop)
        self.detail = detail
        self.text = text
        self.start = start
        self.stop = stop

    def __str__(self) -> str:
        begin = self.text.rfind("\n", 0, self.start) + 1
        line = self.text[begin:].split("\n", 1)[0].replace("\t", " ")
        place = self.start - begin
        width = max(1, min(self.stop, begin + len(line)) - self.start)
        return f"{self.detail}\n  {line}\n  {' ' * place}{'^' * width}"


class Token(msgspec.Struct, frozen=True):
    """A token and its position."""

    kind: Kind
    value: Any
    """The name, the keyword, the mark, or the value of a literal."""
    start: int
    stop: int


WORDS: Final = frozenset({"and", "or", "not", "in", "is", "null"})

_UNITS: Final[dict[str, tuple[Kind, int]]] = {
    **{unit: ("duration", ns) for unit, ns in (("ns", 1), ("us", 10**3), ("ms", 10**6))},
    "µs": ("duration", 10**3),
    "μs": ("duration", 10**3),
    "s": ("duration", 10**9),
    "m": ("duration", 60 * 10**9),
    "h": ("duration", 3_600 * 10**9),
    "d": ("duration", 86_400 * 10**9),
    "B": ("number", 1),
    **{unit: ("number", 1_000**power) for power, unit in enumerate(("kB", "MB", "GB", "TB"), 1)},
    **{unit: ("number", 1 << 10 * n) for n, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), 1)},
    "KB": ("number", 1_000),
}
"""The units of numbers: the kind of the literal, and the factor."""

_MAX_DIGITS: Final = 300
_MAX_NUMBER: Final = 1e300

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}

_PATTERN: Final = re.compile(
    r"""
      (?P<space> \s+)
    | (?P<day> \d{4}-\d{2}-\d{2} ) (?:
        T (?P<clock> \d{2}:\d{2} (?: :\d{2} )? ) (?: \. (?P<fraction> \d{1,9} ) )?
        (?P<zone> Z | [+-]\d{2}:\d{2} )?
      )?
    | (?P<hex> 0x[0-9a-fA-F]+ )
    | (?P<number> -? \d[\d_]* (?: \.\d+ )? (?: [eE][+-]?\d+ )? ) (?P<unit> [A-Za-zµμ]* )
    | (?P<bytes> x" (?: [^"\n]* ) " )
    | (?P<text> " (?: [^"\\] | \\. )* " | ' (?: [^'\\] | \\. )* ' )
    | (?P<name> [A-Za-z_]\w* (?: \.[A-Za-z_]\w* )* )
    | (?P<mark> == | != | <> | <= | >= | !~ | [=<>~(),] )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def tokens(text: str) -> Iterator[Token]:
    """Return the tokens of a filter, followed by an end token."""
    if len(text) > MAX_TEXT:
        raise FilterError(f"a filter has at most {MAX_TEXT:,} characters", text[:80], 0, 1)
    if (broken := re.search("[\ud800-\udfff]", text)) is not None:
        raise FilterError("invalid character: lone surrogate", "", 0, broken.start())
    place = 0
    while place < len(text):
        match = _PATTERN.match(text, place)
        if match is None:
            raise FilterError(_unexpected(text[place]), text, place, place + 1)
        if match["space"] is None:
            yield _token(text, match)
        place = match.end()
    yield Token("end", None, len(text), len(text))


def _unexpected(character: str) -> str:
    if character in "\"'":
        return f"this text has no closing {character}"
    return f"{character!r} has no meaning here"


def _token(text: str, match: re.Match[str]) -> Token:
    start, stop = match.span()
    kind: Kind
    value: Any
    if (name := match["name"]) is not None:
        kind, value = _name(name)
    elif match["mark"] is not None:
        kind, value = "mark", {"=": "==", "<>": "!="}.get(match["mark"], match["mark"])
    elif match["text"] is not None:
        kind, value = "text", _unescaped(match["text"][1:-1])
    elif match["bytes"] is not None:
        kind, value = "bytes", _bytes(text, match)
    elif match["day"] is not None:
        kind, value = "time", _time(text, match)
    elif match["hex"] is not None:
        kind, value = "number", int(match["hex"], 16)
    else:
        kind, value = _number(text, match)
    return Token(kind, value, start, stop)


def _name(name: str) -> tuple[Kind, Any]:
    lower = name.lower()
    if lower in WORDS:
        return "word", lower
    if lower in ("true", "false"):
        return "bool", lower == "true"
    return "name", name


def _unescaped(text: str) -> str:
    r"""Resolve escapes: n, t, r and 0 are control characters, quotes and backslashes stand for
    themselves. Before other characters the backslash stays, so that a pattern can have `\*`."""

    def one(match: re.Match[str]) -> str:
        letter = match[1]
        if letter in "\"'\\":
            return str(letter)
        return _ESCAPES.get(letter, match[0])

    return re.sub(r"\\(.)", one, text, flags=re.DOTALL)


def _bytes(text: str, match: re.Match[str]) -> bytes:
    try:
        return bytes.fromhex(match["bytes"][2:-1])
    except ValueError:
        raise FilterError(
            'bytes are pairs of hexadecimal digits, as in x"00ff"', text, *match.span()
        ) from None


def _time(text: str, match: re.Match[str]) -> int:
    """Return nanoseconds since 1970. A time without a zone is UTC."""
    zone = (match["zone"] or "Z").replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{match['day']}T{match['clock'] or '00:00'}{zone}")
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise FilterError("invalid time", text, *match.span()) from None
    fraction = int((match["fraction"] or "").ljust(9, "0"))
    return (since.days * 86_400 + since.seconds) * 10**9 + fraction


def _number(text: str, match: re.Match[str]) -> tuple[Kind, Any]:
    digits, unit = match["number"].replace("_", ""), match["unit"]
    if unit and unit not in _UNITS:
        known = "ns, us, ms, s, m, h, d (times); B, kB, MB, GB, KiB, MiB, GiB (sizes)"
        place = match.span("unit")
        raise FilterError(f"unknown unit {unit!r}; expected one of {known}", text, *place)
    kind, factor = _UNITS.get(unit, ("number", 1))
    if len(digits) > _MAX_DIGITS or abs(float(digits)) > _MAX_NUMBER:
        raise FilterError("number too large", text, *match.span())
    if digits.lstrip("-").isdigit():
        return kind, int(digits) * factor
    if not unit:
        return kind, float(digits)
    exact = Fraction(digits) * factor
    if exact.denominator != 1:
        smallest = "nanoseconds" if kind == "duration" else "bytes"
        raise FilterError(f"not a whole number of {smallest}", text, *match.span())
    return kind, int(exact)


_MAX_DEPTH: Final = 50
"""Maximum nesting of parentheses: the parser is recursive, and must not exhaust the stack."""
_INT64: Final = range(-(1 << 63), 1 << 63)
_LITERALS: Final = frozenset({"text", "bytes", "number", "duration", "time", "bool"})
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FITS: Final[dict[str, tuple[str, ...]]] = {
    "integer": ("number", "duration", "time"),
    "float": ("number", "duration", "time"),
    "text": ("text",),
    "bytes": ("bytes",),
    "bool": ("bool",),
}
"""By the kind of a column: the literals that it can be compared with."""
_KNOWN_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "direction": ("c2s", "s2c"),
    "kind": KINDS,
    "outcome": (
        *("answered", "failed", "lost", "unknown", "open", "orphan"),  # calls
        *("acked", "unacked", "unsent"),  # deliveries
        *("closed", "refused", "replaced"),  # tunnels
    ),
}
"""Values of columns with a few fixed ones, in all tables."""


class Filter:
    """A compiled filter."""

    def __init__(self, text: str, condition: n.Condition, columns: frozenset[str]):
        self.text = text
        """The source of the filter."""
        self.columns = columns
        """The top-level columns that it reads: a reader of Parquet loads no others."""
        self.condition = condition
        """The compiled condition."""

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return the rows of a batch for which the filter is true; unknown counts as false."""
        return pc.fill_null(self.condition.mask(Columns(batch)), False)

    def select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the matching rows of a batch."""
        return batch.filter(self.mask(batch))

    def test(self, row: Mapping[str, Any]) -> bool:
        """Return whether the filter is true for a row. Missing columns are null."""
        return self.condition.test(row) is True


def compile_filter(text: str, schema: pa.Schema) -> Filter:
    """Compile a filter for a schema. Raises FilterError with the position of the error."""
    return _Parser(text, schema).filter()


class _Parser:
    """A single-pass parser that checks types against the schema."""

    def __init__(self, text: str, schema: pa.Schema):
        self._text = text
        self._schema = schema
        self._tokens = list(tokens(text))
        self._place = 0
        self._depth = 0
        self._used: set[str] = set()

    def filter(self) -> Filter:
        condition = self._either()
        if self._next.kind != "end":
            self._fail("expected `and`, `or` or the end", self._next)
        return Filter(self._text, condition, frozenset(self._used))

    # -- the words -----------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        token = self._next
        self._place += token.kind != "end"
        return token

    def _took(self, kind: str, value: str) -> bool:
        """Consume the next token if it is this one."""
        found = self._next.kind == kind and self._next.value == value
        self._place += found
        return found

    def _want(self, kind: str, value: str) -> None:
        if not self._took(kind, value):
            self._fail(f"expected `{value}`", self._next)

    def _fail(self, detail: str, at: Token) -> NoReturn:
        raise FilterError(detail, self._text, at.start, at.stop)

    # -- and, or, not ----------------------------------------------------------------------------

    def _either(self) -> n.Condition:
        found = [self._both()]
        while self._took("word", "or"):
            found.append(self._both())
        return found[0] if len(found) == 1 else n.AnyOf(tuple(found))

    def _both(self) -> n.Condition:
        found = [self._single()]
        while self._took("word", "and"):
            found.append(self._single())
        return found[0] if len(found) == 1 else n.All(tuple(found))

    def _single(self) -> n.Condition:
        opposite = False
        while self._took("word", "not"):
            opposite = not opposite
        at = self._next
        if self._took("mark", "("):
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                self._fail(f"parentheses are nested deeper than {_MAX_DEPTH}", at)
            found = self._either()
            self._want("mark", ")")
            self._depth -= 1
        else:
            found = self._comparison()
        return n.Not(found) if opposite else found

    # -- comparisons -----------------------------------------------------------------------------

    def _comparison(self) -> n.Condition:
        first = self._take()
        if first.kind in _LITERALS:
            return self._literal_first(first)
        if first.kind != "name":
            self._fail("expected a column or a value", first)
        column = self._column(first)
        mark = self._next
        if self._took("word", "is"):
            return self._is_null(column)
        if self._took("word", "in"):
            return self._among(column)
        if self._took("word", "not"):
            self._want("word", "in")
            return n.Not(self._among(column))
        if self._took("mark", "~"):
            return self._glob(column, mark)
        if self._took("mark", "!~"):
            return n.Not(self._glob(column, mark))
        if mark.kind == "mark" and mark.value in n.COMPARISONS:
            self._place += 1
            return self._compare(column, first, mark)
        if column.kind != "bool":
            self._fail(f"expected a comparison: {column.name} is not true or false", mark)
        return n.Flag(column)

    def _column(self, token: Token) -> Column:
        try:
            column = resolve(self._schema, token.value)
        except LookupError as error:
            raise FilterError(str(error), self._text, token.start, token.stop) from None
        self._used.add(column.path[0])
        return column

    def _is_null(self, column: Column) -> n.Condition:
        opposite = self._took("word", "not")
        self._want("word", "null")
        return n.Not(n.IsNull(column)) if opposite else n.IsNull(column)

    def _glob(self, column: Column, at: Token) -> n.Condition:
        if column.kind != "text":
            self._fail(f"~ needs text; {column.name} is not text", at)
        pattern = self._take()
        if pattern.kind != "text":
            self._fail('expected a pattern, such as "test/*"', pattern)
        return n.Glob.of(column, pattern.value)

    def _among(self, column: Column) -> n.Condition:
        self._want("mark", "(")
        found = [self._compare_literal("==", column, self._take())]
        while self._took("mark", ","):
            found.append(self._compare_literal("==", column, self._take()))
        self._want("mark", ")")
        # Arrow's is_in distinguishes 0.0 from -0.0, comparisons do not: compare floats one by one.
        if column.kind == "float":
            return n.AnyOf(tuple(found))
        values = [each.value for each in found if isinstance(each, n.Compare)]
        return n.Among(column, tuple(values)) if values else n.Settled(column, False)

    def _literal_first(self, literal: Token) -> n.Condition:
        """Parse `"id" in ids`, or a comparison with the literal on the left."""
        mark = self._take()
        opposite = mark.kind == "word" and mark.value == "not"
        if opposite:
            mark = self._take()
        if mark.kind == "word" and mark.value == "in":
            found = self._holds(literal)
            return n.Not(found) if opposite else found
        if opposite or mark.kind != "mark" or mark.value not in n.COMPARISONS:
            self._fail("expected a comparison", mark)
        name = self._take()
        if name.kind != "name":
            self._fail("expected a column on one side of the comparison", name)
        column = self._column(name)
        return self._compare_literal(_MIRRORED.get(mark.value, mark.value), column, literal)

    def _holds(self, literal: Token) -> n.Condition:
        name = self._take()
        if name.kind != "name":
            self._fail("expected a list column", name)
        column = self._column(name)
        if column.kind != "texts":
            self._fail(f"{column.name} is not a list of text", name)
        if literal.kind != "text":
            self._fail(f"{column.name} is a list of text; expected a text", literal)
        return n.Holds(column, literal.value)

    def _compare(self, column: Column, at: Token, mark: Token) -> n.Condition:
        other = self._take()
        if other.kind == "name":
            return self._compare_columns(column, at, mark.value, other)
        return self._compare_literal(mark.value, column, other)

    def _compare_columns(self, left: Column, at: Token, mark: str, name: Token) -> n.Condition:
        right = self._column(name)
        for column, token in ((left, at), (right, name)):
            if column.kind not in _FITS:
                self._fail(f"{column.name} cannot be compared", token)
        numbers = {"integer", "float"}
        if left.kind != right.kind and not {left.kind, right.kind} <= numbers:
            self._fail(f"{left.name} is {left.kind}, {right.name} is {right.kind}", name)
        return n.CompareColumns(mark, left, right)

    def _compare_literal(self, mark: str, column: Column, literal: Token) -> n.Condition:
        if literal.kind == "word" and literal.value == "null":
            self._fail("cannot compare with null: use `is null` or `is not null`", literal)
        if literal.kind not in _LITERALS:
            self._fail("expected a value", literal)
        if column.kind not in _FITS:
            self._fail(f"{column.name} cannot be compared with a value", literal)
        if literal.kind not in _FITS[column.kind]:
            self._fail(f"{column.name} is {column.kind}, the value is not", literal)
        value = literal.value
        if mark in ("==", "!=") and isinstance(value, str):
            self._check_spelling(column, literal)
        if literal.kind in ("duration", "time"):
            value = self._in_units(column, literal)
        if column.kind == "float":
            return n.Compare(mark, column, float(value))
        if column.kind == "integer":
            return _integer(mark, column, value)
        return n.Compare(mark, column, value)

    def _check_spelling(self, column: Column, literal: Token) -> None:
        """Refuse a value that is almost one of the known values of a column."""
        # Only if it is similar to one: a table may have values that this version does not know. The
        # facts of a recorder, which have no protocol, have kinds of their own.
        known = _KNOWN_VALUES.get(column.name, ()) if "protocol" in self._schema.names else ()
        similar = did_you_mean(literal.value, known) if literal.value not in known else ""
        if similar:
            self._fail(f"unknown value {literal.value!r} of {column.name}{similar}", literal)

    def _in_units(self, column: Column, literal: Token) -> int | float:
        unit = column.unit_ns
        if unit is None:
            self._fail(
                f"{column.name} has no time unit in its name, the value is a {literal.kind}",
                literal,
            )
        # A fraction, so that whole units stay exact integers: 2000ms is 2 of a column in seconds.
        exact = Fraction(literal.value, unit)
        return int(exact) if exact.denominator == 1 else float(exact)


def _integer(mark: str, column: Column, value: int | float) -> n.Condition:
    """Return the exact comparison of an integer column with any number: 1.5 is between 1 and 2."""
    # Casting an int64 column to float would lose digits beyond 2^53: `ts_ns` has 19 of them. So the
    # literal is rounded to the integer that gives the same answer, or the answer is constant.
    if isinstance(value, float):
        if mark in ("==", "!=") and not value.is_integer():
            return n.Settled(column, mark == "!=")
        value = math.ceil(value) if mark in ("<", ">=") else math.floor(value)
    if value in _INT64:
        return n.Compare(mark, column, value)
    return n.Settled(column, mark == "!=" or mark.startswith("<" if value > 0 else ">"))
