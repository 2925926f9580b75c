"""The tables of a lake in DuckDB.

    with open_lake("lake") as db:
        db.sql("select target, ms(max(latency_ns)) from calls group by all").show()

Each table is a view with all columns of this version; columns that an older lake lacks are null,
and a table without rows is empty. The views show the lake at the time it was opened, or at a
commit. In addition there are:

    lake_tables, lake_files, lake_inputs    tables, files and captures as the log lists them
    ns(t)                                   nanoseconds since 1970 as a timestamp
    ms(n)                                   nanoseconds as milliseconds
    masked(text)                            a secret as *** and its length
    var_text(v)                             an ESNP Var value as text

Nothing is loaded from the network: DuckDB may neither install nor load extensions on its own.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec
import pyarrow as pa

from wirelake.protocols import registry
from wirelake.records.schema import schema
from wirelake.wire import model as m

from .log import Log
from .parquet import files_at
from .paths import PUBLIC_TABLES, DamagedError, LakeError
from .snapshot import Snapshot

__all__ = ["literal", "named_tables", "open_lake", "read_parquet", "var_text"]

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_MACROS: Final = (
    "create macro ns(t) as make_timestamp_ns(t)",
    "create macro ms(n) as n / 1e6",
    "create macro masked(secret) as '*** (' || length(secret) || ')'",
)
_VAR: Final = (
    'struct(parent integer, name varchar, "type" integer, "int" bigint, "float" double,'
    ' "text" varchar, "bytes" blob)[]'
)
_EMPTY: Final = "wirelake_empty"
"""Schema of the empty tables that give the views their columns."""
_GLOB: Final = str.maketrans({each: f"[{each}]" for each in "[*?{"})
"""Escapes for characters that DuckDB treats as glob patterns."""


def open_lake(
    root: str | os.PathLike[str],
    commit: int | None = None,
    *,
    tables: Iterable[str] = PUBLIC_TABLES,
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory database with tables of a lake, by default all. Raises LakeError.

    A lake that was made for one query has only some tables; of the others there is no view, so that
    they cannot be taken for empty ones.
    """
    log = Log(root)
    snapshot = log.snapshot(commit)
    paths: dict[str, list[Path]] = {}
    for file, path in files_at(log.layout, snapshot, snapshot.public_files()):
        paths.setdefault(file.table, []).append(path)
    db = duckdb.connect(":memory:", config=_CONFIG)
    db.execute(f"create schema {_EMPTY}")
    for name in (*tables, *sorted(paths.keys() - set(PUBLIC_TABLES))):
        try:
            _create_view(db, name, paths.get(name, []))
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise _unreadable(paths[name], error) from error
    _create_log_tables(db, snapshot)
    _create_functions(db)
    return db


def _create_functions(db: duckdb.DuckDBPyConnection) -> None:
    for macro in _MACROS:
        db.execute(macro)
    db.create_function("var_text", var_text, [_VAR], "varchar")


def named_tables(query: str) -> tuple[str, ...]:
    """Return the tables that a query may use: those whose name occurs in its text.

    All of them if it names none or asks for the log: `show tables` is about all; none if it is
    empty. Raises
    duckdb.Error if the query is wrong, which costs nothing to find out before there are rows.
    """
    words = frozenset(re.findall(r"\w+", query.lower()))
    found = tuple(name for name in PUBLIC_TABLES if name in words)
    if not found or words & {"lake_tables", "lake_files"}:
        found = PUBLIC_TABLES
    with duckdb.connect(":memory:", config=_CONFIG) as db:
        for name in found:
            # Registered, not created: `messages` has a thousand columns.
            db.register(name, schema(name).empty_table())
        _create_log_tables(db, Snapshot())
        _create_functions(db)
        statements = db.extract_statements(query)
        if not statements:
            return ()
        # A later statement may need what an earlier one creates.
        if [each.type for each in statements] == [duckdb.StatementType.SELECT]:
            db.sql(query)
    return found


def _unreadable(paths: Iterable[Path], error: duckdb.Error) -> LakeError:
    """Return the error for a file that the log lists and that DuckDB cannot open."""
    missing = [each for each in paths if not each.exists()]
    if missing:
        return LakeError(f"{missing[0]}: missing; the log lists this file")
    return DamagedError(f"damaged file: {str(error).splitlines()[0]}; `lake verify` lists all")


def _create_view(db: duckdb.DuckDBPyConnection, name: str, paths: Sequence[Path]) -> None:
    # The empty table comes first: `union all by name` takes order and types of columns from it, so
    # that a view has all columns of this version whatever its files have.
    parts = []
    if name in PUBLIC_TABLES:
        _create_table(db, f"{_EMPTY}.{name}", schema(name).empty_table())
        parts.append(f"select * from {_EMPTY}.{name}")
    if paths:
        parts.append(f"select * from {read_parquet(paths)}")
    db.execute(f'create view "{name}" as {" union all by name ".join(parts)}')


def read_parquet(paths: Iterable[Path]) -> str:
    """Return the SQL that reads files, with columns matched by name."""
    # Without Hive partitioning: a lake below a folder such as `site=a` would get a column `site`.
    named = ", ".join(literal(str(each).translate(_GLOB)) for each in paths)
    return f"read_parquet([{named}], union_by_name = true, hive_partitioning = false)"


def literal(text: str | Path) -> str:
    """Return a string literal."""
    return "'" + str(text).replace("'", "''") + "'"


def _create_table(db: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    db.register("wirelake_given", rows)
    db.execute(f"create table {name} as select * from wirelake_given")
    db.unregister("wirelake_given")


# -- self-describing values --------------------------------------------------------------------

_UNSIGNED: Final = (1 << 64) - 1


def var_text(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a value; an invalid value is shown as far as possible."""
    inside: list[list[str]] = [[] for _ in nodes]
    text = "null"
    # Backwards: children come after their parent, so their text is ready when it is reached.
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        text = _node_text(node, inside[place][::-1])
        parent = node["parent"]
        if parent is not None and 0 <= parent < place:
            name = node["name"]
            inside[parent].append(text if name is None else f"{_quoted(name)}: {text}")
    return text


@functools.cache
def _kinds() -> Mapping[int, object]:
    return registry.value_types()


def _node_text(node: Mapping[str, Any], inside: list[str]) -> str:
    match _kinds().get(node["type"]):
        case m.Pairs():
            return f"{{{', '.join(inside)}}}"
        case m.Items():
            return f"[{', '.join(inside)}]"
        case m.Bool():
            return "true" if node["int"] else "false"
        case m.Float():
            return _float_text(node["float"])
        case m.Varint(bits=64, signed=False) if node["int"] is not None:
            return str(node["int"] & _UNSIGNED)
        case _:
            return _scalar_text(node)


def _scalar_text(node: Mapping[str, Any]) -> str:
    if node["text"] is not None:
        return _quoted(node["text"])
    if node["bytes"] is not None:
        return _bytes_text(bytes(node["bytes"]))
    return "null" if node["int"] is None else str(node["int"])


def _float_text(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return json.dumps({"float": str(value)})
    return json.dumps(value)


def _bytes_text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return json.dumps({"hex": data.hex()})
    return _quoted(text) if text.isprintable() else json.dumps({"hex": data.hex()})


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


# -- the log -----------------------------------------------------------------------------------

_FILE: Final = pa.schema(
    [
        ("table", pa.string()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("min_ns", pa.int64()),
        ("max_ns", pa.int64()),
        ("provisional", pa.bool_()),
        ("protocol", pa.string()),
        ("source", pa.string()),
        ("share", pa.int64()),
        ("shares", pa.int64()),
    ]
)
_INPUT: Final = pa.schema(
    [
        ("source", pa.string()),
        ("sequence", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("ordered_by", pa.string()),
        ("fault", pa.string()),
    ]
)


def _create_log_tables(db: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> None:
    inputs = [each for source in snapshot.sources.values() for each in source.inputs]
    _create_table(db, "lake_files", _rows(_FILE, snapshot.public_files()))
    _create_table(db, "lake_inputs", _rows(_INPUT, inputs))
    db.execute(
        'create view lake_tables as select "table", count(*) as files, sum(rows)::bigint as rows,'
        " sum(bytes)::bigint as bytes, min(min_ns) as min_ns, max(max_ns) as max_ns"
        ' from lake_files group by "table" order by "table"'
    )


def _rows(columns: pa.Schema, entries: Iterable[msgspec.Struct]) -> pa.Table:
    return pa.Table.from_pylist([msgspec.structs.asdict(each) for each in entries], schema=columns)
