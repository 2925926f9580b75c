"""Deliveries: from the publisher to the acknowledgement, over all connections of a client."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.records.deliveries import LATEST_MS, DeliveriesEngine, DeliveryRow
from wirelake.records.engine import EngineLimits, feed_event
from wirelake.records.rows import Event, Fact, MessageRow

from .scenes import IDS, as_set, closed, fault, message, run


def signs_on(ts_ns: int, client: str, connection: int = 1) -> MessageRow:
    """auth."""
    return message(
        ts_ns, "request", name="auth", client=client, connection=connection, protocol="comet"
    )


def sends(ts_ns: int, *ids: str, connection: int = 1, published: Any = None) -> MessageRow:
    """message, or message_list when there are several."""
    return message(
        ts_ns, "push", name="message", ids=list(ids), connection=connection, protocol="comet",
        fields=None if published is None else {"ts": published},
    )  # fmt: skip


def acks(ts_ns: int, *ids: str, connection: int = 1) -> MessageRow:
    """message_ack."""
    return message(
        ts_ns, "request", name="message_ack", ids=list(ids), connection=connection, protocol="comet"
    )


def deliveries(*events: Event, **limits: int) -> list[DeliveryRow]:
    """The deliveries that come of these events."""
    rows: list[DeliveryRow] = run(DeliveriesEngine(EngineLimits(**limits)), events)
    return sorted(rows, key=lambda row: (row.notification, row.client or ""))


def test_sent_and_acknowledged() -> None:
    (row,) = deliveries(signs_on(1, "ann"), sends(10, "m1", published=7), acks(25, "m1"))
    assert (row.notification, row.protocol, row.client) == ("m1", "comet", "ann")
    assert (row.outcome, row.first_sent_ns, row.acked_ns, row.latency_ns) == ("acked", 10, 25, 15)
    assert (row.sends, row.acks, row.published_ns, row.topic) == (1, 1, 7_000_000, None)


def test_sent_again_on_the_next_connection() -> None:
    (row,) = deliveries(
        signs_on(1, "ann"),
        sends(10, "m1"),
        closed(20),
        signs_on(30, "ann", 2),
        sends(40, "m1", connection=2),
        sends(41, "m1", connection=2),
        acks(50, "m1", connection=2),
        acks(51, "m1", connection=2),
        sends(52, "m1", connection=2),
    )
    assert (row.outcome, row.sends, row.acks, row.latency_ns) == ("acked", 4, 2, 40)
    assert (row.first_sent_ns, row.last_sent_ns, row.acked_ns) == (10, 52, 50)
    assert (row.first_connection, row.last_connection, row.acked_connection) == (1, 2, 2)


def test_one_notification_for_two_clients_is_two_deliveries() -> None:
    rows = deliveries(
        signs_on(1, "ann"), signs_on(1, "bob", 2), sends(10, "m1"), sends(11, "m1", connection=2),
        acks(20, "m1", connection=2),
    )  # fmt: skip
    assert [(row.client, row.outcome) for row in rows] == [("ann", "unacked"), ("bob", "acked")]


def test_without_a_client_the_connection_is_used() -> None:
    rows = deliveries(sends(10, "m1"), sends(11, "m1", connection=2), acks(12, "m1"))
    assert sorted((row.client, row.first_connection, row.outcome) for row in rows) == [
        (None, 1, "acked"),
        (None, 2, "unacked"),
    ]


def test_facts_may_name_the_client() -> None:
    (row,) = deliveries(Fact(1, "sign_on", 1, {"client": "ann"}), sends(10, "m1"))
    assert row.client == "ann"
    (row,) = deliveries(Fact(1, "open", 1, {"client": "10.0.0.1"}), sends(10, "m1"))
    assert row.client is None


def test_a_list_has_a_time_for_each() -> None:
    rows = deliveries(signs_on(1, "ann"), sends(10, "m1", "m2", published=[5, 6]))
    assert [row.published_ns for row in rows] == [5_000_000, 6_000_000]


def test_facts_have_time_and_topic_of_the_publish() -> None:
    fact = Fact(3, "publish", None, {"id": "m1", "topic": "@news", "audience": 2})
    for events in (
        [fact, signs_on(4, "ann"), sends(10, "m1", published=1)],
        [signs_on(4, "ann"), sends(10, "m1", published=1), fact],
    ):
        (row,) = deliveries(*events)
        assert (row.published_ns, row.topic, row.outcome) == (3, "@news", "unacked")
    assert deliveries(fact) == []


@pytest.mark.parametrize(
    ("milliseconds", "found"),
    [
        (LATEST_MS, LATEST_MS * 1_000_000),
        (-LATEST_MS, -LATEST_MS * 1_000_000),
        (LATEST_MS + 1, None),
        (-LATEST_MS - 1, None),
        ((1 << 63) - 1, None),
        (-(1 << 63), None),
    ],
)
def test_a_time_out_of_range_is_none(milliseconds: int, found: int | None) -> None:
    (row,) = deliveries(signs_on(1, "ann"), sends(10, "m1", published=milliseconds))
    assert row.published_ns == found


def test_published_for_a_client_and_never_sent() -> None:
    fact = Fact(3, "publish", None, {"id": "p1", "client": "ann"})
    (row,) = deliveries(fact)
    assert (row.client, row.outcome, row.published_ns, row.sends) == ("ann", "unsent", 3, 0)
    (row,) = deliveries(fact, signs_on(4, "ann"), sends(5, "p1"))
    assert (row.outcome, row.sends) == ("unacked", 1)


def test_an_acknowledgement_of_what_was_not_seen() -> None:
    (row,) = deliveries(signs_on(1, "ann"), acks(5, "m1"))
    assert (row.outcome, row.first_sent_ns, row.acked_ns, row.latency_ns) == (
        "orphan",
        None,
        5,
        None,
    )


def test_a_fault_may_hide_the_acknowledgement() -> None:
    def outcome(*events: Event) -> str | None:
        (row,) = deliveries(signs_on(1, "ann"), *events)
        return row.outcome

    assert outcome(sends(10, "m1"), fault(11, "c2s")) == "unknown"
    assert outcome(sends(10, "m1"), fault(11, "c2s"), acks(12, "m1")) == "acked"
    assert outcome(sends(10, "m1"), fault(11, "s2c")) == "unacked"
    assert outcome(sends(10, "m1"), fault(11, "c2s", "conflict")) == "unacked"
    assert outcome(fault(9, "c2s"), sends(10, "m1")) == "unacked"
    assert outcome(fault(-9, "c2s"), sends(-8, "m1")) == "unacked"
    again = [closed(11), signs_on(12, "ann", 2), fault(13, "c2s", connection=2)]
    assert outcome(sends(10, "m1"), *again) == "unknown"


def test_limits_give_up_acknowledged_ones_first() -> None:
    engine = DeliveriesEngine(EngineLimits(acknowledged=1, deliveries=2))
    for event in (
        signs_on(1, "ann"), sends(2, "m1", "m2", "m3"), acks(3, "m2"), acks(4, "m3"),
    ):  # fmt: skip
        feed_event(engine, event)
    first, second = engine.take()
    assert (first.notification, first.outcome) == ("m1", "unacked")
    assert (second.notification, second.outcome) == ("m2", "acked")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2]),
            st.sampled_from(["send", "ack", "publish"]),
            st.sampled_from(IDS),
            st.integers(1, 100),
        ),
        max_size=12,
        unique_by=lambda each: each[3],
    ),
    st.randoms(use_true_random=False),
)
def test_in_which_order_connections_are_looked_at_makes_no_difference(
    what: list[tuple[int, str, str, int]], random: Any
) -> None:
    begin = [signs_on(0, "ann", 1), signs_on(0, "ann", 2)]
    events: list[Event] = []
    for connection, kind, notification, ts_ns in what:
        if kind == "publish":
            events.append(Fact(ts_ns, "publish", None, {"id": notification, "topic": str(ts_ns)}))
        else:
            make = sends if kind == "send" else acks
            events.append(make(ts_ns, notification, connection=connection))
    mixed = list(events)
    random.shuffle(mixed)
    assert as_set(deliveries(*begin, *events)) == as_set(deliveries(*begin, *mixed))
