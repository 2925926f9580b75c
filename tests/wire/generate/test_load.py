"""Where codecs come from: committed files, the cache folder, and what is done without one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

from wirelake.protocols.comet import codec_hipush, codec_seed
from wirelake.protocols.comet.layout import PROTOCOL as COMET
from wirelake.wire import Layout, Protocol
from wirelake.wire.generate.load import cache_folder, load_codec
from wirelake.wire.types import U8, U16


class Small(Layout):
    n: U8


class Other(Layout):
    n: U16


def protocol(frame: type[Layout] = Small, name: str = "throwaway-load") -> Protocol:
    return Protocol(name=name, title="A codec to load", frame=frame)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no codec of these tests loaded."""
    folder = tmp_path / "cache" / "deep"
    monkeypatch.setenv("WIRELAKE_CACHE", str(folder))
    forget()
    return folder


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("wirelake_codec_throwaway_load")]:
        del sys.modules[name]


def works(codec: Any) -> bool:
    return bool(codec.decode_small(b"\7", 0, 1) == (Small(n=7), 1))


# -- the folder ------------------------------------------------------------------------------


def test_the_folder_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRELAKE_CACHE", "/somewhere/else")
    assert cache_folder() == Path("/somewhere/else")


def test_the_folder_follows_the_desktop_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WIRELAKE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/of/cache")
    assert cache_folder() == Path("/home/of/cache/wirelake")


@pytest.mark.parametrize("value", ["", None])
def test_the_folder_is_in_the_home_otherwise(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WIRELAKE_CACHE", "XDG_CACHE_HOME"):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/wirelake")


# -- codecs ----------------------------------------------------------------------------------


def test_own_protocols_are_committed(cache: Path) -> None:
    assert load_codec(COMET, "seed") is codec_seed
    assert load_codec(COMET, "hipush") is codec_hipush
    assert not cache.exists()


def test_another_package_has_its_codec_in_the_cache(cache: Path) -> None:
    codec = load_codec(protocol(), "seed")
    assert works(codec)
    (path,) = cache.iterdir()
    assert path.name.startswith("wirelake_codec_throwaway_load_seed_")
    assert Path(str(codec.__file__)) == path
    assert load_codec(protocol(), "seed") is codec


def test_a_cached_codec_is_used_again(cache: Path) -> None:
    load_codec(protocol(), "seed")
    (path,) = cache.iterdir()
    before = path.stat()
    forget()
    assert works(load_codec(protocol(), "seed"))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_another_declaration_has_another_file(cache: Path) -> None:
    load_codec(protocol(), "seed")
    codec: Any = load_codec(protocol(Other), "seed")
    assert codec.decode_other(b"\1\2", 0, 2) == (Other(n=0x0102), 2)
    assert len(list(cache.glob("*.py"))) == 2


def test_a_damaged_file_is_written_anew(cache: Path) -> None:
    load_codec(protocol(), "seed")
    (path,) = cache.glob("*.py")
    path.write_text("raise SystemExit('not me')\n", encoding="utf-8")
    forget()
    assert works(load_codec(protocol(), "seed"))
    assert list(cache.glob("*.py")) == [path]


def test_a_file_that_is_no_text_is_written_anew(cache: Path) -> None:
    load_codec(protocol(), "seed")
    (path,) = cache.glob("*.py")
    path.write_bytes(b"\xff\xfe\x00")
    forget()
    assert works(load_codec(protocol(), "seed"))


def test_nothing_half_written_is_left(cache: Path) -> None:
    load_codec(protocol(), "seed")
    assert [path.suffix for path in cache.iterdir() if path.is_file()] == [".py"]


@pytest.mark.parametrize("obstacle", ["a file", "no such device"])
def test_a_folder_that_cannot_be_written_is_replaced(
    obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    if obstacle == "a file":
        blocked.write_text("in the way", encoding="utf-8")
    else:
        blocked = Path("/dev/null/cache")
    monkeypatch.setenv("WIRELAKE_CACHE", str(blocked))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    forget()
    codec = load_codec(protocol(), "seed")
    assert works(codec)
    assert Path(str(codec.__file__)).is_relative_to(tmp_path)


def test_a_read_only_folder_is_replaced(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions do not stop root, so the system call is made to fail."""
    cache.mkdir(parents=True)
    real = tempfile.NamedTemporaryFile

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dir") == cache:
            raise PermissionError(13, "Permission denied", str(cache))
        return real(*args, **kwargs)

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    codec = load_codec(protocol(), "seed")
    assert works(codec)
    assert not list(cache.iterdir())
    assert not Path(str(codec.__file__)).is_relative_to(cache)


CHILD = """
    import sys
    from pathlib import Path

    sys.path.insert(0, sys.argv[1])
    from throwaway_shared import PROTOCOL

    sys.stdin.read(1)  # both wait here, and go on together
    assert PROTOCOL.decode(b"\\x07").message.n == 7
    print(Path(PROTOCOL.codec().__file__).name)
"""
SHARED = """
    from wirelake.wire import Layout, Protocol
    from wirelake.wire.types import U8


    class Small(Layout):
        n: U8


    PROTOCOL = Protocol(name="throwaway-shared", title="Shared", frame=Small)
"""


def test_processes_may_come_at_the_same_time(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "throwaway_shared.py").write_text(textwrap.dedent(SHARED), encoding="utf-8")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"WIRELAKE_CACHE": str(cache)},
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("x")
        child.stdin.flush()
    names = set()
    for child in children:
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
        names.add(out.strip())
    assert len(names) == 1
    assert {path.name for path in cache.iterdir() if path.is_file()} == names
