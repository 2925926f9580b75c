"""Writes plain data (dicts, lists, text, numbers) as YAML that every parser reads alike.

Only what a Kaitai Struct file needs. Text is written bare when it is a plain word, as a block when
it has lines, and else between double quotes with everything escaped that YAML 1.1 or 1.2 could
take for something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["dump", "quote"]

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_RESERVED: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
"""Words that YAML 1.1 reads as something other than text."""
_SPECIAL: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
"""What JSON leaves bare and YAML does not allow, or takes for a line break."""


def dump(data: Mapping[Any, Any]) -> str:
    """Return a mapping as a YAML document."""
    return "\n".join(_mapping(data, "")) + "\n"


def quote(text: str) -> str:
    """Text between double quotes. A lone surrogate has no place in a file: it becomes U+FFFD."""
    return _SPECIAL.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def _mapping(data: Mapping[Any, Any], indent: str) -> Iterator[str]:
    for key, value in data.items():
        yield from _entry(f"{indent}{_scalar(key)}:", value, indent)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        yield head
        yield from _mapping(value, inner)
    elif _is_list(value) and value:
        if all(isinstance(item, int) for item in value):
            yield f"{head} [{', '.join(_scalar(item) for item in value)}]"
        else:
            yield head
            yield from _list(value, inner)
    elif isinstance(value, str) and _is_block(value):
        yield f"{head} |-"
        yield from (inner + line if line else "" for line in value.split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _list(items: Sequence[Any], indent: str) -> Iterator[str]:
    for item in items:
        if isinstance(item, Mapping) and item:
            lines = list(_mapping(item, indent + "  "))
            yield f"{indent}- {lines[0][len(indent) + 2 :]}"
            yield from lines[1:]
        else:
            yield f"{indent}- {_scalar(item)}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_block(text: str) -> bool:
    """Whether a block says exactly this text: printable lines, none of them blank at an end."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and all(line.isprintable() for line in lines)
        and bool(lines[0] and lines[-1])
        and not lines[0].startswith(" ")
    )


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    if _is_list(value):
        return "[]"
    text = str(value)
    if _WORD.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return quote(text)
