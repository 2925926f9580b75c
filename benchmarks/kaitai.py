"""Parsers that Kaitai Struct makes from our own `.ksy` files, compiled for this run.

The compiler is the one from npm (`make node`), started by the script that the interop tests use;
so is the comparison of what its parsers read with what ours decode.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from wirelake.protocols import registry
from wirelake.wire import Protocol
from wirelake.wire.model import Direction
from wirelake.wire.views.ksy import kaitai

__all__ = ["compare_layout", "parser"]

_INTEROP = Path(__file__).resolve().parent.parent / "tests" / "interop"


def parser(protocol: Protocol, direction: Direction | None) -> Any:
    """The compiled class that reads the messages of a direction."""
    (name,) = kaitai(protocol, direction=direction)
    return _compiled()[name]


@functools.cache
def _compiled() -> dict[str, Any]:
    """The top class of every file; the compiler starts slowly, so it is started once."""
    node = shutil.which("node")
    if node is None:
        raise SystemExit("node is missing: `make system` installs it, `make node` the compiler")
    with tempfile.TemporaryDirectory(prefix="wirelake-bench-") as folder:
        paths = []
        for protocol in map(registry.find, registry.BUILT_IN):
            for name, text in kaitai(protocol).items():
                paths.append(Path(folder) / name)
                paths[-1].write_text(text, encoding="utf-8")
        command = [node, str(_INTEROP / "compile_ksy.cjs"), folder, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"Kaitai files do not compile (has `make node` run?): {done.stderr}")
        return {path.name: _top(path) for path in paths}


def _top(path: Path) -> Any:
    module = _load(path.with_suffix(".py"))
    return getattr(module, "".join(word.capitalize() for word in path.stem.split("_")))


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"kaitai_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _comparison() -> ModuleType:
    return _load(_INTEROP / "kaitai_compare.py")


def compare_layout(layout: Any, value: Any, node: Any) -> None:
    """Asserts that a parsed node says what a decoded value says."""
    _comparison().compare_layout(layout, value, node)
