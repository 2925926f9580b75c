"""Figures, ratios, required and target values of a run; as a table and as JSON."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from wirelake import __version__

from .corpus import Corpus
from .startup import Startup
from .timing import Timing

__all__ = ["Rule", "record", "rules", "table"]

OURS = "wirelake"
COLUMNS = {
    "wirelake": "codec",
    "wirelake_protocol": "Protocol",
    "construct": "Construct",
    "construct_compiled": "compiled",
    "kaitai": "Kaitai",
    "msgpack_map": "msgpack",
    "msgpack_array": "as array",
}
"""Contenders and what their columns are called."""

REQUIRED_SPEEDS = {
    ("decode", "construct"): 10.0,
    ("encode", "construct"): 10.0,
    ("decode", "kaitai"): 3.0,
}
"""How many times the speed of others ours must have."""
TARGET_TIMES = {"comet": 5.0, "magline": 5.0, "tny": 10.0, "relay": 10.0, "esnp": 10.0}
"""How many times the time of msgpack ours may take."""
STARTUP_REQUIRED = 3.0

Results = Mapping[str, Mapping[str, Mapping[str, Timing]]]
"""Protocol -> decode or encode -> contender -> timing."""


@dataclass(frozen=True)
class Rule:
    """Something that should hold, and whether it does."""

    kind: str
    """required or target."""
    what: str
    wanted: str
    found: float
    holds: bool


def rules(results: Results, started: Mapping[str, Startup]) -> list[Rule]:
    """Every required and target value, judged."""
    found: list[Rule] = []
    for protocol, operations in results.items():
        for operation, timings in operations.items():
            found += _required(f"{protocol} {operation}", operation, timings)
            found += _targets(f"{protocol} {operation}", TARGET_TIMES[protocol], timings)
    if started:
        helped, bare = (started[name] for name in ("wirelake --help", "python -c pass"))
        ratio = round(helped.wall_ms / bare.wall_ms, 2)
        what = "wirelake --help: time of python -c pass"
        found.append(
            Rule("required", what, f"<= {STARTUP_REQUIRED}", ratio, ratio <= STARTUP_REQUIRED)
        )
    return found


def _required(what: str, operation: str, timings: Mapping[str, Timing]) -> Iterator[Rule]:
    for (wanted_in, other), factor in REQUIRED_SPEEDS.items():
        if wanted_in == operation and other in timings:
            ratio = round(timings[other].best_us / timings[OURS].best_us, 2)
            title = f"{what}: speed of {COLUMNS[other]}"
            yield Rule("required", title, f">= {factor}", ratio, ratio >= factor)


def _targets(what: str, factor: float, timings: Mapping[str, Timing]) -> Iterator[Rule]:
    for other in ("msgpack_map", "msgpack_array"):
        ratio = round(timings[OURS].best_us / timings[other].best_us, 2)
        form = "msgpack" if other == "msgpack_map" else "msgpack as array"
        yield Rule("target", f"{what}: time of {form}", f"<= {factor}", ratio, ratio <= factor)


# -- for people --------------------------------------------------------------------------------


def table(results: Results, started: Mapping[str, Startup]) -> str:
    """The whole run on one screen."""
    head = f"{'best round, µs a message':26}" + "".join(f"{name:>10}" for name in COLUMNS.values())
    lines = [head]
    for protocol, operations in results.items():
        for operation, timings in operations.items():
            cells = [_cell(timings.get(name)) for name in COLUMNS]
            lines.append(f"{protocol + ' ' + operation:26}" + "".join(f"{c:>10}" for c in cells))
    for name, times in started.items():
        lines.append(f"{name:26}{times.wall_ms:>10.1f} ms, {times.cpu_ms:.1f} ms of CPU")
    lines.append("")
    for rule in rules(results, started):
        word = "holds" if rule.holds else "MISSED" if rule.kind == "required" else "not yet"
        lines.append(f"{rule.kind:10}{rule.what:46}{rule.wanted:>8}{rule.found:>9.2f}  {word}")
    if not started:
        lines.append("wirelake --help: not timed, the command does not run")
    return "\n".join(lines)


def _cell(timing: Timing | None) -> str:
    return "-" if timing is None else f"{timing.best_us:.3f}"


# -- for machines ------------------------------------------------------------------------------


def record(
    results: Results,
    started: Mapping[str, Startup],
    corpora: Mapping[str, Corpus],
    settings: Mapping[str, float],
) -> dict[str, Any]:
    """All figures, with what they were made with; nothing that names the machine."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "architecture": platform.machine(),
        "versions": {
            "wirelake": __version__,
            **{name: version(name) for name in ("msgspec", "construct", "kaitaistruct")},
        },
        "settings": dict(settings),
        "corpora": {name: _described(corpus) for name, corpus in corpora.items()},
        "results": {
            protocol: {
                operation: {name: asdict(timing) for name, timing in timings.items()}
                for operation, timings in operations.items()
            }
            for protocol, operations in results.items()
        },
        "startup": {name: asdict(times) for name, times in started.items()},
        "rules": [asdict(rule) for rule in rules(results, started)],
    }


def _described(corpus: Corpus) -> dict[str, float]:
    sizes = [len(sample.data) for sample in corpus.samples]
    return {
        "messages": len(sizes),
        "median_bytes": statistics.median(sizes),
        "largest_bytes": max(sizes),
    }
