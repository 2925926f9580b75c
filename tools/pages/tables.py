"""The pages of tables: one for each table, generated from its schema, and a list.

Texts and example queries are in `table_texts.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from wirelake.protocols import registry
from wirelake.records.schema import COMMON, TABLES, VERSION
from wirelake.records.structs import struct_type

from .table_texts import EXAMPLES, MADE, NOTES, ROWS

__all__ = ["pages"]

_INDEX: Final = f"""# Tables

All tables that Wirelake creates from captures; schema version {VERSION}. Each has a page with its
columns and example queries. Column names end in their unit: `_ns` is nanoseconds (since 1970 for a
time), `_bytes` is bytes. Any column may be null; its description says when. Integers are signed; an
unsigned 64-bit number is the int64 with the same bits. [From captures to
tables](../concepts/captures.md), [Matching](../concepts/matching.md) and [The
lake](../concepts/lake.md) describe how rows are created.

*Generated from the schemas by `make pages`.*
"""

_ROLLUPS: Final = """## Roll-ups

Only lakes have roll-ups. Each counts rows of other tables by minute. At any commit it equals the
result of a query over these tables.
"""

_TUNNELS: Final = """## Bytes in tunnels

A message in a tunnel is in `messages` twice: as the frame of the link that carries it, and as a
message of its own with `tunnel_link`, whose `size_bytes` are a part of that frame. One rule holds
for all sums: **a byte counts once, with the connection that has it on the wire.** So `coverage`,
`traffic_minutes` and the report count bytes in tunnels with the link and its protocol. For each
protocol, the bytes of `traffic_minutes` are `decoded_bytes` + `undecryptable_bytes` of `coverage`.
In a query over `messages`, add `FILTER (tunnel_link IS NULL)` to a sum of bytes.

Tables with a row for each connection show the bytes of a tunnel in the row of the tunnel, too:
`tunnels`, and `talker_minutes`. Do not add these to the rows of links.
"""

_FUNCTIONS: Final = """## In SQL

The queries on these pages are for `wirelake lake sql LAKE "..."`, which runs DuckDB with the tables
of a lake as views, and with these functions:

| function | result |
|---|---|
| `ns(t)` | a timestamp, from nanoseconds since 1970 |
| `ms(n)` | milliseconds, from nanoseconds |
| `masked(text)` | `***` and the length of a secret |
| `var_text(v)` | the text of a self-describing ESNP value |

`lake_tables`, `lake_files` and `lake_inputs` are views of the log.
"""

_STRUCTS: Final = """## Fields of protocols

In addition to these columns, `messages` has one struct for each protocol, of which at most one is
not null; [your own](../../guides/declare-a-protocol.md) protocols have one, too. Secret fields are
null unless they are revealed. So is the content of messages with which a client signs on
(`hub/auth` of ESNP, number 10 of tny and magline): `body`, and bytes and values in the struct. A
request part of ESNP without an address may belong to such a message, and has no content either.

A *value* is self-describing. It is a list of nodes in preorder: `parent` is the index of the parent
node in the list, -1 for the first; `name` the key in a map; `type` the type number; the value is in
`int`, `float`, `text` or `bytes`. `var_text` makes it readable.

The *rows* of an ESNP message are lists by kind, so `esnp.rows_by_kind.data[1].value` is the value
of its first parameter (in Spark `[0]`). `types` has the type of each row, in order: the k-th row of
a type is the k-th item of the list of its kind. A list is empty where a message has no such row.
Rows of types that have no list are in `opaque`. A row that could not be decoded is in `broken` and
in no other list; `row` is its index in `types`.
"""

_NODE: Final = ("parent", "name", "type", "int", "float", "text", "bytes")
_TABLES: Final = {"messages": COMMON, **TABLES}


def pages() -> dict[str, str]:
    """Return all pages, by their path in the folder of the reference."""
    found = {"tables.md": _joined(_index())}
    for name in _TABLES:
        found[f"tables/{name}.md"] = _joined(_page(name))
    return found


def _joined(parts: Iterator[str]) -> str:
    return "\n".join(parts).rstrip() + "\n"


# -- the list ----------------------------------------------------------------------------------


def _index() -> Iterator[str]:
    yield _INDEX
    yield from _links([name for name in _TABLES if name not in MADE])
    yield _ROLLUPS
    yield from _links(list(MADE))
    yield _TUNNELS
    yield _FUNCTIONS
    yield "```{toctree}\n:hidden:\n"
    yield from (f"tables/{name}" for name in _TABLES)
    yield "```"


def _links(names: list[str]) -> Iterator[str]:
    yield "| table | a row is |\n|---|---|"
    for name in names:
        yield f"| [`{name}`](tables/{name}.md) | {ROWS[name]} |"
    yield ""


# -- a page ------------------------------------------------------------------------------------


def _page(name: str) -> Iterator[str]:
    yield f"# {name}\n\n{_doc(_TABLES[name].metadata)}\n"
    if name in NOTES:
        yield f"{NOTES[name]}\n"
    yield "## Columns\n"
    yield from _columns(_TABLES[name])
    yield f"## Questions\n\n{_query_hint(name)}\n"
    for example in EXAMPLES[name]:
        yield f"{example.question}\n\n```sql\n{example.sql}\n```\n"
    if name in MADE:
        yield from _made(name)
    if name == "messages":
        yield from _structs()
    yield "*Generated from the schema by `make pages`.*"


def _columns(columns: pa.Schema) -> Iterator[str]:
    yield "| column | type | meaning |\n|---|---|---|"
    for field in columns:
        yield f"| `{field.name}` | {_type(field.type)} | {_doc(field.metadata)} |"
    yield ""


def _query_hint(name: str) -> str:
    if name == "packets":
        return "In DuckDB, over the file:"
    return 'With `wirelake lake sql LAKE "..."` ([how](../../guides/lake.md)).'


def _made(name: str) -> Iterator[str]:
    made = MADE[name]
    yield f"## How it is computed\n\n{made.words}\n"
    yield "A step recounts the minutes that it affects. This query returns the same rows:\n"
    yield f"```sql\n{made.sql}\n```\n"


def _structs() -> Iterator[str]:
    """Yield a table of all fields for the struct of each protocol."""
    yield _STRUCTS
    for name in registry.BUILT_IN:
        yield f"### messages.{name}\n\n| field | type | meaning |\n|---|---|---|"
        for path, field in _leaves(struct_type(registry.find(name)), ""):
            secret = " *Secret.*" if (field.metadata or {}).get(b"secret") else ""
            yield f"| `{path}` | {_type(field.type)} | {_doc(field.metadata)}{secret} |"
        yield ""


def _leaves(kind: pa.DataType, path: str) -> Iterator[tuple[str, pa.Field]]:
    for at in range(kind.num_fields):
        field = kind.field(at)
        full = f"{path}.{field.name}" if path else field.name
        inner = field.type
        if pa.types.is_struct(inner):
            yield from _leaves(inner, full)
        elif _is_list_of_structs(inner) and not _is_value(inner):
            yield from _leaves(inner.value_type, f"{full}[]")
        else:
            yield full, field


def _is_list_of_structs(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_struct(kind.value_type))


def _is_value(kind: pa.DataType) -> bool:
    """Return whether a type is that of self-describing values."""
    return (
        _is_list_of_structs(kind) and tuple(field.name for field in kind.value_type.fields) == _NODE
    )


def _type(kind: pa.DataType) -> str:
    if _is_value(kind):
        return "value"
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}"
    return {"string": "text", "binary": "bytes", "double": "float64", "float": "float32"}.get(
        str(kind), str(kind)
    )


def _doc(metadata: dict[bytes, bytes] | None) -> str:
    text = (metadata or {}).get(b"doc", b"").decode()
    return " ".join(text.split()).replace("|", "\\|")
