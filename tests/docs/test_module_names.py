"""Modules, names and files that pages mention exist.

Dotted names (`wirelake.lake.session`) are imported. File names in code spans (`hub/net/outbox.py`)
are looked up in the repository, in `src/wirelake` and in `src/wirelake/protocols`.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire.views.lua import SHARED_FIELDS, filter_fields

from .page_runner import ROOT

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md", "SECURITY.md")),
]
FOLDERS = (ROOT, ROOT / "src/wirelake", ROOT / "src/wirelake/protocols", ROOT / "src/wirelake/hub")
# Not Python: a Wireshark protocol, an Iceberg table and property, files.
OTHER = re.compile(r"wirelake\.(weather|parcel|calls|commit|lua|colors)\b")


@functools.cache
def filters() -> frozenset[str]:
    """Fields and protocols of Wireshark, in every dialect."""
    protocols = [find(name) for name in BUILT_IN]
    fields = [
        each.name
        for protocol in protocols
        for dialect in protocol.dialects
        for each in filter_fields(protocol, dialect)
    ]
    names = (f"wirelake.{name}" for name in (*BUILT_IN, *(f"{name}.port" for name in BUILT_IN)))
    return frozenset((*fields, *names, *(each.name for each in SHARED_FIELDS)))


def dotted(text: str) -> Iterator[str]:
    """Dotted names below `wirelake`."""
    for found in re.finditer(r"(?<![\w./@-])(?:pyspark_)?wirelake(?:\.[A-Za-z_]\w*)+", text):
        if not OTHER.match(found[0]):
            yield found[0]


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, an attribute of one, or a field of Wireshark."""
    if name in filters():
        return True
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[count:]:
                value = getattr(value, part)
        except AttributeError:
            return False
        return True
    return False


def sources(text: str) -> Iterator[str]:
    """Files of our own sources in code spans, with at least one folder in front."""
    for found in re.finditer(r"`((?:[a-z_]+/)+[a-z_]+\.py)(?: [^`]*)?`", text):
        yield found[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_mentioned_names_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    missing = {name for name in dotted(text) if not resolves(name)}
    missing |= {
        name for name in sources(text) if not any((each / name).is_file() for each in FOLDERS)
    }
    assert missing == set()


def test_unknown_names_are_noticed() -> None:
    text = "Call `wirelake.lake.session`, not `wirelake.lake.gone` or `wirelake.gone.away`."
    assert [name for name in dotted(text) if not resolves(name)] == [
        "wirelake.lake.gone", "wirelake.gone.away",
    ]  # fmt: skip
    assert list(sources("`hub/gone.py` and `gone.py`")) == ["hub/gone.py"]
