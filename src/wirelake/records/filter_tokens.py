"""The tokens of the filter language, with literals and errors that have positions.

See `docs/guides/filters.md`. Literals are converted here: times and durations to nanoseconds, sizes
to bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import msgspec

__all__ = ["MAX_TEXT", "FilterError", "Kind", "Token", "tokens"]

MAX_TEXT: Final = 100_000
"""Characters of a filter: more than a person writes, little enough to be read at once."""

Kind: TypeAlias = Literal[
    "name", "word", "mark", "text", "bytes", "number", "duration", "time", "bool", "end"
]
"""What a token is; `text` to `bool` are literals."""


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
"""What stands behind a number: its kind, and what it counts for."""

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
            raise FilterError(_complaint(text[place]), text, place, place + 1)
        if match["space"] is None:
            yield _token(text, match)
        place = match.end()
    yield Token("end", None, len(text), len(text))


def _complaint(character: str) -> str:
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
