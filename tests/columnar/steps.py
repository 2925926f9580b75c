"""Captures that are read in steps: cut into files, each read by pipelines that go on."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from wirelake.capture.format.constants import BLOCK_EPB, BLOCK_PACKET, BLOCK_SPB
from wirelake.columnar.pipeline.pipeline import TABLES, CapturePipeline, Item
from wirelake.columnar.pipeline.state import PipelineState

_PACKETS = (BLOCK_EPB, BLOCK_PACKET, BLOCK_SPB)
Windows = Iterable[Iterable[Item]]


# -- cutting captures ------------------------------------------------------------------------


def split(path: Path, count: int, rng: random.Random) -> list[str]:
    """The capture in so many files beside it, cut between packets or what lies between them."""
    head, parts = _parts(path.read_bytes())
    cuts = sorted(rng.choices(range(len(parts) + 1), k=count - 1))
    found = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(parts)], strict=True)):
        name = path.with_name(f"{path.stem}-part{number:04}{path.suffix}")
        name.write_bytes(head + b"".join(parts[start:stop]))
        found.append(str(name))
    return found


def _parts(data: bytes) -> tuple[bytes, list[bytes]]:
    if data[:4] == b"\x0a\x0d\x0d\x0a":
        return _blocks(data)
    sign = "<" if data[:1] in b"\xd4\x4d" else ">"
    parts, at = [], 24
    while at < len(data):
        stop = at + 16 + struct.unpack_from(sign + "I", data, at + 8)[0]
        parts.append(data[at:stop])
        at = stop
    return data[:24], parts


def _blocks(data: bytes) -> tuple[bytes, list[bytes]]:
    """What every part begins with: all blocks before the first packet."""
    sign = "<" if data[8] == 0x4D else ">"
    blocks, head, at = [], 0, 0
    while at < len(data):
        kind, size = struct.unpack_from(sign + "II", data, at)
        if kind in _PACKETS and not head:
            head = at
        if head:
            blocks.append(data[at : at + size])
        at += size
    return data[:head], blocks


# -- what is read ----------------------------------------------------------------------------


@dataclass
class Seen:
    """What pipelines have yielded: rows and events, those of connections also in their order."""

    rows: Counter[str] = field(default_factory=Counter)
    talks: dict[str, list[str]] = field(default_factory=dict)
    waiting: list[dict[int, int]] = field(default_factory=list)
    """Of each window, of all shares."""

    def read(self, windows: Windows, first: int = 0) -> None:
        """All windows of a pipeline, of which the first has this number."""
        for number, window in enumerate(windows, first):
            if number == len(self.waiting):
                self.waiting.append({})
            for table, found in window:
                if table == "waiting":
                    self.waiting[number].update(found)
                else:
                    self._add(table, found)

    def _add(self, table: str, found: Any) -> None:
        rows = found.to_pylist() if isinstance(found, pa.RecordBatch) else found
        for row in rows:
            text = f"{table} {row!r}"
            self.rows[text] += 1
            if table in ("messages", "connections"):
                about = row["connection"] if isinstance(row, dict) else row.connection
                self.talks.setdefault(f"{table} {about}", []).append(text)

    def copy(self) -> Seen:
        """The same, to be added to."""
        talks = {about: list(said) for about, said in self.talks.items()}
        return Seen(self.rows.copy(), talks, [dict(each) for each in self.waiting])


def uncut(paths: Sequence[str], **options: Any) -> Seen:
    """What one pipeline reads."""
    seen = Seen()
    seen.read(CapturePipeline(paths, tables=TABLES, **options).windows())
    return seen


def check_steps(steps: Sequence[tuple[Sequence[str], int]], **options: Any) -> None:
    """Reads the files of steps, each by so many shares: at any step everything is as if uncut."""
    so_far = Seen()
    states: list[PipelineState] = []
    files: list[str] = []
    for paths, shares in steps:
        files += paths
        first = len(so_far.waiting)
        provisional, saved = [], []
        for share in range(shares):
            pipeline = CapturePipeline(
                paths, tables=TABLES, share=share, shares=shares, state=states, **options
            )
            so_far.read(pipeline.windows(last=False), first)
            saved.append(PipelineState.from_bytes(pipeline.save().to_bytes()))
            provisional.append(pipeline)
        states = saved
        whole = so_far.copy()
        for pipeline in provisional:
            whole.read(pipeline.end(), len(so_far.waiting))
        same(whole, uncut(files, **options))
    assert so_far.rows


def same(given: Seen, wanted: Seen) -> None:
    """Fails with a few examples of what differs."""
    missing, surplus = wanted.rows - given.rows, given.rows - wanted.rows
    assert (list(missing)[:3], list(surplus)[:3]) == ([], [])
    assert given.talks == wanted.talks
    assert given.waiting == wanted.waiting
