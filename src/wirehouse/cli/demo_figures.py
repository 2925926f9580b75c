"""The figures of the demo: how Spark computes each, and what the simulator says it must be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from wirehouse.lake.session import SparkSession
    from wirehouse.traffic import Summary

__all__ = [
    "SECTIONS",
    "Figures",
    "Findings",
    "Key",
    "Section",
    "Truth",
    "compute",
    "in_order",
    "make_views",
]

Key: TypeAlias = tuple[str | None, ...]
Figures: TypeAlias = dict[Key, tuple[float | None, ...]]
"""By key, such as a protocol and a target: the values of a section."""

_COLUMNS: Final = {"messages": "protocol", "connections": "protocol", "faults": "protocol,code"}
"""What the queries need of wide tables: what is not asked for need not travel to Spark."""
_TABLES: Final = ("calls", "deliveries", "connections", "faults", "messages")


class Truth:
    """What the simulator wrote beside its captures."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.summary: dict[str, Any] = json.loads((folder / "truth.json").read_text("utf-8"))
        """The contents of truth.json."""

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Some columns of a table, row by row."""
        import pyarrow.parquet as pq

        path = self._folder / "truth" / f"{table}.parquet"
        found = pq.read_table(path, columns=list(columns))
        return zip(*(found[name].to_pylist() for name in columns), strict=True)


@dataclass(frozen=True)
class Section:
    """A table that the demo prints."""

    title: str
    query: str
    """Its keys, then its values."""
    keys: tuple[str, ...]
    values: tuple[str, ...]
    truth: Callable[[Truth], Figures]


@dataclass
class Findings:
    """All that the demo found."""

    summary: Summary
    sections: list[tuple[Section, Figures, Figures]] = field(default_factory=list)
    """Each with what Spark found, and with what it must find."""

    @property
    def count(self) -> int:
        """How many figures there must be."""
        return sum(len(values) for _, _, right in self.sections for values in right.values())

    def differences(self) -> list[str]:
        """What is not as it must be, one sentence each."""
        return [each for section in self.sections for each in _differences(*section)]


def _targets(truth: Truth) -> Figures:
    failures = Counter(
        (protocol, target)
        for protocol, target, outcome in truth.rows("calls", "protocol", "target", "outcome")
        if outcome == "failed"
    )
    found: Figures = {}
    for each in truth.summary["targets"]:
        key = (each["protocol"], each["target"])
        found[key] = (
            each["calls"], each["answered"], failures[key], each["p50_ns"], each["p99_ns"]
        )  # fmt: skip
    return found


def _counts(name: str) -> Callable[[Truth], Figures]:
    """A figure for each key of an object in truth.json."""
    return lambda truth: {(key,): (count,) for key, count in truth.summary[name].items()}


def _protocols(truth: Truth) -> Figures:
    messages: Counter[str] = Counter()
    for protocol, count in truth.rows("message_counts", "protocol", "messages"):
        messages[protocol] += count
    connections = Counter(name for (name,) in truth.rows("connections", "protocol"))
    faults = Counter(name for (name,) in truth.rows("faults", "protocol"))
    return {
        (name,): (messages[name], connections[name], faults[name])
        for name in {*messages, *connections, *faults}
    }


SECTIONS: Final = (
    Section(
        "Calls by target",
        """
        SELECT protocol, target, count(*), count(latency_ns), count_if(outcome = 'failed'),
               percentile_disc(0.50) WITHIN GROUP (ORDER BY latency_ns),
               percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns)
        FROM calls WHERE target IS NOT NULL GROUP BY protocol, target
        """,
        ("protocol", "target"),
        ("calls", "answered", "failed", "p50_ns", "p99_ns"),
        _targets,
    ),
    Section(
        "Calls by outcome",
        "SELECT outcome, count(*) FROM calls GROUP BY outcome",
        ("outcome",),
        ("calls",),
        _counts("calls"),
    ),
    Section(
        "Deliveries by outcome",
        "SELECT outcome, count(*) FROM deliveries GROUP BY outcome",
        ("outcome",),
        ("notifications",),
        _counts("deliveries"),
    ),
    Section(
        "What there is of each protocol",
        """
        SELECT protocol, sum(messages), sum(connections), sum(faults) FROM (
            SELECT protocol, 1 AS messages, 0 AS connections, 0 AS faults FROM messages
            UNION ALL SELECT protocol, 0, 1, 0 FROM connections
            UNION ALL SELECT protocol, 0, 0, 1 FROM faults
        ) GROUP BY protocol
        """,
        ("protocol",),
        ("messages", "connections", "faults"),
        _protocols,
    ),
    Section(
        "Faults by code",
        "SELECT code, count(*) FROM faults GROUP BY code",
        ("code",),
        ("faults",),
        _counts("faults"),
    ),
)
"""All tables of the demo."""


def make_views(spark: SparkSession, folder: Path) -> None:
    """Makes the tables of captures known to Spark's SQL, by their names."""
    keys = ",".join(str(path) for path in sorted(folder.glob("*.keys")))
    for table in _TABLES:
        reader = spark.read.format("wirehouse").option("table", table).option("keys", keys)
        if table in _COLUMNS:
            reader = reader.option("columns", _COLUMNS[table])
        reader.load(f"{folder}/*.pcap*").cache().createOrReplaceTempView(table)


def compute(spark: SparkSession, section: Section) -> Figures:
    """A section as Spark sees it."""
    width = len(section.keys)
    rows = [tuple(row) for row in spark.sql(section.query).collect()]
    return {row[:width]: row[width:] for row in rows}


def _differences(section: Section, found: Figures, truth: Figures) -> Iterator[str]:
    """What is not as it must be, one sentence each."""
    for key in in_order({**truth, **found}):
        name = f"{section.title}, {_words(key)}"
        if key not in found:
            yield f"{name}: missing in Spark"
        elif key not in truth:
            yield f"{name}: in Spark, but not in the truth"
        else:
            values = zip(section.values, found[key], truth[key], strict=True)
            yield from (
                f"{name}, {column}: {mine} in Spark, {right} in truth"
                for column, mine, right in values
                if mine != right
            )


def in_order(figures: Figures) -> list[Key]:
    """The keys, sorted."""
    return sorted(figures, key=lambda key: [part or "" for part in key])


def _words(key: Key) -> str:
    return " ".join(part or "without" for part in key)
