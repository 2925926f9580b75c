"""What the demo looks at before it starts anything, so that it fails at once and says why."""

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

from ..errors import BAD_USAGE, CommandError

__all__ = [
    "ROOM_BYTES",
    "alone",
    "check_empty",
    "check_page",
    "check_ports",
    "check_programs",
    "check_room",
    "usual_ports",
]

ROOM_BYTES: Final = 500_000_000
"""What recordings, the lake and Spark's own files need, and as much again."""
_PACKAGES: Final = (
    "starlette", "uvicorn", "prometheus_client", "pyarrow", "zstandard", "numpy", "numba", "duckdb",
    "pyspark", "pandas", "plotly",
)  # fmt: skip
_TOUR: Final = "wirelake demo --tour needs none of it"
_LOOPBACK: Final = "127.0.0.1"


def check_programs() -> str:
    """Packages and Java; gives a word about the latter."""
    for name in _PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise CommandError(
                f"the demo needs {name}: pip install 'wirelake[demo]'; {_TOUR}", BAD_USAGE
            )
    from wirelake.lake.spark.java import JavaError, find_java

    try:
        return f"Java {find_java().release}"
    except JavaError as error:
        raise CommandError(f"{error}; {_TOUR}", BAD_USAGE) from error


def check_room(folder: Path, hint: str) -> None:
    """Whether there is room where the demo is going to write."""
    free = shutil.disk_usage(_existing(folder)).free
    if free < ROOM_BYTES:
        raise CommandError(
            f"no space: {folder} has {free / 1e6:,.0f} MB left, and the demo needs"
            f" {ROOM_BYTES / 1e6:,.0f} MB: make room, or {hint}",
            BAD_USAGE,
        )


def check_empty(folder: Path) -> None:
    """Whether a folder to keep is new, or has nothing in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{folder} is not empty: name a new folder with --keep DIR", BAD_USAGE)


def check_page(page: Path) -> None:
    """Whether the page can be written."""
    folder = page.absolute().parent
    if page.is_dir() or not os.access(folder, os.W_OK) or not folder.is_dir():
        raise CommandError(
            f"{page} cannot be written: name another file with --html FILE", BAD_USAGE
        )


def usual_ports() -> dict[str, int]:
    """The ports of a hub's listeners and of its HTTP server, by name."""
    from wirelake.hub.config import Config

    return Config().ports


def check_ports(ports: Mapping[str, int]) -> None:
    """Whether all of them are free."""
    for name, port in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_LOOPBACK, port))
            except OSError as error:
                raise CommandError(_taken(name, port, error), BAD_USAGE) from error


def _taken(name: str, port: int, error: OSError) -> str:
    why = "in use" if error.errno == errno.EADDRINUSE else f"not to be had ({error.strerror})"
    return f"port {port} ({name}) is {why}: end who has it, or take free ports with --any-port"


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Keeps a second demo from the same ports. Where no lock can be made, ports say it, later."""
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
                f"another demo is running{f' (process {who})' if who else ''}: wait for it,"
                " or take free ports with --any-port",
                BAD_USAGE,
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    found = folder.absolute()
    while not found.exists():
        found = found.parent
    return found
