"""Finds the generated module of a protocol, or makes it.

The protocols of this package have theirs committed beside their layouts, as
`codec_<dialect>.py`. Anyone else's is made on first use in a cache folder, named by the hash of
what it would contain, so an old file is never used for a new declaration.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .module import codec_source

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = ["cache_folder", "load_codec", "load_source"]


def cache_folder() -> Path:
    """Where codecs of other packages are kept: `$WIRELAKE_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("WIRELAKE_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wirelake"


def load_codec(protocol: Protocol, dialect: str) -> ModuleType:
    """The module with the functions of a protocol in a dialect."""
    package = protocol.frame.__module__.rpartition(".")[0]
    committed = f"{package}.codec_{dialect}"
    if package.startswith("wirelake.protocols."):
        return importlib.import_module(committed)
    return _cached(protocol, dialect)


def _cached(protocol: Protocol, dialect: str) -> ModuleType:
    stem = f"wirelake_codec_{protocol.name.replace('-', '_')}_{dialect}"
    return load_source(stem, codec_source([protocol], dialect))


def load_source(stem: str, source: str) -> ModuleType:
    """A module of this source, from a file in the cache folder whose name has the source's hash."""
    name = f"{stem}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    path = _written(cache_folder() / f"{name}.py", source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _written(path: Path, source: str) -> Path:
    """Writes the file unless it is there; two processes may do so at the same time."""
    try:
        if path.exists() and path.read_bytes() == source.encode():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, suffix=".py", delete=False
        ) as out:
            out.write(source)
        os.replace(out.name, path)
    except OSError:
        # A read-only home: fall back to a folder of this process's own.
        path = Path(tempfile.mkdtemp(prefix="wirelake-")) / path.name
        path.write_text(source, encoding="utf-8")
    return path
