"""When connections begin and end, as the pipeline tells it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from capture.tcp_made import ACK, FIN, RST, SYN, Call, Made, write
from wirelake.capture.decode.reference import read_tables
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.records.rows import Closed, Opened, in_order

PORT = 9620
CLIENT6 = bytes.fromhex("20010db8000000000000000000000001")
SERVER6 = bytes.fromhex("20010db8000100020003000400050006")


def events(path: Path, packets: Iterable[Made], window_bytes: int) -> list[Opened | Closed]:
    """What the pipeline says of connections, in its order."""
    write(path, packets)
    found: list[Opened | Closed] = []
    pipeline = CapturePipeline([path], tables=("connections",), window_bytes=window_bytes)
    for table, lifecycle_events in pipeline.batches():
        if table == "connections":
            assert isinstance(lifecycle_events, list)
            found += lifecycle_events
    return found


def lifecycle_events(path: Path, packets: list[Made]) -> list[Opened | Closed]:
    """The same, whatever the window size, and as the reference reader reports it."""
    whole = events(path, packets, 1 << 20)
    assert events(path, packets, 100) == whole
    reference = [row["event"] for _, row in read_tables([path], tables=["lifecycle"])]
    assert in_order(reference) == in_order(whole)
    return whole


def ends(opened: Opened | Closed) -> tuple[str | int | None, ...]:
    assert isinstance(opened, Opened)
    return (
        opened.client_address,
        opened.client_port,
        opened.server_address,
        opened.server_port,
    )


def test_a_connection_with_both_ends(tmp_path: Path) -> None:
    call = Call(PORT).open().say("c2s", b"x").close()
    opened, closed = lifecycle_events(tmp_path / "a.pcap", call.packets)
    assert ends(opened) == ("10.0.0.9", 50_000, "10.0.0.1", PORT)
    assert isinstance(opened, Opened)
    assert opened.whole
    assert opened.ts_ns == call.packets[0].ts_ns
    assert closed == Closed(call.packets[-1].ts_ns, opened.connection, "c2s", "fin")


def test_ipv6(tmp_path: Path) -> None:
    call = Call(PORT, client=CLIENT6, server=SERVER6).open()
    (opened,) = lifecycle_events(tmp_path / "a.pcap", call.packets)
    assert ends(opened) == ("2001:db8::1", 50_000, "2001:db8:1:2:3:4:5:6", PORT)


def test_the_server_is_seen_first(tmp_path: Path) -> None:
    call = Call(PORT).say("s2c", b"x")
    (opened,) = lifecycle_events(tmp_path / "a.pcap", call.packets)
    assert ends(opened) == ("10.0.0.9", 50_000, "10.0.0.1", PORT)
    assert isinstance(opened, Opened)
    assert not opened.whole


def test_a_reset_ends_it_once(tmp_path: Path) -> None:
    call = Call(PORT).open()
    reset = call.packet("s2c", 0, flags=RST | ACK)
    call.packet("c2s", 0, flags=FIN | ACK)
    opened, closed = lifecycle_events(tmp_path / "a.pcap", call.packets)
    assert closed == Closed(reset.ts_ns, opened.connection, "s2c", "rst")


def test_one_fin_is_no_end(tmp_path: Path) -> None:
    call = Call(PORT).open()
    call.packet("s2c", 0, flags=FIN | ACK)
    call.packet("s2c", 0, flags=FIN | ACK)
    assert len(lifecycle_events(tmp_path / "a.pcap", call.packets)) == 1


def test_a_first_packet_may_be_the_last(tmp_path: Path) -> None:
    call = Call(PORT)
    call.packet("c2s", 0, flags=RST)
    opened, closed = lifecycle_events(tmp_path / "a.pcap", call.packets)
    assert isinstance(opened, Opened)
    assert closed == Closed(opened.ts_ns, opened.connection, "c2s", "rst")


def test_the_same_addresses_are_reused(tmp_path: Path) -> None:
    first = Call(PORT).open().say("c2s", b"x")
    second = Call(PORT, isn={"c2s": 900_000, "s2c": 800_000}, now_ns=first.now_ns).open()
    path = tmp_path / "a.pcap"
    found = lifecycle_events(path, [*first.packets, *second.packets])
    opened = [each for each in found if isinstance(each, Opened)]
    closed = [each for each in found if isinstance(each, Closed)]
    assert [each.ts_ns for each in opened] == [first.packets[0].ts_ns, second.packets[0].ts_ns]
    assert [(each.connection, each.side, each.how) for each in closed] == [
        (opened[0].connection, None, "anew")
    ]


def test_one_end_may_have_closed_before_the_addresses_are_reused(tmp_path: Path) -> None:
    first = Call(PORT).open().say("c2s", b"x")
    first.packet("c2s", 0, flags=FIN | ACK)
    last = first.packet("s2c", 0, flags=ACK)
    second = Call(PORT, isn={"c2s": 900_000, "s2c": 800_000}, now_ns=first.now_ns).open()
    found = lifecycle_events(tmp_path / "a.pcap", [*first.packets, *second.packets])
    closed = [each for each in found if isinstance(each, Closed)]
    assert closed == [Closed(last.ts_ns, found[0].connection, None, "anew")]


def _again(first: Call) -> Call:
    return Call(PORT, isn={"c2s": 900_000_000, "s2c": 800_000_000}, now_ns=first.now_ns)


def test_packets_of_a_connection_whose_port_is_used_again_still_belong_to_it(
    tmp_path: Path,
) -> None:
    first = Call(PORT).open().say("c2s", b"x")
    second = _again(first)
    second.packet("c2s", 0, flags=SYN)
    first.now_ns = second.now_ns
    late = first.packet("s2c", 0, b"answer")
    second.now_ns = first.now_ns
    second.packet("s2c", 0, flags=SYN | ACK)
    packets = sorted([*first.packets, *second.packets], key=lambda made: made.ts_ns)
    found = lifecycle_events(tmp_path / "a.pcap", packets)
    old, closed, new = found[0], *(each for each in found[1:] if isinstance(each, Closed)), found[1]
    assert closed == Closed(late.ts_ns, old.connection, None, "anew")
    assert isinstance(new, Opened)
    rows = [row for _, row in read_tables([tmp_path / "a.pcap"], tables=["packets"])]
    assert [row["connection"] == old.connection for row in rows] == [
        *([True] * 4),
        *(False, True, False),
    ]


def test_a_syn_that_nobody_answers_ends_nothing(tmp_path: Path) -> None:
    first = Call(PORT).open().say("c2s", b"x")
    second = _again(first)
    second.packet("c2s", 0, flags=SYN)
    first.now_ns = second.now_ns
    first.say("s2c", b"y").close()
    packets = sorted([*first.packets, *second.packets], key=lambda made: made.ts_ns)
    found = lifecycle_events(tmp_path / "a.pcap", packets)
    closed = [each for each in found if isinstance(each, Closed)]
    assert closed == [Closed(packets[-1].ts_ns, found[0].connection, "c2s", "fin")]


def test_connections_of_one_time_have_ids_of_their_own(tmp_path: Path) -> None:
    packets: list[Made] = []
    for number in range(4):
        call = Call(PORT, isn={"c2s": number << 28, "s2c": number << 28}).open()
        packets += (call.close() if number % 2 else call).packets
    for each in packets:
        each.ts_ns = 0  # as in simple packet blocks
    path = tmp_path / "a.pcap"
    found = [events(path, packets, window_bytes) for window_bytes in (1 << 20, 100)]
    found.append([row["event"] for _, row in read_tables([path], tables=["lifecycle"])])
    opened = [[each.connection for each in e if isinstance(each, Opened)] for e in found]
    assert len(set(opened[0])) == 4
    assert opened == [opened[0]] * 3


def test_bytes_after_a_reset_of_the_other_direction_are_ignored(tmp_path: Path) -> None:
    call = Call(PORT).open().say("s2c", b"before")
    call.packet("c2s", 0, flags=RST | ACK)
    call.say("s2c", b"after")
    path = write(tmp_path / "a.pcap", call.packets)
    for window_bytes in (1 << 20, 100):
        pipeline = CapturePipeline([path], tables=("coverage",), window_bytes=window_bytes)
        rows = [row for _, batch in pipeline.batches() for row in batch.to_pylist()]
        assert rows == [row for _, row in read_tables([path], tables=["coverage"])]
        [server] = [row for row in rows if row["direction"] == "s2c"]
        assert (server["new_bytes"], server["payload_bytes"]) == (11, 11)
        assert server["ignored_bytes"] >= 5
