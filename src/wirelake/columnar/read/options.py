"""What to read from captures: `ReadOptions`, its checks, and the schema of the result.

Apart from the reader, and without Numba: Spark starts processes that only plan a query or check its
options, and importing the kernels takes longer than either.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from wirelake.protocols import registry
from wirelake.records import ENGINES
from wirelake.records.filter import compile_filter
from wirelake.records.schema import schema
from wirelake.wire.errors import did_you_mean, unknown

__all__ = [
    "DERIVED",
    "PLAIN",
    "SMALL_BYTES",
    "TABLES",
    "ReadOptions",
    "table_schema",
    "whole_schema",
]

PLAIN: Final = ("messages", "packets", "faults", "coverage")
"""Tables that the pipeline yields."""
DERIVED: Final = tuple(ENGINES)
"""Tables that are made from those of the pipeline (`wirelake.columnar.fold`)."""
TABLES: Final = (*PLAIN, *DERIVED)
"""All tables that can be read."""
SMALL_BYTES: Final = 32 << 20
"""Captures of fewer bytes in total are read in one process: starting another would take longer."""


@dataclass(frozen=True)
class ReadOptions:
    """What to read, and how."""

    table: str = "messages"
    protocol: str | None = None
    """Only this protocol; `messages` then has its struct alone."""
    force_protocol: str | None = None
    """The protocol of every connection, whatever its port."""
    ports: Mapping[int, str] | None = None
    """Protocols by the server's port; None for the usual ports."""
    keys: Sequence[str | os.PathLike[str]] = ()
    """Key logs."""
    dialects: Mapping[str, str] | None = None
    """Dialects by protocol."""
    reveal: bool = False
    """Whether secret fields are shown."""
    columns: Sequence[str] | None = None
    """Columns, or paths into a protocol's struct such as `comet.auth.client_id`; None for all."""
    filter: str | None = None
    """A condition in the filter language."""
    coded: bool = False
    """Whether columns of `messages` with few different texts are Arrow dictionaries, which are
    written to Parquet in less time; their type differs from the schema then."""
    share: int = 0
    shares: int = 1
    """The share of the connections to read."""
    window_bytes: int | None = None
    """How much of a file is decoded at a time; None for the default of the pipeline."""

    def __post_init__(self) -> None:
        if self.table not in TABLES:
            raise ValueError(unknown("table", self.table, TABLES))
        for name in (self.protocol, self.force_protocol):
            if name is not None:
                registry.find(name)
        if self.filter is not None:
            compile_filter(self.filter, whole_schema(self))
        if self.columns is not None:
            table_schema(self)


def table_schema(options: ReadOptions) -> pa.Schema:
    """Return the schema of the result."""
    whole = whole_schema(options)
    if options.columns is None:
        return whole
    fields = [_field(whole, name) for name in options.columns]
    return pa.schema(fields, metadata=whole.metadata)


@functools.lru_cache(maxsize=64)
def _schema_of(table: str, protocols: tuple[str, ...]) -> pa.Schema:
    return schema(table, protocols)


def whole_schema(options: ReadOptions) -> pa.Schema:
    """Return the schema of the table, with all its columns."""
    return _schema_of(options.table, () if options.protocol is None else (options.protocol,))


def _field(whole: pa.Schema, path: str) -> pa.Field:
    """Return the field at a path, named by the path."""
    first, *rest = path.split(".")
    if first not in whole.names:
        raise ValueError(unknown("column", first, whole.names))
    found = whole.field(first)
    for name in rest:
        inner = found.type
        known = (
            [inner.field(at).name for at in range(inner.num_fields)] if _is_struct(inner) else []
        )
        if name not in known:
            there = (
                f"; expected one of {', '.join(known)}{did_you_mean(name, known)}" if known else ""
            )
            raise ValueError(f"unknown column {name!r} in {found.name}{there}")
        found = inner.field(name)
    return found.with_name(path)


def _is_struct(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind))
