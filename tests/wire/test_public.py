"""What others may rely on: every public name is there and documented, every error code is listed.

An alias such as `U8 = Annotated[...]` cannot carry a docstring; a string right after the
assignment stands for it, or for a run of them without a blank line.
"""

from __future__ import annotations

import ast
import importlib
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import wirelake
from wirelake.wire.errors import CODES

pytestmark = pytest.mark.slow

ROOT = Path(str(wirelake.__file__)).parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if path.name != "__main__.py"
)
"""Every module of the package; found by its file, so that collecting tests imports none of them."""
PACKAGES = sorted({name.split(".")[1] for name in MODULES if "." in name})
RAISERS = {"DecodeError", "EncodeError", "WireError", "refuse"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def written(module: str) -> dict[str, str]:
    """What a module says of the names it defines: a docstring, or the string after a value."""
    path = Path(str(importlib.import_module(module).__file__))
    body = tree(path).body
    found = {
        node.name: ast.get_docstring(node) or ""
        for node in body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    run: list[str] = []
    last_line = 0
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            if node.lineno > last_line + 1:
                run = []
            run += _targets(node)
            found |= dict.fromkeys(_targets(node), "")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found |= dict.fromkeys(run, str(node.value.value))
            run = []
        last_line = node.end_lineno or node.lineno
    return found


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    """The names that a statement gives values to."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [each for target in targets for each in getattr(target, "elts", [target])]
    return [each.id for each in names if isinstance(each, ast.Name)]


def imported_from(module: str, name: str) -> str | None:
    """Where a module has a name from."""
    path = Path(str(importlib.import_module(module).__file__))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and any(
            (alias.asname or alias.name) == name for alias in node.names
        ):
            dots = "." * node.level + (node.module or "")
            return importlib.import_module(dots, package).__name__ if node.level else node.module
    return None


def documentation(module: str, name: str) -> str:
    """The docstring of a public name, wherever it is defined."""
    value = getattr(importlib.import_module(module), name)
    # A decorator that another function returned has no docstring of its own, but that of a value.
    if isinstance(value, type | types.FunctionType | types.ModuleType) and value.__doc__:
        return value.__doc__
    origin = imported_from(module, name)
    if origin is not None:
        return documentation(origin, name)
    return written(module).get(name, "")


def modules_of(package: str) -> list[str]:
    """The modules of a package, itself included."""
    return [name for name in MODULES if name.split(".")[1:2] == [package]]


def undocumented(module: str, name: str) -> str | None:
    """What is wrong with a public name."""
    if not hasattr(importlib.import_module(module), name):
        return f"{module}.{name} does not exist"
    text = documentation(module, name)
    # A dataclass without a docstring gets its signature for one.
    if not text.strip() or text.startswith(f"{name}("):
        return f"{module}.{name} has no docstring"
    return None


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 300
    assert len(PACKAGES) > 10
    assert "U8" in importlib.import_module("wirelake.wire.types").__all__


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist_and_are_documented(package: str) -> None:
    problems = []
    for module in modules_of(package):
        found = importlib.import_module(module)
        names = list(getattr(found, "__all__", ()))
        if not (found.__doc__ or "").strip():
            problems.append(f"{module} has no docstring")
        if len(names) != len(set(names)):
            problems.append(f"{module}.__all__ lists a name twice")
        if "._" not in module:
            problems += filter(None, (undocumented(module, name) for name in names))
    assert problems == []


# -- error codes -----------------------------------------------------------------------------


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def codes_in(path: Path) -> Iterator[tuple[int, str]]:
    """The codes that a file raises by name: the first argument, or `code=`, of a raiser."""
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        if name in RAISERS:
            given += node.args[:1]
        for value in given:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield node.lineno, value.value


def mentioned() -> set[str]:
    """Every word of the sources that stands in quotes, but for the list itself."""
    words: set[str] = set()
    for path in sources():
        if path.name == "errors.py" and path.parent.name == "wire":
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= {piece.strip("\"'(") for piece in node.value.replace(",", " ").split()}
    return words


def test_every_code_that_is_raised_is_listed() -> None:
    unlisted = [
        f"{path}:{line}: {code}"
        for path in sources()
        for line, code in codes_in(path)
        if code not in CODES
    ]
    assert unlisted == []


def test_every_listed_code_is_raised_somewhere() -> None:
    raised = {code for path in sources() for _, code in codes_in(path)}
    assert len(raised) > 30
    assert set(CODES) - raised - mentioned() == set()
