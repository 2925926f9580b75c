"""Alter vectors, to find out whether running them would notice.

A test that cannot fail is a defect: an alteration that goes unnoticed is a failure, unless
`excuses.py` has a reason for it. Every leaf of `expect` is changed, one at a time: numbers by
one, hexadecimal text by one digit, other text by a character, the name of an error class to another
class, booleans to their opposite, null to a number, an empty list or object to one that is not. In
vectors that decode, bytes of `hex` are changed too, one at a time: all of them in a small vector,
an even sample of a large one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wirelake.conformance.runner import DEFECT, Case, Report, Suite, adapter, load

from .excuses import EXCUSES, Alteration

__all__ = ["MutationReport", "altered_versions", "check", "is_positive", "main"]

_CLASS_KEYS: Final = ("error", "strict_error", "encode_error", "also_acceptable")
_HEX: Final = re.compile("(?:[0-9a-f]{2})+")
_FLIPS: Final = (0x01, 0x80)
"""The bits of a byte that are flipped: the lowest, and the one that means *continue* or *minus*."""
_ALL_BYTES: Final = 256
_SAMPLE: Final = 96


@dataclass(slots=True)
class MutationReport(Report):
    """What came out; reports of parts of a run add up."""

    tried: int = 0
    caught: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    """How often each excuse was needed."""

    def lines(self) -> Iterator[str]:
        """Yield the report: failures, alterations, then the counts."""
        *failures, counts = Report.lines(self)
        yield from failures
        why = ", ".join(f"{name} {n}" for name, n in sorted(self.excused.items()))
        unnoticed = self.tried - self.caught - self.excused.total()
        yield (
            f"alterations: {self.tried} tried, {self.caught} caught, "
            f"{self.excused.total()} excused{f' ({why})' if why else ''}, {unnoticed} unnoticed"
        )
        yield counts


def check(suite: Suite, cases: Iterable[Case]) -> MutationReport:
    """Run some cases, and all alterations of those that pass."""
    report = MutationReport()
    for case in cases:
        one = suite.check([case])
        if not one.failed:
            one.failures += [f"{case}: {missed}" for missed in _unnoticed(suite, case, report)]
            one.failed, one.passed = int(bool(one.failures)), int(not one.failures)
        report += one
    return report


def main(files: Iterable[Path], out: Callable[[str], object] = print) -> int:
    """Run files with all alterations, as `wirelake conform` runs them without."""
    suite = load(files)
    report = check(suite, suite.cases)
    report.failed += len(suite.problems) + len(suite.unreadable)
    report.failures[:0] = [*suite.unreadable, *suite.problems]
    for line in report.lines():
        out(line)
    return 1 if report.failed else 0


def _unnoticed(suite: Suite, case: Case, report: MutationReport) -> Iterator[str]:
    """Yield the alterations that nothing noticed."""
    for alteration, altered in altered_versions(case.vector, adapter(case.vector).CLASSES):
        report.tried += 1
        found = suite.failure(altered, thorough=False)
        if found and not found.startswith(DEFECT):
            report.caught += 1
            continue
        if found:
            yield f"altered {alteration}: {found}"
            continue
        excuses = EXCUSES[case.protocol]
        excuse = next((e for e in excuses if e.covers(case.vector, altered, alteration)), None)
        if excuse is None:
            yield f"altered {alteration}, and it still passes"
        else:
            report.excused[excuse.name] += 1


def is_positive(vector: dict[str, Any]) -> bool:
    """Whether the bytes of a vector are to be accepted."""
    expect = vector["expect"]
    return "error" not in expect and expect.get("ok") is not False


def altered_versions(
    vector: dict[str, Any], classes: Sequence[str]
) -> Iterator[tuple[Alteration, dict[str, Any]]]:
    """Every alteration of a vector, and the vector with it."""
    for path, value in _leaves(vector["expect"], ()):
        changed = _changed(path, value, classes)
        yield Alteration(path=path), {**vector, "expect": _with(vector["expect"], path, changed)}
    if is_positive(vector):
        data = bytes.fromhex(vector["hex"])
        for offset in _offsets(len(data)):
            for flip in _FLIPS:
                other = data[:offset] + bytes([data[offset] ^ flip]) + data[offset + 1 :]
                yield Alteration(offset=offset, flip=flip), {**vector, "hex": other.hex()}


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _with(value: Any, path: tuple[str | int, ...], leaf: Any) -> Any:
    """The same value with another leaf; what is not on the path is shared."""
    if not path:
        return leaf
    copy = value.copy()
    copy[path[0]] = _with(value[path[0]], path[1:], leaf)
    return copy


def _changed(path: tuple[str | int, ...], value: Any, classes: Sequence[str]) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            if path[-1] in _CLASS_KEYS and value in classes:
                return classes[(classes.index(value) + 1) % len(classes)]
            if _HEX.fullmatch(value):
                return value[:-1] + f"{(int(value[-1], 16) + 1) % 16:x}"
            return value + "~"
        case list():
            return [None]
        case dict():
            return {"altered": 1}
        case _:
            return 1


def _offsets(size: int) -> Sequence[int]:
    if size <= _ALL_BYTES:
        return range(size)
    return sorted({*range(24), *range(24, size, max(1, size // _SAMPLE)), *range(size - 8, size)})
