"""The soaks on the page on performance: what `make soak` asks for, and what its records have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["asked", "soaks"]


class _Count(NamedTuple):
    """One line of the table."""

    record: str
    what: str
    variable: str
    """Of the Makefile: what is asked for."""
    done: int
    wrong: int
    """How much was found to be wrong."""


_NAMES: Final = {
    "wire": "SOAK_EXECUTIONS", "sessions": "SOAK_INPUTS", "columnar": "SOAK_MESSAGES",
}  # fmt: skip


def soaks(root: Path) -> Iterator[str]:
    """The table, and by name what is wrong or less than asked for."""
    wanted = asked(root / "Makefile")
    counts = [each for path in sorted((root / "soak").glob("*.json")) for each in _counts(path)]
    if not counts:
        yield "There are no records.\n"
        return
    yield "| record | check | requested | recorded | problems |\n|---|---|---|---|---|"
    for each in counts:
        goal = wanted.get(each.variable)
        less = " (**fewer**)" if goal is not None and each.done < goal else ""
        shown = "" if goal is None else f"{goal:,}"
        name = f"`soak/{each.record}.json`"
        yield f"| {name} | {each.what} | {shown} | {each.done:,}{less} | {each.wrong:,} |"
    yield ""


def asked(makefile: Path) -> dict[str, int]:
    """The numbers that the Makefile gives `make soak`."""
    text = makefile.read_text(encoding="utf-8") if makefile.exists() else ""
    return {name: int(value) for name, value in re.findall(r"^(SOAK_\w+) \?= (\d+)$", text, re.M)}


def _counts(path: Path) -> Iterator[_Count]:
    record = json.loads(path.read_text(encoding="utf-8"))
    name = path.stem
    for protocol, found in record.get("protocols", record.get("spoilt", {})).items():
        done = found.get("executions", found.get("inputs", found.get("messages", 0)))
        wrong = found.get("crashes", found.get("differences", []))
        words = f"{protocol}: {_words(found)}"
        yield _Count(name, words, _NAMES.get(name, ""), done, found.get("crash_count", len(wrong)))
    for key in ("simulated", "simulated_with_faults"):
        if key in record:
            found = record[key]
            wrong = len(found.get("differences", ())) + len(found.get("untrue", ()))
            words = f"{key.replace('_', ' ')}, messages"
            yield _Count(name, words, "", found.get("messages", 0), wrong)
    yield from _kills(name, record)


def _words(found: dict[str, Any]) -> str:
    if "executions" in found:
        return "fuzzed inputs of the codec"
    return "inputs to sessions" if "inputs" in found else "corrupted messages, kernel against codec"


def _kills(name: str, record: dict[str, Any]) -> Iterator[_Count]:
    problems = len(record.get("problems", ()))
    if "times" in record:
        yield _Count(name, "interrupts of the demo", "SOAK_INTERRUPTS", record["times"], problems)
    if isinstance(record.get("kills"), int):
        yield _Count(name, "kills of a lake's run", "SOAK_KILLS", record["kills"], problems)
        yield _Count(name, "splits of its input", "SOAK_CUTS", record.get("cuts", 0), problems)
        lossy = record.get("lossy", 0)
        yield _Count(name, "lossy captures, read in all ways", "SOAK_LOSSY", lossy, problems)
    if "rows_of_the_file" in record:
        words = "messages decoded live, and again from the file"
        yield _Count(name, words, "", record["rows"], problems)
    parts = (
        ("kills", "kills", "kills of a hub", "SOAK_HUB_KILLS"),
        ("sweep", "kills", "kills of a hub that deletes under load", ""),
        ("silence", "connections", "silent connections", "SOAK_SILENT"),
        ("memory", "connects", "short-lived connections", "SOAK_CONNECTS"),
        ("tls", "silent", "silent TLS connections", "SOAK_SILENT"),
        ("admin", "idle", "idle HTTP connections", "SOAK_SILENT"),
        ("unfinished", "connections", "unfinished messages of one client", ""),
    )
    for part, key, words, variable in parts:
        found = record.get(part)
        if isinstance(found, dict):
            wrong = len(found.get("problems", ()))
            yield _Count(name, words, variable, found.get(key, 0), wrong)
