"""`python -m wirehouse.records.pages docs/reference [--check]`: the page of all tables.

The page is made from the schemas, column by column, so that it cannot lag behind them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from wirehouse.protocols import registry

from .schema import COMMON, TABLES, VERSION
from .structs import struct_type

__all__ = ["main", "page"]

_HEADER = f"""# Tables

Every table that Wirehouse makes of captures, column by column; schema version {VERSION}. Columns
carry their units in their names: `_ns` is nanoseconds (since 1970 for a time), `_bytes` is bytes.
Any column may be null; its line says when. Integers are signed; an unsigned 64-bit number is the
int64 of the same bits. How rows come about is told in
[From captures to tables](../concepts/captures.md) and [Matching](../concepts/matching.md).

*Made from the schemas by `python -m wirehouse.records.pages`.*
"""

_STRUCTS = """
Beside these columns `messages` has one struct for each protocol, of which at most one is not null.
Secret fields are null unless asked for. A self-describing value is a list of nodes in preorder:
`parent` is the place of the containing node in the list, -1 for the first; `name` the key in a map;
`type` the type number; the value is in `int`, `float`, `text` or `bytes`.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEADER, *_table("messages", COMMON), *_structs()]
    for name, columns in TABLES.items():
        parts += _table(name, columns)
    return "\n".join(parts).rstrip() + "\n"


def _table(name: str, columns: pa.Schema) -> Iterator[str]:
    yield f"## {name}\n\n{_doc(columns.metadata)}\n"
    yield "| column | type | meaning |\n|---|---|---|"
    for field in columns:
        yield f"| `{field.name}` | {_type(field.type)} | {_doc(field.metadata)} |"
    yield ""


def _structs() -> Iterator[str]:
    """The struct of each protocol, to its leaves."""
    yield _STRUCTS.lstrip()
    for name in registry.BUILT_IN:
        yield f"### messages.{name}\n\n| field | type | meaning |\n|---|---|---|"
        for path, field in _leaves(struct_type(registry.find(name)), ""):
            secret = " *Secret.*" if (field.metadata or {}).get(b"secret") else ""
            yield f"| `{path}` | {_type(field.type)} | {_doc(field.metadata)}{secret} |"
        yield ""


def _leaves(kind: pa.DataType, path: str) -> Iterator[tuple[str, pa.Field]]:
    for at in range(kind.num_fields):
        field = kind.field(at)
        here = f"{path}.{field.name}" if path else field.name
        inner = field.type
        if pa.types.is_struct(inner):
            yield from _leaves(inner, here)
        elif pa.types.is_list(inner) and pa.types.is_struct(inner.value_type):
            yield from _leaves(inner.value_type, f"{here}[]")
        else:
            yield here, field


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}"
    return {"string": "text", "binary": "bytes", "double": "float64", "float": "float32"}.get(
        str(kind), str(kind)
    )


def _doc(metadata: dict[bytes, bytes] | None) -> str:
    text = (metadata or {}).get(b"doc", b"").decode()
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str] | None = None) -> int:
    """Writes the page; with --check only says whether it is out of date."""
    parser = argparse.ArgumentParser(prog="python -m wirehouse.records.pages", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    chosen = parser.parse_args(arguments)
    path = chosen.folder / "tables.md"
    if path.exists() and path.read_text(encoding="utf-8") == page():
        return 0
    if chosen.check:
        print(f"{path.name} is out of date")
        return 1
    path.write_text(page(), encoding="utf-8")
    print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
