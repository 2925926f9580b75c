"""The archive of Java classes: which JVM uses which, and what is said when it cannot be written.

`make warm` writes the one of the tests, which is why it is not written here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from wirelake.lake.spark import class_archive
from wirelake.lake.spark.class_archive import ArchiveError, archive_options, archive_path
from wirelake.lake.spark.java import Java, JavaError, find_java


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WIRELAKE_CACHE", str(tmp_path))
    return tmp_path


def program(folder: Path, script: str = "") -> Path:
    found = folder / "java-program"
    found.write_text(f"#!/bin/sh\n{script}\n")
    found.chmod(0o755)
    return found


@pytest.mark.parametrize(
    ("release", "option"), [(17, "SharedArchiveFile"), (24, "SharedArchiveFile"), (25, "AOTCache")]
)
def test_the_option_depends_on_the_release(cache: Path, release: int, option: str) -> None:
    java = Java(program(cache), release)
    assert archive_options(java) == []
    path = archive_path(java)
    path.parent.mkdir()
    path.touch()
    assert archive_options(java)[0] == f"-XX:{option}={path}"


def test_another_java_has_another_archive(cache: Path) -> None:
    java = Java(program(cache), 17)
    before = archive_path(java)
    program(cache, "exit 1").touch()
    assert archive_path(java) != before


def test_an_archive_is_written_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(program(cache), 17)
    monkeypatch.setattr(class_archive, "find_java", lambda: java)
    archive_path(java).parent.mkdir()
    archive_path(java).write_bytes(b"archive")
    assert class_archive.create_archive().read_bytes() == b"archive"


def test_no_java(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise JavaError("Java not found: install it")

    monkeypatch.setattr(class_archive, "find_java", none)
    with pytest.raises(ArchiveError, match="Java not found: install it"):
        class_archive.create_archive()
    assert list(cache.iterdir()) == []


def test_a_run_that_fails_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_PROGRAM", "import sys; sys.exit('no memory')")
    with pytest.raises(ArchiveError, match="no memory"):
        class_archive.create_archive()
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_session_uses_it(spark: SparkSession) -> None:
    jvm: Any = spark._jvm  # type: ignore[attr-defined]
    given = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert set(archive_options(find_java())) <= set(given)
