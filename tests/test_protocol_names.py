"""No package above `protocols` names a protocol: what it needs to know is declared.

A protocol is named by an import of its package, by a string with its name as a word, in capitals or
not, and by an attribute, a keyword or an argument of its name. Not counted are docstrings, which
show examples, and texts for people: values of names that end with `_HELP` or `_EXAMPLE`, and the
arguments `help` and `metavar`.

`hub/listeners`, `client`, `traffic` and `conformance` have a file or a folder for each protocol,
which may name that protocol and no other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import wirelake
from wirelake.protocols import registry

ROOT = Path(wirelake.__file__).parent
BELOW = {"protocols", "wire"}
"""Packages that declare protocols, or are below them."""
OWN_FILES = (
    *("hub/listeners/", "client/", "serving/", "traffic/", "conformance/", "columnar/kernels/"),
)
"""Where a protocol may have a file or a folder of its own."""

NAMES = tuple(registry.BUILT_IN)
PACKAGES = {name: module.split(".")[2] for name, module in registry.BUILT_IN.items()}
"""The package of each protocol: a gateway's link belongs to the protocol that it carries."""
NAMED = re.compile(rf"\b({'|'.join(NAMES)})\b", re.IGNORECASE)
IMPORTED = re.compile(rf"(?:wirelake\.)?protocols\.({'|'.join(set(PACKAGES.values()))})(\.|$)")
TEXTS = ("help", "metavar")
TEXT_NAMES = ("_HELP", "_EXAMPLE")


def sources() -> list[str]:
    """Every module above `protocols`."""
    found = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    return sorted(path for path in found if path.partition("/")[0] not in BELOW)


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a module names a protocol: the line, and the name."""
    texts = set(map(id, _texts(tree)))
    for node in ast.walk(tree):
        if id(node) in texts:
            continue
        match node:
            case ast.Constant(value=str(text)) if found := NAMED.search(text):
                yield node.lineno, found[1].lower()
            case ast.ImportFrom(module=str(module)) if found := IMPORTED.match(module):
                yield node.lineno, found[1]
            case ast.Import(names=names):
                for each in names:
                    if found := IMPORTED.match(each.name):
                        yield node.lineno, found[1]
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.arg(arg=name):
                if name in NAMES:
                    yield node.lineno, name
            case _:
                pass


def _texts(tree: ast.Module) -> Iterator[ast.AST]:
    """Docstrings and texts for people, with all that they contain."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield from ast.walk(node)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if name.endswith(TEXT_NAMES):
                yield from ast.walk(value)
            case ast.keyword(arg=arg, value=value) if arg in TEXTS:
                yield from ast.walk(value)
            case _:
                pass


def own(path: str, name: str) -> bool:
    """Whether a file is the one of a protocol, or in its folder."""
    if not path.startswith(OWN_FILES):
        return False
    packages = {PACKAGES.get(part) for part in re.split(r"[/_.]", path)}
    return PACKAGES.get(name, name) in packages


def problems(path: str) -> list[str]:
    """The places where a file names a protocol that it should not."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return [f"{path}:{line}: {name}" for line, name in named(tree) if not own(path, name)]


@pytest.mark.parametrize("path", sources())
def test_names_no_protocol(path: str) -> None:
    assert problems(path) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('if protocol.name == "comet": pass', ["comet"]),
        ("from wirelake.protocols.tny.layout import Message", ["tny"]),
        ("import wirelake.protocols.esnp.layout", ["esnp"]),
        ('path = "comet.auth.client_id"', ["comet"]),
        ('url.startswith("magline://")', ["magline"]),
        ("config.relay.port", ["relay"]),
        ("replace(config, magline=1)", ["magline"]),
        ("def f(*, tny: int): pass", ["tny"]),
        ('"""As in `comet`."""', []),
        ('def f():\n    """comet"""', []),
        ('_HELP = "comet://host"', []),
        ('option("--psk", help="magline")', []),
        ("from wirelake.protocols import registry", []),
        ('name = "comets"', []),
        ('error("not over ESNP or tny")', ["esnp"]),
        ('_PORTS_EXAMPLE = "9620=comet"', []),
    ],
)
def test_what_counts_as_a_name(source: str, found: list[str]) -> None:
    assert [name for _, name in named(ast.parse(source))] == found
