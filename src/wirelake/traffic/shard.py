"""A shard: half an hour of one source, generated as a whole by one process.

Everything in a shard follows from the seed and its number, so a run is the same however many
processes share the work. Its scenes begin and end within it.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from .faults.fault_injection import fault_table, inject_faults
from .faults.fault_plan import InjectedFault
from .packets.instances import instantiate
from .packets.numbers import Bytes
from .packets.packet_template import Instances, PacketTemplate
from .packets.recorded import RecordedStyle
from .packets.sniffed import SniffedStyle
from .packets.writer import Edits, Style, write_captures
from .scenes.scene import EPOCH_NS, PERIOD_NS
from .scenes.template import make
from .truth.rows import expand
from .truth.tables import TABLES, MessageKind, Truth, truth_of

__all__ = ["FILES", "Made", "Part", "Shard", "run"]

FILES: Final = 2
"""Files per shard."""
INSTANCES: Final = 1 << 16
"""Maximum instances per shard."""


class Part(NamedTuple):
    """The share of one scenario in a shard."""

    scenario: str
    share: float
    """Share of the bytes."""
    templates: int


@dataclass(frozen=True)
class Shard:
    """What to generate."""

    number: int
    seed: int
    source: str
    period: int
    """Index of the half hour of its source."""
    size: int
    parts: tuple[Part, ...]
    style: str = "recorder"
    faults: float = 0.0


@dataclass
class Made:
    """A shard that was generated."""

    number: int
    files: list[str]
    bytes: int
    packets: int
    tables: dict[str, Path]
    """Truth, as Arrow files."""
    counts: Counter[MessageKind] = field(default_factory=Counter)


def style_of(shard: Shard) -> Style:
    """Return the capture style of a shard."""
    if shard.style == "recorder":
        return RecordedStyle()
    return SniffedStyle(resolution_ns=1000 if shard.source.endswith("a") else 1)


def run(shard: Shard, folder: Path) -> Made:
    """Write the captures of a shard to a folder, and its truth to `truth/.parts` in it."""
    style = style_of(shard)
    rng = np.random.default_rng([shard.seed, shard.number])
    templates = _packet_templates(shard, style)
    buffer, groups = _instantiate_all(shard, style, templates, rng)
    sequences = range(shard.period * FILES, (shard.period + 1) * FILES)
    edits = Edits()
    fault_rng = random.Random(f"{shard.seed}/{shard.number}/faults")
    injected = inject_faults(groups, shard.faults, style, edits, fault_rng)
    written = write_captures(style, buffer, groups, folder, shard.source, sequences, edits)
    _write_key_log(groups, folder / f"{shard.source}-{shard.period:04d}.keys")
    made = Made(shard.number, written.files, sum(written.sizes), written.packets, {})
    _write_truth(made, groups, injected, style, folder / "truth" / ".parts")
    return made


def _write_key_log(groups: list[Instances], path: Path) -> None:
    """Write the key log lines that the capture format has no place for."""
    lines: list[bytes] = []
    for each in groups:
        for n, item in enumerate(each.packets.items):
            if item.hidden and item.data:
                start = int(each.packets.starts[n])
                found = each.rows[:, start : start + len(item.data)]
                lines += [row.tobytes() + b"\n" for row in found]
    if lines:
        path.write_bytes(b"".join(lines))


def _packet_templates(shard: Shard, style: Style) -> list[tuple[PacketTemplate, float]]:
    """Return templates of every scenario, each with its share of the bytes."""
    found: list[tuple[PacketTemplate, float]] = []
    for scenario, share, templates in shard.parts:
        for n in range(templates):
            template = make(scenario, f"{shard.seed}/{shard.number}/{scenario}/{n}")
            found.append((style.packets(template), share / templates))
    return found


def _instantiate_all(
    shard: Shard,
    style: Style,
    templates: list[tuple[PacketTemplate, float]],
    rng: np.random.Generator,
) -> tuple[Bytes, list[Instances]]:
    """Instantiate all templates, one after the other in one buffer."""
    counts = [max(1, round(shard.size * share / len(each.row))) for each, share in templates]
    sizes = [len(each.row) * count for (each, _), count in zip(templates, counts, strict=True)]
    buffer = np.empty(sum(sizes), np.uint8)
    found: list[Instances] = []
    at, number = 0, shard.number * INSTANCES
    for (packets, _), count, size in zip(templates, counts, sizes, strict=True):
        rows = buffer[at : at + size].reshape(count, -1)
        made = instantiate(
            packets,
            rows,
            np.arange(number, number + count, dtype=np.uint64),
            rng,
            begin_ns=EPOCH_NS + shard.period * PERIOD_NS,
            resolution_ns=style.resolution_ns,
            numbered=style.numbered,
        )
        found.append(made)
        at, number = at + size, number + count
    return buffer, found


def _write_truth(
    made: Made,
    groups: list[Instances],
    injected: list[InjectedFault],
    style: Style,
    folder: Path,
) -> None:
    """Write the truth: of all instances without a fault by template, of the others one by one."""
    faulty = {each.target.key for each in injected}
    found: list[tuple[Instances, Truth]] = []
    for which, each in enumerate(groups):
        whole = [k for k in range(len(each.times)) if (which, k) not in faulty]
        if whole:
            some = each if len(whole) == len(each.times) else each.only(whole)
            found.append((some, truth_of(each.packets, facts=style.numbered)))
    with_fault = [
        (
            each,
            truth_of(each.target.instances.packets, facts=style.numbered, altered=each.altered),
        )
        for each in injected
    ]
    found += [(each.target.instances.only([each.target.k]), truth) for each, truth in with_fault]
    for some, truth in found:
        for kind, count in truth.counts.items():
            made.counts[kind] += count * len(some.times)
    for table in TABLES:
        parts = [(rows, some) for some, truth in found if (rows := truth.tables.get(table))]
        if parts or (table == "faults" and with_fault):
            made.tables[table] = folder / f"{table}-{made.number:05d}.arrow"
            _save(
                expand(table, parts, made.files)
                if parts
                else fault_table(with_fault, style, made.files),
                made.tables[table],
            )


def _save(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
