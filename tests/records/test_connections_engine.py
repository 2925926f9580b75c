"""Connections: what is known about each, from beginning to end."""

from __future__ import annotations

from wirelake.records.connections import ConnectionRow, ConnectionsEngine
from wirelake.records.engine import EngineLimits, feed_event
from wirelake.records.rows import Event, Fact, Opened

from .scenes import answer, ask, closed, fault, message, run


def connections(*events: Event) -> list[ConnectionRow]:
    """The connections that come of these events."""
    return run(ConnectionsEngine(), events)


def test_a_whole_connection() -> None:
    (row,) = connections(
        Opened(100, 1, "comet", "10.0.0.1", 4000, "10.0.0.2", 9620),
        ask(110, protocol="comet", name="auth", client="ann", size_bytes=30),
        answer(120, protocol="comet", name="auth_success"),
        ask(130, protocol="comet", name="heartbeat"),
        answer(140, "4", protocol="comet", status="4"),
        message(150, "push", protocol="comet", size_bytes=7),
        message(160, "event", protocol="comet"),
        closed(200, side="s2c", how="fin"),
    )
    assert (row.client_address, row.client_port) == ("10.0.0.1", 4000)
    assert (row.server_address, row.server_port) == ("10.0.0.2", 9620)
    assert (row.protocol, row.client, row.signed_on_ns) == ("comet", "ann", 110)
    assert (row.opened_ns, row.closed_ns, row.duration_ns) == (100, 200, 100)
    assert (row.closed_by, row.closed_how, row.close_reason) == ("server", "fin", None)
    assert (row.messages_c2s, row.bytes_c2s, row.messages_s2c, row.bytes_s2c) == (2, 40, 4, 37)
    assert (row.requests, row.failures, row.pushes, row.heartbeats) == (2, 1, 2, 1)


def test_a_connection_of_which_only_a_part_was_seen() -> None:
    (row,) = connections(Opened(100, 1, whole=False), ask(110), fault(90, missing_bytes=5))
    assert (row.opened_ns, row.closed_ns, row.first_ns, row.last_ns) == (None, None, 90, 110)
    assert (row.protocol, row.closed_how) == ("esnp", None)
    assert (row.faults, row.gaps, row.missing_bytes) == (1, 1, 5)


def test_the_first_byte_of_a_message_counts_for_the_beginning() -> None:
    row = ask(110)
    row.first_ns = 80
    (found,) = connections(row)
    assert (found.first_ns, found.last_ns, found.duration_ns) == (80, 110, 30)


def test_faults_other_than_gaps() -> None:
    (row,) = connections(fault(90, code="bad_length", missing_bytes=0, protocol="tny"), ask(100))
    assert (row.faults, row.gaps, row.protocol) == (1, 0, "tny")


def test_the_reason_of_a_close() -> None:
    fin = message(5, "control", name="fin", protocol="magline", reason="idle")
    (row,) = connections(fin, closed(6, side="s2c", how="fin"))
    assert row.close_reason == "idle"
    result = Fact(5, "close", 1, {"reason": "slow reader", "side": "server"})
    (row,) = connections(fin, result, closed(6, side="c2s", how="rst"))
    assert (row.close_reason, row.closed_by, row.closed_how) == ("slow reader", "server", "rst")


def test_sessions_are_resumed_or_not() -> None:
    def resumed(*events: Event) -> tuple[bool | None, int | None]:
        (row,) = connections(*events)
        return row.resumed, row.handshake_ns

    syn = message(1, "handshake", name="syn", direction="c2s")
    again = message(1, "handshake", name="syn", direction="c2s", fields={"resume_sid": b"s"})
    ack = message(4, "handshake", name="ack")
    assert resumed(syn, ack) == (None, 3)
    assert resumed(again, ack) == (True, 3)
    assert resumed(again) == (False, None)
    assert resumed(ack) == (None, None)


def test_device_facts() -> None:
    fields = {"network_type": 3, "isp": 1, "phone_type": "Nine"}
    (row,) = connections(ask(1, protocol="comet", name="report_environ", fields=fields))
    assert (row.network_type, row.isp, row.phone_type) == ("g4", "china_mobile", "Nine")
    other = ask(1, protocol="comet", name="report_environ", fields={"network_type": 9})
    (row,) = connections(other)
    assert (row.network_type, row.isp, row.phone_type) == ("9", None, None)


def test_a_client_that_reconnects() -> None:
    first, second, other = connections(
        ask(1, client="ann"),
        closed(2),
        ask(3, client="ann", connection=2),
        closed(4, 2),
        ask(5, client="ann", connection=3, protocol="tny"),
    )
    assert first.previous_connection is None
    assert second.previous_connection == 1
    assert other.previous_connection is None


def test_a_client_that_signs_on_twice_has_not_come_back() -> None:
    (row,) = connections(ask(1, client="ann"), ask(2, client="ann"))
    assert (row.previous_connection, row.signed_on_ns) == (None, 1)


def test_facts_may_name_the_client() -> None:
    (row,) = connections(Opened(1, 1, "tny"), Fact(2, "sign_on", 1, {"client": "ann"}))
    assert (row.client, row.signed_on_ns) == ("ann", 2)
    (row,) = connections(Opened(1, 1, "tny"), Fact(2, "open", 1, {"client": "10.0.0.1"}))
    assert row.client is None


def test_a_fact_alone_is_no_connection() -> None:
    assert connections(Fact(2, "sign_on", 1, {"client": "ann"}), Fact(2, "publish")) == []


def test_messages_in_tunnels_are_not_counted() -> None:
    assert connections(ask(1, 1, connection=77, tunnel_link=5)) == []


def test_rows_come_when_connections_end_or_are_too_many() -> None:
    engine = ConnectionsEngine(EngineLimits(connections=1))
    for event in (ask(1), ask(2, connection=2)):
        feed_event(engine, event)
    assert [row.connection for row in engine.take()] == [1]
    feed_event(engine, closed(3, 2))
    assert [row.connection for row in engine.take()] == [2]
