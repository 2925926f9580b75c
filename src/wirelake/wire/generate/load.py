"""Find or create the generated module of a protocol in one dialect.

The default dialect of each protocol in `wirelake.protocols` is committed beside its layout, as
`codec_<dialect>.py`. Every other codec, of another dialect or of another package's protocol, is
generated on first use into the cache folder.

The name of a cached file contains a hash of its whole content. A change in the declaration or in
the generator changes the content and therefore the name, so a stale file is never loaded.
Generating takes about 60 ms, which a separate key over all of the inputs would not be worth: a
layout may spread over several modules of a package that we do not know.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = ["cache_folder", "is_committed", "load_codec", "load_source", "temporary_cache_folder"]


def cache_folder() -> Path:
    """Return the folder for generated modules: `$WIRELAKE_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("WIRELAKE_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wirelake"


def temporary_cache_folder() -> Path:
    """Return the folder that replaces a cache folder that cannot be written.

    All processes of a user share it, so that kernels are compiled once. Compiled kernels are
    code that is run: a folder that another user may write is not used.
    """
    uid = os.getuid() if hasattr(os, "getuid") else 0
    path = Path(tempfile.gettempdir()) / f"wirelake-{uid}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o022:
            return path
    except OSError:
        pass
    private = tempfile.mkdtemp(prefix="wirelake-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return Path(private)


def is_committed(protocol: Protocol, dialect: str) -> bool:
    """Return whether the generated code of a dialect is part of this package."""
    in_package = protocol.frame.__module__.startswith("wirelake.protocols.")
    return in_package and dialect == protocol.dialects[0]


def load_codec(protocol: Protocol, dialect: str) -> ModuleType:
    """Return the module with the functions of a protocol in a dialect."""
    if is_committed(protocol, dialect):
        package = protocol.frame.__module__.rpartition(".")[0]
        return importlib.import_module(f"{package}.codec_{dialect}")
    from .module import codec_source  # the generator, which committed codecs do not need

    stem = f"wirelake_codec_{protocol.name.replace('-', '_')}_{dialect}"
    return load_source(stem, codec_source([protocol], dialect))


def load_source(stem: str, source: str, version: str = "") -> ModuleType:
    """Import this source from a file in the cache folder.

    The file name contains the hash of the source and of `version`, which stands for what the source
    depends on but does not contain.
    """
    digest = hashlib.sha256((source + version).encode()).hexdigest()
    name = f"{stem}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    path = _write_if_absent(cache_folder() / f"{name}.py", source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _write_if_absent(path: Path, source: str) -> Path:
    """Write the file unless it has this content, and return where it is."""
    try:
        return _replace(path, source)
    except OSError:
        return _replace(temporary_cache_folder() / path.name, source)


def _replace(path: Path, source: str) -> Path:
    content = source.encode()
    if path.exists() and path.read_bytes() == content:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Several processes may do this at once: each writes a file of its own and renames it, so that
    # none of them can read half a module.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as out:
        out.write(content)
    os.replace(out.name, path)
    return path
