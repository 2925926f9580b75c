"""A vector and its expectations, and their comparison: shared by all adapters.

A vector is one JSON object: bytes (`hex`) and what they mean (`expect`). An adapter
(`<protocol>/vectors.py`) works out for itself what the bytes mean and compares, key by key, through
`Expect`, which records the keys that were read. A key that was not read fails the
vector, so an adapter can neither overlook nor misunderstand one in silence.

    VectorFailure        the vector and the code disagree; the text has the position, in one line
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wirelake.wire.errors import NeedMore, WireError

__all__ = [
    "Context",
    "ErrorClass",
    "Expect",
    "Vector",
    "VectorFailure",
    "check_hash",
    "check_prefixes",
    "classify",
    "difference",
    "hex_bytes",
]

_SHOWN: Final = 60


class VectorFailure(Exception):  # noqa: N818 - a finding about a vector, not a program error
    """A vector and the implementation disagree, or the vector is invalid."""


# -- comparing --------------------------------------------------------------------------------


def difference(
    expected: Any, got: Any, path: str, optional: frozenset[str] = frozenset()
) -> str | None:
    """Return the first place where two JSON-like values differ, in words; None when they are equal.

    Types count: true is not 1. Keys of `got` that are in `optional` may be missing in `expected`.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        return _dict_difference(expected, got, path, optional)
    if isinstance(expected, list) and isinstance(got, list | tuple):
        if len(expected) != len(got):
            return f"{path}: expected {len(expected)} items, got {len(got)}"
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            found = difference(one, other, f"{path}[{index}]", optional)
            if found:
                return found
        return None
    if isinstance(expected, bool) != isinstance(got, bool) or expected != got:
        return f"{path}: expected {_shown(expected)}, got {_shown(got)}"
    return None


def _dict_difference(
    expected: dict[str, Any], got: dict[str, Any], path: str, optional: frozenset[str]
) -> str | None:
    for key, value in expected.items():
        if key not in got:
            return f"{path}.{key}: expected {_shown(value)}, got nothing"
        found = difference(value, got[key], f"{path}.{key}", optional)
        if found:
            return found
    for key, value in got.items():
        if key not in expected and key not in optional:
            return f"{path}.{key}: got {_shown(value)}, which is not in the vector"
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}... ({len(text)} characters)"


def hex_bytes(text: Any, path: str) -> bytes:
    """Return bytes from hexadecimal text in a vector."""
    if not isinstance(text, str):
        raise VectorFailure(f"{path}: expected a hexadecimal string, got {_shown(text)}")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise VectorFailure(f"{path}: not hexadecimal: {_shown(text)}") from None


class Expect:
    """One JSON object of a vector, every key of which must be read."""

    def __init__(self, data: Any, path: str = "expect"):
        if not isinstance(data, dict):
            raise VectorFailure(f"{path}: expected an object, got {_shown(data)}")
        self.data: dict[str, Any] = data
        self.path = path
        self.seen: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def fail(self, key: str, why: str) -> VectorFailure:
        """Return a failure at a key."""
        return VectorFailure(f"{self.path}.{key}: {why}")

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, and mark it as read."""
        self.seen.add(key)
        return self.data.get(key, default)

    def take(self, key: str) -> Any:
        """Return the value of a key that must be there."""
        if key not in self.data:
            raise self.fail(key, "missing")
        return self.get(key)

    def text(self, key: str, choices: Iterable[str] = (), default: str | None = None) -> str:
        """Return the text of a key, which may have to be one of some."""
        value = self.take(key) if default is None else self.get(key, default)
        allowed = tuple(choices)
        if not isinstance(value, str) or (allowed and value not in allowed):
            expected = f"one of {', '.join(allowed)}" if allowed else "text"
            raise self.fail(key, f"expected {expected}, got {_shown(value)}")
        return value

    def number(self, key: str) -> int:
        """Return the whole number of a key."""
        value = self.take(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail(key, f"expected an integer, got {_shown(value)}")
        return value

    def octets(self, key: str) -> bytes:
        """Return the bytes that a key has as hexadecimal text."""
        return hex_bytes(self.take(key), f"{self.path}.{key}")

    def child(self, key: str) -> Expect:
        """Return the object of a key."""
        return Expect(self.take(key), f"{self.path}.{key}")

    def children(self, key: str) -> list[Expect]:
        """Return the list of objects of a key."""
        value = self.take(key)
        if not isinstance(value, list):
            raise self.fail(key, f"expected a list, got {_shown(value)}")
        return [Expect(item, f"{self.path}.{key}[{i}]") for i, item in enumerate(value)]

    def equal(self, key: str, got: Any, optional: frozenset[str] = frozenset()) -> None:
        """Compare the value of a key, if the vector has it, with the actual one."""
        if key not in self.data:
            return
        found = difference(self.get(key), got, f"{self.path}.{key}", optional)
        if found:
            raise VectorFailure(found)

    def computed(self, key: str, compute: Callable[[], Any]) -> None:
        """Compare as `equal` does, but compute the value only if the vector has the key."""
        if key in self.data:
            self.equal(key, compute())

    def done(self) -> None:
        """Fail if a key was not read."""
        for key in self.data:
            if key not in self.seen:
                raise self.fail(key, "unknown key")


class Vector:
    """A vector, taken apart; `top` has the keys beside `expect`."""

    def __init__(self, raw: Any):
        self.top = Expect(raw, "vector")
        self.name = self.top.text("name")
        self.protocol = self.top.text("protocol")
        self.origin = self.top.text("origin", default="unknown")
        self.top.get("notes")
        self.data = self.top.octets("hex")
        self.expect = Expect(self.top.take("expect"))

    def done(self) -> None:
        """Fail if a key of the vector or of `expect` was not read."""
        self.expect.done()
        self.top.done()


# -- errors -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """One line of an adapter's table: what vectors call the errors with these codes and fields.

    `fields` is a regular expression that the whole dotted field name must match.
    """

    name: str
    codes: tuple[str, ...]
    fields: str = ".*"

    def covers(self, code: str, field_name: str) -> bool:
        """Return whether an error belongs to the class."""
        return code in self.codes and re.fullmatch(self.fields, field_name) is not None


def classify(table: Iterable[ErrorClass], error: WireError) -> str:
    """Return the class of an error; without a class, its code and field in brackets."""
    for line in table:
        if line.covers(error.code, error.field):
            return line.name
    return f"[{error.code} in {error.field}]"


# -- what surrounds a vector ------------------------------------------------------------------


@dataclass(slots=True)
class Context:
    """All vectors of a run, and the notes of an adapter on the current one."""

    vectors: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By protocol, in the order of the files."""
    thorough: bool = True
    """Whether to try every prefix; an altered vector does without."""
    notes: list[str] = field(default_factory=list)
    """Named reasons why a vector passes although a strict reading would not let it."""
    cache: dict[Any, Any] = field(default_factory=dict)
    """What adapters worked out from other vectors."""

    def of(self, protocol: str) -> list[dict[str, Any]]:
        """Return the vectors of a protocol."""
        return self.vectors.get(protocol, [])

    def find(self, protocol: str, name: str) -> dict[str, Any] | None:
        """Return the first vector of a name."""
        return next((v for v in self.of(protocol) if v.get("name") == name), None)

    def cached(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return the result of the first call of `compute`."""
        if key not in self.cache:
            self.cache[key] = compute()
        return self.cache[key]

    def keys32(self) -> list[bytes]:
        """Return every 32-byte value in the vectors: candidates for private keys."""
        found: list[bytes] = self.cached("keys32", lambda: list(self._keys32()))
        return found

    def _keys32(self) -> Iterator[bytes]:
        seen = set()
        for vectors in self.vectors.values():
            for token in re.findall(r"\b[0-9a-f]{64}\b", repr(vectors)):
                if token not in seen:
                    seen.add(token)
                    yield bytes.fromhex(token)


# -- checks of bytes --------------------------------------------------------------------------


def _cuts(size: int) -> Iterable[int]:
    """Return the lengths of prefixes: all of a small frame, a sample of a large one."""
    # Every prefix of a frame of 64 KiB would decode 2 GB; errors sit near heads and ends.
    if size <= 320:
        return range(size)
    return sorted({*range(64), *range(64, size, max(1, size // 48)), *range(size - 16, size)})


def check_prefixes(
    decode: Callable[[bytes], object], data: bytes, early: Callable[[WireError], bool] | None = None
) -> None:
    """Check that every proper prefix raises NeedMore, for no more bytes than follow.

    `early` selects the errors that may be raised before the last byte; none in valid frames.
    """
    for cut in _cuts(len(data)):
        try:
            decode(data[:cut])
        except NeedMore as more:
            if 1 <= more.need <= len(data) - cut or early is not None:
                continue
            raise VectorFailure(f"hex: {cut} of {len(data)} bytes need {more.need} more") from None
        except WireError as error:
            if early is not None and early(error):
                continue
            raise VectorFailure(f"hex: the first {cut} bytes alone give {error}") from None
        raise VectorFailure(f"hex: the first {cut} bytes decode as a complete frame")


def check_hash(expect: Expect, data: bytes) -> None:
    """Compare size, first bytes and digest of a message that is too large for the file."""
    expect.equal("total_len", len(data))
    for key in ("head_hex", "header_hex"):
        if key in expect:
            size = len(expect.octets(key))
            if not size:
                raise expect.fail(key, "empty")
            expect.equal(key, data[:size].hex())
    expect.computed("sha256", lambda: hashlib.sha256(data).hexdigest())


# -- alterations ------------------------------------------------------------------------------
