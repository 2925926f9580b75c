"""`repair`: a valid copy of a capture that is truncated or damaged.

Everything readable is copied unchanged; the rest is left out and reported. After a crash of its
recorder, a file `….pcapng.open` becomes a sealed `….pcapng` this way; `seal_abandoned` does that
without a copy where it can, when the next recorder starts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from wirelake.wire.paths import local_path

from ..format.constants import Limits
from ..format.files import Feed, open_feed
from ..format.items import FileFault, Packet
from ..format.reader import BEGINS, elements, section_order
from ..format.writer import OPEN_SUFFIX, SUFFIX, PcapngWriter, seal, sync_folder

__all__ = ["Repair", "repair", "repaired_name", "seal_abandoned"]

_DEFAULT: Final = Limits()
_CHUNK: Final = 1 << 20
_MAX_LISTED: Final = 100
"""Maximum number of faults in the report: a damaged file may have millions."""
_COMPRESSED: Final = frozenset({".gz", ".zst"})


class Repair(msgspec.Struct, kw_only=True):
    """What was kept, and what was lost."""

    path: str
    """The repaired file."""
    packets: int = 0
    """Packets in it."""
    kept_bytes: int = 0
    """Bytes of the damaged file that are in it."""
    lost_bytes: int = 0
    """Bytes that are not."""
    faults: int = 0
    """Number of damaged parts."""
    lost: list[FileFault] = []
    """The first hundred of them."""


def repaired_name(path: Path) -> Path:
    """Return the default name of a repaired file: the sealed name of an open recording, or
    `.repaired` before the suffix. It is never compressed."""
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
    """Write the repaired file, `out` or `repaired_name`; the damaged one is kept.

    Raises OSError when a file cannot be read or written or the target already exists, ValueError
    when the file is not a capture.
    """
    target = repaired_name(local_path(path)) if out is None else local_path(out)
    if target.exists():
        raise FileExistsError(f"{target} already exists")
    part = target.with_name(target.name + ".part")
    result = Repair(path=str(target))
    try:
        with part.open("xb") as stream:
            _copy_readable(path, stream, result, limits)
            stream.flush()
            os.fchmod(stream.fileno(), Path(path).stat().st_mode & 0o777)  # it has the same secrets
            os.fsync(stream.fileno())
        # Complete and on disk: now it gets its name.
        part.rename(target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)
    return result


def seal_abandoned(path: Path) -> Repair | None:
    """Seal a recording that its recorder has left open; None if it has no content.

    A kill leaves whole blocks and perhaps a part of one, which is cut off. Raises as `repair` does.
    """
    target, size = repaired_name(path), path.stat().st_size
    if not size or target.exists():  # repaired already, and not removed before the next kill
        path.unlink()
        sync_folder(path.parent)
        return None
    result = Repair(path=str(target), kept_bytes=size)
    for element in elements(path):
        if isinstance(element, Packet):
            result.packets += 1
        elif isinstance(element, FileFault):
            _add_fault(result, element)
    first = result.lost[0].offset if result.lost else size
    if result.faults > 1 or (result.faults and first + result.lost_bytes < size) or not first:
        result = repair(path)
        path.unlink()
        sync_folder(path.parent)
        return result
    with path.open("r+b") as file:
        file.truncate(first)
        os.fsync(file.fileno())
    result.kept_bytes = first
    seal(path)
    return result


def _copy_readable(
    path: str | os.PathLike[str], stream: BinaryIO, result: Repair, limits: Limits
) -> None:
    """Copy the readable parts: one pass finds the faults, a second one, in step, has the bytes."""
    at = 0
    with open_feed(path, limits) as feed:
        for element in elements(path, limits=limits):
            if isinstance(element, Packet):
                result.packets += 1
            elif isinstance(element, FileFault):
                _add_fault(result, element)
                # Without a valid first header no reader would accept the copy.
                if element.offset == 0:
                    _write_section_header(feed, stream, element)
                else:
                    _copy(feed, stream, at, element.offset, result)
                # Continue after the damaged part.
                at = element.offset + element.present_bytes
                feed.release(at)
        _copy(feed, stream, at, None, result)


def _add_fault(result: Repair, fault: FileFault) -> None:
    result.faults += 1
    result.lost_bytes += fault.present_bytes
    if len(result.lost) < _MAX_LISTED:
        result.lost.append(fault)


def _write_section_header(feed: Feed, stream: BinaryIO, fault: FileFault) -> None:
    """Replace a damaged first section header, if the rest can be read."""
    head = feed.take(0, 12)
    order = section_order(head) if head.startswith(BEGINS) else None
    if order is None or not feed.has(fault.present_bytes, 1):
        raise ValueError(f"nothing to repair: {fault.detail}")
    PcapngWriter(stream, order=order)


def _copy(feed: Feed, stream: BinaryIO, at: int, stop: int | None, result: Repair) -> None:
    while stop is None or at < stop:
        data = feed.take(at, _CHUNK if stop is None else min(_CHUNK, stop - at))
        if not data:
            return
        stream.write(data)
        result.kept_bytes += len(data)
        at += len(data)
        feed.release(at)
