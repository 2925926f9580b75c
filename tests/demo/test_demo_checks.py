"""Checks before the start of the demo, each with a one-line error and a hint."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from wirelake.cli.demo import checks as demo_checks
from wirelake.cli.demo.checks import (
    check_disk,
    check_empty,
    check_page,
    check_ports,
    check_programs,
    lock_ports,
)
from wirelake.cli.demo.hub import default_ports
from wirelake.cli.errors import CommandError


def test_usual_ports_are_the_hubs() -> None:
    assert default_ports() == {
        "esnp": 9600, "tny": 9610, "relay": 9611, "magline": 9757, "comet": 9620, "admin": 9680
    }  # fmt: skip


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CommandError) as found:
            check_ports({"comet": port})
    assert f"port {port} (comet) is in use" in str(found.value)
    assert "--any-port" in str(found.value)
    assert found.value.code == 2
    check_ports({"comet": port})


def test_a_second_demo_names_the_running_one(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIRELAKE_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with lock_ports(tmp_path / "demo.lock"):
        number = (tmp_path / "demo.lock").read_text()
        found = run("demo")
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        f"wirelake: another demo is running (process {number}); wait for it, or use --any-port\n"
    )
    with lock_ports(tmp_path / "demo.lock"):
        pass


def test_demo_runs_without_a_lock_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with lock_ports(tmp_path / "file" / "demo.lock"):
        pass


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_disk(tmp_path / "not" / "yet", "go elsewhere")
    monkeypatch.setattr(demo_checks, "DISK_BYTES", 1 << 62)
    with pytest.raises(CommandError) as found:
        check_disk(tmp_path / "not" / "yet", "go elsewhere")
    assert str(found.value).startswith(f"not enough disk space: {tmp_path}/not/yet has ")
    assert str(found.value).endswith(" MB; free some, or go elsewhere")


@pytest.mark.parametrize("page", [".", "there/is/none.html"])
def test_a_page_that_cannot_be_written(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run("demo", "--html", page)
    assert found.code == 2
    assert found.err == (f"wirelake: cannot write {page}; name another file with --html FILE\n")
    check_page(tmp_path / "page.html")


def test_a_folder_to_keep_must_be_new(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()
    check_empty(tmp_path / "old")
    (tmp_path / "old" / "file").touch()
    found = run("demo", "--keep", "old")
    assert found.code == 2
    assert found.err == "wirelake: old is not empty; name a new folder with --keep DIR\n"


def old_java(home: Path) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    program.chmod(0o755)


def test_java_is_looked_for_first(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_programs().startswith("Java ")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    found = run("demo")
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert "has no bin/java: unset it, or install Java 17" in found.err
    assert "--tour" in found.err
    old_java(tmp_path / "old")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    found = run("demo", "--any-port")
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert "is Java 8: unset it, or install Java 17" in found.err


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_checks, "_PACKAGES", ("click", "no_such_package"))
    with pytest.raises(
        CommandError, match="missing optional dependency no_such_package: pip install"
    ):
        check_programs()


@pytest.mark.parametrize(
    "arguments",
    [["--seconds", "0"], ["--seconds", "x"], ["--scale", "0"], ["--scale", "99"], ["--seed", "y"]],
)
def test_bad_usage(run: Run, arguments: list[str]) -> None:
    found = run("demo", *arguments)
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert arguments[0] in found.err
