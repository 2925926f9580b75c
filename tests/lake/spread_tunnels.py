"""Tunnels whose links are recorded by several sources, arriving in steps.

Their clocks are right, but for one packet of another year when that is asked for.
"""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from os import utime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from tests.columnar.differential import _Talk
from tests.columnar.oracle import window_events
from tests.columnar.reorder_buffer import ReorderBuffer
from tests.lake.cut_captures import _opened
from tests.lake.lakes import counted, differing, rows
from tests.lake.local_engine import run_here
from tests.lake.tunnel_captures import write_tunnels
from tests.records.row_batches import batch_from_rows

from wirelake.capture.format.constants import LINK_RAW
from wirelake.capture.format.writer import PcapWriter
from wirelake.columnar.read.reader import ReadOptions, open_pipeline
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny.protocol import RELAY as RELAY_PROTOCOL
from wirelake.records import ENGINES
from wirelake.records.engine import feed_event
from wirelake.records.rows import Event, in_order
from wirelake.records.schema import schema
from wirelake.tables.log import Log

__all__ = ["SLOT_S", "Slot", "advanced", "slots_of", "step", "unlike_engines_in_time", "wild"]

SLOT_S = 0.8
"""How much of the traffic is in a file."""
_START_NS = 1_767_225_600_000_000_000
_SLOT_NS = int(SLOT_S * 1e9)
_HEAD_BYTES = 24


class Slot(NamedTuple):
    """A file to be, of which each source has one for each stretch of time."""

    source: str
    number: int
    data: bytes

    def arrive(self, folder: Path, mtime_ns: int | None = None) -> None:
        """Writes it; by default it was written as soon as its last packet was there."""
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.source}-{self.number:08d}.pcap"
        path.write_bytes(self.data)
        then = _START_NS + (self.number + 1) * _SLOT_NS if mtime_ns is None else mtime_ns
        utime(path, ns=(then, then))


def slots_of(folder: Path, rng: random.Random, wild_ns: int | None = None) -> dict[str, list[Slot]]:
    """The files of three sources, among which links are dealt. Their times are equally long.

    With `wild_ns` the first file of the first source ends with a packet of that time.
    """
    write_tunnels(folder / "relay.pcap", rng, notifications=True)
    opened = _opened(folder / "relay.pcap")
    names = ("gate-a", "gate-b", "gate-c")
    links = {about: rng.choice(names) for about, _ in opened.blocks}
    found: dict[str, list[Slot]] = {}
    count = 1 + max(map(_slot, (block for _, block in opened.blocks)))
    for name in names:
        for number in range(count):
            mine = [
                block
                for about, block in opened.blocks
                if links[about] == name and _slot(block) == number
            ]
            if wild_ns is not None and (name, number) == (names[0], 0):
                mine.append(wild(wild_ns))
            data = opened.head + b"".join(mine)
            found.setdefault(name, []).append(Slot(name, number, data))
    return found


def advanced(
    slots: Mapping[str, Sequence[Slot]], rng: random.Random, *, at_most: int = 1
) -> Iterator[list[Slot]]:
    """The same files as they come: no source is further ahead of another than so many."""
    come = dict.fromkeys(slots, 0)
    while any(come[name] < len(slots[name]) for name in slots):
        found: list[Slot] = []
        for name in rng.sample(sorted(slots), rng.randint(1, len(slots))):
            if come[name] < len(slots[name]) and come[name] - min(come.values()) < at_most:
                found.append(slots[name][come[name]])
                come[name] += 1
        if found:
            yield found


def unlike_engines_in_time(lake: Path) -> list[str]:
    """Where tunnels, calls and deliveries of a lake differ from those that engines make.

    The engines get the events of all sources in time order.
    """
    sources = Log(lake).snapshot().sources
    events: list[Event] = []
    for source in sources.values():
        paths = [each.path for each in source.inputs]
        pipeline = open_pipeline(paths, ReadOptions(table="tunnels"))
        for window in pipeline.windows():
            events += window_events(window, ReorderBuffer())
    found: list[str] = []
    for table in ("tunnels", "calls", "deliveries"):
        engine = ENGINES[table]()
        for event in in_order(events):
            feed_event(engine, event)
        engine.finish()
        batches = [batch_from_rows(table, engine.take())]
        wanted = counted(pa.Table.from_batches(batches, schema=schema(table)))
        found += differing(rows(lake, table), wanted, table)
    return found


def step(folder: Path, lateness_s: float) -> None:
    """Advance the lake by all captures that have arrived."""
    run_here(folder / "lake", folder / "in", lateness_s=lateness_s, settle_s=0)


def _slot(block: bytes) -> int:
    """Which stretch of time a packet belongs to."""
    seconds, nanoseconds = struct.unpack_from("<II", block)
    return int((seconds * 1_000_000_000 + nanoseconds - _START_NS) // _SLOT_NS)


def wild(ts_ns: int) -> bytes:
    """A packet of a pcap, on a link of its own that ends a tunnel."""
    body = tny.TunnelDisconnect(instance_id=7, tunnel_id=1)
    frame = RELAY_PROTOCOL.encode(tny.RelayPacket(id=1, arguments=body))
    out = io.BytesIO()
    writer = PcapWriter(out, link=LINK_RAW, nano=True)
    writer.packet(ts_ns, _Talk(99, RELAY_PROTOCOL.port or 0).segment(0, frame))
    return out.getvalue()[_HEAD_BYTES:]
