"""Checks of places: folders that must be written, disks with room, ports that must be free."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from wirelake.wire.generate.load import cache_folder

from ..spark.java import JavaError, java_home

__all__ = ["Check", "State", "caches", "disk", "lake_folder", "port"]

State = Literal["ok", "warning", "failed"]
"""What came of a check; `failed` when something would not work."""

_LEAST_BYTES: Final = 200 << 20
"""With less room, Spark and lakes fail before long."""
_FEW_BYTES: Final = 2 << 30
_LOOPBACK: Final = "127.0.0.1"
_READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_FOLDER: Final = (errno.ENOTDIR, errno.EEXIST)


class Check(msgspec.Struct, frozen=True):
    """What was looked at, and what came of it."""

    name: str
    state: State
    found: str
    advice: str = ""
    """What to do, when it is not ok."""


# -- folders ---------------------------------------------------------------------------------


def caches() -> Iterator[Check]:
    """Where compiled kernels are kept, and where Wirelake keeps what it makes."""
    yield _kernel_cache()
    yield _own_cache()


def _kernel_cache() -> Check:
    """Kernels go to the first of these places that can be written."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).parents[2] / "columnar" / "__pycache__"
    places = [Path(chosen)] if chosen else [beside, _user_cache()]
    for place in places:
        if trouble(place) is None:
            return Check("kernel cache", "ok", str(place))
    advice = "set NUMBA_CACHE_DIR to a folder that can be written"
    return Check("kernel cache", "failed", f"{places[-1]} {trouble(places[-1])}", advice)


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"


def _own_cache() -> Check:
    """Without it a system's Java still starts, and codecs are made anew each time."""
    place = cache_folder()
    why = trouble(place)
    if why is None:
        return Check("cache", "ok", str(place))
    advice = "set WIRELAKE_CACHE to a folder that can be written"
    return Check("cache", "warning" if _java_starts() else "failed", f"{place} {why}", advice)


def _java_starts() -> bool:
    """Whether there is a Java that needs no script in the cache."""
    try:
        java_home()
    except JavaError:
        return False
    return True


def lake_folder(path: Path) -> Iterator[Check]:
    """The folder of a lake, or the one that it will be made in."""
    place = path.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        yield Check("lake", "failed", f"{place} is no folder", "choose another place for the lake")
        return
    yield disk("lake", place)
    yield _links(place)


def disk(name: str, place: Path, variable: str = "") -> Check:
    """Whether a folder can be written, and how much room it has."""
    other = f"set {variable} to a folder on another disk" if variable else "choose another disk"
    why = trouble(place)
    free = shutil.disk_usage(place).free if place.is_dir() else 0
    found = f"{free / 1e9:,.1f} GB free ({place})"
    if why == _IS_FULL or (why is None and free < _LEAST_BYTES):
        return Check(name, "failed", f"the disk is full: {found}", f"make room, or {other}")
    if why is not None:
        return Check(name, "failed", f"{place} {why}", f"make it writable, or {other}")
    if free < _FEW_BYTES:
        return Check(name, "warning", found, f"make room, or {other}")
    return Check(name, "ok", found)


def _links(place: Path) -> Check:
    """A commit is a link that fails if its name is taken."""
    try:
        with tempfile.TemporaryDirectory(prefix=".wirelake-doctor-", dir=place) as folder:
            first = Path(folder) / "first"
            first.touch()
            os.link(first, Path(folder) / "second")
    except OSError as error:
        advice = "put the lake on a POSIX file system; `wirelake lake export` serves others"
        return Check("lake: links", "failed", f"{place}: {error.strerror or error}", advice)
    return Check("lake: links", "ok", "commits are atomic here")


_IS_FULL: Final = "is on a disk that is full"


def trouble(place: Path) -> str | None:
    """What is wrong with a folder that is to be written; None when it can be."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(4096))
    except OSError as error:
        if error.errno in _FULL:
            return _IS_FULL
        if error.errno in _READ_ONLY:
            return "is read-only"
        if error.errno in _NO_FOLDER:
            return "is no folder"
        return f"cannot be written ({error.strerror or error})"
    return None


# -- ports -----------------------------------------------------------------------------------


def port(number: int, advice: str, state: State) -> Check:
    """Whether somebody listens on a port of this machine; `state` when so."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK, number))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            found = "taken" if taken else f"cannot be used ({error.strerror})"
            return Check(f"port {number}", state, found, advice)
    return Check(f"port {number}", "ok", "free")
