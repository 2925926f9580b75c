"""How a query over a lake is answered, and where its rows go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import click
import pyarrow as pa

from ..errors import BAD_USAGE, CommandError
from ..read import writers as read_writers
from ..read.formatting import counted
from .rows import (
    ROWS,
    shown,
    terminal_width,
    text_batch,
    unique_names,
)

__all__ = ["Answer", "ask_duckdb", "ask_spark"]

_BATCH_ROWS: Final = 16_384


@dataclass(frozen=True)
class Answer:
    """How rows are wanted."""

    form: str
    output: str | None
    limit: int | None
    """Rows at most; 0 for all, None for what suits the form."""

    def write(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes them, and says how many."""
        named = unique_names(schema)
        renamed = (pa.RecordBatch.from_arrays(each.columns, schema=named) for each in batches)
        _FORMS[self.form](self, named, renamed)

    @property
    def most(self) -> int | None:
        """Rows at most; None for all."""
        return self.limit or None

    def written(self, count: int) -> None:
        """Says what was written to a file."""
        if self.output is not None:
            click.echo(f"{self.output}: {counted(count, 'row')}", err=True)


def _table(answer: Answer, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    """The first rows, for a person; the others are counted."""
    most = ROWS if answer.limit is None else answer.most
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if most is None or count < most:
            held.append(batch.slice(0, None if most is None else most - count))
        count += batch.num_rows
    table = pa.Table.from_batches(held, schema)
    width = None if answer.output is not None else terminal_width()
    text, hidden = shown(table, width)
    with read_writers.output(answer.output) as stream:
        stream.write(text.encode())
    told = counted(count, "row")
    if count > table.num_rows:
        told = f"{table.num_rows:,} of {told}; --limit 0 shows all"
    click.echo(told, err=True)
    if hidden:
        click.echo(f"no room for {', '.join(hidden)}; --json shows all columns", err=True)


def _text(
    answer: Answer,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    write: Callable[..., int],
) -> None:
    with read_writers.output(answer.output) as stream:
        plain = (text_batch(each) for each in batches)
        count = write([plain], stream, schema.names, None, answer.most)
    answer.written(count)


def _columnar(
    answer: Answer,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    write: Callable[..., int],
) -> None:
    try:
        with read_writers.output(answer.output) as stream:
            count = write([batches], stream, schema, answer.most)
    except pa.ArrowNotImplementedError as error:
        raise CommandError(f"{answer.form} has no such type: {error}", BAD_USAGE) from error
    answer.written(count)


_FORMS: Final[dict[str, Callable[[Answer, pa.Schema, Iterator[pa.RecordBatch]], None]]] = {
    "table": _table,
    "json": partial(_text, write=read_writers.write_json),
    "csv": partial(_text, write=read_writers.write_csv),
    "parquet": partial(_columnar, write=read_writers.write_parquet),
    "arrow": partial(_columnar, write=read_writers.write_arrow),
}


# -- who answers -----------------------------------------------------------------------------


def ask_duckdb(lake: str, query: str, commit: int | None, answer: Answer) -> int:
    """Asks DuckDB; the exit code."""
    import duckdb

    from wirelake.tables.query import open_lake

    with open_lake(lake, commit) as db:
        try:
            found = db.sql(query)
            if found is None:
                raise CommandError("the query is empty", BAD_USAGE)
            reader = found.to_arrow_reader(_BATCH_ROWS)
            answer.write(reader.schema, reader)
        except duckdb.Error as error:
            return _refused(str(error))
    return 0


def ask_spark(lake: str, query: str, commit: int | None, answer: Answer) -> int:
    """Asks Spark; the exit code."""
    from wirelake.tables.log import Log

    from .spark_session import (
        Sparks,
        check_spark,
        reason,
    )

    check_spark("--spark", "without it DuckDB answers")
    Log(lake).snapshot(commit)  # a lake that cannot be opened is told before Spark starts
    with Sparks("wirelake lake sql", master=None, remote=None, conf={}) as sparks:
        spark = sparks.start()
        from wirelake.lake.spark.views import create_views

        create_views(spark, lake, commit)
        try:
            found: Any = spark.sql(query)
            wanted = found if answer.form == "table" or answer.most is None else None
            table: pa.Table = (wanted or found.limit(answer.most)).toArrow()
        except Exception as error:
            return _refused(reason(error))
        answer.write(table.schema, table.to_batches())
    return 0


def _refused(text: str) -> int:
    """What is wrong with a query; of several lines, those that show where are kept."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines or ["the query failed"]):
        safe = "".join(c if c.isprintable() else "?" for c in line)
        click.echo(safe if number else f"wirelake: {safe}", err=True)
    return BAD_USAGE
