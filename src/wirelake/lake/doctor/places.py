"""Checks of folders, disk space and ports."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from wirelake.wire.generate.dynamic import cache_folder

from ..spark.session import JavaError, java_home, reason

__all__ = [
    "Check",
    "Failure",
    "State",
    "caches",
    "disk",
    "lake_folder",
    "port",
    "spark_trial",
    "warming",
    "worker_python",
]


State = Literal["ok", "warning", "failed"]
"""Result of a check; `failed` if something would not work."""

_LEAST_BYTES: Final = 200 << 20
"""With less free space Spark and lakes fail soon."""
_FEW_BYTES: Final = 2 << 30
_LOOPBACK: Final = "127.0.0.1"
_READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_FOLDER: Final = (errno.ENOTDIR, errno.EEXIST)


class Check(msgspec.Struct, frozen=True):
    """A check and its result."""

    name: str
    state: State
    found: str
    advice: str = ""
    """What to do if it is not ok."""


# -- folders ---------------------------------------------------------------------------------


def caches() -> Iterator[Check]:
    """Check the cache of compiled kernels, and the cache of Wirelake."""
    yield _kernel_cache()
    yield _own_cache()


def _kernel_cache() -> Check:
    """Numba uses the first of these folders that is writable."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).parents[2] / "columnar" / "__pycache__"
    places = [Path(chosen)] if chosen else [beside, _user_cache()]
    for place in places:
        if trouble(place) is None:
            return Check("kernel cache", "ok", str(place))
    advice = "set NUMBA_CACHE_DIR to a writable folder"
    return Check("kernel cache", "failed", f"{places[-1]} {trouble(places[-1])}", advice)


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"


def _own_cache() -> Check:
    """Without it a system Java still starts, and codecs are generated again each time."""
    place = cache_folder()
    why = trouble(place)
    if why is None:
        return Check("cache", "ok", str(place))
    advice = "set WIRELAKE_CACHE to a writable folder"
    return Check("cache", "warning" if _java_starts() else "failed", f"{place} {why}", advice)


def _java_starts() -> bool:
    """Return whether a Java starts without a script in the cache."""
    try:
        java_home()
    except JavaError:
        return False
    return True


def lake_folder(path: Path) -> Iterator[Check]:
    """Check the folder of a lake, or the one in which it will be created."""
    place = path.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        yield Check(
            "lake", "failed", f"{place} is not a folder", "choose another path for the lake"
        )
        return
    yield disk("lake", place)
    yield _links(place)


def disk(name: str, place: Path, variable: str = "") -> Check:
    """Check that a folder is writable and has free space."""
    other = f"set {variable} to a folder on another disk" if variable else "choose another disk"
    why = trouble(place)
    free = shutil.disk_usage(place).free if place.is_dir() else 0
    found = f"{free / 1e9:,.1f} GB free ({place})"
    if why == _IS_FULL or (why is None and free < _LEAST_BYTES):
        return Check(name, "failed", f"disk full: {found}", f"free disk space, or {other}")
    if why is not None:
        return Check(name, "failed", f"{place} {why}", f"make it writable, or {other}")
    if free < _FEW_BYTES:
        return Check(name, "warning", found, f"free disk space, or {other}")
    return Check(name, "ok", found)


def _links(place: Path) -> Check:
    """A commit creates a hard link, which fails if the name exists."""
    try:
        with tempfile.TemporaryDirectory(prefix=".wirelake-doctor-", dir=place) as folder:
            first = Path(folder) / "first"
            first.touch()
            os.link(first, Path(folder) / "second")
    except OSError as error:
        advice = "put the lake on a POSIX file system; `wirelake lake export` serves others"
        return Check("lake: links", "failed", f"{place}: {error.strerror or error}", advice)
    return Check("lake: links", "ok", "commits are atomic")


_IS_FULL: Final = "is on a full disk"


def trouble(place: Path) -> str | None:
    """Return why a folder is not writable; None if it is."""
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
            return "is not a folder"
        return f"is not writable ({error.strerror or error})"
    return None


# -- ports -----------------------------------------------------------------------------------


def port(number: int, advice: str, state: State) -> Check:
    """Check that a local port is free; `state` is the result if it is not."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK, number))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            found = "in use" if in_use else f"cannot be used ({error.strerror})"
            return Check(f"port {number}", state, found, advice)
    return Check(f"port {number}", "ok", "free")


# Checks that run a program: the workers' Python, the kernel compiler, and Spark.


_IMPORTING: Final = (
    "import json, sys\n"
    "found = {'version': sys.version_info[:3]}\n"
    "try:\n"
    "    import wirelake.lake.datasource.source\n"
    "except ImportError as error:\n"
    "    found['missing'] = error.name\n"
    "print(json.dumps(found))\n"
)


class Failure(Exception):  # noqa: N818 - the result of a check
    """A failed check, and what to do."""

    def __init__(self, found: str, advice: str):
        super().__init__(found)
        self.found = found
        self.advice = advice


def worker_python(limit_s: float) -> str:
    """Check that the workers' Python has this version and Wirelake installed."""
    program = os.environ.get("PYSPARK_PYTHON") or sys.executable
    unset = "unset PYSPARK_PYTHON, or set it to a Python with wirelake installed"
    if shutil.which(program) is None:
        raise Failure(f"PYSPARK_PYTHON is {program}, which is not an executable", unset)
    output = _output([program, "-c", _IMPORTING], limit_s, f"{program} fails", unset)
    try:
        found = json.loads(output)
    except json.JSONDecodeError as error:
        raise Failure(f"{program} is not a Python interpreter", unset) from error
    version = ".".join(map(str, found["version"]))
    if found["version"][:2] != list(sys.version_info[:2]):
        here = ".".join(map(str, sys.version_info[:2]))
        raise Failure(f"{program} is Python {version}; expected {here}", unset)
    if "missing" in found:
        advice = f"{program} -m pip install 'wirelake[lake]'"
        raise Failure(f"{program} cannot import {found['missing']}", advice)
    return f"{version} ({program})"


def warming(limit_s: float) -> str:
    """Compile all kernels, or load them from the cache."""
    began = time.monotonic()
    command = [sys.executable, "-m", "wirelake.lake.spark.warm"]
    advice = "run `python -m wirelake.lake.spark.warm` to see why; check the free memory"
    _output(command, limit_s, "kernels do not compile", advice)
    return f"ready in {time.monotonic() - began:.0f} s"


def spark_trial(limit_s: float) -> str:
    """Run a job in a session of its own."""
    began = time.monotonic()
    command = [sys.executable, "-m", "wirelake.lake.doctor.checks"]
    advice = "run `python -m wirelake.lake.doctor.checks` to see the output of Spark"
    found = json.loads(_output(command, limit_s, "Spark fails", advice).splitlines()[-1])
    if found["messages"] != 2:
        raise Failure(f"a job read {found['messages']} messages; expected 2", advice)
    return f"{found['spark']}, a job took {time.monotonic() - began:.0f} s"


def _output(command: list[str], limit_s: float, what: str, advice: str) -> str:
    """Return what a program prints. Raises Failure if it fails or exceeds the time limit."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that its child processes can be killed with it
        )
    except OSError as error:
        raise Failure(f"{what}: {error.strerror or error}", advice) from error
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failure(f"{what}: no result within {limit_s:.0f} s", advice) from error
    if process.returncode != 0:
        raise Failure(f"{what}: {reason(err) or f'exit code {process.returncode}'}", advice)
    return out
