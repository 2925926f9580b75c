"""`wirelake doctor`: each cause is named, with what to do; and a machine that is well."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import re
import socket
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from wirelake.hub.config import Config
from wirelake.lake import doctor
from wirelake.lake.doctor import Check, Failure, run_checks, spark_trial, warming, worker_python

from .conftest import Run

pytestmark = pytest.mark.slow

GB = 10**9
ROOT = Path(__file__).parents[2]


class Usage(NamedTuple):
    free: int


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that need no time."""
    for name in ("worker_python", "warming", "spark_trial"):
        monkeypatch.setattr(doctor, name, lambda _, name=name: f"{name} ran")


def check(name: str, **options: Any) -> Check:
    found = {each.name: each for each in run_checks(**{"spark": False, **options})}
    return found[name]


def program(folder: Path, text: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# -- the command -----------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_a_machine_that_is_well(run: Run, tmp_path: Path) -> None:
    # With kernels and Spark, the page docs/guides/cluster.md runs it.
    found = run("doctor", "--lake", str(tmp_path / "lake"))
    assert found.code == 0, found.out
    states = {line.split()[0] for line in found.lines if not line.startswith(" ")}
    assert states <= {"ok", "warning"}
    assert found.lines[-1] == "ok       Spark              spark_trial ran"


@pytest.mark.usefixtures("quick")
def test_json_and_the_exit_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    found = run("doctor", "--json")
    assert found.code == 1
    checks = [json.loads(line) for line in found.lines]
    assert {each["name"]: each["state"] for each in checks}["Java"] == "failed"
    assert checks[-1] == {
        "name": "Spark",
        "state": "warning",
        "found": "skipped",
        "advice": "first fix: Java",
    }


@pytest.mark.usefixtures("quick")
def test_the_remedy_is_printed_below(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    lines = run("doctor", "--no-spark").lines
    place = lines.index(f"failed   {'Java':17}  JAVA_HOME is /nowhere, which has no bin/java")
    assert lines[place + 1].strip().startswith("unset it, or install Java 17 or newer")


@pytest.mark.usefixtures("quick")
def test_programs_run_unless_they_are_not_wanted() -> None:
    names = [each.name for each in run_checks()]
    assert names[-3:] == ["Python of workers", "kernels", "Spark"]
    assert [each.name for each in run_checks(spark=False)] == names[:-2]


# -- causes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "version", "advice"),
    [
        ("pandas", "3.1.1", "pip install 'pandas>=2.2,<3'"),
        ("pyspark", "4.1.2", "pip install 'pyspark>=4.2'"),
        ("numba", "0.67.0rc1", "pip install 'numba>=0.68,<0.69'"),
        ("pyspark", None, "pip install 'wirelake[lake]'"),
        ("uvicorn", None, "pip install 'wirelake[hub]'"),
        ("plotly", None, "pip install 'wirelake[report]'"),
    ],
)
@pytest.mark.usefixtures("quick")
def test_packages(
    monkeypatch: pytest.MonkeyPatch, package: str, version: str | None, advice: str
) -> None:
    real = importlib.metadata.version

    def installed(name: str) -> str:
        if name != package:
            return real(name)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", installed)
    found = check(package)
    state = "warning" if package in ("uvicorn", "plotly") else "failed"
    assert (found.state, found.found) == (state, version or "not installed")
    assert found.advice == advice


@pytest.mark.usefixtures("quick")
def test_a_python_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert check("Python") == Check("Python", "failed", "3.10.4", "install Python 3.11 or newer")


@pytest.mark.usefixtures("quick")
def test_a_kernel_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    found = check("kernel cache")
    assert (found.state, found.found) == ("failed", f"{tmp_path / 'file'} is not a folder")
    assert "NUMBA_CACHE_DIR" in found.advice
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert check("kernel cache").state == "ok"


@pytest.mark.usefixtures("quick")
def test_kernels_are_kept_in_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("WIRELAKE_CACHE", str(tmp_path))
    assert check("kernel cache") == Check("kernel cache", "ok", str(tmp_path / "kernels"))


@pytest.mark.parametrize(
    ("free", "state"), [(0.1 * GB, "failed"), (1 * GB, "warning"), (50 * GB, "ok")]
)
@pytest.mark.usefixtures("quick")
def test_full_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: float, state: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(int(free)))
    for name in ("temporary files", "lake"):
        found = check(name, lake=tmp_path / "not" / "yet")
        assert found.state == state
        assert ("disk full" in found.found) == (state == "failed")
        assert bool(found.advice) == (state != "ok")


@pytest.mark.usefixtures("quick")
def test_a_lake_in_an_unusual_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert check("lake", lake=tmp_path / "file").found == f"{tmp_path / 'file'} is not a folder"
    assert check("lake: links", lake=tmp_path).state == "ok"

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    found = check("lake: links", lake=tmp_path)
    assert (found.state, found.found) == ("failed", f"{tmp_path}: Operation not permitted")
    assert "wirelake lake export" in found.advice
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file"]


@pytest.mark.usefixtures("quick")
def test_a_port_that_is_taken() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        found = check(f"port {port}", ports=[port])
    assert (found.state, found.found) == ("failed", "in use")
    assert check(f"port {port}", ports=[port]).state == "ok"


@pytest.mark.usefixtures("quick")
def test_bounds_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {
        found[1]: found[2]
        for extra in project["optional-dependencies"].values()
        for each in extra
        if (found := re.match(r"([a-z-]+)(>=[0-9.,<]+)", each))
    }
    groups = (doctor._LAKE_PACKAGES, doctor._HUB_PACKAGES, doctor._REPORT_PACKAGES)
    for needs in (each for group in groups for each in group):
        assert wanted[needs.package] == doctor._bounds(needs)


@pytest.mark.usefixtures("quick")
def test_ports_of_a_hub_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {each.name for each in run_checks(spark=False)}
    ports = Config().ports
    assert {"esnp", "tny", "relay", "magline", "comet", "admin"} == set(ports)
    assert {f"port {each}" for each in ports.values()} <= names
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setattr(doctor, "_hub_ports", lambda: {port: "say so"})
        found = check(f"port {port}")
    assert found == Check(f"port {port}", "warning", "in use", "say so")


# -- programs --------------------------------------------------------------------------------


def failure(run: Any, limit_s: float = 60) -> Failure:
    with pytest.raises(Failure) as error:
        run(limit_s)
    return error.value


def test_the_python_of_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert worker_python(60).endswith(f"({sys.executable})")
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/python")
    found = failure(worker_python)
    assert found.found == "PYSPARK_PYTHON is /no/python, which is not an executable"
    assert found.advice.startswith("unset PYSPARK_PYTHON")
    other = program(tmp_path, """echo '{"version": [3, 9, 1]}'""")
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    assert "is Python 3.9.1; expected 3." in failure(worker_python).found
    here = list(sys.version_info[:3])
    other.write_text(f'#!/bin/sh\necho \'{{"version": {here}, "missing": "wirelake"}}\'\n')
    found = failure(worker_python)
    assert found.found == f"{other} cannot import wirelake"
    assert found.advice == f"{other} -m pip install 'wirelake[lake]'"


def test_programs_that_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = program(tmp_path, "echo 'x.SomeError: it is raining' >&2; echo later >&2; exit 3")
    monkeypatch.setattr(doctor.sys, "executable", str(broken))
    assert failure(spark_trial).found == "Spark fails: it is raining"
    assert failure(warming).found == "kernels do not compile: it is raining"
    program(tmp_path, "exit 3")
    assert failure(warming).found == "kernels do not compile: exit code 3"
    program(tmp_path, """echo '{"spark": "4.3.0", "messages": 0}'""")
    assert failure(spark_trial).found == "a job read 0 messages; expected 2"


def is_over(process: int) -> bool:
    """Whether it has ended; nobody may have taken note of that yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_program_that_does_not_end_is_ended_with_what_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = program(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; wait")
    monkeypatch.setattr(doctor.sys, "executable", str(slow))
    assert failure(spark_trial, 1).found == "Spark fails: no result within 1 s"
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 60
    while not is_over(child):
        assert time.monotonic() < deadline, f"{child} is still there"
        time.sleep(0.01)
