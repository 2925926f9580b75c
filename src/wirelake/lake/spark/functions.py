"""Functions of SQL for people who ask Spark: the same as those of `wirelake lake sql`.

    var_text(v)      a value of ESNP that says its own type, as text that reads like JSON
    masked(text)     a secret as *** and its length
    ns(t)            nanoseconds since 1970 as a timestamp, which in Spark has microseconds
    ms(n)            nanoseconds as milliseconds

They are written in SQL, so that no worker needs Python for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import SparkSession

from wirelake.protocols import registry
from wirelake.wire import model as m

__all__ = ["register"]

_VAR: Final = (
    "ARRAY<STRUCT<parent: INT, name: STRING, type: SMALLINT, int: BIGINT, float: DOUBLE,"
    " text: STRING, bytes: BINARY>>"
)
_HIDDEN: Final = r"r'[\p{C}\p{Z}&&[^ ]]'"
"""Characters that cannot be printed."""


def register(spark: SparkSession) -> None:
    """Makes the functions known to this session."""
    microseconds = "try_subtract(t, pmod(t, 1000)) DIV 1000"
    functions = {
        f"var_text(v {_VAR}) RETURNS STRING": _var_text(),
        "masked(text STRING) RETURNS STRING": "'*** (' || length(text) || ')'",
        "ns(t BIGINT) RETURNS TIMESTAMP": f"timestamp_micros({microseconds})",
        "ms(n BIGINT) RETURNS DOUBLE": "n / 1000000D",
    }
    for head, body in functions.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {head} RETURN {body}")


# -- self-describing values ------------------------------------------------------------------
#
# Nodes are looked at from the last to the first. A node comes after the one that it is in, so what
# it contains is ready before it: place i + 1 of `inside` has the texts of what node i contains, and
# place 0 that of the whole value.


def _var_text() -> str:
    nodes = "reverse(transform(v, (n, i) -> struct(n AS node, i AS place)))"
    nothing = "array_repeat(CAST(NULL AS STRING), size(v) + 1)"
    is_there = "at = each.node.parent + 1 AND at <= each.place"
    text = _node_text()
    named = f"IF(each.node.name IS NULL, {text}, {_quoted('each.node.name')} || ': ' || {text})"
    added = f"(old, at) -> IF({is_there}, concat_ws(', ', {named}, old), old)"
    found = f"aggregate({nodes}, {nothing}, (inside, each) -> transform(inside, {added}))"
    return f"IF(v IS NULL, NULL, coalesce({found}[0], 'null'))"


def _node_text() -> str:
    """The text of one node, as `wirelake.tables.values` has it."""
    kinds = registry.value_types()

    def of(*types: type) -> str:
        return _is(tag for tag, kind in kinds.items() if isinstance(kind, types))

    unsigned = _is(
        tag
        for tag, kind in kinds.items()
        if isinstance(kind, m.Varint) and kind.bits == 64 and not kind.signed
    )
    inside = "coalesce(inside[each.place + 1], '')"
    return (
        f"CASE WHEN {of(m.Pairs)} THEN '{{' || {inside} || '}}'"
        f" WHEN {of(m.Items)} THEN '[' || {inside} || ']'"
        f" WHEN {of(m.Bool)} THEN IF(each.node.int = 0, 'false', 'true')"
        f" WHEN {of(m.Float)} THEN {_float_text('each.node.float')}"
        f" WHEN each.node.text IS NOT NULL THEN {_quoted('each.node.text')}"
        f" WHEN each.node.bytes IS NOT NULL THEN {_bytes_text('each.node.bytes')}"
        f" WHEN {unsigned} AND each.node.int < 0"
        " THEN CAST(each.node.int + 18446744073709551616 AS STRING)"
        " ELSE coalesce(CAST(each.node.int AS STRING), 'null') END"
    )


def _is(tags: Iterable[int]) -> str:
    found = ", ".join(str(int(tag)) for tag in tags)
    return f"each.node.type IN ({found or 'NULL'})"


def _float_text(value: str) -> str:
    plain = f"coalesce(CAST({value} AS STRING), 'null')"
    nan, most, least = (f"""'{{"float": "{name}"}}'""" for name in ("nan", "inf", "-inf"))
    return (
        f"CASE WHEN isnan({value}) THEN {nan} WHEN {value} = double('infinity') THEN {most}"
        f" WHEN {value} = double('-infinity') THEN {least} ELSE {plain} END"
    )


def _bytes_text(value: str) -> str:
    text = f"CAST({value} AS STRING)"
    is_text = f"is_valid_utf8({text}) AND NOT {text} RLIKE {_HIDDEN}"
    hexadecimal = f"""'{{"hex": "' || lower(hex({value})) || '"}}'"""
    return f"IF({is_text}, {_quoted(text)}, {hexadecimal})"


def _quoted(text: str) -> str:
    """Text in quotes; with something in it that cannot be printed, in ASCII alone."""
    in_ascii = f"to_json(array({text}), map('writeNonAsciiCharacterAsCodePoint', 'true'))"
    found = f"IF({text} RLIKE {_HIDDEN}, {in_ascii}, to_json(array({text})))"
    return f"trim(BOTH '[]' FROM {found})"
