"""The checks of `wirelake doctor`: what a machine needs for hubs, lakes and Spark.

    for check in run_checks(lake="lake"):
        print(check.state, check.name, check.found, check.advice)

No check imports what it checks: every check runs, whatever is missing, and says what to do.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..spark.session import OLDEST, JavaError, find_java, session
from .places import (
    Check,
    Failure,
    State,
    caches,
    disk,
    lake_folder,
    port,
    spark_trial,
    warming,
    worker_python,
)

__all__ = [
    "run_checks",
    "trial",
]


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
    first = [
        _python(),
        *(_package(each, "lake", "failed") for each in _LAKE_PACKAGES),
        *(_package(each, "hub", "warning") for each in _HUB_PACKAGES),
        *(_package(each, "report", "warning") for each in _REPORT_PACKAGES),
        _java(),
        *caches(),
        disk("temporary files", Path(os.environ.get("TMPDIR") or "/tmp"), "TMPDIR"),
        *([] if lake is None else lake_folder(Path(lake))),
        *_ports(ports),
    ]
    yield from first
    yield _ran("Python of workers", worker_python, limit_s)
    if not spark:
        return
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
        wanted = ".".join(map(str, _OLDEST_PYTHON))
        return Check("Python", "failed", found, f"install Python {wanted} or newer")
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
        said, _, advice = str(error).partition(": ")
        return Check("Java", "failed", said, advice or f"install Java {OLDEST} or newer")
    where = "JAVA_HOME" if os.environ.get("JAVA_HOME") else "found"
    return Check("Java", "ok", f"{found.release} ({where}: {found.program})")


# -- ports -----------------------------------------------------------------------------------


def _ports(wanted: Sequence[int]) -> Iterator[Check]:
    """Check default ports of hub and Spark, and requested ports."""
    usual = {**_hub_ports(), **_SPARK_PORTS}
    for number, advice in usual.items():
        if number not in wanted:
            yield port(number, advice, "warning")
    for number in wanted:
        yield port(number, "stop the process that listens there, or choose another port", "failed")


def _hub_ports() -> dict[int, str]:
    from wirelake.hub.config import Config

    return {
        port: f"if it is not your hub: stop the process that listens there, or set {name}.port in "
        "the hub's configuration"
        for name, port in Config().ports.items()
    }


# A small job that exercises everything that reading captures with Spark needs.


def trial() -> dict[str, Any]:
    """Start Spark, read two captures in a worker, and stop it."""
    # Imported here: it needs numba, which the checks must be able to find missing.
    from ..spark.warm import sample_protocol, small_captures

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
