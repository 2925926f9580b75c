"""The writer lock of a lake: `flock` on a file that names its holder.

The kernel releases the lock when the process ends, however it ends, so there are no stale locks.
The lock only avoids wasted work: on a file system without locks, the exclusive creation of the
record (`log.py`) still decides between two writers.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import Final

import msgspec

from .errors import LakeError

__all__ = ["Lock"]

_UNSUPPORTED: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL})


class _Holder(msgspec.Struct):
    """The process that holds a lock."""

    pid: int
    host: str
    since: str


class Lock:
    """The lock of a lake."""

    def __init__(self, path: Path):
        self._path = path
        self._file: int | None = None

    def take(self, since: str) -> None:
        """Take the lock. Raises LakeError if another process holds it."""
        opened = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            raise LakeError(
                f"{self._path.parent}: {self._holder()}; wait for it or stop it"
            ) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                os.close(opened)
                raise
        self._file = opened
        os.ftruncate(opened, 0)
        os.pwrite(opened, msgspec.json.encode(_Holder(os.getpid(), socket.gethostname(), since)), 0)

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def _holder(self) -> str:
        try:
            holder = msgspec.json.decode(self._path.read_bytes(), type=_Holder)
        except (OSError, msgspec.MsgspecError):
            return "locked by another process"
        return f"locked by process {holder.pid} on {holder.host} since {holder.since}"
