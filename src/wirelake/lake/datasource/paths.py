"""Which captures a reader is asked for: files, folders, globs, several of them.

Files that are named one by one are one capture, in the given order. A folder and a glob have a
capture for each source (`docs/concepts/lake.md`, section *Sources and admission*), with its files
in order.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from wirelake.tables.inputs import (
    Capture,
    discover,
    identified,
)

__all__ = ["PathError", "captures", "folder"]

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class PathError(ValueError):
    """There is nothing to read at a path."""


def captures(paths: Sequence[str]) -> list[list[Capture]]:
    """The captures at these paths: the files of each, in the order in which they are to be read.

    Each file is named once, and absolutely, because executors run in folders of their own.
    """
    if not paths:
        raise PathError('no path: name a file, a folder or a glob, as in load("captures/")')
    named: list[Capture] = []
    found = [named]
    for path in paths:
        for each in _at(path):
            if isinstance(each, Capture):
                named.append(each)
            else:
                found.append(each)
    return _each_once(found)


def folder(paths: Sequence[str]) -> str:
    """The one folder that a stream reads, by its absolute name."""
    if len(paths) != 1:
        raise PathError('a stream reads one folder: name it, as in load("captures/")')
    local = Path(_local(paths[0]))
    if not local.is_dir():
        raise PathError(f"{paths[0]}: a stream reads a folder, and there is none of this name")
    return str(local.absolute())


def _at(path: str) -> Iterator[Capture | list[Capture]]:
    """Files that are named, and whole captures."""
    local = Path(_local(path))
    if local.is_dir():
        found = _sources(discover(local))
        if not found:
            raise PathError(f"{path}: no captures in this folder (*.pcap, *.pcapng, *.gz, *.zst)")
        yield from found
    elif local.exists():
        yield identified(local)
    elif matches := sorted(glob.glob(str(local), recursive=True)):
        yield from _matched(map(Path, matches))
    elif "," in path:  # names may hold commas; what is no name is a list
        for part in filter(None, map(str.strip, path.split(","))):
            yield from _at(part)
    else:
        raise PathError(f"{path}: there is no such file or folder")


def _matched(paths: Iterable[Path]) -> Iterator[list[Capture]]:
    """The sources of a glob: those of the folders, and those of the files in each folder."""
    files: dict[Path, list[Capture]] = {}
    for path in paths:
        if path.is_dir():
            yield from _sources(discover(path))
        else:
            files.setdefault(path.parent, []).append(identified(path))
    for found in files.values():
        yield from _sources(found)


def _sources(files: Iterable[Capture]) -> list[list[Capture]]:
    found: dict[str, list[Capture]] = {}
    for each in sorted(files, key=lambda file: (file.source, file.sequence, file.path)):
        found.setdefault(each.source, []).append(each)
    return list(found.values())


def _each_once(found: Iterable[Iterable[Capture]]) -> list[list[Capture]]:
    seen: set[str] = set()
    kept: list[list[Capture]] = []
    for files in found:
        new = list({each.path: each for each in files if each.path not in seen}.values())
        seen.update(each.path for each in new)
        if new:
            kept.append(new)
    return kept


def _local(path: str) -> str:
    """The path without `file:`, which Spark's users are used to write."""
    if not _SCHEME.match(path) or Path(path).exists():
        return path
    parts = urlsplit(path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise PathError(f"{path}: captures are read from mounted folders, not from {parts.scheme}:")
    return unquote(parts.path)
