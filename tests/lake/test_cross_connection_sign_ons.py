"""The connection on which a client was before: the same as the engine's, in any order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from wirelake.columnar.fold.sign_ons import previous_connections, with_previous
from wirelake.lake.engine.cross_connection import SignOnsTask, changed_sign_ons, kept_sign_ons
from wirelake.records import Event, feed_event
from wirelake.records.schema import schema

from .cross_connection_events import (
    NotingSignOns,
    Rows,
    at_random,
    captured,
    in_any_order,
    table_of,
)

HOUR = 3_600_000_000_000


def by_engine(events: list[Event]) -> tuple[Rows, Rows]:
    """Rows of connections, and the sign-ons that there were."""
    engine = NotingSignOns()
    for event in events:
        feed_event(engine, event)
    engine.finish()
    return [msgspec.structs.asdict(row) for row in engine.take()], engine.sign_ons


def signed_on(ts_ns: int, connection: int, client: str = "ann") -> dict[str, Any]:
    return {"protocol": "comet", "client": client, "connection": connection, "ts_ns": ts_ns}


def compare(events: list[Event]) -> None:
    wanted, sign_ons = by_engine(events)
    assert any(row["previous_connection"] is not None for row in wanted)
    bare = [{**row, "previous_connection": None} for row in wanted]
    found = with_previous(table_of("connections", bare), table_of("_sign_ons", sign_ons))
    assert found.column_names == schema("connections").names
    assert in_any_order(found.to_pylist()) == in_any_order(wanted)


def test_rows_are_those_of_the_engine() -> None:
    one_at_a_time = dict[tuple[int, int], Event]()
    for event in at_random(3, worlds=300):
        one_at_a_time.setdefault((event.ts_ns, (event.connection or 0) // 10), event)
    compare(list(one_at_a_time.values()))


def test_connections_of_captures(captures: Path) -> None:
    compare(captured(captures))


def test_previous() -> None:
    rows = [
        signed_on(5, 3),
        signed_on(5, -2),
        signed_on(1, 7),
        signed_on(9, 7),
        signed_on(9, 7),
        signed_on(2, 4, "bob"),
        {**signed_on(3, 6), "protocol": "magline"},
    ]
    found = previous_connections(table_of("_sign_ons", rows)).to_pylist()
    assert in_any_order(tuple(row.values()) for row in found) == in_any_order(
        [
            ("comet", "ann", 7, 1, None),
            ("comet", "ann", -2, 5, 7),
            ("comet", "ann", 3, 5, -2),
            ("comet", "ann", 7, 9, 3),
            ("comet", "bob", 4, 2, None),
            ("magline", "ann", 6, 3, None),
        ]
    )


def test_every_row_is_emitted_once_with_all_columns() -> None:
    sign_ons = [
        signed_on(1, 7),
        signed_on(5, 8),
        signed_on(5, 8),
        {**signed_on(5, 8), "protocol": "magline"},
    ]
    rows = [
        {"connection": 8, "client": "ann", "signed_on_ns": 5, "protocol": "comet"},
        {"connection": 9, "protocol": "comet"},
    ]
    connections = table_of("connections", rows)
    found = with_previous(connections, table_of("_sign_ons", sign_ons)).to_pylist()
    assert [row | {"previous_connection": None} for row in found] == connections.to_pylist()
    assert [row["previous_connection"] for row in found] == [7, None]


@pytest.mark.parametrize("shares", [1, 3])
def test_late_sign_ons_change_the_previous_connection_of_known_ones(
    tmp_path: Path, shares: int
) -> None:
    chance = random.Random(4)
    every = [
        signed_on(chance.randrange(40), chance.randrange(5), f"client {chance.randrange(9)}")
        for _ in range(150)
    ]
    known, new = every[:100], every[100:]
    first_new = min(row["ts_ns"] for row in new)
    for name, rows in (("known", known), ("new", new)):
        pq.write_table(table_of("_sign_ons", rows), tmp_path / name)
    before, after = (
        {tuple(row.values())[:4]: row["previous_connection"] for row in found.to_pylist()}
        for found in (previous_connections(table_of("_sign_ons", r)) for r in (known, every))
    )
    wanted = {key[3] for key, found in before.items() if after[key] != found}
    assert 5 < len(wanted) < len({key[3] for key in before})
    paths = (str(tmp_path / "known"), str(tmp_path / "new"))
    given: set[int] = set()
    for share in range(shares):
        task = SignOnsTask(
            share=share, shares=shares, known=paths[:1], sign_ons=paths, first_new_ns=first_new
        )
        given.update(changed_sign_ons(task).times_ns)
    assert given == wanted


def test_what_is_kept() -> None:
    now = 100 * HOUR
    old, new = now - 24 * HOUR, now - 24 * HOUR + 1
    wanted = [
        signed_on(old, 2),
        signed_on(new, 3),
        signed_on(now, 4),
        signed_on(old - 7, 5, "bob"),
    ]
    rows = [*wanted, signed_on(old, 1), signed_on(old - 1, 9), signed_on(old - 9, 6, "bob")]
    found = kept_sign_ons(table_of("_sign_ons", rows), now)
    assert in_any_order(found.to_pylist()) == in_any_order(wanted)
