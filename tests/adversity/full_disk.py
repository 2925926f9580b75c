"""A small disk for a hub: a tmpfs in a mount namespace or, where that is not permitted, a limit on
the size of the hub's files."""

from __future__ import annotations

import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.hub_raw.hub_process import HubProcess

__all__ = ["HubOnSmallDisk"]

_SIZE = "24m"
_CHUNK = bytes(4096)
_ALONE = ["unshare", "-rm"]


def _may_mount(folder: Path) -> bool:
    mounting = [*_ALONE, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    with suppress(OSError):
        return subprocess.run(mounting, check=False, capture_output=True).returncode == 0
    return False


class HubOnSmallDisk(HubProcess):
    """A hub whose data directory is the disk."""

    def __init__(self, folder: Path, *people: str):
        super().__init__(folder)
        self._people = people
        self._disk = folder / "data"
        self._disk.mkdir()
        self.own_disk = _may_mount(self._disk)

    @property
    def command(self) -> list[str]:
        """Mount the disk, add the clients, and exec the hub."""
        steps = [f"mount -t tmpfs -o size={_SIZE} tmpfs {self._disk}"] * self.own_disk
        wirelake = f"{sys.executable} -m wirelake.cli"
        for name in self._people:
            steps.append(f"{wirelake} client add {name} --data {self._disk} > {self._token(name)}")
        shell = ["sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh"]
        return [*(_ALONE if self.own_disk else []), *shell, *super().command]

    def _token(self, name: str) -> Path:
        return self._folder / f"{name}.token"

    def client(self, name: str = "") -> tuple[str, str]:
        """Return a client that was added at the start."""
        return name, self._token(name).read_text().split()[-1]

    def start(self) -> None:
        """The disk is seen through the process that has it."""
        super().start()
        if self.own_disk:
            self.data = Path(f"/proc/{self.pid}/root{self._disk}")

    def fill(self) -> None:
        """Fill the disk."""
        if not self.own_disk:
            database = self.data / "hub.sqlite3-wal"
            self._limit(database.stat().st_size if database.exists() else 4096)
            return
        with suppress(OSError), (self.data / "filler").open("wb", buffering=0) as out:
            while out.write(_CHUNK):
                pass

    def clear(self) -> None:
        """Free the space."""
        if self.own_disk:
            (self.data / "filler").unlink()
        else:
            self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
