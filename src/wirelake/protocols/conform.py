"""Runs files of test vectors: does this implementation do what they say?

    main(["esnp.jsonl", "comet.jsonl"])

prints a line for each vector that fails, and last `N passed, M failed, K skipped`. With `mutate` it
also alters every vector in every way that should be noticed (`mutation.py`), and an alteration that
goes unnoticed is a failure, unless the protocol's adapter excuses it by name.

Each protocol has an adapter, `<protocol>/vectors.py`: `run(vector, context)` raises VectorFailure,
`CLASSES` are the error classes that vectors may name, `EXCUSES` what cannot be noticed. A vector
may refer to others (`keys_of`, `answers`), which are looked for in all files of the run.

Nothing is skipped: what this runner does not understand fails.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .expectation import (
    Alteration,
    Context,
    Excuse,
    VectorFailure,
)
from .mutation import altered_versions

__all__ = ["ADAPTERS", "Case", "Report", "Suite", "excuses", "load", "main"]

ADAPTERS: Final[dict[str, str]] = {
    "esnp": "wirelake.protocols.esnp.vectors",
    "tny": "wirelake.protocols.tny.vectors",
    "magline": "wirelake.protocols.magline.vectors",
    "comet": "wirelake.protocols.comet.vectors",
}
"""Where the adapter of each protocol is."""
_DEFECT: Final = "the runner fell over:"


def excuses(protocol: str) -> tuple[Excuse, ...]:
    """What cannot be noticed in the vectors of a protocol, and why."""
    return tuple(importlib.import_module(ADAPTERS[protocol]).EXCUSES)


@dataclass(frozen=True, slots=True)
class Case:
    """One vector and where it stands."""

    file: str
    line: int
    vector: dict[str, Any]

    @property
    def protocol(self) -> str:
        """Whose vector it is."""
        return str(self.vector.get("protocol"))

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.vector.get('name', '(no name)')}"


@dataclass(slots=True)
class Report:
    """What came out; reports of parts of a run add up."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    """One line each."""
    tried: int = 0
    caught: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    """How often each excuse was needed."""
    notes: Counter[str] = field(default_factory=Counter)
    """Named reasons why vectors passed that a strict reading would refuse."""

    def __iadd__(self, other: Report) -> Report:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.tried += other.tried
        self.caught += other.caught
        self.excused += other.excused
        self.notes += other.notes
        return self

    def lines(self, mutate: bool) -> Iterator[str]:
        """The report, last line last."""
        yield from self.failures
        if mutate:
            why = ", ".join(f"{name} {n}" for name, n in sorted(self.excused.items()))
            unnoticed = self.tried - self.caught - self.excused.total()
            yield (
                f"alterations: {self.tried} tried, {self.caught} caught, "
                f"{self.excused.total()} excused{f' ({why})' if why else ''}, {unnoticed} unnoticed"
            )
        yield f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(slots=True)
class Suite:
    """The vectors of some files, ready to run; `check` takes any part of them."""

    cases: list[Case] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Files and lines that hold no vector."""
    context: Context = field(default_factory=Context)

    def check(self, cases: Iterable[Case], mutate: bool = False) -> Report:
        """Runs some cases."""
        report = Report()
        for case in cases:
            found = self._run(case.vector, thorough=True)
            report.notes.update(self.context.notes)
            lines = [f"{case}: {found}"] if found else []
            if mutate and not found:
                lines += [f"{case}: {missed}" for missed in self._alter(case, report)]
            report.failures += lines
            report.failed += bool(lines)
            report.passed += not lines
        return report

    def _run(self, vector: dict[str, Any], thorough: bool) -> str | None:
        """What is wrong with a vector, in one line; None when it passes."""
        self.context.notes.clear()
        self.context.thorough = thorough
        try:
            _adapter(vector).run(vector, self.context)
        except VectorFailure as failure:
            return str(failure) or "failed"
        except Exception as error:  # a defect of ours, but still one line and not the end
            return f"{_DEFECT} {type(error).__name__}: {' '.join(str(error).split())}"
        return None

    def _alter(self, case: Case, report: Report) -> Iterator[str]:
        """Alterations that nothing noticed."""
        adapter = _adapter(case.vector)
        for alteration, altered in altered_versions(case.vector, adapter.CLASSES):
            report.tried += 1
            found = self._run(altered, thorough=False)
            if found and not found.startswith(_DEFECT):
                report.caught += 1
                continue
            if found:
                yield f"altered {alteration}: {found}"
                continue
            excuse = _excuse(adapter.EXCUSES, case.vector, altered, alteration)
            if excuse is None:
                yield f"altered {alteration}, and it still passes"
            else:
                report.excused[excuse.name] += 1


def _adapter(vector: dict[str, Any]) -> Any:
    protocol = vector.get("protocol")
    if not isinstance(protocol, str) or protocol not in ADAPTERS:
        raise VectorFailure(f"no protocol is called {protocol!r}; there are {', '.join(ADAPTERS)}")
    return importlib.import_module(ADAPTERS[protocol])


def _excuse(
    known: Iterable[Excuse],
    vector: dict[str, Any],
    altered: dict[str, Any],
    alteration: Alteration,
) -> Excuse | None:
    return next((e for e in known if e.covers(vector, altered, alteration)), None)


def load(files: Iterable[str | Path]) -> Suite:
    """Reads files of vectors; what is no vector becomes a problem, and is never raised."""
    suite = Suite()
    for file in files:
        path = Path(file)
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8"
            suite.problems.append(f"{path}: cannot be read: {why}")
            continue
        before = len(suite.cases) + len(suite.problems)
        for number, line in enumerate(lines, 1):
            if line.strip():
                _add(suite, path, number, line)
        if len(suite.cases) + len(suite.problems) == before:
            suite.problems.append(f"{path}: holds no vector")
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
        suite.problems.append(f"{path}:{number}: expect must be an object, and hex a text")
        return
    suite.cases.append(Case(path.name, number, vector))


def main(
    files: Iterable[str | Path],
    mutate: bool = False,
    out: Callable[[str], object] = print,
) -> int:
    """Runs files, writes the report line by line to `out`; 1 when anything failed."""
    suite = load(files)
    report = Report(failed=len(suite.problems), failures=list(suite.problems))
    report += suite.check(suite.cases, mutate)
    for line in report.lines(mutate):
        out(line)
    return 1 if report.failed else 0
