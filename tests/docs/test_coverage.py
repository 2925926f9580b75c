"""The table of what the documents define (`docs/coverage.toml`): complete, with existing tests."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.protocols.samples import SAMPLES
from tools.pages.coverage import COLUMNS, Element, elements

import wirelake.protocols
from wirelake.client.dial import connection_class
from wirelake.protocols import registry
from wirelake.protocols.binding import ListenerSettings
from wirelake.protocols.esnp.binding import EsnpRoute
from wirelake.protocols.tny.binding import Backend, GatewaySettings
from wirelake.wire import model as m
from wirelake.wire.declare import build
from wirelake.wire.walk import reachable

ROOT = Path(__file__).parents[2]
TABLE = elements()
_PACKAGES = {"relay": "tny"}
"""Protocols that share the package of another."""
_RELAY_NAMES = ("Relay", "Link", "Gateway", "Registry")
"""How the names of what the relay declares begin, in the package that it shares."""


# -- what is declared ------------------------------------------------------------------------------


def declared(name: str) -> Iterator[str]:
    """Return the name of everything that the code declares for a protocol."""
    protocol, binding = registry.find(name), registry.binding(name)
    for dialect in protocol.dialects:
        yield f"dialect {dialect}"
        roots = [protocol.model(dialect), *(build(each, dialect) for each in protocol.more)]
        for layout in reachable(roots):
            yield layout.name
            yield from (f"{layout.name}.{part}" for part in _parts(layout))
    yield from (f"revision {each}" for each in protocol.revisions)
    yield from _constants_and_options(name)
    yield from _settings(name, binding.settings)
    yield from (f"connect {each}" for each in binding.client_options)
    if binding.client is not None:
        connection = connection_class(name)
        yield from (f"call {each}" for each in connection.CALL_OPTIONS)
        yield from (f"call {each}" for each in vars(connection) if each.startswith("has_"))


def _parts(layout: m.Layout) -> Iterator[str]:
    for part in layout.parts:
        match part:
            case m.BitGroup():
                yield from (bit.name for bit in part.bits)
            case m.Options():
                yield from (option.name for option in part.fields)
                yield part.unknown
            case _:
                yield part.name
    if layout.unknown:
        yield layout.unknown


def _constants_and_options(name: str) -> Iterator[str]:
    """Return the numbers that have names, and the options of sessions."""
    package = f"{wirelake.protocols.__name__}.{_PACKAGES.get(name, name)}"
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = importlib.import_module(f"{package}.{info.name}")
        for cls in vars(module).values():
            if not inspect.isclass(cls) or cls.__module__ != module.__name__:
                continue
            if cls.__name__.startswith(_RELAY_NAMES) != (name in _PACKAGES):
                continue
            if issubclass(cls, IntEnum | IntFlag):
                yield from (f"{cls.__name__}.{each.name}" for each in cls)
            elif info.name == "limits" and issubclass(cls, msgspec.Struct):
                yield from (f"option {each.name}" for each in msgspec.structs.fields(cls))


def _settings(name: str, settings: type[ListenerSettings]) -> Iterator[str]:
    """Return the keys of the hub's configuration; those of every listener are not a protocol's."""
    common = {each.name for each in msgspec.structs.fields(ListenerSettings)}
    for field in msgspec.structs.fields(settings):
        if field.name not in common:
            yield f"[{name}] {field.name}"
    if name == "esnp":
        yield from (f"[[esnp.routes]] {each.name}" for each in msgspec.structs.fields(EsnpRoute))
    if name == "relay":
        yield from (f"[gateway] {each.name}" for each in msgspec.structs.fields(GatewaySettings))
        yield from (f"[[gateway.backends]] {each.name}" for each in msgspec.structs.fields(Backend))


# -- checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_everything_that_is_declared_is_in_the_table(name: str) -> None:
    listed = Counter(each for row in TABLE if row.protocol == name for each in row.covers)
    assert sorted(set(declared(name)) - set(listed)) == [], "missing"
    assert sorted(set(listed) - set(declared(name))) == [], "not declared"
    assert [each for each, times in listed.items() if times > 1] == [], "listed twice"


@pytest.mark.parametrize("row", TABLE, ids=lambda each: f"{each.protocol}-{each.name}")
def test_every_cell_has_a_test_that_exists_or_a_reason(row: Element) -> None:
    for column in COLUMNS:
        tests, reason = row.cell(column)
        assert tests or reason, f"{column} is empty"
        for test in tests:
            path, _, function = test.partition("::")
            assert function in _functions(path), f"{test} does not exist"
        if not tests:
            assert len(reason) > 15, f"{column}: {reason!r} is no reason"


@functools.cache
def _functions(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    )


def test_a_row_names_what_it_is_about() -> None:
    names = Counter((row.protocol, row.name) for row in TABLE)
    assert [each for each, times in names.items() if times > 1] == []
    assert all(row.covers or row.flow for row in TABLE)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_samples_have_every_field(name: str) -> None:
    """The tests of the command line and of the tables use samples; here nothing is left out."""
    protocol = registry.find(name)
    for dialect in protocol.dialects:
        used = {
            field
            for sample in SAMPLES
            if (sample.protocol, sample.dialect) == (name, dialect)
            or (sample.protocol == name and sample.dialect == protocol.dialects[0])
            for message in sample.messages
            for field in _used(message, {})
        }
        wanted = {
            f"{layout.name}.{field}"
            for layout in reachable([protocol.model(dialect)])
            for field in _stored(layout)
        }
        assert sorted(wanted - used) == []


def _stored(layout: m.Layout) -> Iterator[str]:
    if layout.transparent:  # its body is the message
        return
    for part in layout.parts:
        match part:
            case m.BitGroup():
                yield from (bit.name for bit in part.bits if bit.role == "stored")
            case m.Options():
                yield from (option.name for option in part.fields)
                yield part.unknown
            case m.Field() | m.Body():
                yield part.name
            case _:
                pass
    if layout.unknown:
        yield layout.unknown


def _used(value: Any, outer: dict[str, Any]) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name != "type" and each not in (None, 0, "", b"", False, []):
                yield f"{value.get('type', '')}.{name.rstrip('_')}"
            yield from _used(each, value)
    elif isinstance(value, list):
        for each in value:
            yield from _used(each, outer)
