"""Reassembly against a second opinion: what tshark follows in the same packets."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from wirelake.capture.format.items import Packet, Segment
from wirelake.capture.format.reader import read
from wirelake.capture.tcp.assembly import Data, StreamAssembler
from wirelake.capture.tcp.connections import ConnectionTable
from wirelake.capture.tcp.headers import segment

from .tcp_made import FIN, Call, Made, write

CONNECTIONS = 40
ISNS = (1_000, 0xFFFF_FFFF, 0xFFFF_FC00, 0x7FFF_FF00)


def shuffled(rng: random.Random, call: Call, stream: bytes) -> None:
    """Every byte of a stream: cut, repeated, overlapping, out of order, but never differing."""
    cuts = sorted(rng.sample(range(1, len(stream)), rng.randint(1, 30)))
    spans = list(zip([0, *cuts], [*cuts, len(stream)], strict=True))
    for _ in range(rng.randint(0, 12)):
        start = rng.randrange(len(stream) - 1)
        spans.append((start, min(len(stream), start + rng.randint(1, 400))))
    late = {span: number + rng.choice([0, 0, 0, 3, 8]) for number, span in enumerate(spans)}
    for start, stop in sorted(spans, key=late.__getitem__):
        call.packet("c2s", start, stream[start:stop])
    call.packet("c2s", len(stream), flags=FIN | 16)


def made() -> tuple[list[Made], list[bytes]]:
    rng = random.Random(4)
    packets, streams = [], []
    for number in range(CONNECTIONS):
        call = Call(7_300, 40_000 + number)
        call.isn["c2s"] = rng.choice(ISNS)
        stream = rng.randbytes(rng.randint(40, 4_000))
        shuffled(rng, call.open(), stream)
        packets += call.packets
        streams.append(stream)
    return packets, streams


def followed(path: Path) -> list[bytes]:
    """The client's bytes of every connection, as tshark has them."""
    wanted = [part for n in range(CONNECTIONS) for part in ("-z", f"follow,tcp,raw,{n}")]
    command = ["tshark", "-r", str(path), "-n", "-q", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sections = done.stdout.split("Follow: tcp,raw\n")[1:]
    found: dict[int, bytes] = {}
    for text in sections:
        head, _, rest = text.partition("Node 1:")
        body = rest.split("\n", 1)[1].split("=====", 1)[0]
        number = int(head.split("tcp.stream eq ")[1].split()[0])
        found[number] = b"".join(
            bytes.fromhex(line) for line in body.splitlines() if not line.startswith("\t")
        )
    return [found[number] for number in range(CONNECTIONS)]


def assembled(path: Path) -> list[bytes]:
    """The same, as we have them."""
    table = ConnectionTable()
    streams: dict[int, tuple[StreamAssembler, bytearray]] = {}
    for item in read(path):
        assert isinstance(item, Packet)
        found = segment(item)
        assert isinstance(found, Segment)
        assigned = table.assign(found)
        if assigned.direction == "s2c":
            continue
        number = assigned.connection.client.port - 40_000
        assembler, out = streams.setdefault(number, (StreamAssembler(), bytearray()))
        for event in assembler.feed(found.seq, found.payload, item.ts_ns, 0, found.flags):
            assert isinstance(event, Data)
            out += event.payload
    assert all(assembler.finished for assembler, _ in streams.values())
    return [bytes(streams[number][1]) for number in range(CONNECTIONS)]


def test_tshark_follows_the_same_bytes(tmp_path: Path) -> None:
    packets, streams = made()
    path = write(tmp_path / "shuffled.pcap", packets)
    ours = assembled(path)
    assert ours == streams
    assert ours == followed(path)
