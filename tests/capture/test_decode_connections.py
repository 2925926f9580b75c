"""Which connection a segment belongs to: *Connections* in docs/concepts/captures.md."""

from __future__ import annotations

import pytest

from wirelake.capture.format.items import Direction, Packet, Segment
from wirelake.capture.tcp.connections import (
    GRACE_NS,
    Assigned,
    ConnectionTable,
    Endpoint,
    connection_id,
)

from .tcp_made import ACK, FIN, RST, SYN

A = Endpoint(bytes((10, 0, 0, 9)), 50_000)
B = Endpoint(bytes((10, 0, 0, 1)), 7_300)


def segment(
    source: Endpoint,
    target: Endpoint,
    flags: int = ACK,
    *,
    seq: int = 1,
    ack: int = 1,
    ts_ns: int = 0,
    number: int | None = None,
    direction: Direction | None = None,
) -> Segment:
    packet = Packet(ts_ns, 0, 0, b"", 0, 0, 101, number, direction)
    return Segment(
        packet,
        source.address,
        target.address,
        source.port,
        target.port,
        seq,
        ack,
        flags,
        b"",
        0,
        0,
    )


def closed(table: ConnectionTable, *, ts_ns: int = 0) -> Assigned:
    """A connection with a FIN from both ends; the last segment's."""
    table.assign(segment(A, B, SYN, ts_ns=ts_ns))
    table.assign(segment(A, B, FIN | ACK, ts_ns=ts_ns))
    return table.assign(segment(B, A, FIN | ACK, ts_ns=ts_ns))


# -- ids -------------------------------------------------------------------------------------


def test_the_id_is_fnv_1a_over_both_ends_and_the_time() -> None:
    data = bytes((10, 0, 0, 9, 0xC3, 0x50, 10, 0, 0, 1, 0x1C, 0x84)) + (77).to_bytes(8, "big")
    value = 14_695_981_039_346_656_037
    for byte in data:
        value = (value ^ byte) * 1_099_511_628_211 % 2**64
    assert connection_id(A, B, 77) == value // 2
    table = ConnectionTable()
    assert table.assign(segment(A, B, SYN, ts_ns=77)).connection.id == value // 2


def test_a_time_before_1970_has_an_id_too() -> None:
    assert 0 < connection_id(A, B, -5) < 1 << 63


# -- who is the client -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "ports", "client"),
    [
        (segment(B, A, SYN), {7_300}, B),
        (segment(A, B, SYN | ACK), {7_300}, B),
        (segment(B, A), {7_300}, A),
        (segment(A, B), {50_000}, B),
        (segment(B, A), set(), A),
        (segment(B, A), {7_300, 50_000}, A),
        (segment(B, Endpoint(A.address, B.port)), {7_300}, B),
        (segment(B, A, direction="c2s", number=4), {7_300}, B),
    ],
    ids=[
        "sender of SYN",
        "not the sender of SYN-ACK",
        "port not in the map",
        "port not in the map, sender is server",
        "higher port",
        "higher port when both are in the map",
        "sender of the first packet",
        "the recorder's word",
    ],
)
def test_the_client(first: Segment, ports: set[int], client: Endpoint) -> None:
    assigned = ConnectionTable(ports).assign(first)
    assert assigned.connection.client == client
    from_client = (first.src, first.src_port) == client
    assert assigned.direction == ("c2s" if from_client else "s2c")


def test_directions_stay_as_they_began() -> None:
    table = ConnectionTable()
    assert table.assign(segment(B, A, SYN)).direction == "c2s"
    assert table.assign(segment(A, B)).direction == "s2c"
    assert len(table) == 1


# -- beginning anew --------------------------------------------------------------------------


def test_a_repeated_syn_begins_nothing() -> None:
    table = ConnectionTable()
    first = table.assign(segment(A, B, SYN, seq=100))
    again = table.assign(segment(A, B, SYN, seq=100))
    assert again.connection is first.connection
    assert again.dropped == []


def test_a_syn_with_another_number_begins_a_connection() -> None:
    table = ConnectionTable()
    first = table.assign(segment(A, B, SYN, seq=100, ts_ns=1))
    again = table.assign(segment(A, B, SYN, seq=101, ts_ns=2))
    assert again.dropped == []
    assert again.connection.id != first.connection.id
    confirmed = table.assign(segment(B, A, SYN | ACK, ack=102, ts_ns=3))
    assert confirmed.connection is again.connection
    assert confirmed.dropped == [first.connection]


def test_a_syn_is_confirmed_by_a_packet_that_fits() -> None:
    table = ConnectionTable()
    first = table.assign(segment(A, B, SYN, seq=1 << 30)).connection
    second = table.assign(segment(A, B, SYN, seq=77)).connection
    assert table.assign(segment(B, A, ACK, ack=(1 << 30) + 5)).connection is first
    assert table.assign(segment(A, B, ACK, seq=(1 << 30) + 1)).connection is first
    third = table.assign(segment(A, B, SYN, seq=99))
    assert third.dropped == [second]
    assert table.assign(segment(A, B, SYN, seq=99)).connection is third.connection
    assert table.assign(segment(B, A, ACK, ack=(1 << 30) + 5)).connection is first
    confirmed = table.assign(segment(A, B, ACK, seq=100))
    assert confirmed.connection is third.connection
    assert confirmed.dropped == [first]


def test_the_syn_of_a_syn_ack_that_came_first_begins_nothing() -> None:
    table = ConnectionTable()
    first = table.assign(segment(B, A, SYN | ACK, seq=5_000, ack=101))
    assert table.assign(segment(A, B, SYN, seq=100)).connection is first.connection


def test_after_the_close_only_a_syn_begins_a_connection() -> None:
    table = ConnectionTable()
    old = closed(table).connection
    assert old.over
    assert table.assign(segment(A, B, ACK, seq=9)).connection is old
    assert table.assign(segment(B, A, SYN | ACK, seq=9)).connection is old
    new = table.assign(segment(A, B, SYN, seq=1))
    assert new.dropped == [old]
    assert new.connection is not old


def test_after_a_reset_the_same_number_begins_a_connection() -> None:
    table = ConnectionTable()
    old = table.assign(segment(A, B, SYN, seq=1)).connection
    table.assign(segment(B, A, RST | ACK))
    assert table.assign(segment(A, B, SYN, seq=1)).dropped == [old]


def test_one_fin_is_no_end() -> None:
    table = ConnectionTable()
    old = table.assign(segment(A, B, SYN, seq=1)).connection
    table.assign(segment(A, B, FIN | ACK))
    table.assign(segment(A, B, FIN | ACK))
    assert not old.over


# -- bounds ----------------------------------------------------------------------------------


def test_a_connection_that_is_over_is_dropped_after_a_minute() -> None:
    table = ConnectionTable()
    old = closed(table, ts_ns=1_000).connection
    other = Endpoint(A.address, 50_001)
    assert table.assign(segment(other, B, ts_ns=999 + GRACE_NS)).dropped == []
    assert table.assign(segment(other, B, ts_ns=1_000 + GRACE_NS)).dropped == [old]
    assert table.assign(segment(A, B, ts_ns=1_001 + GRACE_NS)).connection is not old


def test_a_reopened_connection_is_not_dropped_with_the_old_one() -> None:
    table = ConnectionTable()
    closed(table)
    new = table.assign(segment(A, B, SYN, seq=2)).connection
    assert table.assign(segment(A, B, ts_ns=2 * GRACE_NS)).connection is new


def test_the_longest_idle_is_evicted() -> None:
    table = ConnectionTable(limit=2)
    ends = [Endpoint(A.address, 50_000 + n) for n in range(3)]
    first, second = (table.assign(segment(end, B)).connection for end in ends[:2])
    table.assign(segment(ends[0], B))
    assert table.assign(segment(ends[2], B)).dropped == [second]
    assert len(table) == 2
    assert table.finish()[0] is first
    assert len(table) == 0


def test_a_limit_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 connection"):
        ConnectionTable(limit=0)


# -- recordings ------------------------------------------------------------------------------


def test_a_recorder_knows_better() -> None:
    table = ConnectionTable()
    first = table.assign(segment(A, B, SYN, seq=1, number=7, direction="c2s"))
    other = table.assign(segment(A, B, SYN, seq=1, number=8, direction="c2s"))
    assert (first.connection.id, other.connection.id) == (7, 8)
    again = table.assign(segment(A, B, SYN, seq=999, number=7, direction="s2c"))
    assert again.connection is first.connection
    assert again.direction == "s2c"
    assert len(table) == 2
