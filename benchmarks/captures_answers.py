"""Questions to a capture, beside the same questions to finished tables.

`wirelake sql` and `wirelake report` decode a capture and make the tables that they need; DuckDB
alone answers from the Parquet files of a lake that was made before. The answers of both are
compared first. In one process, so on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from wirelake.lake.capture_lake import SUFFIX, keep, temporary
from wirelake.lake.engine.settings import Settings
from wirelake.lake.engine.tasks import LocalWorkers
from wirelake.tables.paths import PUBLIC_TABLES
from wirelake.tables.query import named_tables, open_lake
from wirelake.tables.report.report import make_report

__all__ = ["QUESTIONS", "Answer", "answers"]

_QUERIES = {
    "sql, calls by target": "SELECT protocol, target, count(*) AS calls, max(latency_ns) AS ns"
    " FROM calls GROUP BY ALL ORDER BY ALL",
    "sql, messages by kind": "SELECT protocol, kind, name, count(*) AS messages, sum(size_bytes)"
    " AS bytes FROM messages GROUP BY ALL ORDER BY ALL",
}


def _query(text: str) -> Callable[[duckdb.DuckDBPyConnection], Any]:
    return lambda db: db.sql(text).fetchall()


def _report(db: duckdb.DuckDBPyConnection) -> Any:
    return msgspec.to_builtins(make_report(db))


QUESTIONS: dict[str, tuple[tuple[str, ...], Callable[[duckdb.DuckDBPyConnection], Any]]] = {
    **{name: (named_tables(text), _query(text)) for name, text in _QUERIES.items()},
    "report": (PUBLIC_TABLES, _report),
}
"""What is asked, and the tables that it needs."""


@dataclass(frozen=True)
class Answer:
    """Seconds of CPU for one question."""

    capture_s: float
    """From the capture."""
    tables_s: float
    """By DuckDB, from finished tables."""


def answers(capture: Path, rounds: int) -> dict[str, Answer]:
    """Ask all questions; the best of some rounds. Raises RuntimeError if answers differ."""
    with LocalWorkers() as workers:
        root = capture.with_name(capture.name + SUFFIX)
        finished = keep(root, [str(capture)], Settings(), workers=workers).root
        found = {}
        for name, (tables, ask) in QUESTIONS.items():

            def from_capture(tables: tuple[str, ...] = tables, ask: Any = ask) -> Any:
                with (
                    temporary([str(capture)], Settings(), workers=workers, tables=tables) as made,
                    open_lake(made.root, tables=tables) as db,
                ):
                    return ask(db)

            def from_tables(ask: Any = ask) -> Any:
                with open_lake(finished) as db:
                    return ask(db)

            if from_capture() != from_tables():
                raise RuntimeError(f"{name}: the capture and the finished tables differ")
            found[name] = Answer(_best_s(from_capture, rounds), _best_s(from_tables, rounds))
    return found


def _best_s(ask: Callable[[], Any], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        ask()
        best = min(best, time.process_time() - began)
    return best
