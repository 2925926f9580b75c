"""What a machine needs for Spark and for lakes, looked at one by one: `wirehouse doctor`.

    for check in checkup(lake="lake"):
        print(check.state, check.name, check.found, check.advice)

Nothing here needs what it looks for: every check runs, whatever is missing, and says what to do.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from .checkup_programs import Failure, spark_trial, warming, worker_python
from .java import OLDEST, JavaError, find_java

__all__ = ["Check", "checkup"]

State = Literal["ok", "warning", "failed"]

_OLDEST_PYTHON: Final = (3, 11)
_LEAST_BYTES: Final = 200 << 20
"""With less room, Spark and lakes fail before long."""
_FEW_BYTES: Final = 2 << 30
_LAKE: Final = "pip install 'wirehouse[lake]'"
_LOOPBACK: Final = "127.0.0.1"


class Check(msgspec.Struct, frozen=True):
    """What was looked at, and what came of it."""

    name: str
    state: State
    found: str
    advice: str = ""
    """What to do, when it is not ok."""


class _Needs(NamedTuple):
    """Which versions of a package will do: from the first on, and below the second."""

    package: str
    oldest: tuple[int, ...]
    below: tuple[int, ...] | None = None


_PACKAGES: Final = (
    _Needs("pyspark", (4, 2)),
    _Needs("pandas", (2, 2), (3,)),
    _Needs("pyarrow", (18,)),
    _Needs("numpy", (2,)),
    _Needs("numba", (0, 68), (0, 69)),
    _Needs("duckdb", (1, 1)),
)
"""As in the extra `lake`."""
_PORTS: Final = {
    4040: "Spark's web pages would take the next one",
    15002: "a server of Spark Connect would need another: spark.connect.grpc.binding.port",
}
"""Ports that Spark takes when it is asked to, and what happens when they are taken."""


def checkup(
    *,
    lake: str | os.PathLike[str] | None = None,
    ports: Sequence[int] = (),
    spark: bool = True,
    limit_s: float = 300.0,
) -> Iterator[Check]:
    """All checks, one after the other; the slow ones come last.

    `ports` must be free. With `spark`, kernels are compiled and a job is run, each within
    `limit_s`.
    """
    first = [
        _python(),
        *map(_package, _PACKAGES),
        _java(),
        _cache(),
        _disk("temporary files", Path(tempfile.gettempdir()), "TMPDIR"),
        *([] if lake is None else _lake(Path(lake))),
        *(_port(number, said, "warning") for number, said in _PORTS.items() if number not in ports),
        *(_port(number, "end what listens there", "failed") for number in ports),
    ]
    yield from first
    yield _ran("Python of workers", worker_python, limit_s)
    if not spark:
        return
    broken = [each.name for each in first if each.state == "failed"]
    if broken:
        yield Check("Spark", "warning", "not tried", f"first mend: {', '.join(broken)}")
        return
    yield _ran("kernels", warming, limit_s)
    yield _ran("Spark", spark_trial, limit_s)


def _ran(name: str, program: Callable[[float], str], limit_s: float) -> Check:
    try:
        return Check(name, "ok", program(limit_s))
    except Failure as failure:
        return Check(name, "failed", failure.found, failure.advice)


# -- what is installed -----------------------------------------------------------------------


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST_PYTHON:
        wanted = ".".join(map(str, _OLDEST_PYTHON))
        return Check("Python", "failed", found, f"install Python {wanted} or newer")
    return Check("Python", "ok", f"{found} ({sys.executable})")


def _package(needs: _Needs) -> Check:
    try:
        found = importlib.metadata.version(needs.package)
    except importlib.metadata.PackageNotFoundError:
        return Check(needs.package, "failed", "not installed", _LAKE)
    version = tuple(int(each) for each in re.findall(r"\d+", found)[:3])
    if version < needs.oldest or (needs.below is not None and version >= needs.below):
        bounds = f">={_dotted(needs.oldest)}" + (
            f",<{_dotted(needs.below)}" if needs.below is not None else ""
        )
        return Check(needs.package, "failed", found, f"pip install '{needs.package}{bounds}'")
    return Check(needs.package, "ok", found)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _java() -> Check:
    try:
        found = find_java()
    except JavaError as error:
        said, _, advice = str(error).partition(": ")
        return Check("Java", "failed", said, advice or f"install Java {OLDEST} or newer")
    where = "JAVA_HOME" if os.environ.get("JAVA_HOME") else "found"
    return Check("Java", "ok", f"{found.release} ({where}: {found.program})")


# -- folders ---------------------------------------------------------------------------------


def _cache() -> Check:
    """Where compiled kernels are kept: in the first of these places that can be written."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).parents[1] / "columnar" / "__pycache__"
    places = [Path(chosen)] if chosen else [beside, _user_cache()]
    for place in places:
        if _is_writable(place):
            return Check("kernel cache", "ok", str(place))
    advice = "set NUMBA_CACHE_DIR to a folder that can be written"
    return Check("kernel cache", "failed", f"{places[0]} is read-only", advice)


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"


def _lake(path: Path) -> Iterator[Check]:
    """The folder of a lake, or the one that it will be made in."""
    place = path.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        yield Check("lake", "failed", f"{place} is no folder", "choose another place for the lake")
        return
    yield _disk("lake", place)
    yield _links(place)


def _disk(name: str, place: Path, variable: str = "") -> Check:
    other = f"set {variable} to a folder on another disk" if variable else "choose another disk"
    if not _is_writable(place):
        return Check(name, "failed", f"{place} is read-only", f"make it writable, or {other}")
    free = shutil.disk_usage(place).free
    found = f"{free / 1e9:,.1f} GB free ({place})"
    if free < _LEAST_BYTES:
        return Check(name, "failed", f"the disk is full: {found}", f"make room, or {other}")
    if free < _FEW_BYTES:
        return Check(name, "warning", found, f"make room, or {other}")
    return Check(name, "ok", found)


def _links(place: Path) -> Check:
    """A commit is a link that fails if its name is taken."""
    try:
        with tempfile.TemporaryDirectory(prefix=".wirehouse-doctor-", dir=place) as folder:
            first = Path(folder) / "first"
            first.touch()
            os.link(first, Path(folder) / "second")
    except OSError as error:
        advice = "put the lake on a POSIX file system; `wirehouse lake export` serves others"
        return Check("lake: links", "failed", f"{place}: {error.strerror or error}", advice)
    return Check("lake: links", "ok", "commits are atomic here")


def _is_writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


# -- ports -----------------------------------------------------------------------------------


def _port(number: int, advice: str, state: State) -> Check:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK, number))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            found = "taken" if taken else f"cannot be used ({error.strerror})"
            return Check(f"port {number}", state, found, advice)
    return Check(f"port {number}", "ok", "free")
