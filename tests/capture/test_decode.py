"""Captures to rows, end to end: connections, protocols, tunnels, keys, several files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from wirelake.capture.decode.reference import TABLES, read_tables
from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import PcapngWriter
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tcp.connections import GRACE_NS
from wirelake.capture.tcp.headers import ipv4
from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.protocol import PROTOCOL as COMET_PROTOCOL
from wirelake.protocols.comet.sealing import ContentSealer
from wirelake.protocols.tny.layout import Message, RelayPacket, TunnelRelay
from wirelake.protocols.tny.protocol import RELAY as RELAY_PROTOCOL
from wirelake.records.schema import COMMON, schema
from wirelake.records.tunnels import tunnel_connection

from .frames_made import PROTOCOLS, frames, talk
from .tcp_made import ACK, FIN, RST, T0, Call, Made, write

PORTS = {"esnp": 9600, "tny": 9610, "relay": 9611, "magline": 9757, "comet": 9620}
ESNP = frames("esnp", "c2s")[0]
Rows = dict[str, list[dict[str, Any]]]


def decoded(*paths: Path, **options: Any) -> Rows:
    found: Rows = {table: [] for table in TABLES}
    for table, row in read_tables(paths, **{"tables": TABLES, **options}):
        found[table].append(row)
    return found


def said(call: Call, protocol: str) -> Call:
    for way, frame in talk(protocol):
        call.say(way, frame)
    return call


def kept(rows: Iterable[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


# -- the usual -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_connection(tmp_path: Path, protocol: str) -> None:
    call = said(Call(PORTS[protocol]).open(), protocol).close()
    rows = decoded(write(tmp_path / "a.pcap", call.packets))
    assert rows["faults"] == []
    frames_sent = [(way, len(frame)) for way, frame in talk(protocol)]
    outer = [row for row in rows["messages"] if row["tunnel_link"] is None]
    assert kept(outer, "direction", "size_bytes") == frames_sent
    assert {row["protocol"] for row in outer} == {protocol}
    (connection,) = {row["connection"] for row in outer}
    assert {row["connection"] for row in rows["packets"]} == {connection}
    assert len(rows["packets"]) == len(call.packets)
    assert kept(rows["coverage"], "direction", "connection") == [
        ("c2s", connection),
        ("s2c", connection),
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rows_have_the_columns_of_the_schemas(tmp_path: Path, protocol: str) -> None:
    call = said(Call(PORTS[protocol]).open(), protocol).say("c2s", b"\0\0?").close()
    rows = decoded(write(tmp_path / "a.pcap", call.packets))
    assert rows["faults"]
    for table in ("packets", "faults", "coverage"):
        for row in rows[table]:
            assert set(row) == set(schema(table).names)
    for row in rows["messages"]:
        assert set(row) == {*COMMON.names, row["protocol"]}


def test_times_and_places(tmp_path: Path) -> None:
    call = Call(9600).open()
    call.say("c2s", ESNP[:10])
    call.say("c2s", ESNP[10:] + ESNP)
    path = write(tmp_path / "a.pcap", call.packets)
    first, second = decoded(path)["messages"]
    times = [made.ts_ns for made in call.packets]
    assert (first["first_ns"], first["ts_ns"]) == (times[3], times[4])
    assert (second["first_ns"], second["ts_ns"]) == (times[4], times[4])
    data = path.read_bytes()
    assert data[first["offset"] :].startswith(ESNP[:10])
    assert data[second["offset"] :].startswith(ESNP)
    assert first["file"] == str(path)


def test_a_message_is_complete_when_its_last_packet_has_come(tmp_path: Path) -> None:
    call = Call(9600).open()
    call.packet("c2s", 40, ESNP[40:])
    call.packet("c2s", 0, ESNP[:20])
    late = call.packet("c2s", 20, ESNP[20:40])
    (row,) = decoded(write(tmp_path / "a.pcap", call.packets))["messages"]
    assert (row["first_ns"], row["ts_ns"]) == (late.ts_ns - 1_000_000, late.ts_ns)


def test_packets_that_are_no_segments_have_a_note(tmp_path: Path) -> None:
    udp = ipv4(bytes(4), bytes(4), bytes(8), protocol=17)
    rows = decoded(write(tmp_path / "a.pcap", [Made(T0, udp)]))
    (row,) = rows["packets"]
    assert (row["note"], row["connection"], row["src"]) == ("not_tcp", None, None)
    assert rows["coverage"] == []


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", said(Call(9600).open(), "esnp").say("c2s", b"?").packets)
    for table in ("messages", "packets", "coverage"):
        found = list(read_tables([path], tables=[table]))
        assert {name for name, _ in found} == {table}
        assert [row for _, row in found] == decoded(path)[table]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": ["mesages"]}, "expected one of messages, packets, faults, coverage, facts"),
        ({"force_protocol": "smtp"}, "unknown protocol"),
        ({"dialects": {"comet": "klingon"}}, "expected one of seed, hipush"),
        ({"connections": 0}, "at least 1 connection"),
    ],
)
def test_bad_arguments_raise_before_anything_is_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, LookupError), match=message):
        read_tables(["no such file"], **options)


# -- the end of streams ----------------------------------------------------------------------


def test_an_unfinished_frame_of_an_open_connection_is_ignored(tmp_path: Path) -> None:
    rows = decoded(write(tmp_path / "a.pcap", Call(9600).open().say("c2s", ESNP + b"\x10").packets))
    assert rows["faults"] == []
    assert kept(rows["coverage"], "direction", "decoded_bytes", "ignored_bytes") == [
        ("c2s", len(ESNP), 1),
        ("s2c", 0, 0),
    ]


@pytest.mark.parametrize("flags", [FIN | ACK, RST])
def test_an_unfinished_frame_of_an_ended_stream_is_a_fault(tmp_path: Path, flags: int) -> None:
    call = Call(9600).open().say("c2s", ESNP + b"\x10")
    call.packet("c2s", len(ESNP) + 1, flags=flags)
    (fault,) = decoded(write(tmp_path / "a.pcap", call.packets))["faults"]
    assert fault["code"] == "truncated_stream"
    assert (fault["stream_offset"], fault["present_bytes"]) == (len(ESNP), 1)
    assert fault["bytes"] == b"\x10"


def test_a_reset_by_the_other_end_closes_the_connection(tmp_path: Path) -> None:
    call = Call(9600).open().say("c2s", ESNP + b"\x10")
    call.packet("s2c", 0, flags=RST | ACK)
    rows = decoded(write(tmp_path / "a.pcap", call.packets))
    assert kept(rows["faults"], "code", "direction") == [("truncated_stream", "c2s")]


def test_a_stream_ends_when_its_connection_is_reopened(tmp_path: Path) -> None:
    first = Call(9600).open().say("c2s", ESNP + b"\x10")
    second = Call(9600, now_ns=first.now_ns, isn={"c2s": 90, "s2c": 91})
    second.open().say("c2s", ESNP).close()
    rows = decoded(write(tmp_path / "a.pcap", first.packets + second.packets))
    assert kept(rows["faults"], "code") == [("truncated_stream",)]
    assert len({row["connection"] for row in rows["messages"]}) == 2
    assert len(rows["coverage"]) == 4


def test_late_copies_belong_to_the_connection_that_is_over(tmp_path: Path) -> None:
    call = Call(9600).open().say("c2s", ESNP).close()
    call.packet("c2s", 0, ESNP)
    call.now_ns += GRACE_NS
    call.packet("c2s", 0, ESNP)
    rows = decoded(write(tmp_path / "a.pcap", call.packets))
    # The second copy comes after a minute: it begins a connection of its own.
    assert kept(rows["coverage"], "direction", "new_bytes", "duplicate_bytes") == [
        ("c2s", len(ESNP), len(ESNP)),
        ("s2c", 0, 0),
        ("c2s", len(ESNP), 0),
    ]


def test_an_evicted_connection_ends(tmp_path: Path) -> None:
    calls = [Call(9600, 50_000 + n).open().say("c2s", ESNP + b"\x10") for n in range(3)]
    packets = [packet for call in calls for packet in call.packets]
    rows = decoded(write(tmp_path / "a.pcap", packets), connections=2)
    assert kept(rows["faults"], "code") == [("truncated_stream",)]
    assert len(rows["messages"]) == 3


# -- gaps and conflicts ----------------------------------------------------------------------


def test_a_lost_segment(tmp_path: Path) -> None:
    call = Call(9600).open().say("c2s", ESNP).lose("c2s", 300).say("c2s", ESNP).close()
    rows = decoded(write(tmp_path / "a.pcap", call.packets))
    (fault,) = rows["faults"]
    assert kept([fault], "code", "stream_offset", "present_bytes", "missing_bytes") == [
        ("gap", len(ESNP), 0, 300),
    ]
    assert len(rows["messages"]) == 2
    assert rows["coverage"][0]["gap_bytes"] == 300


def test_a_capture_that_cuts_packets(tmp_path: Path) -> None:
    call = Call(9600).open()
    call.packet("c2s", 0, ESNP, captured=len(ESNP) - 5)
    call.packet("c2s", len(ESNP), ESNP)
    rows = decoded(write(tmp_path / "a.pcap", call.packets))
    assert kept(rows["faults"], "code", "present_bytes", "missing_bytes") == [
        ("gap", len(ESNP) - 5, 5),
    ]
    assert kept(rows["messages"], "size_bytes") == [(len(ESNP),)]


def test_two_copies_that_differ(tmp_path: Path) -> None:
    call = Call(9600).open()
    call.packet("c2s", 20, ESNP[20:])
    forged = call.packet("c2s", 22, b"?" + ESNP[23:])
    call.packet("c2s", 0, ESNP[:20])
    rows = decoded(write(tmp_path / "a.pcap", call.packets))
    (fault,) = rows["faults"]
    assert (fault["code"], fault["stream_offset"], fault["ts_ns"]) == ("conflict", 22, forged.ts_ns)
    assert fault["bytes"] == b"?" + ESNP[23:]
    assert fault["detail"] == "a second copy differs from the first, in bytes: 1"
    assert len(rows["messages"]) == 1
    assert rows["coverage"][0]["faulty_bytes"] == 0


# -- which protocol --------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sniffed(tmp_path: Path, protocol: str) -> None:
    call = said(Call(4_000).open(), protocol).close()
    path = write(tmp_path / "a.pcap", call.packets)
    by_name = decoded(path, force_protocol=protocol)
    sniffed = decoded(path)
    assert sorted(map(repr, sniffed["messages"])) == sorted(map(repr, by_name["messages"]))
    assert sniffed["coverage"] == by_name["coverage"]


def test_the_protocol_is_unknown(tmp_path: Path) -> None:
    call = Call(80).open().say("c2s", b"GET / HTTP/1.0\r\n\r\n").lose("s2c", 50)
    call.say("s2c", b"HTTP/1.0 200 OK\r\n\r\n").close()
    rows = decoded(write(tmp_path / "a.pcap", call.packets))
    assert rows["messages"] == rows["faults"] == []
    columns = ("protocol", "new_bytes", "ignored_bytes", "gap_bytes")
    assert kept(rows["coverage"], *columns) == [(None, 18, 18, 0), (None, 19, 19, 50)]


def test_what_waits_for_a_decision_is_bounded(tmp_path: Path) -> None:
    """A client that says little and a server that says much: the little has to do."""
    call = Call(4_000).open().say("c2s", frames("tny", "c2s")[0])
    for _ in range(12):
        call.say("s2c", frames("tny", "s2c")[0] * 1_000, size=60_000)
    path = write(tmp_path / "a.pcap", call.packets)
    order = [table for table, _ in read_tables([path], tables=["packets", "messages"])]
    assert order.count("messages") == 12_001
    # A frame that begins with `tn` may still be the head of a long one: that is not waited for.
    before = order[: order.index("messages")].count("packets")
    assert before < order.count("packets")


def test_sniffing_ends_at_a_gap(tmp_path: Path) -> None:
    """Its two sides do not make a frame."""
    frame = frames("tny", "c2s")[0]
    call = Call(4_000).open().say("c2s", frame[:20]).lose("c2s", 50).say("c2s", frame[20:])
    rows = decoded(write(tmp_path / "a.pcap", call.close().packets))
    assert kept(rows["coverage"], "protocol", "ignored_bytes") == [(None, len(frame)), (None, 0)]


# -- tunnels ---------------------------------------------------------------------------------


def test_a_message_of_a_tunnel_has_a_row_of_its_own(tmp_path: Path) -> None:
    inner = Message(id=300, protocol=2002, body=b"hello")
    packet = RelayPacket(
        id=1, arguments=TunnelRelay(instance_id=-1, tunnel_id=12_345, message=inner)
    )
    raw = RELAY_PROTOCOL.encode(packet)
    call = Call(9611).open().say("c2s", raw[:36]).say("c2s", raw[36:])
    path = write(tmp_path / "a.pcap", call.packets)
    outer, carried = decoded(path)["messages"]
    assert (outer["protocol"], outer["kind"], outer["tunnel_link"]) == ("relay", "relay", None)
    assert carried["connection"] == tunnel_connection(-1, 12_345)
    assert carried["tunnel_link"] == outer["connection"]
    assert kept([carried], "protocol", "kind", "message_id", "body", "direction") == [
        ("tny", "request", 300, b"hello", "c2s"),
    ]
    assert carried["size_bytes"] == len(raw) - 36
    assert path.read_bytes()[carried["offset"] :].startswith(raw[36:])
    assert carried["first_ns"] > outer["first_ns"]
    assert carried["ts_ns"] == outer["ts_ns"]


def test_dialects(tmp_path: Path) -> None:
    call = Call(9610).open().say("c2s", b"tny.\x01" * 3).close()
    path = write(tmp_path / "a.pcap", call.packets)
    assert decoded(path)["faults"]
    rows = decoded(path, dialects={"tny": "upstream"})
    assert rows["faults"] == []
    assert kept(rows["messages"], "name") == [("ping",)] * 3


# -- keys ------------------------------------------------------------------------------------

KEY = bytes([7]) * 32


def pushed(number: int, key: bytes = KEY) -> bytes:
    sealer = ContentSealer(key)
    sealer.counter = number
    content = sealer.seal(b"news", msg_type=1, msg_id="n", ts=0)
    message = comet.Notification(msg_type=1, msg_id="n", content=content, ts=0)
    return COMET_PROTOCOL.encode(message)


def keyed(connection: int) -> str:
    keys = {"protocol": "comet", "connection": connection, "content_key": KEY.hex()}
    return json.dumps(keys)


def test_a_message_that_does_not_open_with_its_key_is_a_fault(tmp_path: Path) -> None:
    broken = pushed(1)[:-9] + b"?" + pushed(1)[-8:]
    call = Call(9620).open().say("s2c", pushed(0) + broken + pushed(2))
    path = write(tmp_path / "a.pcap", call.packets)
    without = decoded(path)
    assert kept(without["messages"], "sealed", "body") == [(True, None)] * 3
    assert without["coverage"][1]["undecryptable_bytes"] == 3 * len(broken)
    log = tmp_path / "keys.jsonl"
    log.write_text(keyed(without["messages"][0]["connection"]))
    rows = decoded(path, keys=[log])
    assert kept(rows["messages"], "sealed", "body") == [(False, b"news")] * 2
    (fault,) = rows["faults"]
    assert (fault["code"], fault["stream_offset"]) == ("bad_record", len(broken))
    assert fault["bytes"] == broken
    assert rows["coverage"][1]["faulty_bytes"] == len(broken)


# -- recordings ------------------------------------------------------------------------------


def recording(folder: Path, *, rotate: bool) -> list[Path]:
    """A recorded connection with sealed pushes, in one file or in two."""
    recorder = Recorder(folder, source="edge", keys=True)
    recorder.open(7, ("10.0.0.9", 50_000), ("10.0.0.1", 9_620), "comet", T0)
    recorder.secrets(keyed(7), 7)
    recorder.record(7, "s2c", pushed(0), T0 + 1)
    paths = [recorder.rotate()] if rotate else []
    recorder.record(7, "s2c", pushed(1) + pushed(2), T0 + 2)
    recorder.fact("published", T0 + 3, 7, topic="@news")
    recorder.close(7, T0 + 4, "eof")
    last = recorder.stop()
    assert last is not None
    return [*paths, last]


@pytest.mark.parametrize("rotate", [False, True])
def test_a_recording(tmp_path: Path, rotate: bool) -> None:
    paths = recording(tmp_path, rotate=rotate)
    rows = decoded(*paths)
    assert rows["faults"] == []
    assert kept(rows["messages"], "connection", "direction", "body") == [(7, "s2c", b"news")] * 3
    assert kept(rows["messages"], "file") == [(str(paths[0]),), *[(str(paths[-1]),)] * 2]
    (published,) = [row for row in rows["facts"] if row["kind"] == "published"]
    assert kept([published], "connection", "ts_ns", "data") == [(7, T0 + 3, {"topic": "@news"})]
    assert kept(rows["coverage"], "file", "direction", "messages") == [
        (str(paths[0]), "c2s", 0),
        (str(paths[0]), "s2c", 3),
    ]


def test_secrets_that_are_none_are_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    out = io.BytesIO()
    writer = PcapngWriter(out)
    writer.interface(f.LINK_RAW)
    place = writer.secrets(f"{keyed(7)}\nno key\n")
    path.write_bytes(out.getvalue())
    (fault,) = decoded(path)["faults"]
    assert (fault["code"], fault["offset"], fault["present_bytes"]) == ("bad_fact", place, 0)
    assert fault["detail"].startswith("line 2 of the secrets: not JSON")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hello")
    (fault,) = decoded(path)["faults"]
    assert (fault["code"], fault["present_bytes"], fault["connection"]) == ("unknown_file", 5, None)


def test_a_file_that_is_not_there_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        decoded(tmp_path / "nowhere.pcap")
