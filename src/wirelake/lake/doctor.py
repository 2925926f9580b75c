"""The checks of `wirelake doctor`: what a machine needs for hubs, lakes and Spark.

    for check in run_checks(lake="lake"):
        print(check.state, check.name, check.found, check.advice)

No check imports what it checks: every check runs, whatever is missing, and says what to do. What
may hang or crash (the Python of workers, the compiler of kernels, Spark) runs in a process of its
own with a time limit. `python -m wirelake.lake.doctor` is the Spark job among them.
"""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from wirelake.columnar.jit.mode import chosen_folder
from wirelake.tables.paths import absolute_path
from wirelake.wire.generate.dynamic import cache_folder, others_may_write

from .spark.java import OLDEST, JavaError, find_java, java_home
from .spark.session import reason, session

__all__ = [
    "Check",
    "Failure",
    "State",
    "caches",
    "disk",
    "lake_folder",
    "port",
    "run_checks",
    "spark_trial",
    "trial",
    "warming",
    "worker_python",
    "write_problem",
]

State = Literal["ok", "warning", "failed"]
"""Result of a check; `failed` if something would not work."""


class Check(msgspec.Struct, frozen=True):
    """A check and its result."""

    name: str
    state: State
    found: str
    advice: str = ""
    """What to do if it is not ok."""


_OLDEST_PYTHON: Final = (3, 11)


class _Needs(NamedTuple):
    """A supported range of versions: at least the first, below the second."""

    package: str
    oldest: tuple[int, ...]
    below: tuple[int, ...] | None = None


_LAKE_PACKAGES: Final = (
    _Needs("pyspark", (4, 2)),
    _Needs("pandas", (2, 2), (3,)),
    _Needs("pyarrow", (18,)),
    _Needs("numpy", (2,)),
    _Needs("numba", (0, 68), (0, 69)),
    _Needs("duckdb", (1, 5)),
)
"""The extra `lake`."""
_HUB_PACKAGES: Final = (
    _Needs("starlette", (0, 41)),
    _Needs("uvicorn", (0, 32)),
    _Needs("prometheus-client", (0, 21)),
    _Needs("zstandard", (0, 23)),
)
"""As in the extra `hub`."""
_REPORT_PACKAGES: Final = (_Needs("plotly", (6,)),)
"""As in the extra `report`."""
_SPARK_PORTS: Final = {
    4040: "Spark's web pages would take the next one",
    15002: "a server of Spark Connect would need another: spark.connect.grpc.binding.port",
}
"""Ports that Spark uses on request, and what happens if they are in use."""


def run_checks(
    *,
    lake: str | os.PathLike[str] | None = None,
    ports: Sequence[int] = (),
    spark: bool = True,
    limit_s: float = 300.0,
) -> Iterator[Check]:
    """Yield all checks, the slow ones last.

    A port of `ports` that is in use is a failure, a default port of the hub or Spark a warning.
    With `spark`, kernels are compiled and a job is run, each within `limit_s`.
    """
    # Quick checks first: Spark is only tried where nothing is known to be broken, since its own
    # errors would name a symptom.
    first = [
        _python(),
        *(_package(each, "lake", "failed") for each in _LAKE_PACKAGES),
        *(_package(each, "hub", "warning") for each in _HUB_PACKAGES),
        *(_package(each, "report", "warning") for each in _REPORT_PACKAGES),
        _java(),
        *caches(),
        disk("temporary files", Path(os.environ.get("TMPDIR") or "/tmp"), "TMPDIR"),
        *([] if lake is None else lake_folder(absolute_path(lake))),
        *_ports(ports),
    ]
    yield from first
    yield _ran("Python of workers", worker_python, limit_s)
    if not spark:
        return
    # Only failures: a warning, such as a port in use, does not keep Spark from running.
    broken = [each.name for each in first if each.state == "failed"]
    if broken:
        yield Check("Spark", "warning", "skipped", f"first fix: {', '.join(broken)}")
        return
    yield _ran("kernels", warming, limit_s)
    yield _ran("Spark", spark_trial, limit_s)


def _ran(name: str, program: Callable[[float], str], limit_s: float) -> Check:
    try:
        return Check(name, "ok", program(limit_s))
    except Failure as failure:
        return Check(name, "failed", failure.found, failure.advice)


# -- packages --------------------------------------------------------------------------------


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        return Check("Python", "failed", found, f"install Python {oldest} or newer")
    return Check("Python", "ok", f"{found} ({sys.executable})")


def _package(needs: _Needs, extra: str, state: State) -> Check:
    try:
        found = importlib.metadata.version(needs.package)
    except importlib.metadata.PackageNotFoundError:
        return Check(needs.package, state, "not installed", f"pip install 'wirelake[{extra}]'")
    version = tuple(int(each) for each in re.findall(r"\d+", found)[:3])
    if version < needs.oldest or (needs.below is not None and version >= needs.below):
        return Check(needs.package, state, found, f"pip install '{needs.package}{_bounds(needs)}'")
    return Check(needs.package, "ok", found)


def _bounds(needs: _Needs) -> str:
    """Return the range as a pip requirement."""
    below = "" if needs.below is None else f",<{_dotted(needs.below)}"
    return f">={_dotted(needs.oldest)}{below}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _java() -> Check:
    try:
        found = find_java()
    except JavaError as error:
        cause, _, advice = str(error).partition(": ")
        return Check("Java", "failed", cause, advice or f"install Java {OLDEST} or newer")
    where = "JAVA_HOME" if os.environ.get("JAVA_HOME") else "found"
    return Check("Java", "ok", f"{found.release} ({where}: {found.program})")


# -- folders -----------------------------------------------------------------------------------

_LEAST_BYTES: Final = 200 << 20
"""With less free space Spark and lakes fail soon."""
_FEW_BYTES: Final = 2 << 30
_LOOPBACK: Final = "127.0.0.1"
_READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_FOLDER: Final = (errno.ENOTDIR, errno.EEXIST)


def caches() -> Iterator[Check]:
    """Check the cache of compiled kernels, and the cache of Wirelake."""
    yield _kernel_cache()
    yield _own_cache()


def _kernel_cache() -> Check:
    place = chosen_folder()
    why = write_problem(place)
    if why is None and place.is_dir() and others_may_write(place):
        why = "may be written by other users"
    if why is None:
        return Check("kernel cache", "ok", str(place))
    advice = "set WIRELAKE_CACHE or NUMBA_CACHE_DIR to a writable folder"
    return Check("kernel cache", "failed", f"{place} {why}", advice)


def _own_cache() -> Check:
    """Check the cache folder; without it, codecs are generated again in each process."""
    place = cache_folder()
    why = write_problem(place)
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
    why = write_problem(place)
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
    """Check that hard links work: a commit creates one, which fails if the name exists."""
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


def write_problem(place: Path) -> str | None:
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


# -- ports -------------------------------------------------------------------------------------


def _ports(requested: Sequence[int]) -> Iterator[Check]:
    """Check default ports of hub and Spark, and requested ports."""
    defaults = {**_hub_ports(), **_SPARK_PORTS}
    for number, advice in defaults.items():
        if number not in requested:
            yield port(number, advice, "warning")
    for number in requested:
        yield port(number, "stop the process that listens there, or choose another port", "failed")


def _hub_ports() -> dict[int, str]:
    from wirelake.hub.config import Config

    return {
        port: f"if it is not your hub: stop the process that listens there, or set {name}.port in "
        "the hub's configuration"
        for name, port in Config().ports.items()
    }


def port(number: int, advice: str, state: State) -> Check:
    """Check that a local port is free; `state` is the result if it is not."""
    # With SO_REUSEADDR, as servers bind: a port in TIME_WAIT counts as free.
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK, number))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            found = "in use" if in_use else f"cannot be used ({error.strerror})"
            return Check(f"port {number}", state, found, advice)
    return Check(f"port {number}", "ok", "free")


# -- programs ----------------------------------------------------------------------------------

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
    command = [sys.executable, "-m", "wirelake.columnar.read.warm"]
    advice = "run `python -m wirelake.columnar.read.warm` to see why; check the free memory"
    _output(command, limit_s, "kernels do not compile", advice)
    return f"ready in {time.monotonic() - began:.0f} s"


def spark_trial(limit_s: float) -> str:
    """Run a job in a session of its own."""
    began = time.monotonic()
    command = [sys.executable, "-m", "wirelake.lake.doctor"]
    advice = "run `python -m wirelake.lake.doctor` to see the output of Spark"
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


def trial() -> dict[str, Any]:
    """Start Spark, read two captures in a worker, and stop it."""
    # Imported here: it needs numba, which the checks must be able to find missing.
    from wirelake.columnar.read.warm import sample_protocol, small_captures

    with tempfile.TemporaryDirectory(prefix="wirelake-trial-") as folder:
        small_captures(Path(folder))
        spark = session("wirelake trial", cores=1)
        reader = (
            spark.read.format("wirelake")
            .option("force_protocol", sample_protocol())
            .option("columns", "name")
        )
        found = {"spark": spark.version, "messages": len(reader.load(folder).collect())}
        spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(trial()))
