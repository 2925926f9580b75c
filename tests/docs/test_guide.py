"""The guide on declaring a protocol: its Python runs, and it mentions every type.

All blocks of the guide are one module, whose lines have the numbers that they have in the guide, so
that a failure points into it.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import weather_buoy.layout

from wirelake.wire import types
from wirelake.wire.generate.module import codec_source

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDE = DOCS / "guides" / "declare-a-protocol.md"
CHINESE = DOCS / "zh" / "guides" / "declare-a-protocol.md"
MODULE = "guide_declare_a_protocol"


def python_lines(text: str) -> Iterator[str]:
    """The lines of a page; those that are not in a Python block are empty."""
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            yield ""
        else:
            yield line if inside else ""


def headings(text: str) -> list[int]:
    """The depth of each heading, in order; blocks of code have none."""
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [len(found) for found in re.findall(r"^(#+) ", outside, flags=re.MULTILINE)]


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The guide's program, run."""
    path = tmp_path_factory.mktemp("guide") / f"{MODULE}.py"
    source = "\n".join(python_lines(GUIDE.read_text(encoding="utf-8")))
    path.write_text(f"{source}\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[MODULE]


def test_guide_code_runs(guide: ModuleType) -> None:
    assert guide.message == guide.Order(lamp=True)


def test_guide_code_equals_the_example(guide: ModuleType) -> None:
    made = codec_source([guide.PROTOCOL], "seed")
    shipped = codec_source([weather_buoy.layout.PROTOCOL], "seed")
    assert made.replace(MODULE, "weather_buoy.layout") == shipped
    docs = [layout.doc for layout in guide.PROTOCOL.layouts()]
    assert docs == [layout.doc for layout in weather_buoy.layout.PROTOCOL.layouts()]


def test_guide_states_the_size_of_the_example() -> None:
    size = len(Path(str(weather_buoy.layout.__file__)).read_text(encoding="utf-8").splitlines())
    assert f"{size} lines of declaration" in GUIDE.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [GUIDE, CHINESE], ids=["english", "chinese"])
def test_guide_mentions_every_type(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    hidden = {"SecretMark"}  # documented as Secret
    words = [word for word in types.__all__ if word not in hidden]
    assert [word for word in words if not re.search(rf"\b{word}\b", text)] == []


def test_chinese_page_matches() -> None:
    english, chinese = (page.read_text(encoding="utf-8") for page in (GUIDE, CHINESE))
    blocks = [re.findall(r"```python\n(.*?)```", text, re.DOTALL) for text in (english, chinese)]
    assert blocks[0] == blocks[1]
    assert headings(english) == headings(chinese)
    rows = [len(re.findall(r"^\|", text, re.MULTILINE)) for text in (english, chinese)]
    assert rows[0] == rows[1]
