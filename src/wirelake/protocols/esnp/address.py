"""ESNP addresses and their `esnp://` URLs.

Implements the address section of seed 001, and §4 and §8 of the ESNP rules:

    esnp://HOST/SERVICE/OP?o=OBJECT&g=GROUP&a_N=VALUE&to=MILLISECONDS&...

`_` is an absent part. On the wire an address is one row per kind; here it is one
value. Parsing is strict (scheme, escapes, port) and writing is canonical, so that
`parse_url(format_url(address)) == address` for every address that a URL can hold; for the others
`format_url` raises. The original leaves paths unescaped, lets the query leak into OP and writes
`aN` but reads `a_N`. None of these faults is reproduced; both spellings of `a_N` are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus, unquote_to_bytes

import msgspec

from wirelake.wire.errors import DecodeError, EncodeError

from .layout import AddressKind

__all__ = [
    "Address",
    "AddressKind",
    "address_from_pairs",
    "address_to_pairs",
    "format_url",
    "parse_url",
]


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message goes; None means absent. Not hashable, because `other` is a dict."""

    host: str | None = None
    """Name and port as written; None means this connection's peer."""
    service: str | None = None
    op: str | None = None
    object: str | None = None
    group: str | None = None
    other: dict[int, str] = {}
    """Values of kinds without a name of their own."""
    timeout_ms: int | None = None
    """How long the caller waits; never sent."""
    params: tuple[tuple[str, str], ...] = ()
    """Unknown query parameters, kept in their order and written back."""


_NAMES: Final = {kind.value: kind.name.lower() for kind in AddressKind}
_PATH_KINDS: Final = (AddressKind.HOST, AddressKind.SERVICE, AddressKind.OP)
_MAX_KIND: Final = (1 << 31) - 1
_MAX_TIMEOUT_MS: Final = (1 << 63) - 1

_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
# A name or a bracketed IPv6 address, and a port; escapes hide any other colon or bracket.
_AUTHORITY: Final = re.compile(r"(?:\[[^\[\]\s]*\]|[^\[\]:\s]*)(?::[0-9]*)?")
# What is written without escapes: everything else in a HOST is quoted whole.
_PLAIN_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]|[A-Za-z0-9._~-]*)(?::[0-9]*)?")
_KIND_KEY: Final = re.compile("a_?([0-9]{1,10})")
_TIMEOUT: Final = re.compile("[+-]?[0-9]{1,19}")


def parse_url(url: str, legacy_unknow: bool = False) -> Address:
    """Parse an `esnp://` URL; user info and fragment are dropped, as in the original.

    `legacy_unknow` also reads `unknow`, in any letter case, as an absent part: an older marker.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() != "esnp" or _CONTROL.search(url):
        raise DecodeError("bad_url", "scheme")
    rest = rest.partition("#")[0]
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    if not _AUTHORITY.fullmatch(host):
        raise DecodeError("bad_url", "host")
    service, _, op = path.partition("/")
    absent = {"", "_", "unknow"} if legacy_unknow else {"", "_"}
    values: dict[int, str] = {}
    for kind, raw in zip(_PATH_KINDS, (host, service, op), strict=True):
        text = _decode(raw, _NAMES[kind])
        if (text.lower() if legacy_unknow else text) not in absent:
            values[kind] = text
    timeout_ms, params = _read_query(query, values)
    return _address(values, timeout_ms, params)


def _read_query(
    query: str, values: dict[int, str]
) -> tuple[int | None, tuple[tuple[str, str], ...]]:
    """Add the kinds in a query to `values`; return the timeout and the unknown parameters."""
    first: dict[str, str] = {}
    by_number: dict[int, str] = {}
    unknown = []
    for item in query.split("&"):
        if not item:
            continue
        raw_key, _, raw_value = item.partition("=")
        key = _decode(raw_key.replace("+", " "), "query")
        value = _decode(raw_value.replace("+", " "), "query")
        kind = _kind_of(key)
        if kind is not None:
            by_number.setdefault(kind, value)
        elif key in ("o", "g", "to"):
            first.setdefault(key, value)
        else:
            unknown.append((key, value))
    # The first value of a repeated key counts, as in the original.
    # The path and the short names take precedence over a_N; an empty OBJECT is absent, an empty
    # GROUP is not (§4).
    if first.get("o"):
        values[AddressKind.OBJECT] = first["o"]
    if "g" in first:
        values[AddressKind.GROUP] = first["g"]
    for kind, value in by_number.items():
        if not (kind in _PATH_KINDS and value == "_") and not _empty_is_absent(kind, value):
            values.setdefault(kind, value)
    return _timeout(first.get("to", "")), tuple(unknown)


def _kind_of(key: str) -> int | None:
    """Return the kind that `a_N` or `aN` names; None for any other parameter."""
    match = _KIND_KEY.fullmatch(key)
    number = int(match[1]) if match else 0
    return number if 0 < number <= _MAX_KIND else None


def _empty_is_absent(kind: int, value: str) -> bool:
    return not value and kind in (*_PATH_KINDS, AddressKind.OBJECT)


def _timeout(text: str) -> int | None:
    number = int(text) if _TIMEOUT.fullmatch(text) else 0
    return number if 0 < number <= _MAX_TIMEOUT_MS else None


def _decode(text: str, field: str) -> str:
    """Decode percent escapes; an invalid escape and invalid UTF-8 are errors."""
    if _BAD_ESCAPE.search(text):
        raise DecodeError("bad_url", field, detail="invalid percent escape")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError as error:
        raise DecodeError("bad_url", field, detail="not UTF-8") from error


def format_url(address: Address) -> str:
    """Write an address as a URL: o, g, a_N ascending, to, then the unknown parameters."""
    host, service, op = (_part(getattr(address, _NAMES[kind]), kind) for kind in _PATH_KINDS)
    query = [f"{_escape(key)}={_escape(value)}" for key, value in _query_items(address)]
    return f"esnp://{host}/{service}/{op}" + ("?" + "&".join(query) if query else "")


def _part(value: str | None, kind: AddressKind) -> str:
    if value is None:
        return "_"
    if value in ("", "_"):
        raise EncodeError("bad_url", _NAMES[kind], detail=f"{value!r} would read as absent")
    if kind is AddressKind.HOST and _PLAIN_HOST.fullmatch(value):
        return value
    try:
        return quote(value, safe="")
    except UnicodeError as error:
        raise EncodeError("bad_url", _NAMES[kind], detail="not UTF-8") from error


def _query_items(address: Address) -> Iterable[tuple[str, str]]:
    if address.object == "":
        raise EncodeError("bad_url", "object", detail="an empty object would read as absent")
    if address.object is not None:
        yield "o", address.object
    if address.group is not None:
        yield "g", address.group
    for kind in sorted(address.other):
        if kind in _NAMES or not 0 < kind <= _MAX_KIND:
            raise EncodeError("bad_url", "other", detail=f"kind {kind}")
        yield f"a_{kind}", address.other[kind]
    if address.timeout_ms is not None:
        if not 0 < address.timeout_ms <= _MAX_TIMEOUT_MS:
            raise EncodeError("bad_url", "timeout_ms", detail="expected 1 or more")
        yield "to", str(address.timeout_ms)
    for key, value in address.params:
        if key in ("o", "g", "to") or _kind_of(key) is not None:
            raise EncodeError("bad_url", "params", detail=f"{key!r} is a reserved parameter")
        yield key, value


def _escape(text: str) -> str:
    try:
        return quote_plus(text, safe="")
    except UnicodeError as error:
        raise EncodeError("bad_url", "query", detail="not UTF-8") from error


def address_to_pairs(address: Address) -> list[tuple[int, str]]:
    """Return the (kind, value) rows of an address, most general kind first."""
    values = dict(address.other)
    for kind, name in _NAMES.items():
        value = getattr(address, name)
        if value is not None:
            values[kind] = value
    return sorted(values.items(), reverse=True)


def address_from_pairs(pairs: Iterable[tuple[int, str]]) -> Address:
    """Return the address of (kind, value) rows; the first row of a kind, an empty name is
    absent."""
    values: dict[int, str] = {}
    for kind, value in pairs:
        values.setdefault(kind, value)
    return _address({k: v for k, v in values.items() if not _empty_is_absent(k, v)})


def _address(
    values: dict[int, str],
    timeout_ms: int | None = None,
    params: tuple[tuple[str, str], ...] = (),
) -> Address:
    named = {name: values.get(kind) for kind, name in _NAMES.items()}
    other = {kind: value for kind, value in values.items() if kind not in _NAMES}
    return Address(**named, other=other, timeout_ms=timeout_ms, params=params)
