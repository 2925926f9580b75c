"""Every message and field of the documents in the table `messages`, by both readers of captures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.columnar.differential import differences, write_connection
from tests.protocols.samples import SAMPLES, Object, Sample

from wirelake.capture.decode.reference import read_tables
from wirelake.cli.commands.encode import _writer
from wirelake.protocols import registry
from wirelake.wire.views.json import from_json

pytestmark = pytest.mark.slow

_OTHER_NAMES = {
    "value": {"int", "float", "text", "bytes", "name"},  # nodes of a self-describing value
    "unknown_options": {"bit", "data"},
}
_CONTENT = frozenset({"body", "data", "content"})
"""Fields that may be the column `body`."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: each.id)
def test_every_field_is_in_the_table(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / "sample.pcap"
    protocol = registry.find(sample.protocol)
    assert protocol.port is not None
    model, write = protocol.model(sample.dialect), _writer(protocol, sample.dialect)
    way = int(sample.direction == "s2c")
    frames = [
        (way, protocol.encode(from_json(model, each, write=write), dialect=sample.dialect))
        for each in sample.messages
    ]
    write_connection(path, protocol.port, frames)
    options: Any = {
        "dialects": dict.fromkeys((sample.protocol, *_carried(sample)), sample.dialect),
        "reveal": True,
    }
    assert differences([str(path)], **options) == []
    rows = [row for table, row in read_tables([path], tables=["messages"], **options)]
    own = [row for row in rows if row["protocol"] == sample.protocol]
    inside = [leaf for row in rows if row not in own for leaf in _row_leaves(row)]
    for message, row in zip(sample.messages, own, strict=True):
        found = {*_row_leaves(row), *inside}
        for name, value in _sample_leaves(message):
            names = {name, *_OTHER_NAMES.get(name, ())}
            assert any((each, value) in found for each in names), (name, value, row)


def _carried(sample: Sample) -> tuple[str, ...]:
    return ("tny",) if sample.protocol == "relay" else ()


def _sample_leaves(message: Object) -> Iterator[tuple[str, Any]]:
    """The fields of a message; those of a sealed one are not in tables without its keys."""
    sealed = any(message.get(name) for name in ("verify", "encrypt", "waste"))
    for path, value in _leaves(message):
        name = path[-1]
        if name != "type" and not (sealed and "content" in path):
            yield name.rstrip("_"), _plain(value)


def _row_leaves(row: Object) -> Iterator[tuple[str, Any]]:
    for path, value in _leaves(row[row["protocol"]]):
        yield path[-1], _plain(value)
    for name in _CONTENT:
        yield name, _plain(row["body"])


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, (*path, name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each, path)
    elif value is not None:
        yield path, value


def _plain(value: Any) -> Any:
    """A value as in JSON; numbers of 64 bits are signed in tables."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int):
        return int(value) % (1 << 64)
    return value
