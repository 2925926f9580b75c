"""The modules of the hub form no import cycle, also when imports for type checking count."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import wirelake.hub

_ROOT = "wirelake.hub"
_FOLDER = Path(wirelake.hub.__file__).parent


def test_no_import_cycles() -> None:
    assert cycles(_imports()) == []


def test_a_cycle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert cycles(graph) == [["b", "c"]]


def test_imports_for_type_checking_count() -> None:
    source = "if TYPE_CHECKING:\n    from ..net.listener import Listener\n"
    modules = {"wirelake.hub.net.listener", "wirelake.hub.pubsub.x"}
    assert set(_imported(ast.parse(source), "wirelake.hub.pubsub.x", False, modules)) == {
        "wirelake.hub.net.listener"
    }


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other (Tarjan), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            group = sorted(stack[at:])
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found)


def _imports() -> dict[str, set[str]]:
    """By module of the hub: the modules of the hub that it imports."""
    files = {_name(path): path for path in _FOLDER.rglob("*.py")}
    return {
        name: set(
            _imported(ast.parse(path.read_text("utf-8")), name, _is_package(path), set(files))
        )
        for name, path in files.items()
    }


def _name(path: Path) -> str:
    parts = path.relative_to(_FOLDER).with_suffix("").parts
    return ".".join((_ROOT, *(part for part in parts if part != "__init__")))


def _is_package(path: Path) -> bool:
    return path.name == "__init__.py"


def _imported(tree: ast.AST, name: str, package: bool, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, name, package)
            # `from package import module` imports the module, `from module import name` its base.
            candidates = [
                f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base
                for alias in node.names
            ]
        else:
            continue
        yield from (each for each in candidates if each in modules and each != name)


def _base(node: ast.ImportFrom, name: str, package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = name.split(".")
    parts = parts[: len(parts) - node.level + package]
    return ".".join([*parts, node.module] if node.module else parts)
