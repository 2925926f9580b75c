"""What crosses connections: rows of the crossing tables, looked at one by one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.capture.tcp_made import Call, write
from tests.columnar.folding import differences, engine_rows, fold_rows
from tests.columnar.folding_scenes import window_of
from tests.lake.lakes import columnar_rows, reference_rows, unlike
from tests.records.scenes import SECOND, ask, closed, fault, message

from wirelake.columnar.fold import Fold, TunnelFold
from wirelake.columnar.fold.event_builder import id_hash
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny.protocol import RELAY
from wirelake.records.deliveries import CROSSING
from wirelake.records.rows import Event, Fact, Opened
from wirelake.records.tunnels import tunnel_connection

PLACES = ("first_connection", "last_connection", "acked_connection")
PHONE: dict[str, Any] = {"protocol": "comet", "connection": 2}
LINK: dict[str, Any] = {"protocol": "relay", "connection": 8, "target": "7/1"}


def emitted(events: Sequence[Event], **share: int) -> dict[str, list[dict[str, Any]]]:
    """The rows that a window comes to, by table."""
    found: dict[str, list[dict[str, Any]]] = {table: [] for table in (*CROSSING, "calls")}
    for table, batch in Fold(**share).window(window_of(events)):
        found.setdefault(table, []).extend(batch.to_pylist())
    return found


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
@pytest.mark.parametrize("cut", [False, True])
def test_at_one_time_connections_count_by_their_ids(order: tuple[int, int], cut: bool) -> None:
    """A clock of milliseconds: both connections of a client get and acknowledge at one time."""
    phones: list[dict[str, Any]] = [{"protocol": "comet", "connection": each} for each in order]
    signed = [ask(1, name="auth", client="ann", **phone) for phone in phones]
    sent = [message(5, "push", name="message", ids=["m1"], **phone) for phone in phones]
    acked = [ask(8, name="message_ack", ids=["m1"], **phone) for phone in phones]
    parts = [signed, sent, acked] if cut else [[*signed, *sent, *acked]]
    windows = [window_of(part) for part in parts]
    wanted = engine_rows(windows)
    (row,) = map(ast.literal_eval, wanted["deliveries"])
    assert [row[name] for name in PLACES] == [2, 3, 2]
    assert differences(wanted, fold_rows(windows, [(len(windows), 1)])[-1]) == []


def test_what_a_client_gets_and_acknowledges_is_one_part() -> None:
    push = {"name": "message", "ids": ["m1"], **PHONE}
    rows = emitted(
        [
            ask(1, name="auth", client="ann", **PHONE),
            message(5, "push", fields={"ts": 3}, **push),
            message(7, "push", fields={"ts": 2}, **push),
            ask(8, name="message_ack", ids=["m1"], **PHONE),
        ]
    )["_delivery_parts"]
    assert rows == [
        {
            "protocol": "comet",
            "client": "ann",
            "connection": None,
            "notification": "m1",
            "sends": 2,
            "first_sent_ns": 5,
            "first_connection": 2,
            "last_sent_ns": 7,
            "last_connection": 2,
            "acks": 1,
            "acked_ns": 8,
            "acked_connection": 2,
            "published_ns": 2_000_000,
            "last_event_ns": 8,
        }
    ]


def test_a_client_that_is_not_known_is_its_connection() -> None:
    push = message(5, "push", name="message", ids=["m1", "m2"], **PHONE)
    rows = emitted([push, fault(6, "c2s", connection=2)])
    parts = rows["_delivery_parts"]
    assert [(row["client"], row["connection"], row["notification"]) for row in parts] == [
        (None, 2, "m1"),
        (None, 2, "m2"),
    ]
    assert rows["_delivery_faults"] == [{"client": None, "connection": 2, "ts_ns": 6}]


@pytest.mark.parametrize("milliseconds", [1 << 62, -(1 << 62), -(1 << 63)])
def test_what_is_no_time_is_null(milliseconds: int) -> None:
    fields = {"ts": milliseconds}
    rows = emitted([message(5, "push", name="message", ids=["m1"], fields=fields, **PHONE)])
    assert [row["published_ns"] for row in rows["_delivery_parts"]] == [None]


def test_publications_are_emitted_by_the_first_share() -> None:
    facts = [
        Fact(1, "publish", None, {"id": "m1", "topic": "@t"}),
        Fact(2, "publish", None, {"id": "m2", "topic": 5, "client": "ann", "protocol": "tny"}),
        Fact(3, "publish", None, {"id": 9}),
    ]
    first, second = emitted(facts, share=0, shares=2), emitted(facts, share=1, shares=2)
    assert [tuple(row.values()) for row in first["_publications"]] == [
        ("m1", 1, "@t", None, "comet"),
        ("m2", 2, None, "ann", "tny"),
    ]
    assert second["_publications"] == []


def test_a_sign_on_fact_belongs_to_the_share_of_its_connection() -> None:
    events = [
        Fact(1, "sign_on", 2, {"client": "ann"}),
        message(5, "push", name="message", ids=["m1"], **PHONE),
    ]
    mine = id_hash(2) % 2
    [part] = emitted(events, share=mine, shares=2)["_delivery_parts"]
    assert part["client"] == "ann"
    # To the other share the connection is known only if its events come there.
    other = emitted(events[:1], share=1 - mine, shares=2)
    assert not any(other.values())


def test_each_sign_on_is_emitted_once() -> None:
    auth = {"name": "auth", **PHONE}
    rows = emitted(
        [
            ask(1, client="ann", **auth),
            ask(2, client="ann", **auth),
            ask(3, client="bob", **auth),
            message(4, "response", name="auth_success", **PHONE),
            ask(5, client="eve", **auth),
        ]
    )["_sign_ons"]
    assert [tuple(row.values()) for row in rows] == [
        ("comet", "ann", 2, 1),
        ("comet", "bob", 2, 3),
    ]


def test_the_first_message_of_each_tunnel_is_emitted() -> None:
    inside = {"protocol": "tny", "connection": tunnel_connection(7, 1), "tunnel_link": 8}
    events: list[Event] = []
    for at in (1, 2, 3):
        events += [message(at, "relay", name="tunnel_relay", **LINK), ask(at, at, **inside)]
    events += [message(4, "relay", name="tunnel_relay", **LINK | {"target": "7/2"})]
    rows = emitted([*events, message(5, "control", name="tunnel_relay", **LINK | {"target": "?"})])
    found = [(row["ts_ns"], row["name"]) for row in rows["_tunnel_events"]]
    assert sorted(found) == [
        (1, "request"),
        (1, "tunnel_relay"),
        (2, "request"),
        (3, "request"),
        (4, "tunnel_relay"),
    ]
    assert rows["calls"] == []


def test_faults_and_ends_are_emitted_only_for_links() -> None:
    events = [
        message(1, "heartbeat", name="link_ping", protocol="relay", connection=8),
        message(1, "heartbeat", name="ping", protocol="tny", connection=9),
        *(fault(2, connection=each) for each in (8, 9, 10)),
        *(closed(3, each) for each in (8, 9, 10)),
    ]
    rows = emitted(events)["_tunnel_events"]
    assert {(row["event"], row["link"]) for row in rows} == {
        *(("fault", 8), ("closed", 8)),
        *(("fault", 10), ("closed", 10)),  # may be one
    }


@pytest.mark.parametrize(
    ("packed", "address"),
    [
        (bytes([10, 0, 0, 7]), "10.0.0.7"),
        (bytes.fromhex("fe80" + "00" * 13 + "01"), "fe80::1"),
        (bytes([255] * 16), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (b"abc", None),
    ],
)
def test_a_tunnel_knows_its_user(packed: bytes, address: str | None) -> None:
    connect = message(1, "control", name="tunnel_connect", **LINK)
    batch = next(
        batch for table, batch in Fold().window(window_of([connect])) if table == "_tunnel_events"
    )
    [row] = batch.to_pylist()
    fold = TunnelFold()
    fold.feed([type(batch).from_pylist([row | {"ip": packed, "port": 99}], schema=batch.schema)])
    [(table, tunnels)] = fold.finish()
    assert table == "tunnels"
    [found] = tunnels.to_pylist()
    assert (found["user_address"], found["user_port"], found["outcome"]) == (address, 99, "open")


def test_events_of_tunnels_are_put_in_order() -> None:
    inside = {"protocol": "tny", "connection": tunnel_connection(7, 1), "tunnel_link": 8}
    events = [
        message(0, "control", name="tunnel_connect", **LINK),
        ask(1, 5, **inside),
        message(SECOND, "control", name="tunnel_disconnect", **LINK),
    ]
    batches = [
        batch
        for event in events
        for table, batch in Fold().window(window_of([event]))
        if table == "_tunnel_events"
    ]
    fold = TunnelFold()
    fold.feed(reversed(batches))
    rows = dict(fold.take())
    assert rows["calls"].column("outcome").to_pylist() == ["lost"]
    [left] = dict(fold.finish())["tunnels"].to_pylist()
    assert (left["outcome"], left["opened_ns"], left["messages_c2s"]) == ("closed", 0, 1)


def test_a_connection_begins_in_the_middle_with_a_message() -> None:
    rows = emitted([Opened(0, 1, whole=False), ask(1)])
    assert [(row["outcome"], row["cause"]) for row in rows["calls"]] == [("unknown", "unsettled")]


@pytest.mark.parametrize("asks", ["c2s", "s2c"])
@pytest.mark.parametrize("breaks", ["c2s", "s2c"])
@pytest.mark.parametrize("ends", [(), (8,), (8, 9)])
def test_what_a_link_may_hide_stays_hidden_when_it_ends(
    asks: str, breaks: str, ends: tuple[int, ...]
) -> None:
    inside = {"protocol": "tny", "connection": tunnel_connection(7, 1), "direction": asks}
    events = [
        message(0, "control", name="tunnel_connect", **LINK),
        ask(1, 5, tunnel_link=8, **inside),
        fault(2, breaks, connection=8),
        ask(3, 6, tunnel_link=8, **inside),
        ask(4, 7, tunnel_link=9, **inside),
        *(closed(5, link) for link in ends),
        message(6, "control", name="tunnel_connected", **LINK | {"connection": 9}),
    ]
    windows = [window_of(events[:4]), window_of(events[4:])]
    for steps in ([(2, 1)], [(1, 1), (2, 1)]):
        assert differences(engine_rows(windows), fold_rows(windows, steps)[-1]) == []


def test_what_one_packet_carries_and_says_about_a_tunnel_keeps_its_order(tmp_path: Path) -> None:
    ids = {"instance_id": 7, "tunnel_id": 1}
    call = tny.TunnelRelay(message=tny.Message(id=5, protocol=1001), **ids)
    connect = tny.TunnelConnect(ip=b"\x0a\0\0\1", port=9, **ids)
    frames = [RELAY.encode(tny.RelayPacket(id=1, arguments=each)) for each in (call, connect)]
    packets = Call(RELAY.port or 0).open().say("c2s", b"".join(frames)).packets
    path = write(tmp_path / "a.pcap", packets)
    found = columnar_rows([path], [])
    assert unlike(found, reference_rows([path], [])) == []
    assert ["'cause': 'replaced'" in row for row in found["calls"]] == [True]
