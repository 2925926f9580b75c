"""Files that are whole or not there: written under another name, sealed by a rename.

While it is written, a file is called `<source>-<sequence>.pcapng.open`; once all of it is on disk,
it is renamed to `<source>-<sequence>.pcapng`. Readers take only what is sealed; after a crash,
`repair.py` makes a sealed file of an open one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

__all__ = [
    "OPEN_SUFFIX",
    "SUFFIX",
    "Output",
    "Sealer",
    "next_sequence",
    "seal",
    "sealed_files",
    "sync_folder",
]

SUFFIX: Final = ".pcapng"
OPEN_SUFFIX: Final = ".pcapng.open"
"""Of a sealed recording, and of one that is being written."""
_NAME: Final = re.compile(r"(?P<source>.+)-(?P<sequence>\d{8,})\.pcapng(\.open)?")


def sealed_files(folder: Path) -> list[Path]:
    """The recordings in a folder that may be read, by source and sequence."""
    found = [(_parts(path), path) for path in folder.glob(f"*{SUFFIX}")]
    return [path for parts, path in sorted((p, q) for p, q in found if p is not None)]


def next_sequence(folder: Path, source: str) -> int:
    """One more than the highest number that a file of this source has, sealed or open."""
    every = [*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{OPEN_SUFFIX}")]
    parts = [_parts(path) for path in every]
    return max((number + 1 for name, number in filter(None, parts) if name == source), default=0)


def _parts(path: Path) -> tuple[str, int] | None:
    match = _NAME.fullmatch(path.name)
    return (match["source"], int(match["sequence"])) if match else None


def seal(path: Path) -> Path:
    """Renames an open file, all of which is on disk, to its sealed name."""
    sealed = path.with_name(path.name.removesuffix(OPEN_SUFFIX) + SUFFIX)
    path.rename(sealed)
    sync_folder(path.parent)
    return sealed


def sync_folder(folder: Path) -> None:
    """Brings a folder to disk: or a power cut could take a rename in it back."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Output:
    """One file that is being written. `write` goes to the operating system at once, so a process
    that is killed afterwards loses nothing of it."""

    def __init__(self, folder: Path, source: str, sequence: int):
        self.path = folder / f"{source}-{sequence:08d}{OPEN_SUFFIX}"
        """Its name for now."""
        sealed = folder / f"{source}-{sequence:08d}{SUFFIX}"
        if sealed.exists():
            raise FileExistsError(f"{sealed} already exists")
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def write(self, data: bytes) -> None:
        """Writes all of it, or raises OSError and cuts the file to what it was before."""
        view, begin = memoryview(data), os.lseek(self._file, 0, os.SEEK_CUR)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            self._best_effort(lambda: os.ftruncate(self._file, begin))
            self._best_effort(lambda: os.lseek(self._file, begin, os.SEEK_SET))
            raise

    @staticmethod
    def _best_effort(step: Callable[[], object]) -> None:
        """Half a block at the end is a fault that readers name; the first error matters more."""
        try:
            step()
        except OSError:
            return

    def seal(self) -> Path:
        """Brings it to disk, closes it and gives it its name."""
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)
        return seal(self.path)

    def discard(self) -> None:
        """Closes and removes it."""
        os.close(self._file)
        self.path.unlink()


class Sealer:
    """Seals files on a thread of its own: bringing one to disk can take a second, and an edge
    that serves connections has none to spare."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "seal")
        self._last: Future[Path] | None = None

    def seal(self, output: Output) -> None:
        """Begins to seal a file; waits for the one before."""
        self.wait()
        self._last = self._pool.submit(output.seal)

    def wait(self) -> Path | None:
        """Until the last file is sealed; gives its name, or raises what went wrong."""
        last, self._last = self._last, None
        return last.result() if last is not None else None

    def stop(self) -> None:
        """Ends the thread."""
        self._pool.shutdown()
