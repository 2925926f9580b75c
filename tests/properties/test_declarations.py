"""Protocols that nobody designed: what is declared at random is generated, and holds its promises.

Every combination of the words of a declaration that is not refused must give a codec that reads
what it writes, asks for what is missing, and answers altered bytes with documented errors.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.properties.declarations import Declaration

from wirelake.wire import CODES, DecodeError, Layout, NeedMore, Protocol
from wirelake.wire.views.strategy import messages

COUNT = (settings.default.max_examples if settings.default else 100) // 2
"""How many protocols, by the profile that is loaded."""
CHANGES = 10
"""Cuts and alterations of each message."""


@pytest.fixture(params=range(COUNT))
def declared(request: pytest.FixtureRequest) -> Iterator[tuple[Protocol, int]]:
    """A protocol, declared in a module of its own."""
    number = int(request.param)
    name = f"throwaway_declared_{number}"
    module = ModuleType(name)
    sys.modules[name] = module
    source = Declaration(number).source()
    exec(compile(source, name, "exec"), module.__dict__)
    try:
        yield module.PROTOCOL, number
    finally:
        del sys.modules[name]


def plain(value: Any) -> Any:
    """A value as tuples, with floats as their bytes: NaN is then equal to itself."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, Layout):
        return (type(value), *(plain(getattr(value, name)) for name in value.__struct_fields__))
    return value


def outcome(protocol: Protocol, data: bytes, start: int = 0) -> tuple[Any, ...]:
    """What decoding gives, with offsets from the start."""
    try:
        message, stop = protocol.decode(data, start)
    except NeedMore as more:
        return "need", more.need
    except DecodeError as error:
        assert error.code in CODES  # noqa: PT017
        assert error.field  # noqa: PT017
        assert start <= (error.offset or 0) <= len(data)  # noqa: PT017
        return error.code, error.field, (error.offset or 0) - start
    return "message", plain(message), stop - start


def there_and_back(protocol: Protocol, message: Any) -> bytes:
    data = protocol.encode(message)
    again, stop = protocol.decode(b"??" + data + b"\xff\x80\x00", 2)
    assert stop == 2 + len(data)
    assert plain(again) == plain(message)
    assert protocol.encode(again) == data
    assert protocol.scan(data) == len(data)
    return data


def cut(protocol: Protocol, data: bytes, stop: int) -> None:
    kind, need = outcome(protocol, data[:stop])
    assert kind == "need"
    assert 1 <= need <= len(data) - stop


def altered(protocol: Protocol, data: bytes) -> None:
    """Altered bytes mean the same wherever they stand, and what they mean is stable."""
    alone = outcome(protocol, data)
    assert outcome(protocol, b"??" + data, 2) == alone
    if alone[0] == "need":
        return
    assert outcome(protocol, data + b"\xff\xff\x01") == alone
    if alone[0] == "message":
        canonical = protocol.encode(protocol.decode(data).message)
        assert outcome(protocol, canonical)[:2] == alone[:2]


def test_a_declared_protocol_holds_its_promises(declared: tuple[Protocol, int]) -> None:
    protocol, number = declared
    rng = Random(number)
    seen = 0

    @seed(number)
    @settings(
        max_examples=10,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(protocol))
    def every_message(message: Any) -> None:
        nonlocal seen
        seen += 1
        data = there_and_back(protocol, message)
        for _ in range(CHANGES):
            cut(protocol, data, rng.randrange(len(data)))
            changed = bytearray(data)
            changed[rng.randrange(len(data))] = rng.randrange(256)
            altered(protocol, bytes(changed))

    every_message()
    assert seen >= 1


def test_the_same_number_declares_the_same_protocol() -> None:
    assert Declaration(5).source() == Declaration(5).source() != Declaration(6).source()
