"""Events of connections, random or from a capture, and the parts that folds derive from them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.columnar.oracle import engine_events

from wirelake.columnar.read.reader import ReadOptions, open_pipeline
from wirelake.records import Closed, ConnectionsEngine, Event, Fact, FaultRow, MessageRow, in_order
from wirelake.records.connections import ConnectionRow
from wirelake.records.deliveries import CROSSING
from wirelake.records.engine import Clients
from wirelake.records.schema import schema

Rows = list[dict[str, Any]]


def table_of(table: str, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows of a table; columns that they lack are null."""
    columns = CROSSING[table] if table in CROSSING else schema(table)
    return pa.Table.from_pylist(list(rows), schema=columns)


def in_any_order(rows: Iterable[Any]) -> list[str]:
    return sorted(map(repr, rows))


# -- events ----------------------------------------------------------------------------------


def ordered(events: Iterable[Event]) -> list[Event]:
    """In order; at one time, in that of connections."""
    return in_order(sorted(events, key=lambda event: event.connection or 0))


def captured(captures: Path) -> list[Event]:
    """Return all events of the captures of a folder."""
    options = ReadOptions(table="deliveries", keys=sorted(captures.glob("*.keys")))
    pipeline = open_pipeline(sorted(map(str, captures.glob("*.pcap*"))), options)
    return ordered(engine_events(pipeline.windows()))


def at_random(seed: int, worlds: int, size: int = 25) -> list[Event]:
    """Return random events of many independent groups."""
    chance = random.Random(seed)
    found = list[Event]()
    for world in range(worlds):
        ts_ns = 0
        for _ in range(chance.randrange(size)):
            ts_ns += chance.choice((0, 1, 5))
            found.append(_event(chance, world, 1_000 + ts_ns))
    return ordered(found)


def _event(chance: random.Random, world: int, ts_ns: int) -> Event:
    connection = 10 * world + chance.randrange(1, 4)
    client = chance.choice((f"ann{world}", f"bob{world}"))
    ids = [f"{world}/{number}" for number in chance.sample(range(3), chance.randrange(1, 3))]
    protocol = chance.choice(("comet", "comet", "magline"))
    kind = chance.choice(
        ("sent", "sent", "acked", "sign_on", "confirm", "fault", "closed", "publish", "fact")
    )
    match kind:
        case "sent" | "acked":
            direction = "s2c" if kind == "sent" else "c2s"
            said = {"ts": [chance.choice((None, 3, 4)) for _ in ids]}
            return MessageRow(
                ts_ns, ts_ns, connection, direction, protocol, "push", kind, ids=ids, fields=said
            )
        case "sign_on":
            return MessageRow(
                ts_ns, ts_ns, connection, "c2s", protocol, "request", "auth", client=client
            )
        case "confirm":
            name = "auth_success"
            return MessageRow(ts_ns, ts_ns, connection, "s2c", protocol, "response", name)
        case "fault":
            direction = chance.choice(("c2s", "s2c"))
            return FaultRow(ts_ns, connection, direction, chance.choice(("gap", "conflict")))
        case "closed":
            return Closed(ts_ns, connection, "c2s", "fin")
        case "publish":
            data: dict[str, Any] = {"id": ids[0], "topic": f"@{ts_ns % 3}"}
            if chance.random() < 0.5:
                data |= {"client": client, "protocol": protocol}
            return Fact(ts_ns, "publish", None, data)
        case _:
            return Fact(ts_ns, "sign_on", connection, {"client": client})


# -- what folds would make of them -----------------------------------------------------------


def folded(events: Iterable[Event]) -> dict[str, Rows]:
    """Parts (one for each event), faults and publications."""
    clients = Clients(1_000_000)
    found: dict[str, Rows] = {name: [] for name in CROSSING}
    for event in events:
        match event:
            case MessageRow():
                clients.feed(event)
                found["_delivery_parts"] += _parts(event, _whom(clients, event.connection))
            case FaultRow(direction="c2s", code="gap"):
                whom = _whom(clients, event.connection)
                found["_delivery_faults"].append({**whom, "ts_ns": event.ts_ns})
            case Closed():
                clients.closed(event.connection)
            case Fact(kind="sign_on", connection=int() as connection):
                clients.sign_on(connection, event.data["client"])
            case Fact(kind="publish"):
                found["_publications"].append(_publication(event))
            case _:
                pass
    return found


def _whom(clients: Clients, connection: int) -> dict[str, Any]:
    return {"client": clients.get(connection), "connection": connection}


def _parts(row: MessageRow, whom: dict[str, Any]) -> Iterator[dict[str, Any]]:
    said = (row.fields or {}).get("ts")
    times = said if isinstance(said, list) else [said]
    for place, notification in enumerate(row.ids or ()):
        part = {"protocol": row.protocol, **whom, "notification": notification, "sends": 0}
        part |= {"acks": 0, "last_event_ns": row.ts_ns}
        if row.direction == "c2s":
            part |= {"acks": 1, "acked_ns": row.ts_ns, "acked_connection": row.connection}
        else:
            published = times[place] if place < len(times) else None
            part |= {"sends": 1, "first_sent_ns": row.ts_ns, "last_sent_ns": row.ts_ns}
            part |= {"first_connection": row.connection, "last_connection": row.connection}
            part["published_ns"] = None if published is None else published * 1_000_000
        yield part


def _publication(event: Fact) -> dict[str, Any]:
    data = event.data
    addressee = {key: data.get(key) for key in ("topic", "client")}
    return {
        "notification": data["id"],
        "ts_ns": event.ts_ns,
        "protocol": data.get("protocol", "comet"),
        **addressee,
    }


class NotingSignOns(ConnectionsEngine):
    """The connections engine, which also records sign-ons."""

    def __init__(self) -> None:
        super().__init__()
        self.sign_ons: Rows = []

    def _signs_on(self, row: ConnectionRow, protocol: str, ts_ns: int) -> None:
        before = row.client
        super()._signs_on(row, protocol, ts_ns)
        if row.client != before:
            noted = {"protocol": protocol, "client": row.client, "connection": row.connection}
            self.sign_ons.append({**noted, "ts_ns": ts_ns})
