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

from wirelake.protocols.comet import codec_seed
from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.wire import Layout, Protocol
from wirelake.wire.generate import module
from wirelake.wire.generate.dynamic import (
    cache_folder,
    load_codec,
    load_source,
    temporary_cache_folder,
)
from wirelake.wire.generate.module import codec_source
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
def test_the_default_folder_is_in_the_home_directory(
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


def test_default_dialects_are_committed(cache: Path) -> None:
    assert load_codec(COMET, "seed") is codec_seed
    assert not cache.exists()


def test_other_dialects_are_generated_into_the_cache(cache: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("wirelake_codec_comet_hipush")]:
        del sys.modules[name]
    codec: Any = load_codec(COMET, "hipush")
    (path,) = cache.glob("*.py")
    assert Path(str(codec.__file__)) == path
    assert path.name.startswith("wirelake_codec_comet_hipush_")
    assert path.read_text(encoding="utf-8") == codec_source([COMET], "hipush")


def test_a_change_in_the_generator_changes_the_file(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is a hash of what the generator writes, so no old file is loaded after a change."""
    before = load_codec(protocol(), "seed").__name__
    monkeypatch.setattr(module, "_HEADER", module._HEADER + "\nCHANGED = True\n")
    after: Any = load_codec(protocol(), "seed")
    assert after.CHANGED
    assert after.__name__ != before
    assert len(list(cache.glob("*.py"))) == 2


def test_another_package_has_its_codec_in_the_cache(cache: Path) -> None:
    codec = load_codec(protocol(), "seed")
    assert works(codec)
    (path,) = cache.glob("*.py")
    assert path.name.startswith("wirelake_codec_throwaway_load_seed_")
    assert Path(str(codec.__file__)) == path
    assert load_codec(protocol(), "seed") is codec


def test_a_cached_codec_is_used_again(cache: Path) -> None:
    load_codec(protocol(), "seed")
    (path,) = cache.glob("*.py")
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


def test_a_damaged_file_is_rewritten(cache: Path) -> None:
    load_codec(protocol(), "seed")
    (path,) = cache.glob("*.py")
    path.write_text("raise SystemExit('not me')\n", encoding="utf-8")
    forget()
    assert works(load_codec(protocol(), "seed"))
    assert list(cache.glob("*.py")) == [path]


def test_a_file_that_is_not_text_is_rewritten(cache: Path) -> None:
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


def test_processes_without_a_cache_folder_share_a_private_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = temporary_cache_folder()
    assert folder == temporary_cache_folder()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_temporary_folder_that_others_may_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared = temporary_cache_folder()
    shared.chmod(0o777)
    private = temporary_cache_folder()
    assert private != shared
    assert private == temporary_cache_folder()  # what is written there is found again
    assert private.stat().st_mode & 0o777 == 0o700


def test_a_temporary_folder_that_is_a_link_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared = temporary_cache_folder()
    shared.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    shared.symlink_to(tmp_path / "elsewhere")
    assert temporary_cache_folder() != shared


def test_a_source_with_another_version_has_another_file(cache: Path) -> None:
    names = {load_source("wirelake_codec_throwaway_load", "A = 1\n", v).__name__ for v in "ab"}
    assert len(names) == 2
    assert len(list(cache.glob("*.py"))) == 2


@pytest.mark.usefixtures("cache")
def test_a_module_that_fails_to_load_is_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            load_source("wirelake_codec_throwaway_load", "1 / 0\n")


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
