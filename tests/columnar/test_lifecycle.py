"""When connections begin and end, as the pipeline tells it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from capture.tcp_made import ACK, FIN, RST, Call, Made, write
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
