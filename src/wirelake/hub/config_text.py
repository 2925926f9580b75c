"""The configuration as a commented file, made from the structs of `config.py`.

Every key stands there with its meaning and its default, commented out: what is not changed stays
the hub's to decide.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from functools import cache
from typing import Any, Final

import msgspec

from .config import Config

__all__ = ["config_text", "meanings"]

_WIDTH: Final = 96
_HEAD: Final = """\
Configuration of a Wirelake hub: wirelake hub --config FILE --data DIR

Every key is here with its meaning and its default. Take the # away to change one. Unknown keys
are refused. Limits and certificates are read again on SIGHUP; the rest needs a restart.
"""
_EXAMPLES: Final = {
    "tls": ('{ certificate = "cert.pem", key = "key.pem" }', "TlsSettings"),
    "backends": ('[{ host = "10.0.0.7", port = 9611 }]', "Backend"),
}
"""Keys that hold tables: how one is written, and what the tables are made of."""


def config_text() -> str:
    """The whole file."""
    parts = [_comment(_HEAD)]
    parts += [_table(field.name, field.default) for field in msgspec.structs.fields(Config)]
    return "\n".join(parts)


def meanings(kind: type) -> dict[str, str]:
    """By key: what its docstring says, inherited ones included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("wirelake."):
            found |= _documented(each)
    return found


@cache
def _documented(kind: type) -> dict[str, str]:
    """The texts behind the fields in the source of one class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            name, value = field.target, text.value
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                found[name.id] = " ".join(str(value.value).split())
    return found


def _table(name: str, defaults: Any) -> str:
    kind = type(defaults)
    texts = meanings(kind)
    lines = [_comment(inspect.cleandoc(kind.__doc__ or "")), f"[{name}]\n"]
    for field in msgspec.structs.fields(kind):
        lines.append("\n")
        lines.append(_comment(texts[field.name]))
        lines.append(_key(field.name, getattr(defaults, field.name)))
    return "".join(lines)


def _key(name: str, default: Any) -> str:
    if name not in _EXAMPLES:
        return f"#{name} = {_value(default)}\n"
    example, kind = _EXAMPLES[name]
    texts = meanings(getattr(sys.modules[Config.__module__], kind))
    inner = "".join(_comment(f"  {key}: {text}") for key, text in texts.items())
    return f"{inner}#{name} = {example}\n"


def _value(value: Any) -> str:
    """As TOML has it; JSON writes these the same way."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _comment(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        indent = "  " if line.startswith("  ") else ""
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent=indent * 2) or [""]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)
