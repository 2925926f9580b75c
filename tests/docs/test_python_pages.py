"""The page of Python: every public name, with its arguments and its meaning."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest
from tools.pages.python import PUBLIC, Public, pages

from wirelake.lake.datasource.options import OPTIONS

TEXT = pages()["python.md"]


def section(heading: str) -> str:
    """The text below a heading of the page."""
    assert TEXT.count(f"\n{heading}\n") == 1, heading
    return re.split(r"^#", TEXT.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("public", PUBLIC, ids=lambda each: each.module)
def test_every_public_name_is_documented(public: Public) -> None:
    module = importlib.import_module(public.module)
    for name in public.names or module.__all__:
        assert hasattr(module, name)
        assert re.search(r"^[A-Z]", section(f"### {name}").strip(), re.MULTILINE), name


@pytest.mark.parametrize("public", PUBLIC, ids=lambda each: each.module)
def test_every_method_exists_and_is_documented(public: Public) -> None:
    module = importlib.import_module(public.module)
    classes = [
        found
        for name in public.names or module.__all__
        if inspect.isclass(found := getattr(module, name))
    ]
    for method in public.methods:
        owners = [each.__name__ for each in classes if hasattr(each, method)]
        assert owners, method
        for owner in owners:
            words = section(f"#### {owner}.{method}").rpartition("```")[2].strip()
            assert words, (owner, method)


def test_signatures_are_shown() -> None:
    text = section("#### Client.publish")
    assert "async def publish(\n    content: str | bytes,\n    *,\n    topic: str | None" in text
    assert "class RpcPool(url: str, *, size: int = 4, **options: Any)" in section("### RpcPool")
    assert "async def subscribe(*topics: str, ack: bool = True) -> None" in TEXT


def test_attributes_are_documented() -> None:
    assert "| `timeout_s = 10.0` | For a reply" in section("### Settings")
    assert "| `body` | The bytes" in section("### Result")
    assert re.search(r"^\| `[^|]*` \|\s*\|$", TEXT, re.MULTILINE) is None


def test_every_data_source_option_is_documented() -> None:
    text = section("## The data source `wirelake`")
    assert set(re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|\n)", text)) >= set(OPTIONS)
