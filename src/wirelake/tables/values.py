"""Self-describing values (ESNP's `Var`) as text that looks like JSON.

    var_text([{"parent": -1, "type": 13, ...}, ...])        # {"name": "ab", "sizes": [1, 2.5]}

In a table, a value is the list of its nodes in preorder. Bytes are text if they are printable
UTF-8, else `{"hex": "00ff"}`; duplicate keys are kept.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wirelake.protocols import registry
from wirelake.wire import model as m

__all__ = ["var_text"]

_UNSIGNED: Final = (1 << 64) - 1


def var_text(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a value; an invalid value is shown as far as possible."""
    inside: list[list[str]] = [[] for _ in nodes]
    text = "null"
    # Backwards: children come after their parent, so their text is ready when it is reached.
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        text = _node_text(node, inside[place][::-1])
        parent = node["parent"]
        if parent is not None and 0 <= parent < place:
            name = node["name"]
            inside[parent].append(text if name is None else f"{_quoted(name)}: {text}")
    return text


@functools.cache
def _kinds() -> Mapping[int, object]:
    return registry.value_types()


def _node_text(node: Mapping[str, Any], inside: list[str]) -> str:
    match _kinds().get(node["type"]):
        case m.Pairs():
            return f"{{{', '.join(inside)}}}"
        case m.Items():
            return f"[{', '.join(inside)}]"
        case m.Bool():
            return "true" if node["int"] else "false"
        case m.Float():
            return _float_text(node["float"])
        case m.Varint(bits=64, signed=False) if node["int"] is not None:
            return str(node["int"] & _UNSIGNED)
        case _:
            return _scalar_text(node)


def _scalar_text(node: Mapping[str, Any]) -> str:
    if node["text"] is not None:
        return _quoted(node["text"])
    if node["bytes"] is not None:
        return _bytes_text(bytes(node["bytes"]))
    return "null" if node["int"] is None else str(node["int"])


def _float_text(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return json.dumps({"float": str(value)})
    return json.dumps(value)


def _bytes_text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return json.dumps({"hex": data.hex()})
    return _quoted(text) if text.isprintable() else json.dumps({"hex": data.hex()})


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())
