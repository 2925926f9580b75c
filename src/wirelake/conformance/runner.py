"""Run files of test vectors and report which of them this implementation fails.

    main(["esnp.jsonl", "comet.jsonl"])

prints a line for each vector that fails, and last `N passed, M failed, K skipped`.

Each protocol has an adapter, `conformance/<protocol>.py`: `run(vector, context)` raises
VectorFailure, `CLASSES` lists the error classes that vectors may name. A vector may refer to others
(`keys_of`, `answers`), which are looked up in all files of the run.

Nothing is skipped: a key that this runner does not know is a failure.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from wirelake.protocols import registry

from .expectation import Context, VectorFailure

__all__ = ["ADAPTERS", "DEFECT", "Case", "Report", "Suite", "adapter", "load", "main"]

_PACKAGES: Final = sorted({module.split(".")[2] for module in registry.BUILT_IN.values()})
ADAPTERS: Final = {name: f"wirelake.conformance.{name}" for name in _PACKAGES}
"""The module with the adapter of each protocol package."""
DEFECT: Final = "internal error in the adapter:"
"""The start of the line of a vector on which the adapter itself failed."""


@dataclass(frozen=True, slots=True)
class Case:
    """One vector, with its file and line."""

    file: str
    line: int
    vector: dict[str, Any]

    @property
    def protocol(self) -> str:
        """The name of the vector's protocol."""
        return str(self.vector.get("protocol"))

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.vector.get('name', '(no name)')}"


@dataclass(slots=True)
class Report:
    """The results of a run; reports of parts of a run add up."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    """One line each."""
    notes: Counter[str] = field(default_factory=Counter)
    """Named reasons why vectors passed that a strict reading would refuse."""

    def __iadd__(self, other: Report) -> Self:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.notes += other.notes
        return self

    def lines(self) -> Iterator[str]:
        """Yield the report: failures, then the counts."""
        yield from self.failures
        yield f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(slots=True)
class Suite:
    """The vectors of some files; `check` runs any part of them."""

    cases: list[Case] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Lines that are not valid vectors."""
    unreadable: list[str] = field(default_factory=list)
    """Files that cannot be read or contain no vectors."""
    context: Context = field(default_factory=Context)

    def check(self, cases: Iterable[Case]) -> Report:
        """Run some cases."""
        report = Report()
        for case in cases:
            found = self.failure(case.vector, thorough=True)
            report.notes.update(self.context.notes)
            if found:
                report.failures.append(f"{case}: {found}")
            report.failed += bool(found)
            report.passed += not found
        return report

    def failure(self, vector: dict[str, Any], thorough: bool) -> str | None:
        """Return why a vector fails, in one line; None when it passes."""
        self.context.notes.clear()
        self.context.thorough = thorough
        try:
            adapter(vector).run(vector, self.context)
        except VectorFailure as failure:
            return str(failure) or "failed"
        except Exception as error:  # a defect of ours, but still one line and not the end
            return f"{DEFECT} {type(error).__name__}: {' '.join(str(error).split())}"
        return None


def adapter(vector: dict[str, Any]) -> Any:
    """Return the adapter module of a vector's protocol."""
    protocol = vector.get("protocol")
    if not isinstance(protocol, str) or protocol not in ADAPTERS:
        raise VectorFailure(f"unknown protocol {protocol!r}; expected one of {', '.join(ADAPTERS)}")
    return importlib.import_module(ADAPTERS[protocol])


def load(files: Iterable[str | Path]) -> Suite:
    """Read files of vectors. Invalid lines and files are collected in the suite."""
    suite = Suite()
    for file in files:
        path = Path(file)
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8"
            suite.unreadable.append(f"cannot read {path}: {why}")
            continue
        before = len(suite.cases) + len(suite.problems)
        for number, line in enumerate(lines, 1):
            if line.strip():
                _add(suite, path, number, line)
        if len(suite.cases) + len(suite.problems) == before:
            suite.unreadable.append(f"{path}: contains no vectors")
    by_protocol: dict[str, list[dict[str, Any]]] = {}
    for case in suite.cases:
        by_protocol.setdefault(case.protocol, []).append(case.vector)
    suite.context = Context(vectors=by_protocol)
    return suite


def _add(suite: Suite, path: Path, number: int, line: str) -> None:
    try:
        vector = json.loads(line)
    except (ValueError, RecursionError) as error:
        suite.problems.append(f"{path}:{number}: not JSON: {' '.join(str(error).split())}")
        return
    if not isinstance(vector, dict):
        suite.problems.append(f"{path}:{number}: not an object")
        return
    missing = [key for key in ("name", "protocol", "hex", "expect") if key not in vector]
    if missing:
        suite.problems.append(f"{path}:{number}: has no {', '.join(missing)}")
        return
    if not isinstance(vector["expect"], dict) or not isinstance(vector["hex"], str):
        suite.problems.append(f"{path}:{number}: expect must be an object, and hex a string")
        return
    suite.cases.append(Case(path.name, number, vector))


def main(
    files: Iterable[str | Path],
    out: Callable[[str], object] = print,
    *,
    as_json: bool = False,
) -> int:
    """Run files and write the report to `out`: line by line, or as one JSON object.

    Returns 0, or 1 if a vector failed, or 2 if a file could not be read.
    """
    suite = load(files)
    report = Report(failed=len(suite.problems), failures=list(suite.problems))
    report += suite.check(suite.cases)
    if as_json:
        counts = {"passed": report.passed, "failed": report.failed, "skipped": report.skipped}
        found = {**counts, "failures": report.failures, "unreadable": suite.unreadable}
        out(json.dumps(found, ensure_ascii=False))
    else:
        for line in (*suite.unreadable, *report.lines()):
            out(line)
    if suite.unreadable:
        return 2
    return 1 if report.failed else 0
