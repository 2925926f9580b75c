"""The options of the data source `wirelake`: texts, as Spark hands them over, and what they mean.

    path        a file, a folder, a glob, or several of them with commas in between
    table       messages (the default), packets, calls, deliveries, connections, tunnels, faults,
                coverage; files: the captures themselves
    protocol    only rows of this protocol; `messages` then has its struct alone
    speaks      what every connection speaks, whatever its port
    ports       which protocol a server's port speaks: 9620=comet,7300=tny
    dialects    which dialect of a protocol is read: tny=upstream
    keys        key logs: files or globs with commas in between
    columns     the columns that are wanted, with commas in between; a column in a protocol's struct
                is written comet.auth.client_id
    filter      the rows that are wanted, in the filter language
    payload     full (the default); hash: the SHA-256 of the application's bytes instead of them;
                none: without them
    mode        permissive (the default): bytes that will not decode are rows of `faults`; failfast:
                the first of them is an error
    reveal      true shows fields that are marked secret; false, the default, masks them
    partitions  into how many tasks a read is cut
    pushdown    true lets Spark hand conditions of a query to the reader, if the session allows it

    and of a stream:

    maxFilesPerTrigger, maxBytesPerTrigger    how much a batch may have; 200MB is a size, too
    settle      for how long a capture was not written to before it counts as complete: 10s
    lateness    for how long files wait for one that is missing before them: 10m
    after       begins behind these files: {"tap-a": 7}, a sequence by source

Names of options have no case, for Spark has none. Whatever is not in this list is refused.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wirelake.columnar.read.reader import (
    TABLES,
    ReadOptions,
    table_schema,
)
from wirelake.protocols import registry
from wirelake.records.filter_tokens import FilterError, tokens

from .offsets import (
    Offset,
    OffsetError,
    cursors,
)

__all__ = ["FILES", "OPTIONS", "PAYLOAD", "OptionError", "Pace", "Request", "parse"]

OPTIONS: Final = (
    "path", "table", "protocol", "speaks", "ports", "dialects", "keys", "columns", "filter",
    "payload", "mode", "reveal", "partitions", "pushdown", "maxFilesPerTrigger",
    "maxBytesPerTrigger", "settle", "lateness", "after",
)  # fmt: skip
"""Every option."""
FILES: Final = "files"
"""The table of the captures themselves, which no capture holds."""
PAYLOAD: Final = {"messages": "body", "faults": "bytes"}
"""By table: the column with the application's bytes."""

_PATHS: Final = "paths"
"""Spark's own name for the list in load(["a", "b"])."""


class OptionError(ValueError):
    """An option is wrong; the message says which, and what is right."""


@dataclass(frozen=True)
class Pace:
    """What a stream takes, and when."""

    max_files: int | None = None
    max_bytes: int | None = None
    """The most that a batch may have; one file is always taken."""
    settle_s: float = 10.0
    """A file that was not written to for so long is complete."""
    lateness_s: float = 600.0
    """For so long, files wait for one that is missing before them."""
    after: Offset = field(default_factory=dict)
    """Where a new stream begins."""


@dataclass(frozen=True)
class Request:
    """What is to be read, and how."""

    paths: tuple[str, ...]
    read: ReadOptions
    partitions: int | None = None
    """Into how many tasks; None leaves it to the reader."""
    pushdown: bool = False
    files: bool = False
    """Whether it is the captures themselves that are asked for, not what is in them."""
    hashed: bool = False
    """Whether the application's bytes are replaced by their SHA-256."""
    failfast: bool = False
    """Whether the first fault is an error."""
    pace: Pace = field(default_factory=Pace)


def parse(options: Mapping[str, str]) -> Request:
    """Reads and checks options. Raises OptionError."""
    given = {name.lower(): value.strip() for name, value in options.items()}
    unknown = sorted(given.keys() - {*map(str.lower, OPTIONS), _PATHS})
    if unknown:
        raise OptionError(f"no option is called {unknown[0]!r}; there are {', '.join(OPTIONS)}")
    modes = ("permissive", "failfast")
    return Request(
        _paths(given),
        _read(given),
        _partitions(given.get("partitions", "")),
        _flag("pushdown", given.get("pushdown", "false")),
        files=given.get("table") == FILES,
        hashed=given.get("payload") == "hash",
        failfast=_one_of("mode", given.get("mode", modes[0]).lower(), modes) == "failfast",
        pace=_pace(given),
    )


def _read(given: Mapping[str, str]) -> ReadOptions:
    table = _one_of("table", given.get("table", "messages"), (*TABLES, FILES))
    if table == FILES:
        return _unread(given)
    found = ReadOptions(
        table=table,
        protocol=_protocol("protocol", given["protocol"]) if given.get("protocol") else None,
        speaks=_protocol("speaks", given["speaks"]) if given.get("speaks") else None,
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
    """The table of captures has a few columns that cost nothing: Spark may do with them."""
    for name in ("columns", "filter", "protocol"):
        if given.get(name):
            raise OptionError(f"{name}: not for the table {FILES}; use select and where")
    return ReadOptions()


def _columns(given: Mapping[str, str], options: ReadOptions) -> tuple[str, ...] | None:
    payload = _one_of("payload", given.get("payload", "full"), ("full", "hash", "none"))
    left_out = PAYLOAD.get(options.table) if payload == "none" else None
    wanted = _list(given.get("columns", ""))
    if left_out in wanted:
        raise OptionError(f"columns: {left_out} is what payload=none leaves out")
    if wanted:
        return tuple(dict.fromkeys(wanted))
    if left_out is None:
        return None
    return tuple(name for name in table_schema(options).names if name != left_out)


def _pace(given: Mapping[str, str]) -> Pace:
    return Pace(
        _most("maxFilesPerTrigger", given, "100"),
        _most("maxBytesPerTrigger", given, "200MB"),
        _seconds("settle", given, Pace.settle_s),
        _seconds("lateness", given, Pace.lateness_s),
        _after(given.get("after", "")),
    )


# -- texts -----------------------------------------------------------------------------------


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    several = json.loads(given[_PATHS]) if _PATHS in given else []
    return (*([given["path"]] if given.get("path") else []), *several)


def _keys(text: str) -> tuple[str, ...]:
    """Key logs by their absolute names, because executors run in folders of their own."""
    found: dict[str, None] = {}
    for each in _list(text):
        matches = sorted(glob.glob(each)) or ([each] if os.path.exists(each) else [])
        if not matches:
            raise OptionError(f"keys: there is no file {each}")
        found |= dict.fromkeys(map(os.path.abspath, matches))
    return tuple(found)


def _list(text: str) -> list[str]:
    return [each for each in map(str.strip, text.split(",")) if each]


def _pairs(option: str, text: str, example: str) -> list[tuple[str, str]]:
    found = []
    for each in _list(text):
        left, mark, right = map(str.strip, each.partition("="))
        if not (left and mark and right):
            raise OptionError(f"{option}: wanted something like {example}, not {each!r}")
        found.append((left, right))
    return found


def _ports(text: str) -> dict[int, str]:
    found = {}
    for port, name in _pairs("ports", text, "9620=comet,7300=tny"):
        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise OptionError(f"ports: {port!r} is no port; wanted 1 to 65535")
        found[int(port)] = _protocol("ports", name)
    return found


def _dialects(text: str) -> dict[str, str]:
    found = {}
    for name, dialect in _pairs("dialects", text, "tny=upstream"):
        known = registry.find(_protocol("dialects", name)).dialects
        found[name] = _one_of(f"dialects: {name}", dialect, tuple(known))
    return found


def _protocol(option: str, name: str) -> str:
    return _one_of(option, name, registry.names())


def _one_of(option: str, value: str, known: tuple[str, ...] | list[str]) -> str:
    if value not in known:
        raise OptionError(f"{option}: there is no {value!r}; there are {', '.join(known)}")
    return value


def _flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{option}: wanted true or false, not {text!r}")
    return text.lower() == "true"


def _partitions(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise OptionError(f"partitions: wanted a number from 1 to 10000, not {text!r}")
    return int(text)


def _most(option: str, given: Mapping[str, str], example: str) -> int | None:
    text = given.get(option.lower())
    if not text:
        return None
    kind, value = _quantity(text)
    if kind != "number" or not isinstance(value, int) or value < 1:
        raise OptionError(f"{option}: wanted a number such as {example}, not {text!r}")
    return value


def _seconds(option: str, given: Mapping[str, str], usual: float) -> float:
    text = given.get(option)
    if not text:
        return usual
    kind, value = _quantity(text)
    is_plain = kind == "number" and not text[-1].isalpha()
    if not (is_plain or kind == "duration") or value < 0:
        raise OptionError(f"{option}: wanted seconds, or a time such as 10m, not {text!r}")
    return float(value) / 1e9 if kind == "duration" else float(value)


def _quantity(text: str) -> tuple[str, Any]:
    """The kind and the value of a number with or without a unit, as filters have them."""
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
    raise OptionError(f'after: wanted sequences by source, as {{"tap-a": 7}}, not {text!r}')
