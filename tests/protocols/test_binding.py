"""Bindings are checked where they are declared, and by the hub before it listens."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from parcel_courier import BINDING
from tests.hub.running import running

from wirelake.hub.config import ConfigError
from wirelake.protocols import registry


def test_errors_without_internal_are_refused() -> None:
    with pytest.raises(ValueError, match="'internal' is missing"):
        replace(BINDING, errors={"not_found": 4})
    assert replace(BINDING, errors={}).errors == {}


def test_codes_that_are_not_listed_are_internal() -> None:
    binding = replace(BINDING, errors={"not_found": 4, "internal": 9})
    assert [binding.error_number(code) for code in ("not_found", "too_busy")] == [4, 9]


def test_a_misspelt_code_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(BINDING, errors={"not_fuond": 4, "internal": 9})
    monkeypatch.setattr(registry, "binding", lambda _: wrong)

    async def go() -> None:
        async with running(listeners=[], parcel={"port": 0}):
            pass

    with pytest.raises(ConfigError, match=r"\[parcel\]: unknown error code 'not_fuond'"):
        asyncio.run(go())
