"""Makes a whole capture of one that was cut off or broken: `repair`.

What can be read is copied as it is; what cannot be read is left out, and told. After a crash of
its recorder, a file `….pcapng.open` becomes a sealed `….pcapng` that way.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from ..format.constants import Limits
from ..format.files import Feed, open_feed
from ..format.items import FileFault, Packet
from ..format.reader import BEGINS, elements, section_order
from ..format.writer import OPEN_SUFFIX, SUFFIX, PcapngWriter, sync_folder

__all__ = ["Repair", "repair", "repaired_name"]

_DEFAULT: Final = Limits()
_CHUNK: Final = 1 << 20
_TOLD: Final = 100
"""Faults that are told one by one; a file of rubbish has millions."""
_COMPRESSED: Final = frozenset({".gz", ".zst"})


class Repair(msgspec.Struct, kw_only=True):
    """What was kept and what was lost."""

    path: str
    """The whole file."""
    packets: int = 0
    """Packets in it."""
    kept_bytes: int = 0
    """Bytes of the broken file that are in it."""
    lost_bytes: int = 0
    """Bytes that are not."""
    faults: int = 0
    """Places that would not read."""
    lost: list[FileFault] = []
    """The first hundred of them, with what is wrong."""


def repaired_name(path: Path) -> Path:
    """What a repaired file is called by default: an open recording gets its sealed name, any other
    file `.repaired` before its suffix. It is never compressed."""
    if path.name.endswith(OPEN_SUFFIX):
        return path.with_name(path.name.removesuffix(OPEN_SUFFIX) + SUFFIX)
    plain = path.with_suffix("") if path.suffix in _COMPRESSED else path
    return plain.with_name(f"{plain.stem}.repaired{plain.suffix}")


def repair(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    limits: Limits = _DEFAULT,
) -> Repair:
    """Writes the whole file, `out` or `repaired_name`; the broken one stays.

    Raises OSError when a file cannot be read or written or the target already exists, ValueError
    when the file is no capture.
    """
    target = repaired_name(Path(path)) if out is None else Path(out)
    if target.exists():
        raise FileExistsError(f"{target} already exists")
    part = target.with_name(target.name + ".part")
    told = Repair(path=str(target))
    try:
        with part.open("xb") as stream:
            _copy_readable(path, stream, told, limits)
            stream.flush()
            os.fsync(stream.fileno())
        part.rename(target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)
    return told


def _copy_readable(
    path: str | os.PathLike[str], stream: BinaryIO, told: Repair, limits: Limits
) -> None:
    """Goes through the file twice at once: what is wrong with it, and its bytes."""
    at = 0
    with open_feed(path, limits) as feed:
        for element in elements(path, limits=limits):
            if isinstance(element, Packet):
                told.packets += 1
            elif isinstance(element, FileFault):
                _tell(told, element)
                if element.offset == 0:
                    _begin_anew(feed, stream, element)
                else:
                    _copy(feed, stream, at, element.offset, told)
                at = element.offset + element.present_bytes
                feed.release(at)
        _copy(feed, stream, at, None, told)


def _tell(told: Repair, fault: FileFault) -> None:
    told.faults += 1
    told.lost_bytes += fault.present_bytes
    if len(told.lost) < _TOLD:
        told.lost.append(fault)


def _begin_anew(feed: Feed, stream: BinaryIO, fault: FileFault) -> None:
    """The first section header is broken: a new one takes its place, if the rest can be read."""
    head = feed.take(0, 12)
    order = section_order(head) if head.startswith(BEGINS) else None
    if order is None or not feed.has(fault.present_bytes, 1):
        raise ValueError(f"nothing to repair: {fault.detail}")
    PcapngWriter(stream, order=order)


def _copy(feed: Feed, stream: BinaryIO, at: int, stop: int | None, told: Repair) -> None:
    while stop is None or at < stop:
        data = feed.take(at, _CHUNK if stop is None else min(_CHUNK, stop - at))
        if not data:
            return
        stream.write(data)
        told.kept_bytes += len(data)
        at += len(data)
        feed.release(at)
