"""The captures that the paths of a read name: files, folders, globs, and lists of them.

Files named one by one are one capture, in the given order. A folder or a glob has one capture for
each source (`docs/concepts/lake.md`, section *Sources and admission*), with its files in order.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from wirelake.tables.inputs import Capture, discover, identified

__all__ = ["PathError", "captures", "folder"]

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class PathError(ValueError):
    """A path at which there is nothing to read."""


def captures(paths: Sequence[str]) -> list[list[Capture]]:
    """Return the captures at some paths: the files of each, in reading order.

    Each file is listed once, with an absolute path: executors have other working directories.
    """
    if not paths:
        raise PathError(
            'no path given; expected a file, a folder or a glob, as in load("captures/")'
        )
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
    """Return the absolute path of the folder that a stream reads."""
    if len(paths) != 1:
        raise PathError('a stream reads one folder, as in load("captures/")')
    local = Path(_local(paths[0]))
    if not local.is_dir():
        raise PathError(f"{paths[0]}: not a folder; a stream reads a folder")
    return str(local.absolute())


def _at(path: str) -> Iterator[Capture | list[Capture]]:
    """Yield single files, and whole captures."""
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
    elif "," in path:  # a name may contain commas; only what does not exist is a list
        for part in filter(None, map(str.strip, path.split(","))):
            yield from _at(part)
    else:
        raise PathError(f"{path}: no such file or folder")


def _matched(paths: Iterable[Path]) -> Iterator[list[Capture]]:
    """Yield the sources of the folders that a glob matches, and of the files by folder."""
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
    """Return a path without the scheme `file:`, which Spark users often write."""
    if not _SCHEME.match(path) or Path(path).exists():
        return path
    parts = urlsplit(path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise PathError(
            f"{path}: unsupported scheme {parts.scheme!r}; captures are read from mounted folders"
        )
    return unquote(parts.path)
