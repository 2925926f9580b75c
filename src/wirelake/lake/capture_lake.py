"""Lakes of a few captures: made for one command, or kept beside the captures. No Spark, no JVM.

    with LocalWorkers() as workers, temporary(files, settings, workers=workers) as made:
        open_lake(made.root).sql("from calls")

A question about captures is answered by the lake that a run would make of them: the same engine,
tables and views, so the same numbers. It is made by processes of this machine, in one step, with
the tables that are needed, in a folder that is removed afterwards.

A kept lake has all tables. The record of its first commit says what it was made of: versions,
settings, keys, and of each capture its size, inode and times. Only a lake for which all of it still
holds is used again, after its files were compared with their checksums. So whatever happens to a
capture, its old rows are never shown; at worst a lake is made in vain.

It lies beside the captures, where others may look and write. Only who may read the captures and the
keys may read it, and one of another user is used only if the captures are that user's as well.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from wirelake import __version__
from wirelake.protocols import registry
from wirelake.records.schema import VERSION
from wirelake.tables.inputs import Capture, Watch, admit, check_readable
from wirelake.tables.log import Log
from wirelake.tables.parquet import check_file
from wirelake.tables.paths import DamagedError, LakeError, NewerError
from wirelake.tables.snapshot import Input, Snapshot
from wirelake.tables.writer import Writer

from .engine.settings import TABLES, Settings, tables_for
from .engine.tasks import Workers

if TYPE_CHECKING:
    from .engine.engine import OnStep

__all__ = ["SUFFIX", "CaptureLake", "keep", "kept", "temporary"]

SUFFIX: Final = ".lake"
"""Appended to the name of a capture, or of a folder of captures: the folder of its kept lake."""
_ORIGIN: Final = "captures"
"""The figure of the first commit with what a lake was made of."""
_ATTEMPTS: Final = 3


class CaptureLake(NamedTuple):
    """A lake of captures."""

    root: Path
    refused: tuple[Input, ...]
    """Captures that are not in it, each with its fault."""


@contextmanager
def temporary(
    files: Sequence[str],
    settings: Settings,
    *,
    workers: Workers,
    keys: Sequence[str] = (),
    tables: Iterable[str] = TABLES,
    on_step: OnStep | None = None,
) -> Iterator[CaptureLake]:
    """Make a lake with some tables, which is removed when the context ends. Raises LakeError."""
    chosen = msgspec.structs.replace(settings, tables=tables_for(tables))
    with tempfile.TemporaryDirectory(prefix="wirelake-", ignore_cleanup_errors=True) as folder:
        yield _make(Path(folder) / "lake", files, chosen, keys, workers, on_step, {})


def kept(
    root: Path, files: Sequence[str], settings: Settings, keys: Sequence[str] = ()
) -> CaptureLake | None:
    """Return the kept lake of captures; None if there is none, or an old one.

    Raises DamagedError if it cannot be used, LakeError if the folder is something else, or of
    another user.
    """
    if not root.exists():
        return None
    _check_owner(root, files)
    try:
        return _usable(root, _origin(files, settings, keys))
    except PermissionError as error:
        raise LakeError(f"{error.filename}: cannot be read: {error.strerror}") from error


def keep(
    root: Path,
    files: Sequence[str],
    settings: Settings,
    *,
    workers: Workers,
    keys: Sequence[str] = (),
    on_step: OnStep | None = None,
) -> CaptureLake:
    """Make a lake and keep it; it replaces an old one when it is complete. Raises LakeError."""
    origin = _origin(files, settings, keys)
    with _work_folder(root) as folder:
        made = _make(folder / "new", files, settings, keys, workers, on_step, {_ORIGIN: origin})
        if _origin(files, settings, keys) != origin:
            raise LakeError("a capture has changed while it was read; run again")
        _limit_access(made.root, (*files, *keys))
        return _placed(root, made, origin)


# -- making ------------------------------------------------------------------------------------


def _make(
    root: Path,
    files: Sequence[str],
    settings: Settings,
    keys: Sequence[str],
    workers: Workers,
    on_step: OnStep | None,
    about: Mapping[str, Any],
) -> CaptureLake:
    from .engine.engine import Engine  # with the kernels, which a kept lake does not need

    captures = _listed(files)
    # All of them are read now: nobody waits for a file that is missing, or that may still grow.
    admission = check_readable(
        admit(
            captures,
            Snapshot(),
            time.time_ns(),
            lateness_s=-math.inf,
            settle_s=-math.inf,
            still=frozenset(each.path for each in captures),
        )
    )
    inputs = [*admission.admitted, *admission.refused]
    # Not synced: after a power failure the checksums tell, and the lake is made once more.
    with Writer(root, create=settings.to_record(), about=about, fsync=False) as writer:
        engine = Engine(workers, writer, settings, keys=keys, on_step=on_step)
        record = engine.advance(inputs)
    consumed = () if record is None else record.inputs
    return CaptureLake(root, tuple(each for each in consumed if each.fault is not None))


def _listed(files: Sequence[str]) -> list[Capture]:
    """Return captures with the sources and sequence numbers of a lake over their folder."""
    paths = [Path(file).absolute() for file in files]
    watch = Watch(os.path.commonpath([path.parent for path in paths]))
    return [watch.one(path) for path in paths]


# -- keeping -----------------------------------------------------------------------------------


def _origin(files: Sequence[str], settings: Settings, keys: Sequence[str]) -> dict[str, Any]:
    """Return what determines the rows of a lake, as a record has it."""
    found = {
        "version": __version__,
        "schema": VERSION,
        "protocols": _protocols(),
        "settings": settings.to_record(),
        "keys": sorted(hashlib.sha256(Path(each).read_bytes()).hexdigest() for each in keys),
        "files": [_state(file) for file in files],
    }
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return decoded


def _state(file: str) -> dict[str, Any]:
    # The change time as well: unlike the modification time, programs cannot set it back.
    found = os.stat(file)
    return {
        "path": os.path.abspath(file),
        "bytes": found.st_size,
        "inode": found.st_ino,
        "mtime_ns": found.st_mtime_ns,
        "ctime_ns": found.st_ctime_ns,
    }


def _protocols() -> dict[str, str]:
    """Return digests of the protocols of other packages, which change without a new version."""
    found: dict[str, str] = {}
    for protocol in registry.load_all()[0]:
        if protocol.name not in registry.BUILT_IN:
            package = sys.modules[protocol.frame.__module__.partition(".")[0]]
            sources = [
                path for folder in getattr(package, "__path__", ()) for path in _sources(folder)
            ] or [Path(package.__file__ or "")]
            digest = hashlib.sha256()
            for path in sources:
                digest.update(path.read_bytes())
            found[protocol.name] = digest.hexdigest()
    return found


def _sources(folder: str) -> list[Path]:
    return sorted(Path(folder).rglob("*.py"))


def _usable(root: Path, origin: Mapping[str, Any]) -> CaptureLake | None:
    """Return a kept lake if it was made of just this."""
    log = Log(root)
    made_of = _made_of(log)
    if made_of is None:
        raise LakeError(f"{root}: not a lake created by --keep; move it away")
    if made_of != origin:
        return None
    try:
        return _checked(log, len(origin["files"]))
    except NewerError:
        return None
    except LakeError as error:
        raise _damaged(root, error) from error


def _made_of(log: Log) -> Any:
    """Return what a kept lake was made of; None for any other folder."""
    try:
        first = next(log.records(), None)
    except DamagedError as error:
        raise _damaged(log.layout.root, error) from error
    except NewerError:
        # Whatever else has changed: a lake of a run must not be replaced.
        with suppress(ValueError, AttributeError, OSError):
            return json.loads(log.layout.record(0).read_bytes()).get("figures", {}).get(_ORIGIN)
        return None
    except LakeError:  # old commits of a lake of a run have expired
        return None
    return None if first is None else first.figures.get(_ORIGIN)


def _damaged(root: Path, error: LakeError) -> DamagedError:
    return DamagedError(f"{error}; or delete {root}: it is created again")


def _checked(log: Log, count: int) -> CaptureLake:
    """Return a lake of so many captures. Raises LakeError if anything of it is missing."""
    snapshot = log.snapshot()
    inputs = [each for source in snapshot.sources.values() for each in source.inputs]
    if len(inputs) < count:
        raise DamagedError(f"{log.layout.log}: damaged: the last commit is missing")
    for file in snapshot.public_files():
        check_file(file, log.layout.resolve(file.path, snapshot))
    return CaptureLake(log.layout.root, tuple(each for each in inputs if each.fault is not None))


# -- the folder beside the captures --------------------------------------------------------------


def _check_owner(root: Path, files: Sequence[str]) -> None:
    """Raise LakeError if a lake is of somebody who could not change the captures anyway."""
    # In a folder where everybody may create files, such as /tmp, it could show anything.
    trusted = {0, os.geteuid(), *(os.stat(file).st_uid for file in files)}
    if root.stat().st_uid not in trusted:
        raise LakeError(f"{root}: belongs to another user; move it away")


def _limit_access(root: Path, files: Iterable[str]) -> None:
    """Let nobody read a lake who may not read all that it was made of."""
    lake = root.stat()
    allowed = lake.st_mode
    for file in files:
        found = os.stat(file)
        if not found.st_mode & stat.S_IROTH:
            allowed &= ~stat.S_IRWXO
        # To another group than that of the lake a file is what it is to others.
        by_group = stat.S_IRGRP if found.st_gid == lake.st_gid else stat.S_IROTH
        if not found.st_mode & by_group:
            allowed &= ~stat.S_IRWXG
    root.chmod(stat.S_IMODE(allowed))


@contextmanager
def _work_folder(root: Path) -> Iterator[Path]:
    """Create a folder beside a lake that is removed when the context ends. Raises LakeError."""
    try:
        _sweep(root)
        folder = Path(tempfile.mkdtemp(prefix=f".{root.name}-", dir=root.parent))
    except OSError as error:
        raise LakeError(f"{root}: cannot be created: {error.strerror}") from error
    opened = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems have no locks; there nothing is swept, either.
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(opened)


def _sweep(root: Path) -> None:
    """Remove the folders of processes that were killed: the kernel has released their locks."""
    name = re.compile(re.escape(f".{root.name}-") + r"\w{8}")
    for folder in [each for each in root.parent.iterdir() if name.fullmatch(each.name)]:
        with suppress(OSError):
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # An empty one may be of a process that is about to lock it.
                if any(folder.iterdir()):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(opened)


def _placed(root: Path, made: CaptureLake, origin: Mapping[str, Any]) -> CaptureLake:
    """Give a lake its name, and return it. An old one is moved to the folder of the new one.

    If another process has kept the same meanwhile, that one stays: it may be read just now.
    """
    for attempt in range(_ATTEMPTS):
        try:
            made.root.rename(root)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            with suppress(DamagedError):
                same = _usable(root, origin)
                if same is not None:
                    return same
            root.rename(made.root.with_name(f"old-{attempt}"))
        else:
            return made._replace(root=root)
    raise LakeError(f"{root}: another process replaces it as well; run again")
