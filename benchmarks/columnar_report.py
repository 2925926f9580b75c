"""Ratios, required and target values of `benchmarks.columnar`; as a table and as JSON."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from wirelake import __version__

from .report import Rule
from .timing import Timing

__all__ = ["Result", "record", "rules", "table"]

REQUIRED, TARGET = 0.6, 0.8
"""Of C's speed."""
C_MESSAGES, C_MEMCPY = 25e6, 0.25
"""What the C must reach to be worth comparing with: tny messages a second, or this much of the
speed of memcpy."""
YARDSTICK = ("tny", "decode message")
"""What that is measured on."""


@dataclass(frozen=True)
class Result:
    """One protocol."""

    messages: int
    median_bytes: float
    bytes: int
    """Of all messages."""
    given_up: int
    """Spoiled slices on which both gave up."""
    timings: Mapping[str, Mapping[str, Timing]]
    """Operation -> kernel or C -> microseconds a message."""
    memcpy: Timing
    """Copying the same bytes."""

    def ratio(self, operation: str) -> float:
        """The kernel's speed in units of C's."""
        found = self.timings[operation]
        return found["C"].best_us / found["kernel"].best_us


def rules(results: Mapping[str, Result]) -> Iterator[Rule]:
    """Every required and target value, judged."""
    for protocol, result in results.items():
        ratio = round(result.ratio("both"), 2)
        what = f"{protocol} scan and decode: speed of C"
        yield Rule("required", what, f">= {REQUIRED}", ratio, ratio >= REQUIRED)
        yield Rule("target", what, f">= {TARGET}", ratio, ratio >= TARGET)
    protocol, operation = YARDSTICK
    if protocol in results:
        timing = results[protocol].timings[operation]["C"]
        speed = round(1 / timing.best_us, 1)
        holds = speed >= C_MESSAGES / 1e6
        yield Rule(
            "required", "the C: M tny messages/s", f">= {C_MESSAGES / 1e6:.0f}", speed, holds
        )
        share = round(results[protocol].memcpy.best_us / timing.best_us, 2)
        what = "the C: bytes/s of memcpy (or this)"
        yield Rule("required", what, f">= {C_MEMCPY}", share, holds or share >= C_MEMCPY)


def table(results: Mapping[str, Result], sealing: Mapping[str, Timing]) -> str:
    """The whole run on one screen."""
    head = f"{'best round, ns a message':32}{'kernel':>9}{'C':>9}{'M/s':>9}{'MB/s':>9}{'of C':>8}"
    lines = [head]
    for protocol, result in results.items():
        for operation, timing in result.timings.items():
            kernel, c = (1e3 * timing[side].best_us for side in ("kernel", "C"))
            megabytes = result.bytes / result.messages / kernel * 1e3
            lines.append(
                f"{protocol + ' ' + operation:32}{kernel:>9.1f}{c:>9.1f}{1e3 / kernel:>9.1f}"
                f"{megabytes:>9,.0f}{result.ratio(operation):>7.2f}x"
            )
        lines.append(f"{protocol + ' memcpy':32}{'':9}{1e3 * result.memcpy.best_us:>9.1f}")
    for name, opened in sealing.items():
        lines.append(f"{'magline decryption, ' + name:32}{1e3 * opened.best_us:>9.1f}")
    lines.append("")
    for rule in rules(results):
        word = "holds" if rule.holds else "MISSED" if rule.kind == "required" else "not yet"
        lines.append(f"{rule.kind:10}{rule.what:46}{rule.wanted:>8}{rule.found:>9.2f}  {word}")
    return "\n".join(lines)


def record(
    results: Mapping[str, Result],
    sealing: Mapping[str, Timing],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """All figures, with what they were made with; nothing that names the machine."""
    return {
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "versions": {
            "wirelake": __version__,
            **{name: version(name) for name in ("numba", "numpy", "pyarrow", "cryptography")},
        },
        "settings": dict(settings),
        "results": {
            protocol: {
                **asdict(result),
                "ratios": {name: round(result.ratio(name), 3) for name in result.timings},
            }
            for protocol, result in results.items()
        },
        "decryption": {name: asdict(timing) for name, timing in sealing.items()},
        "rules": [asdict(rule) for rule in rules(results)],
    }
