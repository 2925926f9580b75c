"""Checks that run a program: the workers' Python, the kernel compiler, and Spark.

Each runs in a process of its own with a time limit, and returns what it found.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Final

from ..spark.session import reason

__all__ = ["Failure", "spark_trial", "warming", "worker_python"]

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
    command = [sys.executable, "-m", "wirelake.lake.doctor.trial"]
    advice = "run `python -m wirelake.lake.doctor.trial` to see the output of Spark"
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
