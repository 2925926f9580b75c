"""Generate the performance page: `python -m benchmarks.performance_pages docs/guides [--check]`.

Every figure comes from a record, `benchmarks/results/*.json` or `soak/*.json`. A new part of a
record gets a table without a change here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from .performance_soak import soaks
from .performance_texts import HEAD, HOW, NO_RULES, PARTS, RECORDS, SOAK

__all__ = ["FILE", "main", "page"]

FILE: Final = "performance.md"
"""File name of the page."""
ROOT: Final = Path(__file__).parents[1]
"""Root of the repository."""

_WORDS: Final = {"wirelake": "codec", "wirelake_protocol": "through `Protocol`"}
Record = Mapping[str, Any]


def page(root: Path = ROOT) -> str:
    """Return the page for the records below a folder."""
    records = _read(root / "benchmarks" / "results", RECORDS)
    parts = [HEAD, *_verdict(records)]
    for name, record in records.items():
        title, words = RECORDS.get(name, (name, ""))
        parts += [f"## {title}\n", *([f"{words}\n"] if words else [])]
        parts += [_made_with(name, record), *_body(record), *_rules(_rules_of(record))]
    parts += [SOAK, *soaks(root)]
    parts.append(HOW)
    return "\n".join(parts).rstrip() + "\n"


def _read(folder: Path, order: Mapping[str, object]) -> dict[str, Record]:
    """Return the records of a folder, known ones first, in their order."""
    names = sorted(path.stem for path in folder.glob("*.json"))
    ranks = {name: at for at, name in enumerate(order)}
    names.sort(key=lambda name: ranks.get(name, len(ranks)))
    return {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in names}


# -- required and target values ----------------------------------------------------------------


def _rules_of(record: Record) -> list[dict[str, Any]]:
    """Return every required and target value of a record and its parts."""
    found = list(record.get("rules", ()))
    for part in record.get("results", {}).values():
        if isinstance(part, dict):
            found += part.get("rules", ())
    return found


def _verdict(records: Mapping[str, Record]) -> Iterator[str]:
    """Yield the counts, and a row for each value not reached."""
    judged = [(name, rule) for name, record in records.items() for rule in _rules_of(record)]
    if not judged:
        yield NO_RULES
        return
    yield "| record | required values reached | targets reached |\n|---|---|---|"
    for name in records:
        cells = [_share(rule for of, rule in judged if of == name and rule["kind"] == kind)
                 for kind in ("required", "target")]  # fmt: skip
        yield f"| `{name}.json` | {cells[0]} | {cells[1]} |"
    yield ""
    for kind, title in (("required", "Missed requirements"), ("target", "Targets not reached yet")):
        missed = [each for each in judged if each[1]["kind"] == kind and not each[1]["holds"]]
        yield f"### {title}\n"
        if not missed:
            yield "None.\n"
            continue
        yield "| measurement | bound | measured | record |\n|---|---|---|---|"
        for name, rule in missed:
            found = number(rule["found"])
            yield f"| {rule['what']} | {bound(rule['wanted'])} | {found} | `{name}.json` |"
        yield ""


def _share(rules: Iterator[dict[str, Any]]) -> str:
    holds = [rule["holds"] for rule in rules]
    return f"{sum(holds)} of {len(holds)}" if holds else ""


def _rules(rules: list[dict[str, Any]]) -> Iterator[str]:
    if not rules:
        return
    yield "| | measurement | bound | measured | |\n|---|---|---|---|---|"
    for rule in rules:
        word = (
            "holds" if rule["holds"] else "**missed**" if rule["kind"] == "required" else "not yet"
        )
        cells = (rule["kind"], rule["what"], bound(rule["wanted"]), number(rule["found"]), word)
        yield f"| {' | '.join(cells)} |"
    yield ""


# -- figures -------------------------------------------------------------------------------------


def _made_with(name: str, record: Record) -> str:
    versions = dict(record.get("versions", {}))
    if "wirelake" in record:
        versions["wirelake"] = record["wirelake"]
    words = [f"Python {record['python']}"] if "python" in record else []
    words += [f"{each} {version}" for each, version in versions.items()]
    words += [f"{each.replace('_', ' ')}: {value:g}"
              for each, value in record.get("settings", {}).items()]  # fmt: skip
    return f"*`benchmarks/results/{name}.json`: {', '.join(words)}.*\n"


def _body(record: Record) -> Iterator[str]:
    results = record.get("results", {})
    titled = {key: part for key, part in results.items() if "title" in part}
    for key, part in titled.items():
        yield from _part(key, part)
    rest = {key: part for key, part in results.items() if key not in titled}
    yield from _timings(rest)
    yield from _sessions(rest)
    started = record.get("startup", {})
    if started:
        yield from _table("ms", {name: dict(times) for name, times in started.items()})
    if "decryption" in record:
        yield from _table("magline records, µs each", _best(record["decryption"]))


def _part(key: str, part: Mapping[str, Any]) -> Iterator[str]:
    title = part["title"]
    yield f"### {title[:1].upper()}{title[1:]}\n"
    if key in PARTS:
        yield f"{PARTS[key]}\n"
    if "rows" in part:
        yield from _table(part.get("unit", ""), part["rows"])
    if part.get("figures"):
        yield "| figure | | |\n|---|---|---|"
        for each in part["figures"]:
            yield f"| {each['what']} | {number(each['value'])} | {each['unit']} |"
        yield ""
    for note in part.get("notes", ()):
        yield f"{note[:1].upper()}{note[1:]}.\n"


def _timings(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield one table of the best rounds, by protocol, operation and contender."""
    rows: dict[str, dict[str, float]] = {}
    for protocol, part in results.items():
        operations = part.get("timings", part)
        for operation, contenders in operations.items():
            if _is_timing(contenders):
                rows[f"{protocol}: {operation}"] = _best_of(contenders)
    if rows:
        yield from _table("µs a message, best round", rows)


def _sessions(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield one table by protocol, conversation and depth."""
    rows: dict[str, dict[str, float]] = {}
    for protocol, part in results.items():
        for conversation, found in part.items():
            if isinstance(found, dict) and "summary" in found:
                for depth, summary in found["summary"].items():
                    rows[f"{protocol}: {conversation}, {depth.replace('_', ' ')}"] = {
                        name.replace("_", " "): value for name, value in summary.items()
                    }
    if rows:
        yield from _table("one core", rows)


def _is_timing(found: Any) -> bool:
    return isinstance(found, dict) and bool(found) and all(
        isinstance(each, dict) and "best_us" in each for each in found.values()
    )  # fmt: skip


def _best_of(contenders: Mapping[str, Any]) -> dict[str, float]:
    return {
        _WORDS.get(name, name.replace("_", " ")): each["best_us"]
        for name, each in contenders.items()
    }


def _best(timings: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    return {name: {"best": each["best_us"]} for name, each in timings.items()}


def _table(corner: str, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a table whose columns are the union over its rows."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    yield f"| {corner} | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}"
    for name, row in rows.items():
        cells = (number(row[column]) if column in row else "" for column in columns)
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""


def number(value: Any) -> str:
    """Format a figure with its significant digits."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 or value == 0 else f"{value:.2g}"


def bound(text: str) -> str:
    """Format a bound with ≥, ≤ and thousands separators."""
    shown = text.replace(">=", "≥").replace("<=", "≤")
    return re.sub(r"\d{4,}", lambda found: f"{int(found[0]):,}", shown)


# -- the command ---------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or with --check report whether it is out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance_pages", description=main.__doc__
    )
    parser.add_argument("folder", type=Path, help="folder of the page, such as docs/guides")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    options = parser.parse_args(arguments)
    path: Path = options.folder / FILE
    wanted = page()
    if path.exists() and path.read_text(encoding="utf-8") == wanted:
        return 0
    if options.check:
        print(f"{FILE} is out of date")
        return 1
    path.write_text(wanted, encoding="utf-8")
    print(f"wrote {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
