"""Checks that run a program: the Python of workers, the compiler of kernels, and Spark itself.

Each runs in a process of its own, with a time limit, and says in a few words what it found.
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

from ..spark.errors import reason

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


class Failure(Exception):  # noqa: N818 - it is what was found, not a mistake of ours
    """What a program found to be wrong, and what to do about it."""

    def __init__(self, found: str, advice: str):
        super().__init__(found)
        self.found = found
        self.advice = advice


def worker_python(limit_s: float) -> str:
    """The Python that workers run in must be like this one, and have Wirelake."""
    program = os.environ.get("PYSPARK_PYTHON") or sys.executable
    unset = "unset PYSPARK_PYTHON, or set it to a Python that has wirelake"
    if shutil.which(program) is None:
        raise Failure(f"PYSPARK_PYTHON is {program}, which is no program", unset)
    said = _said([program, "-c", _IMPORTING], limit_s, f"{program} fails", unset)
    try:
        found = json.loads(said)
    except json.JSONDecodeError as error:
        raise Failure(f"{program} does not answer as a Python would", unset) from error
    version = ".".join(map(str, found["version"]))
    if found["version"][:2] != list(sys.version_info[:2]):
        here = ".".join(map(str, sys.version_info[:2]))
        raise Failure(f"{program} is Python {version}, and this is {here}", unset)
    if "missing" in found:
        advice = f"{program} -m pip install 'wirelake[lake]'"
        raise Failure(f"{program} has no {found['missing']}", advice)
    return f"{version} ({program})"


def warming(limit_s: float) -> str:
    """All kernels, compiled or from the cache."""
    began = time.monotonic()
    command = [sys.executable, "-m", "wirelake.lake.spark.warm"]
    advice = "run `python -m wirelake.lake.spark.warm` to see why; is the machine out of memory?"
    _said(command, limit_s, "kernels do not compile", advice)
    return f"ready in {time.monotonic() - began:.0f} s"


def spark_trial(limit_s: float) -> str:
    """A job in a session of its own."""
    began = time.monotonic()
    command = [sys.executable, "-m", "wirelake.lake.doctor.trial"]
    advice = "run `python -m wirelake.lake.doctor.trial` to see everything that Spark says"
    found = json.loads(_said(command, limit_s, "Spark fails", advice).splitlines()[-1])
    if found["messages"] != 2:
        raise Failure(f"a job read {found['messages']} messages instead of 2", advice)
    return f"{found['spark']}, a job took {time.monotonic() - began:.0f} s"


def _said(command: list[str], limit_s: float, what: str, advice: str) -> str:
    """What a program prints. Raises Failure when it fails, or does not end in time."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except OSError as error:
        raise Failure(f"{what}: {error.strerror or error}", advice) from error
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failure(f"{what}: no answer within {limit_s:.0f} s", advice) from error
    if process.returncode != 0:
        raise Failure(f"{what}: {reason(err) or f'exit code {process.returncode}'}", advice)
    return out
