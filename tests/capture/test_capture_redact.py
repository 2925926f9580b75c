"""Redacted copies: nothing secret is left, and everything else is where it was."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format import constants as f
from wirelake.capture.format.items import Element, Fact, FileFault, Packet, Secrets, Segment
from wirelake.capture.format.reader import elements, read
from wirelake.capture.format.writer import PcapngWriter, PcapWriter
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tcp.headers import SYN, ethernet, ipv4, ipv6, segment, tcp
from wirelake.capture.tools.redact import Pseudonyms, Redaction, redact
from wirelake.protocols import registry
from wirelake.protocols.comet.layout import Auth, ExchangeKey, Heartbeat, MessageList, Notification

from . import tshark
from .small_captures import CLIENT, SERVER, T0
from .tcp_made import cooked
from .test_capture_corruption import corrupted

COMET = registry.find("comet")
PORT = COMET.port or 0
AUTH = COMET.encode(Auth(client_id="c01000010000abcd", token="tell-nobody"))
KEY = COMET.encode(ExchangeKey(secret_key=b"very-secret-key!" * 16))
BEAT = COMET.encode(Heartbeat())


def _payloads(path: Path) -> list[bytes]:
    found = [segment(item) for item in read(path) if isinstance(item, Packet)]
    return [item.payload for item in found if isinstance(item, Segment) and item.payload]


def _recording(folder: Path, **options: bool) -> tuple[Recorder, Path]:
    recorder = Recorder(folder, source="edge", sequence=0, **options)
    recorder.open(1, ("10.0.0.9", 51_000), ("10.0.0.1", PORT), "comet", T0)
    return recorder, folder / "edge-00000000.pcapng"


def test_secret_fields_become_zeros(tmp_path: Path) -> None:
    recorder, path = _recording(tmp_path)
    recorder.record(1, "c2s", AUTH + KEY + BEAT, T0)
    recorder.stop()
    out = tmp_path / "out.pcapng"
    result = redact(path, out)
    masked = COMET.encode(Auth(client_id="c01000010000abcd", token="\0" * 11))
    blank = COMET.encode(ExchangeKey(secret_key=bytes(256)))
    assert _payloads(out) == [masked + blank + BEAT]
    size = len(AUTH + KEY + BEAT)
    assert result == Redaction(
        packets=3, payload_bytes=size, shown_bytes=size, frames=3, masked_frames=2
    )
    assert out.stat().st_size == path.stat().st_size


def test_nothing_moves(tmp_path: Path) -> None:
    recorder, path = _recording(tmp_path)
    recorder.record(1, "c2s", AUTH, T0 + 1)
    recorder.fact("published", T0 + 2, 1, topic="news")
    recorder.close(1, T0 + 3, "eof")
    recorder.stop()
    out = tmp_path / "out.pcapng"
    redact(path, out)

    def outline(found: Iterator[Element]) -> list[object]:
        return [
            (e.ts_ns, e.offset, e.data_offset, len(e.data), e.original, e.connection, e.direction)
            if isinstance(e, Packet)
            else e
            for e in found
        ]

    assert outline(elements(out)) == outline(elements(path))
    before = [row for _, row in read_tables([path], tables=["messages"])]
    after = [row for _, row in read_tables([out], tables=["messages"])]
    assert [{**row, "file": ""} for row in after] == [{**row, "file": ""} for row in before]
    assert tshark.complaints(out) == []


def test_frames_over_several_packets_out_of_order(tmp_path: Path) -> None:
    path, out = tmp_path / "a.pcap", tmp_path / "out.pcap"
    stream = AUTH + KEY + BEAT * 5
    cuts = [0, 1, 20, 33, 34, 200, len(stream)]
    pieces = list(itertools.pairwise(cuts))
    with path.open("wb") as file:
        writer = PcapWriter(file, link=f.LINK_ETHERNET)
        writer.packet(T0, ethernet(ipv4(CLIENT, SERVER, tcp(51_000, PORT, seq=99, flags=SYN))))
        for start, stop in [*pieces[::-1], pieces[2]]:
            data = tcp(51_000, PORT, seq=100 + start, payload=stream[start:stop])
            writer.packet(T0, ethernet(ipv4(CLIENT, SERVER, data), padded=True))
    result = redact(path, out)
    assert result.frames == 7
    assert result.payload_bytes - result.shown_bytes == pieces[2][1] - pieces[2][0]
    assert out.stat().st_size == path.stat().st_size
    text = out.read_bytes()
    assert b"tell" not in text
    assert b"very" not in text
    assert b"\xaa" not in text
    rows = list(read_tables([out], tables=["messages", "faults"]))
    names = [row["name"] for table, row in rows if table == "messages"]
    assert names == ["auth", "exchange_key", *["heartbeat"] * 5]
    assert [row["code"] for table, row in rows if table == "faults"] == ["conflict"]


def test_what_does_not_decode_becomes_zeros(tmp_path: Path) -> None:
    recorder, path = _recording(tmp_path)
    recorder.record(1, "c2s", b"\xff" * 50 + b"a password", T0)
    recorder.open(2, ("10.0.0.9", 51_001), ("10.0.0.1", 1), None, T0)
    recorder.record(2, "c2s", b"another password", T0)
    recorder.stop()
    out = tmp_path / "out.pcapng"
    result = redact(path, out)
    assert b"password" not in out.read_bytes()
    assert [len(payload) for payload in _payloads(out)] == [60, 16]
    assert (result.frames, result.shown_bytes) == (0, 0)


def test_packets_that_are_no_segments_become_zeros(tmp_path: Path) -> None:
    path, out = tmp_path / "a.pcap", tmp_path / "out.pcap"
    with path.open("wb") as file:
        writer = PcapWriter(file, link=f.LINK_ETHERNET)
        at = writer.packet(T0, ethernet(ipv4(CLIENT, SERVER, b"who is x?" * 3, protocol=17)))
    redact(path, out)
    (packet,) = read(out)
    assert isinstance(packet, Packet)
    assert (packet.offset, packet.data) == (at, bytes(61))


def test_keys_and_unknown_blocks_are_emptied(tmp_path: Path) -> None:
    path, out = tmp_path / "a.pcapng", tmp_path / "out.pcapng"
    with path.open("wb") as file:
        writer = PcapngWriter(file, options=[(1, b"a secret comment"), (4, b"secret tool")])
        writer.interface(f.LINK_RAW, options=[(2, b"secret0")])
        writer.secrets("a secret line\n")
        writer.secrets("CLIENT_RANDOM secret", kind=0x544C534B)
        writer.custom(b"secret..", pen=5)
        writer.block(4, b"secret names")
        data = ipv4(CLIENT, SERVER, tcp(51_000, PORT, payload=AUTH))
        writer.packet(T0, data, options=[(1, b"secret"), *writer.marks(7, "c2s"), (3, b"\2secret")])
        writer.custom(b"WHF1 secret, but no fact")
        writer.fact("seen", T0)
        writer.block(5, b"secret statistics...")
    redact(path, out)
    assert b"secret" not in out.read_bytes()
    assert out.stat().st_size == path.stat().st_size
    packet, fact = read(out)
    assert isinstance(packet, Packet)
    assert (packet.connection, packet.direction) == (7, "c2s")
    assert isinstance(fact, Fact)
    assert tshark.fields(out, "tcp.dstport", "frame.number")[0][0] == str(PORT)


def test_places_that_would_not_read(tmp_path: Path) -> None:
    for make in (_broken_pcap, _broken_pcapng):
        path, out = tmp_path / f"{make.__name__}.in", tmp_path / f"{make.__name__}.out"
        path.write_bytes(make())
        result = redact(path, out)
        assert b"secret" not in out.read_bytes()
        assert result.emptied_bytes >= 64
        before = [item.offset for item in read(path) if isinstance(item, Packet)]
        assert [item.offset for item in read(out) if isinstance(item, Packet)] == before
        assert len(before) == 4


def _broken_pcap() -> bytes:
    out = io.BytesIO()
    writer = PcapWriter(out, link=f.LINK_RAW)
    data = ipv4(CLIENT, SERVER, tcp(51_000, PORT, payload=BEAT))
    writer.packet(T0, data)
    writer.packet(T0, data)
    out.write(b"\xff" * 16 + b"secret, " * 6)
    writer.packet(T0, data)
    writer.packet(T0, data)
    writer.packet(T0, b"secret" * 50)
    return out.getvalue()[:-4]


def _broken_pcapng() -> bytes:
    out = io.BytesIO()
    writer = PcapngWriter(out)
    writer.interface(f.LINK_RAW)
    data = ipv4(CLIENT, SERVER, tcp(51_000, PORT, payload=BEAT))
    writer.packet(T0, data)
    writer.packet(T0, data)
    writer.raw(b"\xff" * 16 + b"secret, " * 6)
    writer.packet(T0, data)
    writer.block(f.BLOCK_EPB, struct.pack("<5I", 9, 0, 0, 8, 8) + b"secret..")
    writer.packet(T0, data)
    writer.packet(T0, b"secret" * 50)
    return out.getvalue()[:-4]


@pytest.mark.parametrize("size", [4, 8, 12, 16])
def test_damage_of_any_size_between_blocks(tmp_path: Path, size: int) -> None:
    """Also where there is no room for a block."""
    path, out = tmp_path / "a.pcapng", tmp_path / "out.pcapng"
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        writer.interface(f.LINK_RAW)
        data = ipv4(CLIENT, SERVER, tcp(51_000, PORT, payload=BEAT))
        for between in (b"secret".ljust(size, b"!")[:size], b""):
            writer.packet(T0, data)
            writer.packet(T0, data)
            writer.raw(between)
    redact(path, out)
    assert b"secr" not in out.read_bytes()
    places = [[each.offset for each in read(of) if isinstance(each, Packet)] for of in (path, out)]
    assert places[0] == places[1]
    assert len(places[0]) == 4


def test_hosts_get_pseudonyms(tmp_path: Path) -> None:
    recorder, path = _recording(tmp_path)
    recorder.record(1, "c2s", AUTH, T0)
    recorder.stop()
    outs = [tmp_path / name for name in ("one", "two", "three")]
    for out, seed in zip(outs, ["a", "a", "b"], strict=True):
        redact(path, out, addresses=seed)
        assert out.stat().st_size == path.stat().st_size
        assert b"10.0.0" not in out.read_bytes()
        assert bytes([10, 0, 0]) not in out.read_bytes()
    one, two, three = [out.read_bytes() for out in outs]
    assert one == two
    assert one != three
    facts = [item for item in read(outs[0]) if isinstance(item, Fact)]
    assert facts[0].data == {"client_port": 51_000, "server_port": PORT, "protocol": "comet"}
    addresses = {tuple(row) for row in tshark.fields(outs[0], "ip.src", "ip.dst")}
    assert len(addresses) == 2


@pytest.mark.parametrize("frame", [ethernet, cooked])
def test_hosts_in_other_headers(tmp_path: Path, frame: object) -> None:
    path, out = tmp_path / "a.pcap", tmp_path / "out.pcap"
    host = b"\xca\xfe\xba\xbe"
    route = b"\x02\0\1" + bytes(4) + host * 4
    link = f.LINK_ETHERNET if frame is ethernet else f.LINK_COOKED
    wrap = ethernet if frame is ethernet else cooked
    inner = tcp(51_000, PORT, payload=BEAT)
    with path.open("wb") as file:
        writer = PcapWriter(file, link=link)
        four = wrap(ipv4(host, host, inner, options=b"\x07\x07\x08" + host + b"\0"))
        six = wrap(ipv6(host * 4, host * 4, inner, extensions=[(43, route)]))
        for data in (four, six):
            writer.packet(T0, data)
    redact(path, out, addresses="seed")
    text = out.read_bytes()
    assert host not in text
    assert _payloads(out) == [BEAT, BEAT]


def test_content_is_masked_on_request(tmp_path: Path) -> None:
    recorder, path = _recording(tmp_path)
    note = Notification(msg_type=1, msg_id="m1", content=b"see you at six", ts=5)
    blank = Notification(msg_type=1, msg_id="m1", content=bytes(14), ts=5)
    frames = COMET.encode(note) + COMET.encode(MessageList(messages=(note, note)))
    recorder.record(1, "s2c", frames, T0)
    recorder.stop()
    redact(path, tmp_path / "shown")
    assert _payloads(tmp_path / "shown") == [frames]
    redact(path, tmp_path / "hidden", content=True)
    hidden = COMET.encode(blank) + COMET.encode(MessageList(messages=(blank, blank)))
    assert _payloads(tmp_path / "hidden") == [hidden]


def test_a_compressed_capture_has_a_plain_copy(tmp_path: Path) -> None:
    recorder, path = _recording(tmp_path)
    recorder.record(1, "c2s", AUTH, T0)
    recorder.stop()
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    redact(path, tmp_path / "one")
    redact(packed, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_misuse(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"rubbish")
    with pytest.raises(ValueError, match="not a capture file"):
        redact(path, tmp_path / "out")
    with pytest.raises(FileExistsError):
        redact(path, path)
    with pytest.raises(FileNotFoundError):
        redact(tmp_path / "no", tmp_path / "out")
    assert os.listdir(tmp_path) == ["a"]


@settings(max_examples=60)
@given(corrupted())
def test_a_redacted_file_has_the_same_packets(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path, out = folder / "corrupted", folder / "redacted"
    out.unlink(missing_ok=True)
    path.write_bytes(data)
    try:
        redact(path, out, addresses="seed")
    except ValueError:
        assert isinstance(next(iter(read(path))), FileFault)
        return
    before = [item for item in read(path) if isinstance(item, Packet)]
    after = [item for item in read(out) if isinstance(item, Packet)]
    assert [(p.offset, p.ts_ns, len(p.data)) for p in after] == [
        (p.offset, p.ts_ns, len(p.data)) for p in before
    ]
    assert not [item for item in read(out) if isinstance(item, Secrets)]


def test_pseudonyms_keep_networks() -> None:
    names = Pseudonyms("seed")
    one, two, far = (
        names(bytes([10, 1, 2, 3])),
        names(bytes([10, 1, 2, 4])),
        names(bytes([10, 9, 2, 3])),
    )
    assert one != bytes([10, 1, 2, 3])
    assert one[:3] == two[:3]
    assert one[:1] == far[:1]
    assert one[:2] != far[:2]
    assert names(bytes(10) + b"\xff\xff" + bytes([10, 1, 2, 3])) == bytes(10) + b"\xff\xff" + one


@given(st.binary(min_size=4, max_size=4), st.binary(min_size=4, max_size=4))
def test_pseudonyms_keep_exactly_the_shared_prefix(one: bytes, two: bytes) -> None:
    names = Pseudonyms("seed")

    def shared(a: bytes, b: bytes) -> int:
        return 32 - (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_length()

    assert shared(names(one), names(two)) == shared(one, two)


def test_the_protocol_in_a_recording_is_used(tmp_path: Path) -> None:
    """Where it says that something else is spoken than the bytes look like, nothing is shown."""
    recorder = Recorder(tmp_path, source="edge", sequence=0)
    for number, (port, protocol) in enumerate(
        [(4_444, "comet"), (4_444, "klingon"), (PORT, "esnp")]
    ):
        recorder.open(1 + number, ("10.0.0.9", 51_000 + number), ("10.0.0.1", port), protocol, T0)
        recorder.record(1 + number, "c2s", AUTH, T0)
    recorder.stop()
    out = tmp_path / "out.pcapng"
    redact(tmp_path / "edge-00000000.pcapng", out)
    masked = COMET.encode(Auth(client_id="c01000010000abcd", token="\0" * 11))
    assert _payloads(out) == [masked, bytes(len(AUTH)), bytes(len(AUTH))]
