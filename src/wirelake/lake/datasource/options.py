"""Options of the Spark data source `wirelake`: parsing and validation.

    path            a file, a folder, a glob, or a comma-separated list of them
    table           messages (default), packets, calls, deliveries, connections, tunnels, faults,
                    coverage; files lists the captures themselves
    protocol        keep only rows of this protocol; `messages` then has only its struct
    force_protocol  decode every connection as this protocol, whatever its port
    ports           protocols by server port: 9620=comet,7300=tny
    dialects        dialects by protocol: tny=upstream
    keys            key logs: comma-separated files or globs
    columns         comma-separated columns to read; a field of a protocol's struct is written
                    comet.auth.client_id
    filter          rows to read, in the filter language
    payload         full (default), hash (SHA-256 of the application bytes instead of the bytes) or
                    none (no application bytes)
    mode            permissive (default): bytes that do not decode become rows of `faults`;
                    failfast: the first of them raises an error
    reveal          true shows secret fields and sign-ons; false (default) masks them
    partitions      number of tasks of a read
    source_pattern  regular expression for names of captures, with a group `source`, and a group
                    `sequence` if a number in the name orders the files
    include_open    true also reads unfinished recordings in folders that no recorder on this
                    machine is writing; false (default) skips them, with a notice; not for streams

    and for streams:

    maxFilesPerTrigger, maxBytesPerTrigger    limits of a batch; sizes such as 200MB are accepted
    settle          time without a write after which a capture counts as complete: 10s
    lateness        time to wait for a missing file before reading its successors: 10m
    after           start after these files: {"tap-a": 7}, a sequence by source

Option names are case-insensitive, as in Spark. Unknown options are rejected. `columns`, `payload`
and `protocol` exist because Spark 4.3 prunes no columns of a Python data source: every column that
is read also crosses from Python to the JVM, which is two thirds of the cost of a read.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wirelake.columnar.read.options import TABLES, ReadOptions, table_schema
from wirelake.protocols import registry
from wirelake.records.filter import FilterError, tokens
from wirelake.tables.names import Names
from wirelake.tables.paths import LakeError
from wirelake.wire.errors import unknown
from wirelake.wire.paths import AddressError, local_path

from .paths import Offset, OffsetError, cursors

__all__ = ["FILES", "OPTIONS", "PAYLOAD", "AdmissionSettings", "OptionError", "Request", "parse"]

OPTIONS: Final = (
    "path", "table", "protocol", "force_protocol", "ports", "dialects", "keys", "columns", "filter",
    "payload", "mode", "reveal", "partitions", "source_pattern", "include_open",
    "maxFilesPerTrigger", "maxBytesPerTrigger", "settle", "lateness", "after",
)  # fmt: skip
"""All option names."""
FILES: Final = "files"
"""The table that lists captures."""
PAYLOAD: Final = {"messages": "body", "faults": "bytes"}
"""The column with the application bytes, by table."""

_PATHS: Final = "paths"
"""The option in which Spark passes the list of load(["a", "b"])."""


_NO_PUSHDOWN: Final = (
    "unsupported option 'pushdown': Spark applies a filter that a source accepts to later queries"
    " of the same DataFrame as well; use the option 'filter'"
)
"""Release 0.1.0 had this option."""


class OptionError(ValueError):
    """An invalid option; the message names it and what is expected."""


@dataclass(frozen=True)
class AdmissionSettings:
    """Admission settings of a stream."""

    max_files: int | None = None
    max_bytes: int | None = None
    """Limits of a batch; a batch has at least one file."""
    settle_s: float = 10.0
    """A file counts as complete after this time without a write."""
    lateness_s: float = 600.0
    """How long to wait for a missing file before reading its successors."""
    after: Offset = field(default_factory=dict)
    """Where a new stream starts."""


@dataclass(frozen=True)
class Request:
    """Parsed options."""

    paths: tuple[str, ...]
    read: ReadOptions
    partitions: int | None = None
    """Number of tasks; None lets the reader choose."""
    source_pattern: str | None = None
    """For names of captures; see `wirelake.tables.names.Names`."""
    include_open: bool = False
    """Also read unfinished recordings."""
    files: bool = False
    """List the captures instead of reading them."""
    hashed: bool = False
    """Replace the application bytes with their SHA-256."""
    failfast: bool = False
    """Raise an error at the first fault."""
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)


def parse(options: Mapping[str, str]) -> Request:
    """Parse and validate options. Raises OptionError."""
    # A misspelt option that is ignored would change the result without a trace: refuse it.
    given = {name.lower(): value.strip() for name, value in options.items()}
    surplus = sorted(given.keys() - {*map(str.lower, OPTIONS), _PATHS})
    if "pushdown" in surplus:
        raise OptionError(_NO_PUSHDOWN)
    if surplus:
        raise OptionError(unknown("option", surplus[0], OPTIONS))
    modes = ("permissive", "failfast")
    return Request(
        _paths(given),
        _read(given),
        _partitions(given.get("partitions", "")),
        _pattern(given.get("source_pattern", "")),
        include_open=_flag("include_open", given.get("include_open", "false")),
        files=given.get("table") == FILES,
        hashed=given.get("payload") == "hash",
        failfast=_one_of("mode", given.get("mode", modes[0]).lower(), modes) == "failfast",
        admission=_admission(given),
    )


def _read(given: Mapping[str, str]) -> ReadOptions:
    table = _one_of("table", given.get("table", "messages"), (*TABLES, FILES))
    if table == FILES:
        return _unread(given)
    found = ReadOptions(
        table=table,
        protocol=_protocol("protocol", given.get("protocol")),
        force_protocol=_protocol("force_protocol", given.get("force_protocol")),
        ports=_ports(given["ports"]) if given.get("ports") else None,
        keys=_keys(given.get("keys", "")),
        dialects=_dialects(given["dialects"]) if given.get("dialects") else None,
        reveal=_flag("reveal", given.get("reveal", "false")),
    )
    try:
        chosen = replace(found, filter=given.get("filter") or None)
    except ValueError as error:
        raise OptionError(f"filter: {error}") from error
    columns = _columns(given, chosen)
    try:
        return replace(chosen, columns=columns)
    except ValueError as error:
        raise OptionError(f"columns: {error}") from error


def _unread(given: Mapping[str, str]) -> ReadOptions:
    """Reject options that do not apply to `files`, a small table that Spark can filter itself."""
    for name in ("columns", "filter", "protocol"):
        if given.get(name):
            raise OptionError(
                f"option {name!r} does not apply to table {FILES}; use select and where"
            )
    return ReadOptions()


def _columns(given: Mapping[str, str], options: ReadOptions) -> tuple[str, ...] | None:
    payload = _one_of("payload", given.get("payload", "full"), ("full", "hash", "none"))
    excluded = PAYLOAD.get(options.table) if payload == "none" else None
    columns = _list(given.get("columns", ""))
    if excluded in columns:
        raise OptionError(f"column {excluded!r} conflicts with payload=none")
    if columns:
        return tuple(dict.fromkeys(columns))
    if excluded is None:
        return None
    return tuple(name for name in table_schema(options).names if name != excluded)


def _admission(given: Mapping[str, str]) -> AdmissionSettings:
    return AdmissionSettings(
        _most("maxFilesPerTrigger", given, "100"),
        _most("maxBytesPerTrigger", given, "200MB"),
        _seconds("settle", given, AdmissionSettings.settle_s),
        _seconds("lateness", given, AdmissionSettings.lateness_s),
        _after(given.get("after", "")),
    )


# -- values ----------------------------------------------------------------------------------


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    several = json.loads(given[_PATHS]) if _PATHS in given else []
    return (*([given["path"]] if given.get("path") else []), *several)


def _keys(text: str) -> tuple[str, ...]:
    """Return absolute paths of key logs, since executors run in other working directories."""
    found: dict[str, None] = {}
    for each in _list(text):
        try:
            path = str(local_path(each))
        except AddressError as error:
            raise OptionError(f"keys: {error}") from None
        # The name itself first: it may contain brackets.
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not matches:
            raise OptionError(f"keys: no such file: {each}")
        found |= dict.fromkeys(map(os.path.abspath, matches))
    return tuple(found)


def _list(text: str) -> list[str]:
    return [each for each in map(str.strip, text.split(",")) if each]


def _pairs(option: str, text: str, example: str) -> list[tuple[str, str]]:
    found = []
    for each in _list(text):
        left, mark, right = map(str.strip, each.partition("="))
        if not (left and mark and right):
            raise OptionError(f"invalid {option} {each!r}; expected a list such as {example}")
        found.append((left, right))
    return found


_PORTS_EXAMPLE: Final = "9620=comet,7300=tny"
_DIALECTS_EXAMPLE: Final = "tny=upstream"


def _ports(text: str) -> dict[int, str]:
    found = {}
    for port, name in _pairs("ports", text, _PORTS_EXAMPLE):
        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise OptionError(f"invalid port {port!r}; expected 1-65535")
        found[int(port)] = _one_of("protocol", name, registry.names())
    return found


def _dialects(text: str) -> dict[str, str]:
    found = {}
    for name, dialect in _pairs("dialects", text, _DIALECTS_EXAMPLE):
        protocol = registry.find(_one_of("protocol", name, registry.names()))
        try:
            found[name] = protocol.dialect(dialect)
        except ValueError as error:
            raise OptionError(str(error)) from error
    return found


def _protocol(option: str, name: str | None) -> str | None:
    return _one_of(option, name, registry.names()) if name else None


def _one_of(option: str, value: str, known: tuple[str, ...] | list[str]) -> str:
    if value not in known:
        raise OptionError(unknown(option, value, known))
    return value


def _flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"invalid {option} {text!r}; expected true or false")
    return text.lower() == "true"


def _partitions(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise OptionError(f"invalid partitions {text!r}; expected 1-10000")
    return int(text)


def _pattern(text: str) -> str | None:
    if not text:
        return None
    try:
        Names(text)
    except LakeError as error:
        raise OptionError(str(error)) from None
    return text


def _most(option: str, given: Mapping[str, str], example: str) -> int | None:
    text = given.get(option.lower())
    if not text:
        return None
    kind, value = _quantity(text)
    if kind != "number" or not isinstance(value, int) or value < 1:
        raise OptionError(f"invalid {option} {text!r}; expected a number such as {example}")
    return value


def _seconds(option: str, given: Mapping[str, str], default: float) -> float:
    text = given.get(option)
    if not text:
        return default
    kind, value = _quantity(text)
    is_plain = kind == "number" and not text[-1].isalpha()
    if not (is_plain or kind == "duration") or value < 0:
        raise OptionError(f"invalid {option} {text!r}; expected seconds or a duration such as 10m")
    return float(value) / 1e9 if kind == "duration" else float(value)


def _quantity(text: str) -> tuple[str, Any]:
    """Return kind and value of a number with an optional unit, as in filters."""
    try:
        found = next(tokens(text))
    except FilterError:
        return "end", None
    return (found.kind, found.value) if found.stop == len(text) else ("end", None)


def _after(text: str) -> Offset:
    try:
        found = json.loads(text or "{}")
        if isinstance(found, dict) and cursors(found) is not None:
            return found
    except (ValueError, OffsetError):
        pass
    raise OptionError(
        f'invalid after {text!r}; expected sequences by source such as {{"tap-a": 7}}'
    )
