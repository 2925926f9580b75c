"""What a run of `benchmarks.hub` found: tables of figures, required and target values."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from wirelake import __version__

from .captures_report import at_least
from .report import Rule

__all__ = ["PACKAGES", "Findings", "ratio_rules", "record", "table"]

PACKAGES = ("cryptography", "msgspec", "starlette", "uvicorn", "uvloop")
"""What figures depend on, where it is installed."""
_LABEL = 34
_CELL = 13


@dataclass
class Findings:
    """What one part of the run found."""

    title: str
    unit: str
    rows: dict[str, dict[str, float]] = field(default_factory=dict)
    """Figures by row and column."""
    rules: list[Rule] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a reader of the figures has to know."""

    def add(self, row: str, column: str, value: float) -> None:
        """Notes a figure."""
        self.rows.setdefault(row, {})[column] = round(value, 2)


def ratio_rules(
    what: str,
    rows: Mapping[str, Mapping[str, float]],
    ours: str,
    peer: str,
    *,
    required: float | None,
    target: float | None = None,
) -> list[Rule]:
    """Judges the row in which ours is slowest beside a peer; none when nothing was measured."""
    ratios = {
        row: figures[ours] / figures[peer]
        for row, figures in rows.items()
        if figures.get(peer) and ours in figures
    }
    if not ratios:
        return []
    worst = min(ratios, key=lambda row: ratios[row])
    return at_least(f"{what} {ours}: speed of {peer} ({worst})", ratios[worst], required, target)


def table(parts: Iterable[Findings]) -> str:
    """The whole run, part by part, and then what holds."""
    lines: list[str] = []
    rules: list[Rule] = []
    for part in parts:
        lines += [*_grid(part), *(f"  {note}" for note in part.notes), ""]
        rules += part.rules
    width = max((len(rule.what) for rule in rules), default=0) + 2
    for rule in rules:
        word = "holds" if rule.holds else "MISSED" if rule.kind == "required" else "not yet"
        lines.append(
            f"{rule.kind:10}{rule.what:{width}}{rule.wanted:>11}{rule.found:>12,.2f}  {word}"
        )
    return "\n".join(lines)


def _grid(part: Findings) -> list[str]:
    columns = list(dict.fromkeys(name for row in part.rows.values() for name in row))
    width = max((len(row) for row in part.rows), default=0) + 2
    width = max(width, _LABEL)
    lines = [f"{part.title}, {part.unit}"]
    lines.append(" " * width + "".join(f"{name:>{_CELL}}" for name in columns))
    for row, figures in part.rows.items():
        cells = (_shown(figures.get(name)) for name in columns)
        lines.append(f"  {row:{width - 2}}" + "".join(f"{cell:>{_CELL}}" for cell in cells))
        lines += _ratios(figures, columns, width)
    return lines


def _ratios(figures: Mapping[str, float], columns: Iterable[str], width: int) -> list[str]:
    """How many times the figure of nats each other has; for rows that have one."""
    if not figures.get("nats"):
        return []
    cells = (
        f"{figures[name] / figures['nats']:.2f}x" if name in figures else "-" for name in columns
    )
    return [f"{'beside nats':>{width - 2}}  " + "".join(f"{cell:>{_CELL}}" for cell in cells)]


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:,.2f}"


def record(
    parts: Mapping[str, Findings], settings: Mapping[str, Any], peers: Mapping[str, str]
) -> dict[str, Any]:
    """All figures, with what they were made with; nothing that names the machine."""
    return {
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "versions": {"wirelake": __version__, **_installed(), **peers},
        "settings": dict(settings),
        "results": {name: asdict(part) for name, part in parts.items()},
    }


def _installed() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
