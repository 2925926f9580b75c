"""Alterations of comet vectors that no reader can notice, by name and with a reason.

`wirelake conform --mutate` changes a vector one leaf or one byte at a time, and the vector must
then fail. What is listed here is all that may pass.
"""

from __future__ import annotations

from typing import Any, Final

from ..expectation import Alteration, Excuse

__all__ = ["EXCUSES"]


def _length_only(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    fields = raw["expect"].get("fields", {})
    names = [key.removesuffix("_len") for key in fields if key.endswith("_len")]
    given = [name for name in names if name in fields or f"{name}_hex" in fields]
    return alteration.offset is not None and len(given) < len(names)


def _ends_only(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    fields = raw["expect"].get("fields", {})
    return alteration.offset is not None and {"count", "first", "last"} <= fields.keys()


EXCUSES: Final = (
    Excuse(
        "comet-given-by-length",
        "the vector gives a long text by its length alone (x_len)",
        _length_only,
    ),
    Excuse(
        "comet-given-by-its-ends",
        "the vector gives a long list by its size, its first and its last item",
        _ends_only,
    ),
)
"""Alterations of comet vectors that no reader can notice."""
