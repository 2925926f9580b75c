"""Checks before the demo starts anything, so that it fails early and says why."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ..errors import BAD_USAGE, CommandError, missing_package

__all__ = [
    "DISK_BYTES",
    "check_disk",
    "check_empty",
    "check_page",
    "check_ports",
    "check_programs",
    "lock_ports",
]

DISK_BYTES: Final = 500_000_000
"""Twice what recordings, the lake and Spark's own files need."""
_PACKAGES: Final = (
    "starlette", "uvicorn", "prometheus_client", "pyarrow", "zstandard", "numpy", "numba", "duckdb",
    "pyspark", "pandas", "plotly",
)  # fmt: skip
_TOUR: Final = "wirelake demo --tour works without"
_LOOPBACK: Final = "127.0.0.1"


def check_programs() -> str:
    """Check packages and Java; return the version of Java. Raises CommandError."""
    for name in _PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise CommandError(f"{missing_package('demo', name)}; {_TOUR}", BAD_USAGE)
    from wirelake.lake.spark.java import JavaError, find_java

    try:
        return f"Java {find_java().release}"
    except JavaError as error:
        raise CommandError(f"{error}; {_TOUR}", BAD_USAGE) from error


def check_disk(folder: Path, hint: str) -> None:
    """Check the free disk space. Raises CommandError."""
    free = shutil.disk_usage(_existing(folder)).free
    if free < DISK_BYTES:
        raise CommandError(
            f"not enough disk space: {folder} has {free / 1e6:,.0f} MB, and the demo needs"
            f" {DISK_BYTES / 1e6:,.0f} MB; free some, or {hint}",
            BAD_USAGE,
        )


def check_empty(folder: Path) -> None:
    """Check that a folder is new or empty. Raises CommandError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{folder} is not empty; name a new folder with --keep DIR", BAD_USAGE)


def check_page(page: Path) -> None:
    """Check that the HTML page can be written. Raises CommandError."""
    folder = page.absolute().parent
    if page.is_dir() or not os.access(folder, os.W_OK) or not folder.is_dir():
        raise CommandError(f"cannot write {page}; name another file with --html FILE", BAD_USAGE)


def check_ports(ports: Mapping[str, int]) -> None:
    """Check that ports are free. Raises CommandError."""
    for name, port in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_LOOPBACK, port))
            except OSError as error:
                raise CommandError(_taken(name, port, error), BAD_USAGE) from error


def _taken(name: str, port: int, error: OSError) -> str:
    why = "in use" if error.errno == errno.EADDRINUSE else f"not available ({error.strerror})"
    return f"port {port} ({name}) is {why}; stop the program that uses it, or use --any-port"


@contextmanager
def lock_ports(lock: Path) -> Iterator[None]:
    """Hold a lock against a second demo on the same ports; skipped where none can be made."""
    with suppress(OSError):
        lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = lock.open("a+")
    except OSError:
        yield
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            who = file.read(20).strip()
            raise CommandError(
                f"another demo is running{f' (process {who})' if who else ''}; wait for it,"
                " or use --any-port",
                BAD_USAGE,
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    found = folder.absolute()
    while not found.exists():
        found = found.parent
    return found
