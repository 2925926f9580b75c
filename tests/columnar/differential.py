"""The two readers of captures side by side: `wirelake.capture` and `wirelake.columnar`.

`differences` reads files with both and compares every row of every table, faults included. It keeps
one bounded stretch of the file in memory at a time, so it can be run on large captures, too.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.corpus import corpus

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.tcp import headers as make
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.protocols import registry
from wirelake.records.schema import schema

TABLES = ("messages", "packets", "faults", "coverage")
PROTOCOLS = ("comet", "tny", "relay", "magline", "esnp")
VECTORS = Path(__file__).parents[1] / "vectors"
_CHUNK = 4096
_PAYLOAD = 30_000
"""Bytes of a packet, at most."""


# -- comparing -------------------------------------------------------------------------------


def differences(paths: Sequence[str], **options: Any) -> list[str]:
    """What the two readers disagree about; a few examples for each table."""
    wanted, given = Counter[str](), Counter[str]()
    for table, text in _reference(paths, options):
        wanted[table + text] += 1
        _cancel(wanted, given, table + text)
    for table, text in _columnar(paths, options):
        given[table + text] += 1
        _cancel(wanted, given, table + text)
    missing = [f"only the reference: {text}" for text in wanted.elements()]
    surplus = [f"only the kernels:   {text}" for text in given.elements()]
    return missing[:5] + surplus[:5]


def _cancel(wanted: Counter[str], given: Counter[str], text: str) -> None:
    """Forgets a row that both have."""
    both = min(wanted[text], given[text])
    for counter in (wanted, given):
        counter[text] -= both
        if not counter[text]:
            del counter[text]


def _reference(paths: Sequence[str], options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    held: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for table, row in read_tables(paths, tables=TABLES, **options):
        key = table, row["protocol"] if table == "messages" else ""
        rows = held.setdefault(key, [])
        rows.append(row)
        if len(rows) == _CHUNK:
            yield from _texts(*key, held.pop(key))
    for (table, protocol), rows in held.items():
        yield from _texts(table, protocol, rows)


def _texts(table: str, protocol: str, rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Rows as the table would show them: through the types of its columns."""
    columns = schema(table, [protocol] if protocol else [])
    for row in pa.RecordBatch.from_pylist(rows, schema=columns).to_pylist():
        yield table, repr(row)


def _columnar(paths: Sequence[str], options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for table, batch in CapturePipeline(paths, tables=TABLES, **options).batches():
        assert isinstance(batch, pa.RecordBatch)
        batch.validate(full=True)
        for row in batch.to_pylist():
            yield table, repr(row)


# -- messages --------------------------------------------------------------------------------


def messages(name: str, count: int, seed: int) -> Iterator[tuple[int, bytes]]:
    """(direction, bytes): all vectors of a protocol, then good messages and spoilt ones."""
    rng = random.Random(f"{name} {seed}")
    known = [(way, data) for data in _vectors(name) for way in (0, 1)]
    good = [(int(each.direction == "s2c"), each.data) for each in corpus(name).samples]
    yield from known
    for number in range(count - len(known)):
        way, data = rng.choice(good if number % 3 else known)
        if number % 4 == 0:
            data = spoilt(rng, data)
        yield (way if registry.find(name).directed else rng.randrange(2)), data


def _vectors(name: str) -> list[bytes]:
    """The bytes of all test vectors of a protocol; those of tny hold relay packets as well."""
    file = VECTORS / f"{'tny' if name == 'relay' else name}.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [data for line in lines if (data := bytes.fromhex(line["hex"])) and len(data) < 60_000]


def spoilt(rng: random.Random, data: bytes) -> bytes:
    """A message with a few bytes changed, lost or added."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0 if changed:
                del changed[at : at + rng.choice([1, 1, 2, 8])]
            case 1:
                changed[at:at] = rng.randbytes(rng.choice([1, 1, 2, 8]))
            case _ if changed:
                byte = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
                changed[min(at, len(changed) - 1)] = byte
            case _:
                pass
    return bytes(changed)


def write_capture(path: Path, name: str, count: int, seed: int, port: int | None = None) -> None:
    """A capture in which connections carry these messages, a few in each packet."""
    rng = random.Random(f"capture {name} {seed}")
    port = registry.find(name).port if port is None else port
    assert port is not None
    with path.open("wb") as out:
        writer = PcapWriter(out, link=f.LINK_RAW)
        now = 1_767_225_600_000_000_000
        talk: _Talk | None = None
        pending = [b"", b""]
        for number, (way, data) in enumerate(messages(name, count, seed)):
            if talk is None or rng.random() < 0.02:
                talk = _Talk(number, port)
                pending = [b"", b""]
            pending[way] += data
            if rng.random() < 0.85:
                now += rng.randrange(1_000_000)
                for start in range(0, len(pending[way]), _PAYLOAD):
                    part = pending[way][start : start + _PAYLOAD]
                    writer.packet(now, talk.segment(way, part))
                pending[way] = b""


def write_connection(path: Path, port: int, frames: Sequence[tuple[int, bytes]]) -> None:
    """A capture of one connection, with each (direction, frame) in a packet."""
    talk = _Talk(0, port)
    with path.open("wb") as out:
        writer = PcapWriter(out, link=f.LINK_RAW)
        for number, (way, data) in enumerate(frames):
            writer.packet(1_767_225_600_000_000_000 + number, talk.segment(way, data))


class _Talk:
    """A connection without handshake."""

    def __init__(self, number: int, port: int):
        self.client = bytes([10]) + number.to_bytes(3, "big"), 40_000 + number % 20_000
        self.server = bytes([10, 255, 255, 1]), port
        self.seq = [1000, 2000]

    def segment(self, way: int, payload: bytes) -> bytes:
        ends = (self.client, self.server) if way == 0 else (self.server, self.client)
        (src, src_port), (dst, dst_port) = ends
        segment = make.tcp(
            src_port, dst_port, seq=self.seq[way], ack=self.seq[1 - way], payload=payload
        )
        self.seq[way] += len(payload)
        return make.ip(src, dst, segment)
