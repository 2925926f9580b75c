"""Faults that are injected on purpose, each with the row of `faults` that a reader must produce.

    body           a frame whose content breaks a rule but whose end is known
    head           a frame whose start breaks a rule
    lost           a packet that was not captured
    snapped        a packet whose last bytes were not captured
    ended          a stream that ends inside a frame
    block          a packet whose block or record is damaged: it is lost, and the file has a fault
    conflict       a packet that is retransmitted with other bytes (tcpdump style only)

A scene gets one fault at most, at a packet where the consequences are certain: its bytes have no
copy, the messages that identify the connection stay whole, and a reader can resume behind it.
`inject_faults` chooses instances and kinds, `inject` puts one fault into one instance,
`fault_table` makes the rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wirelake.capture.decode.framing import BadFrame, BadHead, Framing, ValidFrame, describe
from wirelake.capture.format.constants import FAULT_BYTES
from wirelake.records.schema import schema
from wirelake.wire.errors import WireError

from .packets.instances import Instances
from .packets.numbers import WIDTHS, Bytes
from .packets.packet_template import Item
from .packets.writer import Edits, ExtraPacket, Style
from .scenes.provider import DIRECTIONS, Frame, ProtocolScenes, Stream
from .truth.messages import CapturedStream, CorruptFrame, FaultRead, StreamFault, captured_stream
from .truth.tables import AlteredInstance, Copies, Truth

__all__ = [
    "KINDS",
    "FaultTarget",
    "InjectedFault",
    "corrupt_body",
    "corrupt_head",
    "fault_table",
    "inject",
    "inject_faults",
]

KINDS: Final = ("body", "head", "lost", "snapped", "ended", "block", "conflict")
"""The kinds of faults that can be injected."""
_ATTEMPTS: Final = 4
"""Kinds of faults that are tried on one instance."""
_LAST: Final = 0.97
"""Blocks are damaged before this quantile of time: a reader needs packets behind them."""
_SOON_NS: Final = 45_000_000_000
"""Readers wait a minute for missing bytes; a later gap would be reported out of order."""
_SEQ_AT: Final = 52
"""Offset of the sequence number in a recorded packet."""


@dataclass(slots=True)
class FaultTarget:
    """One instance of a scene."""

    which: int
    """Index of its group among all instances of the shard."""
    instances: Instances
    k: int

    @property
    def key(self) -> tuple[int, int]:
        """Its identity within the shard."""
        return self.which, self.k


@dataclass(slots=True)
class InjectedFault:
    """A fault that was put into an instance."""

    kind: str
    target: FaultTarget
    altered: AlteredInstance
    damaged: int | None = None
    """The item whose block is damaged."""
    copies: list[ExtraPacket] = field(default_factory=list)
    """Packets that were added."""


def inject_faults(
    groups: Sequence[Instances], share: float, style: Style, edits: Edits, rng: random.Random
) -> list[InjectedFault]:
    """Put faults into a share of all messages, each in another instance."""
    if not share:
        return []
    # Kinds take turns, so that even a few faults have all kinds. An instance that suits none of
    # the next four gets none; the share is of all messages, and met by other instances.
    messages = sum(len(instances.times) * _messages(instances) for instances in groups)
    targets = [(w, k) for w, instances in enumerate(groups) for k in range(len(instances.times))]
    rng.shuffle(targets)
    late = np.quantile(np.concatenate([instances.times[:, -1] for instances in groups]), _LAST)
    kinds = cycle(KINDS)
    found: list[InjectedFault] = []
    for w, k in targets:
        if len(found) >= round(messages * share):
            break
        for kind in (next(kinds) for _ in range(_ATTEMPTS)):
            if kind == "block" and groups[w].times[k, -1] > late:
                continue
            result = inject(FaultTarget(w, groups[w], k), kind, style, edits, rng)
            if result is not None:
                found.append(result)
                break
    return found


def _messages(instances: Instances) -> int:
    connections = instances.packets.template.connections
    return sum(len(stream.frames) for each in connections for stream in each.streams)


# -- rows --------------------------------------------------------------------------------------


def fault_table(
    injected: list[tuple[InjectedFault, Truth]], style: Style, files: Sequence[str]
) -> pa.Table:
    """Return the rows of `faults`."""
    rows: list[dict[str, Any]] = []
    for each, truth in injected:
        if each.damaged is not None:
            rows.append(_block_row(each, each.damaged, style, files))
        for found in truth.read.faults:
            rows.append(_row(each, found.connection, found.direction, found.fault, truth, files))
    return pa.Table.from_pylist(rows, schema=schema("faults"))


def _block_row(each: InjectedFault, n: int, style: Style, files: Sequence[str]) -> dict[str, Any]:
    instances, k = each.target.instances, each.target.k
    block = instances.rows[k, instances.packets.starts[n] : instances.packets.stops[n]].tobytes()
    return {
        "file": files[instances.files[k, n]],
        "offset": int(instances.offsets[k, n]),
        "present_bytes": len(block),
        "missing_bytes": 0,
        "code": "bad_block",
        "detail": style.damage_detail(block),
        "bytes": block[:FAULT_BYTES],
    }


def _row(
    each: InjectedFault,
    place: int,
    direction: int,
    fault: StreamFault,
    truth: Truth,
    files: Sequence[str],
) -> dict[str, Any]:
    instances, k = each.target.instances, each.target.k
    row: dict[str, Any] = {
        "connection": int(instances.connections[k, place]),
        "direction": DIRECTIONS[direction],
        "protocol": instances.packets.template.connections[place].protocol,
        "stream_offset": fault.start,
        "present_bytes": fault.present_bytes,
        "missing_bytes": fault.missing,
        "code": fault.code,
        "field": fault.field,
        "detail": fault.detail,
    }
    if fault.code == "conflict":
        copy = each.copies[-1]
        item = instances.packets.items[fault.item]
        size = item.payload_at + item.payload[1] - item.payload[0]
        return row | {
            "ts_ns": copy.time_ns,
            "file": files[copy.file],
            "offset": copy.offset + copy.differs_at,
            "bytes": copy.data[copy.differs_at : size][:FAULT_BYTES],
        }
    item = instances.packets.items[fault.item]
    inside = item.payload_at + fault.at - item.payload[0]
    return row | {
        "ts_ns": int(instances.times[k, fault.revealed_by]),
        "file": files[instances.files[k, fault.item]],
        "offset": int(instances.offsets[k, fault.item]) + inside,
        "bytes": _sample(instances, k, fault, truth.read.streams[place, direction]),
    }


def _sample(instances: Instances, k: int, fault: StreamFault, captured: CapturedStream) -> bytes:
    """Return the first bytes that do not decode."""
    out = bytearray()
    for start, stop in fault.present:
        for position in range(start, min(stop, start + FAULT_BYTES)):
            n = int(captured.owners[position])
            item = instances.packets.items[n]
            column = instances.packets.starts[n] + item.payload_at + position - item.payload[0]
            out.append(instances.rows[k, column])
    return bytes(out[:FAULT_BYTES])


# -- one fault ---------------------------------------------------------------------------------


def inject(
    target: FaultTarget, kind: str, style: Style, edits: Edits, rng: random.Random
) -> InjectedFault | None:
    """Put a fault of one kind into an instance; None if no packet suits."""
    candidates = list(_spots(target))
    rng.shuffle(candidates)
    injector = _Injector(target, style, edits, rng)
    for candidate in candidates[:12]:
        found: InjectedFault | None = getattr(injector, kind)(candidate)
        if found is not None:
            return found
    return None


def _spots(target: FaultTarget) -> Iterator[_Candidate]:
    """Yield packets whose payload has no copy and no message that must stay whole."""
    packets = target.instances.packets
    for place, connection in enumerate(packets.template.connections):
        for direction, stream in enumerate(connection.streams):
            items = packets.carriers[place][direction]
            spans = [packets.items[n].payload for n in items]
            size = len(stream.data)
            for n, (start, stop) in zip(items, spans, strict=True):
                # A packet that was also retransmitted cannot be lost: its copy has the bytes.
                copies = sum(a < stop and start < b for a, b in spans)
                frames = [
                    (number, frame)
                    for number, frame in enumerate(stream.frames)
                    if frame.start < stop and start < frame.stop
                ]
                if copies == 1 and not any(
                    f.info.name in connection.scenes.required for _, f in frames
                ):
                    yield _Candidate(place, direction, n, packets.items[n], frames, stop < size)


@dataclass(slots=True)
class _Candidate:
    """A packet that a fault may be put into."""

    place: int
    direction: int
    n: int
    item: Item
    frames: list[tuple[int, Frame]]
    """Frames that it carries a part of, with their numbers."""
    behind: bool
    """Whether more of the stream follows."""

    @property
    def start(self) -> int:
        return self.item.payload[0]

    @property
    def stop(self) -> int:
        return self.item.payload[1]

    def whole(self) -> bool:
        """Return whether it carries whole frames."""
        return self.frames[0][1].start == self.start and self.frames[-1][1].stop == self.stop


class _Injector:
    """One method for each kind of fault; None when a packet does not suit."""

    def __init__(self, target: FaultTarget, style: Style, edits: Edits, rng: random.Random):
        self.target = target
        self.instances = target.instances
        self.packets = target.instances.packets
        self.row = target.instances.rows[target.k]
        self.times = target.instances.times[target.k]
        self.style = style
        self.edits = edits
        self.rng = rng

    # -- frames --------------------------------------------------------------------------------

    def body(self, packet: _Candidate) -> InjectedFault | None:
        """Corrupt the body of a frame."""
        for number, frame in packet.frames:
            if frame.start >= packet.start and frame.stop <= packet.stop:
                column = self._column(packet, frame.start)
                raw = self.row[column : column + frame.stop - frame.start]
                stream = self.packets.template.connections[packet.place].streams[packet.direction]
                corrupt = corrupt_body(
                    self._scenes(packet), packet.direction, number, frame, stream, raw
                )
                if corrupt is not None:
                    captured = self._stream(packet)
                    captured.corrupt = corrupt
                    return self._fault("body", packet, captured)
        return None

    def head(self, packet: _Candidate) -> InjectedFault | None:
        """Corrupt the start of a frame."""
        number, frame = self.rng.choice(packet.frames)
        if frame.start < packet.start or frame.stop > packet.stop:
            return None
        # Behind a frame whose end is not known a reader searches for a magic. Without one it
        # resumes where a segment begins, and that must be the start of a frame, or the reader
        # would take the middle of one for its head and the consequences would not be certain.
        captured = self._stream(packet)
        if not self._scenes(packet).has_magic:
            starts = [start for start, _, _ in captured.pieces if start > frame.start]
            boundaries = {each.start for each in self._frames(packet)}
            if not starts or min(starts) not in boundaries:
                return None
        column = self._column(packet, frame.start)
        raw = self.row[column : column + frame.stop - frame.start]
        captured.corrupt = corrupt_head(self._scenes(packet), packet.direction, number, raw)
        return None if captured.corrupt is None else self._fault("head", packet, captured)

    # -- packets -------------------------------------------------------------------------------

    def lost(self, packet: _Candidate) -> InjectedFault | None:
        """Remove a packet."""
        if not self._resumes(packet) or not (packet.whole() or self._scenes(packet).has_magic):
            return None
        self.edits.remove(*self.target.key, packet.n)
        return self._missing("lost", packet)

    def block(self, packet: _Candidate) -> InjectedFault | None:
        """Damage the block of a packet."""
        if not self._resumes(packet) or not (packet.whole() or self._scenes(packet).has_magic):
            return None
        begin, end = int(self.packets.starts[packet.n]), int(self.packets.stops[packet.n])
        if not self.style.damage(self.row[begin:end]):
            return None
        # A reader finds the next block by searching, so some must follow in the same file.
        self.edits.fragile.append((*self.target.key, packet.n))
        found = self._missing("block", packet)
        found.damaged = packet.n
        return found

    def _missing(self, kind: str, packet: _Candidate) -> InjectedFault:
        captured = self._stream(packet)
        captured.pieces = [piece for piece in captured.pieces if piece[2] != packet.n]
        captured.index()
        found = self._fault(kind, packet, captured)
        found.altered.lost = frozenset({packet.n})
        return found

    def snapped(self, packet: _Candidate) -> InjectedFault | None:
        """Cut the last bytes of a packet in the capture."""
        last = packet.frames[-1][1]
        fits = last.stop == packet.stop or self._scenes(packet).has_magic
        if not self._resumes(packet) or not fits or not self.style.can_shorten(packet.item):
            return None
        size = self.rng.randint(1, packet.stop - max(packet.start, last.start))
        captured = self._shorter(packet, size, on_wire=False)
        captured.index()
        return self._fault("snapped", packet, captured)

    def ended(self, packet: _Candidate) -> InjectedFault | None:
        """End a stream inside a frame."""
        last = packet.frames[-1][1]
        inside = packet.stop - max(packet.start, last.start)
        if packet.behind or inside < 2 or not self.style.can_shorten(packet.item):
            return None
        if not self._closed_by_fin(packet):
            return None
        size = self.rng.randint(1, inside - 1)
        captured = self._shorter(packet, size, on_wire=True)
        captured.size -= size
        captured.index()
        # The bytes were never sent: later packets of this direction, the FIN above all, have lower
        # sequence numbers, or the end would be a gap instead of a truncated stream.
        for n in range(packet.n + 1, len(self.packets.items)):
            item = self.packets.items[n]
            if item.is_packet and (item.connection, item.direction) == (
                packet.place,
                packet.direction,
            ):
                self._move_back(n, item, size)
        return self._fault("ended", packet, captured)

    def _shorter(self, packet: _Candidate, size: int, *, on_wire: bool) -> CapturedStream:
        """Cut the payload of a packet; return what is left of its stream."""
        begin, end = int(self.packets.starts[packet.n]), int(self.packets.stops[packet.n])
        short = self.style.shortened(self.row[begin:end].tobytes(), size, on_wire=on_wire)
        self.row[begin : begin + len(short)] = np.frombuffer(short, np.uint8)
        self.edits.shorten(*self.target.key, packet.n, begin + len(short))
        captured = self._stream(packet)
        captured.pieces = [
            (start, stop - size if n == packet.n else stop, n) for start, stop, n in captured.pieces
        ]
        return captured

    def _closed_by_fin(self, packet: _Candidate) -> bool:
        own = [item for item in self.packets.items if item.connection == packet.place]
        return any(item.flags & 1 for item in own) and not any(item.flags & 4 for item in own)

    def _move_back(self, n: int, item: Item, size: int) -> None:
        """Adjust the sequence number of a later packet to the bytes that were sent."""
        at = int(self.packets.starts[n]) + item.columns.get("seq", _SEQ_AT)
        number = int.from_bytes(self.row[at : at + 4].tobytes(), "big")
        moved = ((number - size) & 0xFFFF_FFFF).to_bytes(4, "big")
        self.row[at : at + 4] = np.frombuffer(moved, np.uint8)

    # -- copies --------------------------------------------------------------------------------

    def conflict(self, packet: _Candidate) -> InjectedFault | None:
        """Retransmit a packet with another byte.

        An earlier packet is retransmitted unchanged first: only then does a reader keep bytes to
        compare with.
        """
        if self.style.numbered or not self._closed_by_fin(packet):
            return None
        earlier = [n for n in self.packets.carriers[packet.place][packet.direction] if n < packet.n]
        later = [
            n
            for n in range(packet.n + 1, len(self.packets.items))
            if self.packets.items[n].is_packet
            and (self.packets.items[n].connection, self.packets.items[n].direction)
            == (packet.place, packet.direction)
        ]
        if not earlier or not later:
            return None
        before = self._between(earlier[-1], packet.n)
        after = self._between(packet.n, later[0])
        if before is None or after is None:
            return None
        position = self.rng.randrange(packet.start, packet.stop)
        again = self.style.retimed(self._packet(earlier[-1]), before)
        same = ExtraPacket(*self.target.key, before, again, 0)
        changed = bytearray(self.style.retimed(self._packet(packet.n), after))
        inside = packet.item.payload_at + position - packet.start
        changed[inside] ^= 0x5A
        other = ExtraPacket(*self.target.key, after, bytes(changed), inside)
        self.edits.extras += [same, other]
        first = self.packets.items[earlier[-1]].payload
        key = (packet.place, packet.direction)
        copies = Copies({key: 2}, {key: first[1] - first[0] + packet.stop - packet.start})
        detail = "a second copy differs from the first, in bytes: 1"
        fault = StreamFault("conflict", position, [], 0, packet.n, packet.n, position, None, detail)
        altered = AlteredInstance(self.times, copies=copies, conflicts=[FaultRead(*key, fault)])
        return InjectedFault("conflict", self.target, altered, copies=[same, other])

    def _packet(self, n: int) -> bytes:
        return bytes(self.row[int(self.packets.starts[n]) : int(self.packets.stops[n])])

    def _between(self, one: int, two: int) -> int | None:
        """Return a time between two items, in the resolution of the files."""
        step = self.style.resolution_ns
        middle = int(self.times[one] + self.times[two]) // 2 // step * step
        return middle if self.times[one] < middle < self.times[two] else None

    # -- helpers ---------------------------------------------------------------------------------

    def _resumes(self, packet: _Candidate) -> bool:
        """Return whether the stream continues soon: the next packet reveals a gap."""
        later = [n for n in self.packets.carriers[packet.place][packet.direction] if n > packet.n]
        return (
            packet.behind and bool(later) and self.times[later[0]] - self.times[packet.n] < _SOON_NS
        )

    def _scenes(self, packet: _Candidate) -> ProtocolScenes:
        return self.packets.template.connections[packet.place].scenes

    def _frames(self, packet: _Candidate) -> list[Frame]:
        return self.packets.template.connections[packet.place].streams[packet.direction].frames

    def _column(self, packet: _Candidate, position: int) -> int:
        """Return the column of a byte of the stream."""
        return int(self.packets.starts[packet.n]) + packet.item.payload_at + position - packet.start

    def _stream(self, packet: _Candidate) -> CapturedStream:
        return captured_stream(self.packets, packet.place, packet.direction)

    def _fault(self, kind: str, packet: _Candidate, captured: CapturedStream) -> InjectedFault:
        altered = AlteredInstance(self.times, streams={(packet.place, packet.direction): captured})
        return InjectedFault(kind, self.target, altered)


# -- corruption --------------------------------------------------------------------------------

_TRIED: Final = 48
"""Bytes of a body that are tried."""


def corrupt_body(
    scenes: ProtocolScenes, direction: int, number: int, frame: Frame, stream: Stream, raw: Bytes
) -> CorruptFrame | None:
    """Change a byte of a frame, in place, so that its body breaks a rule; None if none does.

    Ids and times are left alone: truth identifies messages by them.
    """
    slots = {
        place
        for slot in stream.slots
        if frame.start <= slot.start < frame.stop
        for place in range(slot.start, slot.start + (8 if slot.is_time else WIDTHS[slot.form]))
    }
    # Byte by byte, until the protocol's own decoder objects and still knows where the frame ends.
    # What it reports is the truth about this fault, so no rule of a protocol is repeated here.
    begin = scenes.body_at
    for at in range(begin, min(len(raw), begin + _TRIED)):
        if frame.start + at in slots:
            continue
        kept = int(raw[at])
        for value in (kept | 3, 0xFF):
            raw[at] = value
            found = _decode(scenes, direction, number, raw)
            if found is not None and found.delimited:
                return found
        raw[at] = kept
    return None


def corrupt_head(
    scenes: ProtocolScenes, direction: int, number: int, raw: Bytes
) -> CorruptFrame | None:
    """Change the start of a frame, in place, so that no frame can begin there."""
    kept = raw[:2].copy()
    scenes.break_head(raw)
    found = _decode(scenes, direction, number, raw)
    if found is None or found.delimited:
        raw[:2] = kept
        return None
    return found


def _decode(scenes: ProtocolScenes, direction: int, number: int, raw: Bytes) -> CorruptFrame | None:
    """Return the decoder's error; None if the bytes are a good frame, or an incomplete one."""
    framing = Framing(scenes.declaration, None, DIRECTIONS[direction])
    data = np.ascontiguousarray(raw).tobytes()
    match framing.classify(bytearray(data), 0, final=True):
        case BadFrame(error, whole) if len(whole) == len(data):
            return _corrupt(number, error, delimited=True)
        case BadHead(error):
            return _corrupt(number, error, delimited=False)
        case ValidFrame(message, whole) if len(whole) == len(data) and scenes.check is not None:
            try:
                scenes.check(message, data, DIRECTIONS[direction])
            except WireError as error:
                return _corrupt(number, error, delimited=True)
    return None


def _corrupt(number: int, error: WireError, *, delimited: bool) -> CorruptFrame:
    return CorruptFrame(number, error.code, error.field or None, describe(error), delimited)
