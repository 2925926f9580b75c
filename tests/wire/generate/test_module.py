"""Generated files: that they are up to date, readable, and refuse what cannot be named."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire import Layout, Protocol
from wirelake.wire.declare import DeclarationError
from wirelake.wire.generate.__main__ import sources, stale
from wirelake.wire.generate.module import codec_source
from wirelake.wire.types import U8, Choice, Length16, Rest, Tag8

SOURCES = sources()


class Ok(Layout):
    """Its name begins like the next one's, and it cannot be made without a value."""

    n: U8


class OkThen(Layout):
    """Nothing, so it is made once."""


class Twin(Layout):
    wire_name: ClassVar[str] = "ok"

    n: U8


class Frame(Layout):
    length: ClassVar[Length16]
    type: ClassVar[Tag8]
    body: Annotated[Ok | OkThen, Choice({1: Ok, 2: OkThen})]


class Confused(Layout):
    length: ClassVar[Length16]
    type: ClassVar[Tag8]
    body: Annotated[Ok | Twin, Choice({1: Ok, 2: Twin})]


def protocol(frame: Any, *more: type[Layout], name: str = "throwaway-module") -> Protocol:
    return Protocol(name=name, title="A module to look at", frame=frame, more=more)


# -- the committed files ---------------------------------------------------------------------


def test_no_generated_file_is_stale() -> None:
    assert stale() == []


def test_there_is_a_file_for_every_default_dialect() -> None:
    assert sorted(f"{path.parent.name}/{path.name}" for path in SOURCES) == [
        "comet/codec_seed.py",
        "esnp/codec_seed.py",
        "magline/codec_seed.py",
        "tny/codec_seed.py",
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_generated_file_is_marked_and_parses(path: Path) -> None:
    source = SOURCES[path]
    tree = ast.parse(source)
    doc = ast.get_docstring(tree) or ""
    assert "do not edit" in doc
    assert "python -m wirelake.wire.generate" in doc
    assert source.endswith("\n")
    assert "\t" not in source
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(names) == len(set(names))
    assert all(node.returns for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_generating_twice_gives_the_same(path: Path) -> None:
    assert sources()[path] == SOURCES[path]


def test_the_command_finds_nothing_to_do() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wirelake.wire.generate", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_a_file_that_changed_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(iter(SOURCES))
    read = Path.read_text

    def altered(self: Path, *args: Any, **kwargs: Any) -> str:
        text = read(self, *args, **kwargs)
        return text + "# edited by hand\n" if self == path else text

    monkeypatch.setattr(Path, "read_text", altered)
    assert stale() == [path]


@pytest.mark.parametrize("found", [COMET, TNY, RELAY], ids=repr)
def test_every_layout_has_its_functions(found: Protocol) -> None:
    for dialect in found.dialects:
        codec = found.codec(dialect)
        frame = found.model(dialect)
        inner = {a.layout.name for a in frame.body.alternatives} if frame.body else set()
        for layout in found.layouts(dialect):
            whole = hasattr(codec, f"encode_{layout.name}")
            assert whole or callable(getattr(codec, f"read_{layout.name}"))
            assert whole or callable(getattr(codec, f"write_{layout.name}"))
            assert not whole or layout is frame or layout.name in inner


# -- what cannot be generated ----------------------------------------------------------------


def test_names_with_a_common_prefix_do_not_conflict() -> None:
    found = protocol(Frame)
    assert found.decode(found.encode(OkThen())).message is found.decode(b"\0\1\2").message
    assert found.decode(found.encode(Ok(n=5))).message == Ok(n=5)


def test_two_layouts_of_one_name_are_refused() -> None:
    with pytest.raises(DeclarationError) as caught:
        protocol(Confused).codec()
    assert str(caught.value) == "two layouts are named ok; set wire_name on one"


def test_a_layout_that_cannot_be_imported_is_refused() -> None:
    class Local(Layout):
        n: U8

    with pytest.raises(DeclarationError) as caught:
        protocol(Local).codec()
    name = "test_a_layout_that_cannot_be_imported_is_refused.<locals>.Local"
    assert str(caught.value) == f"{name}: define it at the top of a module"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Another module with layouts, one of which has the name of one here."""
    module = ModuleType("throwaway_elsewhere")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.__dict__.update(Layout=Layout, U8=U8, Rest=Rest)
    source = """
class Far(Layout):
    n: U8
    rest: Rest

class Ok(Layout):
    wire_name = "other_ok"
    n: U8
"""
    exec(source, module.__dict__)
    return module


def test_layouts_of_several_modules_go_together(elsewhere: ModuleType) -> None:
    found = protocol(Frame, elsewhere.Far, name="throwaway-far")
    source = codec_source([found], "seed")
    assert f"from {__name__} import (\n    Ok,\n    OkThen,\n)\n" in source
    assert "from throwaway_elsewhere import (\n    Far,\n)\n" in source
    codec: Any = found.codec()
    assert codec.read_far(b"\1ab", 0, 3) == (elsewhere.Far(n=1, rest=b"ab"), 3)


def test_two_classes_of_one_name_are_refused(elsewhere: ModuleType) -> None:
    elsewhere.Ok.wire_name = "other_ok"
    with pytest.raises(DeclarationError) as caught:
        codec_source([protocol(Frame, elsewhere.Ok)], "seed")
    assert str(caught.value) == "two classes are named Ok; rename one"
