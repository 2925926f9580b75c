"""The plan of a run, and its shards.

`plan` shares the size of a run among shards, sources, styles and scenarios. A shard is half an hour
of one source; `run` generates it as a whole, in one process. It follows from the seed and its own
number alone, so that the number of processes does not change the result.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from wirelake.wire.errors import unknown

from .faults import InjectedFault, fault_table, inject_faults
from .packets.instances import Instances, instantiate
from .packets.numbers import Bytes
from .packets.packet_template import PacketTemplate
from .packets.recorded import RecordedStyle
from .packets.sniffed import SniffedStyle
from .packets.writer import Edits, Style, write_captures
from .scenes import provider
from .scenes.provider import make
from .scenes.scene import EPOCH_NS, PERIOD_NS
from .truth.rows import expand
from .truth.tables import TABLES, MessageKind, Truth, truth_of

__all__ = [
    "FILES",
    "STYLES",
    "GeneratedShard",
    "Part",
    "Shard",
    "SimulateError",
    "StyleChoice",
    "parse_size",
    "plan",
    "run",
]


# -- shards ------------------------------------------------------------------------------------

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
class GeneratedShard:
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


def run(shard: Shard, folder: Path) -> GeneratedShard:
    """Write the captures of a shard to a folder, and its truth to `truth/.parts` in it."""
    # Every random number comes from the seed and the number of the shard. Faults have a generator
    # of their own: the same seed with and without faults gives the same traffic otherwise.
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
    made = GeneratedShard(shard.number, written.files, sum(written.sizes), written.packets, {})
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
    # One buffer, because the writer sorts the packets of all templates by time with a single
    # `take` over it. The numbers of instances are distinct over all shards, and with them all ids.
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
    made: GeneratedShard,
    groups: list[Instances],
    injected: list[InjectedFault],
    style: Style,
    folder: Path,
) -> None:
    """Write the truth: of all instances without a fault by template, of the others one by one."""
    # Truth is made once for each template and then expanded by Arrow. Only instances with a fault
    # are read one by one.
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


# -- the plan ----------------------------------------------------------------------------------

StyleChoice: TypeAlias = Literal["recorder", "tcpdump", "both"]
"""The value of `--style`."""
STYLES: Final[tuple[str, ...]] = get_args(StyleChoice)
"""Every value of `--style`."""

_SHARD_BYTES: Final = 64 << 20
"""Maximum size of a shard: enough instances of each template, few enough to fit in memory."""
_MAX_BYTES: Final = 200 * 10**9
"""Maximum size of a run; ids are distinct up to there."""
_TEMPLATE_BYTES: Final = 48_000
"""Bytes of a small run per template: about two instances of an average scene."""
_MAX_TEMPLATES: Final = 48
"""Maximum templates per shard."""
_SOURCES: Final = 2
"""Sources per style; further shards are later half hours of the same sources."""
_MAX_FAULTS: Final = 0.01
"""A scene has about a hundred messages and at most one fault."""
_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class SimulateError(ValueError):
    """Invalid options, or a run that failed; the message says what is expected."""


def parse_size(text: str) -> int:
    """Parse a number of bytes with an optional unit: B, KB, MB, GB or TB."""
    digits = text.strip().rstrip("BbKkMmGgTt")
    unit = text.strip()[len(digits) :].upper()
    try:
        size = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        raise SimulateError(
            f"invalid size {text!r}; expected a number and KB, MB or GB, such as 200MB"
        ) from None
    if not 1 <= size < math.inf:
        raise SimulateError(f"invalid size {text!r}; expected at least 1 byte")
    return int(size)


def plan(
    *, size: int, seed: int, faults: float, protocols: Sequence[str], style: str
) -> list[Shard]:
    """Return the shards of a run. Raises SimulateError."""
    _check(size, faults, protocols, style)
    styles = ("recorder", "tcpdump") if style == "both" else (style,)
    # As many shards of each style. Further ones are later half hours of the same two sources, so
    # that a large run has sources with many files, as a recorder makes them.
    count = math.ceil(size / _SHARD_BYTES)
    count = math.ceil(count / len(styles)) * len(styles)
    parts = _parts(protocols, min(_MAX_TEMPLATES, size // count // _TEMPLATE_BYTES))
    return [
        Shard(
            number=n,
            seed=seed,
            source=_source(styles[n % len(styles)], n // len(styles) % _SOURCES),
            period=n // len(styles) // _SOURCES,
            size=size // count,
            parts=parts,
            style=styles[n % len(styles)],
            faults=faults,
        )
        for n in range(count)
    ]


def _check(size: int, faults: float, protocols: Sequence[str], style: str) -> None:
    if not 1 <= size <= _MAX_BYTES:
        raise SimulateError(f"invalid size {size}; expected 1 byte to {_MAX_BYTES // 10**9} GB")
    if not 0.0 <= faults <= _MAX_FAULTS:
        raise SimulateError(f"invalid fault rate {faults}; expected 0 to {_MAX_FAULTS}")
    if style not in STYLES:
        raise SimulateError(unknown("style", style, STYLES))
    known = provider.names()
    if not protocols:
        raise SimulateError(f"no protocols; expected some of {', '.join(known)}")
    for name in protocols:
        if name not in known:
            raise SimulateError(unknown("protocol", name, known))


def _source(style: str, number: int) -> str:
    return f"{'edge' if style == 'recorder' else 'tap'}-{'ab'[number]}"


def _parts(protocols: Sequence[str], templates: int) -> tuple[Part, ...]:
    """Return the scenarios in which only these protocols are seen, each with its share."""
    try:
        fitting = provider.scenarios(protocols).values()
    except provider.ScenesError as error:
        raise SimulateError(str(error)) from error
    if not fitting:
        raise SimulateError(f"no scenario uses only {', '.join(protocols)}")
    all_bytes = sum(each.byte_share for each in fitting)
    all_templates = sum(each.template_share for each in fitting)
    return tuple(
        Part(
            each.name,
            each.byte_share / all_bytes,
            max(1, round(templates * each.template_share / all_templates)),
        )
        for each in fitting
    )
