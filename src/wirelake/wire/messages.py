"""Error texts that several packages share, so that the same mistake reads the same everywhere.

>>> unknown("table", "cals", ["calls", "messages"])
"unknown table 'cals'; expected one of calls, messages"
>>> invalid("port", "x", "1-65535")
"invalid port 'x'; expected 1-65535"
>>> missing_dependency("duckdb", "tables")
"missing optional dependency duckdb: pip install 'wirelake[tables]'"
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["invalid", "missing_dependency", "unknown"]


def unknown(kind: str, name: object, known: Iterable[object]) -> str:
    """Return the text for a name that is not among the known ones."""
    names = [str(each) for each in known]
    if not names:
        return f"unknown {kind} {name!r}; there are none"
    expected = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return f"unknown {kind} {name!r}; expected {expected}"


def invalid(kind: str, value: object, expected: str) -> str:
    """Return the text for a value that cannot be parsed or is out of range."""
    return f"invalid {kind} {value!r}; expected {expected}"


def missing_dependency(name: str, extras: str) -> str:
    """Return the text for a package that is not installed, with the extras that bring it."""
    return f"missing optional dependency {name}: pip install 'wirelake[{extras}]'"
