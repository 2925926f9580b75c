"""Captures for `benchmarks.lake` that no simulation makes: lopsided ones, and many small files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from wirelake.traffic import simulate
from wirelake.traffic.packets.recorded import RecordedStyle

from .captures_made import PCAP_HEAD, one_connection, simulated

__all__ = ["lopsided", "pieces"]

_HEAVY = 0.6
"""What one connection has of a lopsided capture."""
_HEAD_BLOCKS = (0x0A0D0D0A, 0x00000001)
"""Section and interface: every file has its own."""


def lopsided(path: Path, size: int) -> Path:
    """A capture of comet in which a single connection has most of the bytes."""
    rest = simulated(
        path.with_name(f"{path.stem}-rest"), int(size * (1 - _HEAVY)), protocols=["comet"]
    )
    one_connection(path, int(size * _HEAVY))
    with rest.open("rb") as source, path.open("ab") as out:
        source.seek(len(PCAP_HEAD))
        shutil.copyfileobj(source, out, 1 << 20)
    rest.unlink()
    return path


# -- recordings in small files -----------------------------------------------------------------


def pieces(folder: Path, size: int, piece: int) -> list[Path]:
    """Recordings of about so many bytes together, cut into sealed files of about `piece` bytes.

    They come in the order in which recorders would have sealed them, the sources in turn.
    """
    whole = folder / "whole"
    simulate(whole, size=size, seed=2, style="recorder")
    by_source: dict[str, list[Path]] = {}
    for path in sorted(whole.glob("*.pcapng")):
        by_source.setdefault(path.stem.rpartition("-")[0], []).append(path)
    cut = [list(_cut(source, files, folder, piece)) for source, files in by_source.items()]
    shutil.rmtree(whole)
    order = [(at, each) for files in cut for at, each in enumerate(files)]
    return [each for _, each in sorted(order, key=lambda entry: entry[0])]


def _cut(source: str, files: list[Path], folder: Path, piece: int) -> Iterator[Path]:
    style = RecordedStyle()
    sequence = 0
    for file in files:
        data = memoryview(file.read_bytes())
        for start, stop in _stretches(data, piece):
            path = folder / f"{source}-{sequence:08d}{style.suffix}"
            with path.open("wb") as out:
                out.write(style.head(source, sequence))
                out.write(data[start:stop])
            yield path
            sequence += 1


def _stretches(data: memoryview, size: int) -> Iterator[tuple[int, int]]:
    """Where pieces of a recording begin and end; at least so large, but for the last one."""
    start = at = 0
    while at < len(data):
        kind = int.from_bytes(data[at : at + 4], "little")
        at += int.from_bytes(data[at + 4 : at + 8], "little")
        if kind in _HEAD_BLOCKS:
            start = at
        elif at - start >= size:
            yield start, at
            start = at
    if start < at:
        yield start, at
