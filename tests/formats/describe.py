"""A short description of a table, in JSON: the row count, and of each plain column what is in it.

`python -m tests.formats.describe LAKE` prints that of every table of a lake. The package of release
0.1.0 was called `wirehouse`, so the reader of tables is an argument.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

TABLES = (
    *("messages", "calls", "connections", "coverage", "deliveries", "faults", "tunnels"),
    *("delivery_minutes", "error_minutes", "latency_minutes", "talker_minutes", "traffic_minutes"),
)
FEW = 8
"""Texts of a column with at most so many different ones are listed."""


def described(table: pa.Table) -> dict[str, Any]:
    """Describe a table. Columns of structs and lists are left out."""
    found = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        about: dict[str, Any] = {"nulls": column.null_count}
        if pa.types.is_integer(field.type):
            # In Python, because sums of connection ids are beyond 64 bits.
            about["sum"] = str(sum(value for value in column.to_pylist() if value is not None))
        elif pa.types.is_string(field.type):
            values = sorted(pc.unique(column).drop_null().to_pylist())
            about["values"] = values if len(values) <= FEW else len(values)
        else:
            continue
        found[field.name] = about
    return {"rows": table.num_rows, "columns": found}


if __name__ == "__main__":
    package, lake = sys.argv[1:]
    reading = importlib.import_module(f"{package}.tables.reading")
    print(json.dumps({name: described(reading.table(lake, name)) for name in TABLES}, indent=1))
