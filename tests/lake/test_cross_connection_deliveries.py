"""Merged deliveries: the same rows as the engine's, in whatever pieces their parts come."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.columnar.fold.deliveries import delivery_rows, expected_parts, merge_parts
from wirelake.lake.engine.cross_connection import is_settled, kept_faults, kept_publications
from wirelake.records import DeliveriesEngine, Event, feed_event
from wirelake.records.deliveries import CROSSING
from wirelake.records.schema import schema

from .cross_connection_events import Rows, at_random, captured, folded, in_any_order, table_of

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def by_engine(events: list[Event]) -> Rows:
    engine = DeliveriesEngine()
    for event in events:
        feed_event(engine, event)
    engine.finish()
    return [msgspec.structs.asdict(row) for row in engine.take()]


def tables(found: dict[str, Rows]) -> tuple[pa.Table, pa.Table, pa.Table]:
    names = ("_delivery_parts", "_publications", "_delivery_faults")
    parts, publications, faults = (table_of(name, found[name]) for name in names)
    return parts, publications, faults


def all_rows(parts: pa.Table, publications: pa.Table, faults: pa.Table) -> pa.Table:
    """Rows of everything, also of what was published and never sent."""
    every = pa.concat_tables([parts, expected_parts(publications)])
    return delivery_rows(merge_parts(every), publications, faults)


def part(notification: str, **more: Any) -> dict[str, Any]:
    who = {"protocol": "comet", "client": "ann", "notification": notification}
    return {**who, "sends": 0, "acks": 0, **more}


def sent(notification: str, ts_ns: int, **more: Any) -> dict[str, Any]:
    times = {"first_sent_ns": ts_ns, "last_sent_ns": ts_ns, "last_event_ns": ts_ns}
    return part(
        notification, **{"sends": 1, "first_connection": 1, "last_connection": 1, **times, **more}
    )


def acked(notification: str, ts_ns: int) -> dict[str, Any]:
    return part(notification, acks=1, acked_ns=ts_ns, acked_connection=1, last_event_ns=ts_ns)


def published(notification: str, ts_ns: int, **more: Any) -> dict[str, Any]:
    return {"notification": notification, "ts_ns": ts_ns, "protocol": "comet", **more}


def test_rows_are_those_of_the_engine() -> None:
    events = at_random(1, worlds=300)
    found = all_rows(*tables(folded(events)))
    assert found.schema.equals(schema("deliveries"), check_metadata=True)
    rows, wanted = found.to_pylist(), by_engine(events)
    assert {row["outcome"] for row in rows} == {"acked", "unacked", "unknown", "unsent", "orphan"}
    assert in_any_order(rows) == in_any_order(wanted)


def test_parts_may_be_merged_in_any_grouping() -> None:
    events, chance = at_random(2, worlds=150), random.Random(2)
    facts = folded(events)
    piles = [list[dict[str, Any]]() for _ in range(3)]
    for each in facts["_delivery_parts"]:
        chance.choice(piles).append(each)
    _, publications, faults = tables(facts)
    first, second, third = (merge_parts(table_of("_delivery_parts", pile)) for pile in piles)
    first_two = merge_parts(pa.concat_tables([first, second]))
    found = all_rows(pa.concat_tables([third, first_two]), publications, faults)
    assert in_any_order(found.to_pylist()) == in_any_order(by_engine(events))


def test_at_one_time_the_ids_of_connections_decide() -> None:
    parts = [sent("m", 5, first_connection=each, last_connection=each) for each in (7, -3, 4)]
    (found,) = merge_parts(table_of("_delivery_parts", parts)).to_pylist()
    assert (found["first_connection"], found["last_connection"], found["sends"]) == (-3, 7, 3)


def test_deliveries_of_captures(captures: Path) -> None:
    events = captured(captures)
    wanted = by_engine(events)
    assert {row["outcome"] for row in wanted} >= {"acked", "unacked"}
    assert any(row["topic"] is not None for row in wanted)
    assert in_any_order(all_rows(*tables(folded(events))).to_pylist()) == in_any_order(wanted)


def test_times_that_no_column_can_hold() -> None:
    most = (1 << 63) - 1
    parts = table_of("_delivery_parts", [sent("m", -most), acked("m", most)])
    publications, faults = table_of("_publications", []), table_of("_delivery_faults", [])
    (found,) = all_rows(parts, publications, faults).to_pylist()
    assert (found["outcome"], found["latency_ns"]) == ("acked", None)


def test_what_is_settled() -> None:
    now = 100 * HOUR
    cases = {
        "acked, quiet": acked("", now - 10 * MINUTE),
        "acked just now": acked("", now - 10 * MINUTE + 1),
        "unacked": sent("", now - 24 * HOUR + 1),
        "unacked for a day": sent("", now - 24 * HOUR),
        "acked, sent again": {**acked("", now - HOUR), "last_event_ns": now},
        "orphan of a day": acked("", now - 24 * HOUR),
    }
    parts = table_of(
        "_delivery_parts", [{**each, "notification": name} for name, each in cases.items()]
    )
    found = parts.filter(is_settled(parts, now)).to_pylist()
    wanted = {"acked, quiet", "unacked for a day", "orphan of a day"}
    assert {row["notification"] for row in found} == wanted


def test_what_is_kept() -> None:
    now = 100 * HOUR
    old, new = now - 24 * HOUR, now - 24 * HOUR + 1
    held = table_of(
        "_delivery_parts",
        [
            sent("held", new),
            sent("held", new, client="bob"),
            sent("x", new, client=None, connection=7),
        ],
    )
    publications = [published("held", old - 5), published("gone", old), published("new", new)]
    kept = kept_publications(table_of("_publications", publications), held, now)
    assert in_any_order(row["notification"] for row in kept.to_pylist()) == ["'held'", "'new'"]
    assert kept.column_names == CROSSING["_publications"].names

    faults = [
        {"client": "ann", "connection": 1, "ts_ns": old - 9},
        {"client": "ann", "connection": 2, "ts_ns": old - 5},
        {"client": "cid", "connection": 7, "ts_ns": old},
        {"client": "dot", "connection": 4, "ts_ns": new},
        {"client": None, "connection": 7, "ts_ns": old},
        {"client": None, "connection": 8, "ts_ns": old},
    ]
    found = kept_faults(table_of("_delivery_faults", faults), held, now).to_pylist()
    assert in_any_order(found) == in_any_order(
        [
            {"client": "ann", "connection": None, "ts_ns": old - 5},
            {"client": "dot", "connection": None, "ts_ns": new},
            {"client": None, "connection": 7, "ts_ns": old},
        ]
    )


STEPS: list[tuple[int, dict[str, Rows]]] = [
    (
        HOUR,
        {
            "_delivery_parts": [sent("quick", 2 * SECOND), acked("quick", 3 * SECOND)],
            "_publications": [
                published("quick", SECOND, topic="@a", client="ann"),
                published("slow", SECOND, topic="@b", client="ann"),
                published("never", SECOND, topic="@c", client="ann"),
            ],
            "_delivery_faults": [],
        },
    ),
    (
        47 * HOUR,
        {
            "_delivery_parts": [
                *(sent("slow", hour * HOUR) for hour in (22, 40)),
                *(sent("hidden", hour * HOUR) for hour in (22, 40)),
            ],
            "_publications": [],
            "_delivery_faults": [{"client": "ann", "ts_ns": 22 * HOUR + 1}],
        },
    ),
    (
        60 * HOUR,
        {
            "_delivery_parts": [acked("slow", 48 * HOUR), sent("hidden", 60 * HOUR)],
            "_publications": [],
            "_delivery_faults": [],
        },
    ),
]
"""What is new at each step, and what time it is then."""


def test_a_lake_updated_in_steps() -> None:
    names = ("_delivery_parts", "_publications", "_delivery_faults")
    state: dict[str, Rows] = {name: [] for name in names}
    final: Rows = []
    open_rows: Rows = []
    for now, new in STEPS:
        parts, publications, faults = tables({n: state[n] + new[n] for n in names})
        fresh = expected_parts(table_of("_publications", new["_publications"]))
        whole = merge_parts(pa.concat_tables([parts, fresh]))
        settled = is_settled(whole, now)
        over, held = whole.filter(settled), whole.filter(pc.invert(settled))
        final += delivery_rows(over, publications, faults).to_pylist()
        open_rows = delivery_rows(held, publications, faults).to_pylist()
        kept = (held, kept_publications(publications, held, now), kept_faults(faults, held, now))
        state = {name: each.to_pylist() for name, each in zip(names, kept, strict=True)}
    everything = {name: [row for _, new in STEPS for row in new[name]] for name in names}
    wanted = all_rows(*tables(everything)).to_pylist()
    assert [row["notification"] for row in final] == ["quick", "never", "slow"]
    assert [row["outcome"] for row in open_rows] == ["unknown"]
    assert in_any_order(final + open_rows) == in_any_order(wanted)


def test_publications_alone_make_rows_only_when_they_are_expected() -> None:
    facts = [published("m", 2, topic="@a", client="ann"), published("m", 1, topic="@b")]
    parts, publications, faults = tables(
        {"_delivery_parts": [], "_publications": facts, "_delivery_faults": []}
    )
    (row,) = all_rows(parts, publications, faults).to_pylist()
    assert (row["outcome"], row["published_ns"], row["topic"]) == ("unsent", 1, "@b")
    rest = delivery_rows(parts, publications, faults)
    assert rest.num_rows == 0
