"""Which files a reader of captures is asked for: files, folders, globs, several of them."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

__all__ = ["PathError", "captures"]

_CAPTURE: Final = re.compile(r".+\.(pcap|pcapng|cap|ntar)(\.(gz|zst))?", re.IGNORECASE)
"""Names of captures. What is being recorded ends in `.open`, and is left alone."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class PathError(ValueError):
    """There is nothing to read at a path."""


def captures(paths: Sequence[str]) -> list[str]:
    """The captures at these paths, in the order in which they are to be read, each once.

    A folder stands for the captures in it, by name, not for those in folders below. The names are
    absolute, because executors run in folders of their own.
    """
    if not paths:
        raise PathError('no path: name a file, a folder or a glob, as in load("captures/")')
    found = dict.fromkeys(each for path in paths for each in _at(path))
    return [str(each) for each in found]


def _at(path: str) -> Iterator[Path]:
    local = Path(_local(path))
    if local.exists():
        yield from _inside(local)
    elif matches := sorted(glob.glob(str(local), recursive=True)):
        for each in matches:
            yield from _inside(Path(each), strict=False)
    elif "," in path:  # names may hold commas; what is no name is a list
        for part in filter(None, map(str.strip, path.split(","))):
            yield from _at(part)
    else:
        raise PathError(f"{path}: there is no such file or folder")


def _inside(path: Path, *, strict: bool = True) -> list[Path]:
    if not path.is_dir():
        return [path.absolute()]
    found = sorted(each for each in path.iterdir() if _is_capture(each))
    if strict and not found:
        raise PathError(f"{path}: no captures in this folder (*.pcap, *.pcapng, also .gz, .zst)")
    return [each.absolute() for each in found]


def _is_capture(path: Path) -> bool:
    return _CAPTURE.fullmatch(path.name) is not None and path.is_file()


def _local(path: str) -> str:
    """The path without `file:`, which Spark's users are used to write."""
    if not _SCHEME.match(path) or Path(path).exists():
        return path
    parts = urlsplit(path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise PathError(f"{path}: captures are read from mounted folders, not from {parts.scheme}:")
    return unquote(parts.path)
