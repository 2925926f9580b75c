"""Compares the tables of a lake with the truth of a live run, row by row and in figures.

    found = compare(Path("lake"), Path("live"))
    found.differences    one sentence each; empty when the lake is correct

Values are compared exactly; a latency must lie in the interval that the truth has for it, within
the resolution of the clock at either end.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ..plan import SimulateError
from .truth import TABLES

__all__ = ["MAX_DIFFERENCES", "Comparison", "compare", "compare_tables"]

MAX_DIFFERENCES: Final = 100
"""Maximum differences; one more sentence says how many others there are."""
_CONNECTION: Final = tuple(
    name
    for name in TABLES["connections"].names
    if name not in ("number", "client_address", "client_port", "server_port")
)
_TUNNEL: Final = (
    "outcome",
    "user_address",
    "user_port",
    "closed_by",
    "messages_c2s",
    "messages_s2c",
)
_CALL: Final = ("protocol", "target", "outcome", "cause", "status")
_DELIVERY: Final = ("topic", "outcome", "sends", "acks")

_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison."""

    figures: int
    """Rows and figures that were compared."""
    differences: tuple[str, ...]
    """One sentence for each difference."""


def compare(lake: Path, truth: Path) -> Comparison:
    """Compare a lake with the truth in a folder. Raises SimulateError."""
    from wirelake.tables.paths import LakeError
    from wirelake.tables.query import open_lake

    try:
        db = open_lake(lake)
    except LakeError as error:
        raise SimulateError(str(error)) from error
    with db:
        return compare_tables(db, truth)


def compare_tables(db: Any, truth: Path) -> Comparison:
    """Compare tables of a DuckDB connection with the truth in a folder."""
    found = _Comparer(db, truth)
    found.run()
    return found.result()


class _Comparer:
    """Compares table by table."""

    def __init__(self, db: Any, truth: Path):
        self._db = db
        self._folder = truth
        try:
            figures = json.loads((truth / "truth.json").read_text(encoding="utf-8"))
            self._truth = {name: self._table(name) for name in TABLES}
            self._clock_ns = int(figures["clock_ns"])
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise SimulateError(
                f"{truth}: missing or invalid expected tables of a live run"
            ) from error
        self._figures = 0
        self._count = 0
        self._differences: list[str] = []
        self._numbers: dict[int, int] = {}
        """Number of a connection or tunnel in the truth, by its id in the lake."""

    def _table(self, name: str) -> list[_Row]:
        rows: list[_Row] = pq.read_table(self._folder / "truth" / f"{name}.parquet").to_pylist()
        return rows

    def run(self) -> None:
        """Compare all tables."""
        self._connections()
        self._tunnels()
        self._calls()
        self._percentiles()
        self._deliveries()
        self._topics()
        self._faults()
        self._messages()

    def result(self) -> Comparison:
        """Return the result."""
        more = self._count - len(self._differences)
        rest = (f"and {more:,} more differences",) if more else ()
        return Comparison(self._figures, (*self._differences, *rest))

    # -- differences -------------------------------------------------------------------------

    def _differs(self, sentence: str) -> None:
        self._count += 1
        if len(self._differences) < MAX_DIFFERENCES:
            self._differences.append(sentence)

    def _same(self, what: str, name: str, true: Any, found: Any) -> None:
        if true != found:
            self._differs(f"{what}: {name} is {_shown(found)} in the lake, {_shown(true)} in truth")

    def _row(self, what: str, names: tuple[str, ...], true: _Row, found: _Row) -> None:
        self._figures += 1
        for name in names:
            self._same(what, name, true[name], found[name])

    def _within(self, what: str, name: str, value: int | None, low: Any, high: Any) -> None:
        """Compare a time with its interval; both bounds are None where there is no time."""
        if low is None or high is None or value is None:
            if (low is None) != (value is None):
                self._same(what, name, "an interval" if low is not None else None, value)
        elif not low - self._clock_ns <= value <= high + self._clock_ns:
            self._differs(
                f"{what}: {name} is {value / 1e6:.3f} ms in the lake, "
                f"in truth between {low / 1e6:.3f} and {high / 1e6:.3f}"
            )

    def _pairs(
        self, what: str, true: dict[Any, _Row], found: dict[Any, _Row]
    ) -> list[tuple[Any, _Row, _Row]]:
        """Return the rows that both have, by key; the others are differences."""
        for key in true.keys() - found.keys():
            self._differs(f"{what} {_key(key)}: only in truth")
        for key in found.keys() - true.keys():
            self._differs(f"{what} {_key(key)}: only in the lake")
        self._figures += len(true.keys() ^ found.keys())
        return [(key, row, found[key]) for key, row in true.items() if key in found]

    def _rows(self, query: str) -> list[_Row]:
        rows: list[_Row] = self._db.sql(query).to_arrow_table().to_pylist()
        return rows

    # -- tables ------------------------------------------------------------------------------

    def _connections(self) -> None:
        """Match by client address and port; a port that was reused, in order of time."""
        found = self._rows("SELECT * FROM connections ORDER BY coalesce(opened_ns, first_ns)")
        for key, true, row in self._pairs(
            "connection", _in_turn(self._truth["connections"]), _in_turn(found)
        ):
            self._numbers[row["connection"]] = true["number"]
            self._row(f"connection {_key(key)}", _CONNECTION, true, row)

    def _tunnels(self) -> None:
        def keyed(rows: list[_Row]) -> dict[Any, _Row]:
            return {(row["instance_id"], row["tunnel_id"]): row for row in rows}

        found = keyed(self._rows("SELECT * FROM tunnels"))
        for key, true, row in self._pairs("tunnel", keyed(self._truth["tunnels"]), found):
            self._numbers[row["connection"]] = true["number"]
            self._row(f"tunnel {_key(key)}", _TUNNEL, true, row)
            links = {self._numbers.get(row[name]) for name in ("first_link", "last_link")}
            self._same(f"tunnel {_key(key)}", "its link", {true["link"]}, links)

    def _calls(self) -> None:
        """Match by id; without one, in the order of requests."""
        found = self._rows(
            "SELECT * FROM calls ORDER BY coalesce(request_ns, response_ns), response_ns"
        )
        for row in found:
            row["number"] = self._numbers.get(row["connection"])
        pairs = self._pairs("call", _by_connection(self._truth["calls"]), _by_connection(found))
        for key, true, row in pairs:
            what = f"call {_key(key)} of {true['client_address']}:{true['client_port']}"
            self._row(what, _CALL, true, row)
            bounds = true["latency_min_ns"], true["latency_max_ns"]
            self._within(what, "its latency", row["latency_ns"], *bounds)

    def _percentiles(self) -> None:
        """Compare p50 and p99 of each target with those of the lower and upper bounds."""

        def by_target(source: str, *values: str) -> dict[Any, _Row]:
            shares = ", ".join(
                f"quantile_disc({value}, {share / 100}) AS {value}_{share}"
                for value in values
                for share in (50, 99)
            )
            rows = self._rows(
                f"SELECT protocol, target, {shares} FROM {source}"
                f" WHERE {values[0]} IS NOT NULL AND target IS NOT NULL GROUP BY ALL"
            )
            return {(row["protocol"], row["target"]): row for row in rows}

        # If each latency lies in its interval, each percentile lies between the same percentiles of
        # all lower and of all upper bounds; quantile_disc takes the same rank in all three.
        path = str(self._folder / "truth" / "calls.parquet").replace("'", "''")
        true = by_target(f"read_parquet('{path}')", "latency_min_ns", "latency_max_ns")
        found = by_target("calls", "latency_ns")
        for key, bounds, row in self._pairs("calls to", true, found):
            self._figures += 2
            for share in (50, 99):
                low, high = (bounds[f"latency_{end}_ns_{share}"] for end in ("min", "max"))
                self._within(
                    f"calls to {_key(key)}", f"p{share}", row[f"latency_ns_{share}"], low, high
                )

    def _deliveries(self) -> None:
        def keyed(rows: list[_Row]) -> dict[Any, _Row]:
            return {(row["protocol"], row["client"], row["notification"]): row for row in rows}

        found = keyed(self._rows("SELECT * FROM deliveries"))
        for key, true, row in self._pairs("delivery", keyed(self._truth["deliveries"]), found):
            what = f"delivery {_key(key)}"
            self._row(what, _DELIVERY, true, row)
            bounds = true["latency_min_ns"], true["latency_max_ns"]
            self._within(what, "its latency", row["latency_ns"], *bounds)

    def _topics(self) -> None:
        names = ("deliveries", "sent", "acked", "unacked", "unsent")
        found = self._rows(
            "SELECT topic, count(*) AS deliveries, count(first_sent_ns) AS sent,"
            " count(*) FILTER (outcome = 'acked') AS acked,"
            " count(*) FILTER (outcome = 'unacked') AS unacked,"
            " count(*) FILTER (outcome = 'unsent') AS unsent FROM deliveries GROUP BY topic"
        )
        # A publication that nobody received leaves no row in `deliveries`.
        true = {row["topic"]: row for row in self._truth["topics"] if row["deliveries"]}
        for key, one, other in self._pairs("topic", true, {row["topic"]: row for row in found}):
            self._row(f"topic {_key(key)}", names, one, other)

    def _faults(self) -> None:
        names = ("number", "protocol", "direction", "code")
        found = self._rows("SELECT connection, protocol, direction, code FROM faults")
        for row in found:
            row["number"] = self._numbers.get(row["connection"])
        ports = {row["number"]: _end(row) for row in self._truth["connections"]}
        both = [
            Counter(tuple(row[name] for name in names) for row in rows)
            for rows in (self._truth["faults"], found)
        ]
        for key in both[0] | both[1]:
            self._figures += 1
            what = f"fault {key[3]} of {key[1]} from {ports.get(key[0], 'an unknown connection')}"
            self._same(what, "its number", both[0][key], both[1][key])

    def _messages(self) -> None:
        names = ("protocol", "kind", "name", "direction")
        found = self._rows(
            "SELECT protocol, kind, name, direction, count(*) AS messages"
            " FROM messages GROUP BY ALL"
        )
        both = [
            {tuple(row[name] for name in names): row["messages"] for row in rows}
            for rows in (self._truth["message_counts"], found)
        ]
        for key in sorted(both[0].keys() | both[1].keys(), key=str):
            self._figures += 1
            self._same(
                f"messages {_key(key)}", "their number", both[0].get(key, 0), both[1].get(key, 0)
            )


# -- keys ------------------------------------------------------------------------------------


def _in_turn(connections: list[_Row]) -> dict[Any, _Row]:
    """Key connections by their endpoints, and by their order where these repeat."""
    seen: Counter[Any] = Counter()
    found: dict[Any, _Row] = {}
    for row in connections:
        ends = _end(row), row["server_port"]
        seen[ends] += 1
        found[(*ends, seen[ends])] = row
    return found


def _by_connection(calls: list[_Row]) -> dict[Any, _Row]:
    """Key calls by connection and target, and by id or, without one, by order."""
    order: defaultdict[Any, int] = defaultdict(int)
    found: dict[Any, _Row] = {}
    for row in calls:
        place: Any = row["message_id"]
        if place is None:
            # Orphans are numbered apart: they have no request, so no place among the requests.
            where = row["number"], row["target"], row["outcome"] == "orphan"
            order[where] += 1
            place = f"#{order[where]}"
        found[row["number"], row["target"], place] = row
    return found


def _end(row: _Row) -> str:
    return f"{row['client_address']}:{row['client_port']}"


def _key(key: Any) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return " ".join("(none)" if each is None else str(each) for each in parts)


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
