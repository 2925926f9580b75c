"""What a run found: figures, required and target values; as a table and as JSON."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from wirelake import __version__

from .report import Rule

__all__ = ["Figure", "Findings", "at_least", "at_most", "record", "table"]

PACKAGES = ("numba", "numpy", "pyarrow", "dpkt", "cryptography")
"""What the figures of `benchmarks.captures` depend on."""


@dataclass(frozen=True)
class Figure:
    """One number."""

    what: str
    value: float
    unit: str


@dataclass
class Findings:
    """What one part of the run found."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str) -> None:
        """Notes a figure."""
        self.figures.append(Figure(what, round(value, 4), unit))


def at_least(
    what: str, found: float, required: float | None, target: float | None = None
) -> list[Rule]:
    """Judges something that should be large."""
    found = round(found, 2)
    wanted = {"required": required, "target": target}
    return [
        Rule(kind, what, f">= {least:g}", found, found >= least)
        for kind, least in wanted.items()
        if least is not None
    ]


def at_most(what: str, found: float, most: float) -> list[Rule]:
    """Judges something that should be small."""
    found = round(found, 3)
    return [Rule("required", what, f"<= {most:g}", found, found <= most)]


def table(parts: Iterable[Findings]) -> str:
    """The whole run, part by part, and then what holds."""
    lines, rules = [], []
    for part in parts:
        lines.append(part.title)
        lines += [f"  {each.what:52}{each.value:>14,.2f} {each.unit}" for each in part.figures]
        rules += part.rules
    lines.append("")
    for rule in rules:
        word = "holds" if rule.holds else "MISSED" if rule.kind == "required" else "not yet"
        lines.append(f"{rule.kind:10}{rule.what:54}{rule.wanted:>10}{rule.found:>14,.2f}  {word}")
    return "\n".join(lines)


def record(
    parts: Mapping[str, Findings], settings: Mapping[str, Any], packages: Sequence[str] = PACKAGES
) -> dict[str, Any]:
    """All figures, with what they were made with; nothing that names the machine."""
    return {
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "versions": {"wirelake": __version__, **{name: version(name) for name in packages}},
        "settings": dict(settings),
        "results": {name: asdict(part) for name, part in parts.items()},
    }
