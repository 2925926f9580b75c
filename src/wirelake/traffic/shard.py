"""A shard: half an hour of one source, made all at once, by one process.

Everything in a shard follows from the seed and its number, so that a run is the same however many
processes share the work. Its scenes begin and end within it.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from .clock import EPOCH_NS, PERIOD_NS
from .faults.fault_injection import fault_table, injure
from .faults.fault_plan import Wound
from .packets.instances import cast
from .packets.numbers import Bytes
from .packets.packet_template import Cast, Plate
from .packets.recorded import RecordedStyle
from .packets.sniffed import SniffedStyle
from .packets.writer import (
    Edits,
    Style,
    press,
)
from .scenes.template import make
from .truth.cells import filled
from .truth.coverage import Kind
from .truth.sheets import (
    TABLES,
    Sheets,
    sheets,
)

__all__ = ["FILES", "Made", "Part", "Shard", "run"]

FILES: Final = 2
"""Files of one shard."""
CASTS: Final = 1 << 16
"""Casts of one shard, at most."""


class Part(NamedTuple):
    """What one kind of scenes is of a shard."""

    scenario: str
    share: float
    """Of all bytes."""
    moulds: int


@dataclass(frozen=True)
class Shard:
    """What to make."""

    number: int
    seed: int
    source: str
    period: int
    """Which half hour of its source it is."""
    size: int
    parts: tuple[Part, ...]
    style: str = "recorder"
    faults: float = 0.0


@dataclass
class Made:
    """What became of a shard."""

    number: int
    files: list[str]
    bytes: int
    packets: int
    tables: dict[str, Path]
    """Truth, as Arrow files."""
    counts: Counter[Kind] = field(default_factory=Counter)


def style_of(shard: Shard) -> Style:
    """The style of a shard."""
    if shard.style == "recorder":
        return RecordedStyle()
    return SniffedStyle(resolution_ns=1000 if shard.source.endswith("a") else 1)


def run(shard: Shard, folder: Path) -> Made:
    """Makes the files of a shard in a folder, and its truth in `truth/.parts` below it."""
    style = style_of(shard)
    rng = np.random.default_rng([shard.seed, shard.number])
    plates = _plates(shard, style)
    buffer, casts = _cast_all(shard, style, plates, rng)
    sequences = range(shard.period * FILES, (shard.period + 1) * FILES)
    edits = Edits()
    chance = random.Random(f"{shard.seed}/{shard.number}/faults")
    wounds = injure(casts, shard.faults, style, edits, chance)
    pressed = press(style, buffer, casts, folder, shard.source, sequences, edits)
    _log_keys(casts, folder / f"{shard.source}-{shard.period:04d}.keys")
    made = Made(shard.number, pressed.files, sum(pressed.sizes), pressed.packets, {})
    _tell(made, casts, wounds, style, folder / "truth" / ".parts")
    return made


def _log_keys(casts: list[Cast], path: Path) -> None:
    """Lines of a key log that a capture has no place for."""
    lines: list[bytes] = []
    for each in casts:
        for n, item in enumerate(each.plate.items):
            if item.hidden and item.data:
                start = int(each.plate.starts[n])
                found = each.rows[:, start : start + len(item.data)]
                lines += [row.tobytes() + b"\n" for row in found]
    if lines:
        path.write_bytes(b"".join(lines))


def _plates(shard: Shard, style: Style) -> list[tuple[Plate, float]]:
    """Moulds of every kind, and the share of bytes that each of them gets."""
    found: list[tuple[Plate, float]] = []
    for scenario, share, moulds in shard.parts:
        for n in range(moulds):
            mould = make(scenario, f"{shard.seed}/{shard.number}/{scenario}/{n}")
            found.append((style.plate(mould), share / moulds))
    return found


def _cast_all(
    shard: Shard, style: Style, plates: list[tuple[Plate, float]], rng: np.random.Generator
) -> tuple[Bytes, list[Cast]]:
    """All casts, one behind the other in one buffer."""
    counts = [max(1, round(shard.size * share / len(plate.row))) for plate, share in plates]
    sizes = [len(plate.row) * count for (plate, _), count in zip(plates, counts, strict=True)]
    buffer = np.empty(sum(sizes), np.uint8)
    found: list[Cast] = []
    at, number = 0, shard.number * CASTS
    for (plate, _), count, size in zip(plates, counts, sizes, strict=True):
        rows = buffer[at : at + size].reshape(count, -1)
        made = cast(
            plate,
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


def _tell(made: Made, casts: list[Cast], wounds: list[Wound], style: Style, folder: Path) -> None:
    """Writes what really happened: in casts that are whole, and in each that is wounded."""
    hurt = {each.victim.key for each in wounds}
    told: list[tuple[Cast, Sheets]] = []
    for which, each in enumerate(casts):
        whole = [k for k in range(len(each.times)) if (which, k) not in hurt]
        if whole:
            some = each if len(whole) == len(each.times) else each.only(whole)
            told.append((some, sheets(each.plate, facts=style.numbered)))
    wounded = [
        (each, sheets(each.victim.cast.plate, facts=style.numbered, altered=each.altered))
        for each in wounds
    ]
    told += [(each.victim.cast.only([each.victim.k]), found) for each, found in wounded]
    for each, found in told:
        for kind, count in found.counts.items():
            made.counts[kind] += count * len(each.times)
    for table in TABLES:
        parts = [(sheet, each) for each, found in told if (sheet := found.tables.get(table))]
        if parts or (table == "faults" and wounded):
            made.tables[table] = folder / f"{table}-{made.number:05d}.arrow"
            rows = (
                filled(table, parts, made.files)
                if parts
                else fault_table(wounded, style, made.files)
            )
            _save(rows, made.tables[table])


def _save(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
